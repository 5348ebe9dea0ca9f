"""What waits in a fleet's queue, as its workers tell a person who looks at one of them."""

from __future__ import annotations

import asyncio
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from scrapy_rep.log.waits import PACE, Held
from scrapy_rep.redis.overview import BLOCKED, DELAY, HELD, PACES, host_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_rep.redis.backlog import Backlog

MOST_HOSTS = 1000
"""Hosts of a shard, those that are due first."""
HOSTS_PER_CALL = 200
"""The same in one call, in which the server serves nobody else, and the event loop after it."""
LOOK_SECONDS = 20.0
"""Seconds from one look to the next one; there is none while anything can be sent."""
CAUSE_WORDS = {
    DELAY: PACE,
    HELD: "a worker is about to send one of its requests",
    BLOCKED: "an operator has blocked it",
}
"""Of why a host waits; what is no cause of ours is told as it is."""


class FleetWaits:
    """A holder of what waits elsewhere: none of it is in this process.

    What it holds is what the last look found, but for what has been due since.
    """

    def __init__(self, backlogs: Iterable[Backlog]) -> None:
        self._backlogs = backlogs
        self._found: list[Held] = []
        self._look_at = -inf
        self._task: asyncio.Task[None] | None = None

    def held(self) -> Iterator[Held]:
        now = monotonic()
        return (each for each in self._found if each.until is None or each.until > now)

    def requests_of(self, host: str, origin: str) -> int:
        return 0  # it is not known here

    def next_due(self) -> float:
        return inf

    def look(self) -> None:
        """Look at what waits, if the last time was long ago; nobody waits for that."""
        if monotonic() >= self._look_at:
            self._look_at = monotonic() + LOOK_SECONDS
            self._task = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        found = []
        for backlog in self._backlogs:
            for first in range(0, MOST_HOSTS, HOSTS_PER_CALL):
                answer = await backlog.call("later", [first, HOSTS_PER_CALL]) or ()
                now = monotonic()
                for line, number, pace, micros in answer:
                    if not number:
                        continue
                    why = PACES.get(pace.decode(), pace.decode())
                    until = None if why == BLOCKED else now + float(micros) / 1e6
                    held = Held(host_of(line), CAUSE_WORDS.get(why, why), until, number)
                    found.append(held)
                if len(answer) < HOSTS_PER_CALL:
                    break
        self._found = found
