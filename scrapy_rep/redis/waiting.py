"""What waits in a fleet's queue, for a person who looks at one of its workers."""

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
"""Hosts of a shard that are looked at: those that are due first."""
HOSTS_PER_CALL = 200
"""Hosts that one call looks at: meanwhile the server serves nobody else, and reading the answer
holds the event loop."""
LOOK_SECONDS = 20.0
"""Seconds between two looks; while anything can be sent, nobody looks."""
CAUSE_WORDS = {
    DELAY: PACE,
    HELD: "a worker is about to send one of its requests",
    BLOCKED: "an operator has blocked it",
}
"""Why a host waits, in our causes or words; other causes are shown as they are."""


class FleetWaits:
    """A holder of requests that wait in Redis, not in this process.

    It tells what its last look found, except for what has become due since.
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
        """Begin to look at what waits, if the last look was long ago."""
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
