"""What a worker and Redis tell each other, about many requests at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.utils.asyncio import call_later

from scrapy_rep.downloader import Alarm
from scrapy_rep.redis.keys import ID_LENGTH
from scrapy_rep.redis.outbox import MOST_PER_CALL, Handed, Outbox, Pushed, micros

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import CallLaterResult

    from scrapy_rep.redis.shards import Shards

LOOK_AGAIN_SECONDS = 1.0
"""Seconds after which an idle worker looks for what others have queued."""
GATHER_SECONDS = 0.005
"""Seconds for which we gather what is to be told."""
LOOK_ELSEWHERE_SECONDS = 4.0
"""The same, for shards that other workers look at first."""
SHARDS_AT_ONCE = 4
"""Shards that a worker asks at a time: few, so that each has some requests for it."""
MOST_HELD_BACK = 10_000
"""With so many requests that Redis cannot be told of, a worker asks for no more."""
UNPACED_MARK = b"free"
ORDERS = {0: "", -1: "pause", -2: "drain"}
"""What an operator has ordered, by the wait that a pop has answered."""


class Popped(NamedTuple):
    """A request that the queue has handed to this worker."""

    member: bytes
    host: str
    pace: bytes

    @property
    def holds(self) -> bool:
        """Tell whether others get no requests of its host until we have told of this one."""
        return self.pace != UNPACED_MARK


class Exchange:
    """Sends what came of pages in one call, and asks for as many requests as have a place.

    The crawl does not wait for that: a pushed request is in Redis a little later, always
    before the page that it came from is done there. A pop returns what has arrived, and the
    engine is woken when more has.
    """

    def __init__(
        self,
        crawler: Crawler,
        shards: Shards,
        *,
        wake: Callable[[], None],
        places: Callable[[], int],
        places_left: Callable[[], dict[str, int]],
        most_of_a_host: int,
        done: Callable[[], dict[object, Handed]],
        pace_of: Callable[[Handed], str],
        ordered: Callable[[str], None],
    ) -> None:
        self._log = shards.servers.log
        self._shards = shards
        self._wake = wake
        self._places = places
        self._places_left = places_left
        self._most_of_a_host = most_of_a_host
        self._done = done
        self._ordered = ordered
        self._me = shards.servers.me
        self._lease = shards.servers.settings.redis_lease
        self.hand: deque[Popped] = deque()
        """Requests that have arrived, and were not handed to the crawl yet."""
        self.handed_out: dict[object, Handed] = {}
        """Requests that the crawl has."""
        self._outbox = Outbox(
            crawler,
            shards,
            pace_of=pace_of,
            finish=self._finish,
            could_take=self._could_take,
            note_due=self._note_due,
        )
        self._alarm = Alarm(wake)
        self.ask_at = [0.0] * len(shards)
        """By shard: before that time it has no requests for us."""
        self._orders = [0] * len(shards)
        self._turns = 0
        self._is_empty = False
        """Whether it is known that nothing is left anywhere."""
        self._is_looking = False
        self._turn = asyncio.Lock()
        """Held for calls that change what we have, and for signs of life, which list it."""
        self._soon: CallLaterResult | None = None
        self._beating: CallLaterResult | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_asking = False
        """Whether we wait for the answer to a request for more."""
        self._closed = False
        self._beat_again(0.0)

    def __len__(self) -> int:
        """Return how many requests wait or are with a worker, as far as we know."""
        length = self._shards.known_length + self._outbox.number_queued
        if length:
            self._is_empty = False
        elif len(self._shards) > 1 and not self._is_empty:
            self._look_whether_empty()
            return 1
        return max(1, length) if self.is_asking else length

    @property
    def outbox(self) -> list[Pushed]:
        """Return the requests that are on their way to Redis."""
        return [pushed for box in self._outbox.boxes for pushed in box]

    # What is to be told

    def push(self, pushed: Pushed) -> None:
        self._is_empty = False
        self._outbox.push(pushed)
        self.send_soon()

    def tell(self, host: str, pace: str, wait: float) -> None:
        """As ``Outbox.tell``, and send it soon."""
        self._outbox.tell(host, pace, wait)
        self.send_soon()

    def send_soon(self) -> None:
        if self._soon is None and not self._closed:
            self._soon = call_later(GATHER_SECONDS, self._send_now)

    def settle(self) -> None:
        """Send what is to be told, if anything."""
        self._finish()
        if self._outbox.has_any():
            self.send_soon()

    def _finish(self) -> None:
        """Note the requests that are done: all that came of them is in a box by now."""
        for request, handed in self._done().items():
            del self.handed_out[request]
            self._outbox.finished.append(handed)

    def _could_take(self) -> bool:
        return self._places() > 0 and not self._closed

    def _note_due(self, n: int, wait: float | None) -> None:
        """Note that the shard *n* has something due in *wait* seconds; ``None``: now."""
        if wait is None:
            self._ask_again(n)
        else:
            self._ask_in(n, wait)

    def _send_now(self) -> None:
        self._soon = None
        self._run(self.send())

    async def send(self) -> bool:
        """Send all that is to be told; ``False``: some of it could not be sent."""
        return await self._outbox.send()

    # What is asked for

    def ask(self) -> None:
        """Ask for requests, unless it is known that there are none."""
        wait = min(self.ask_at) - monotonic()
        if wait > 0:
            self._alarm.set(wait)
        elif not self.is_asking and not self._closed:
            self.is_asking = True
            self._run(self._ask())

    def _ask_again(self, n: int) -> None:
        """Ask the shard *n* as soon as there is a place: it has something new."""
        self.ask_at[n] = 0.0
        self._wake()

    def _ask_in(self, n: int, seconds: float) -> None:
        wait = min(
            seconds, LOOK_AGAIN_SECONDS if self._is_home(n) else LOOK_ELSEWHERE_SECONDS
        )
        self.ask_at[n] = monotonic() + wait
        self._alarm.set(wait)

    def _is_home(self, n: int) -> bool:
        """Tell whether the shard *n* is one that we look at first, and often."""
        link = self._shards.all[n].link
        apart = min(link.workers, len(self._shards))
        return apart < 2 or n % apart == link.rank % apart

    async def _ask(self) -> None:
        try:
            await self.receive()
        finally:
            self.is_asking = False
        self._wake()

    async def receive(self) -> None:
        """Take as many requests that are due as there are places for."""
        async with self._turn:
            while not self._closed:
                want = min(self._places() - len(self.hand), MOST_PER_CALL)
                shards = self._next_shards()[: max(0, want)]
                if not shards:
                    return
                each, more = divmod(want, len(shards))
                left = self._places_left()
                asked = [
                    self._receive_of(n, each + (place < more), left)
                    for place, n in enumerate(shards)
                ]
                await asyncio.gather(*asked)

    def _next_shards(self) -> list[int]:
        """Return the shards to ask next, together: our own first, and in turns."""
        now, number = monotonic(), len(self._shards)
        if len(self._outbox) > MOST_HELD_BACK:
            # A server is away, and the requests for it would fill our memory.
            self.ask_at = [now + LOOK_AGAIN_SECONDS] * number
            self._alarm.set(LOOK_AGAIN_SECONDS)
        self._turns += SHARDS_AT_ONCE
        in_turn = [(self._turns + n) % number for n in range(number)]
        ready = [n for n in in_turn if self.ask_at[n] <= now]
        return sorted(ready, key=lambda n: not self._is_home(n))[:SHARDS_AT_ONCE]

    async def _receive_of(self, n: int, want: int, left: dict[str, int]) -> None:
        shard = self._shards.all[n]
        of = self._shards.number_of
        hosts = [(host, most) for host, most in left.items() if of(host) == n]
        args: list[Any] = [self._me, micros(self._lease), want]
        args += [self._most_of_a_host, len(hosts)]
        args += [*(part for pair in hosts for part in pair)]
        self._log.count("redis/pops")
        puts = shard.puts
        answer = await shard.call("pop", args)
        if answer is None:
            shard.note_unknown()
            self._ask_in(n, LOOK_AGAIN_SECONDS)
            return
        wait, length, lost, is_wrong, *found = answer
        for at in range(0, len(found), 3):
            member, host, pace = found[at : at + 3]
            self.hand.append(Popped(member, host.decode(errors="replace"), pace))
        self._orders[n] = wait if wait in ORDERS else 0
        self._ordered(ORDERS[min(self._orders)])
        if length >= 0:
            shard.note(length, lost, is_wrong)
        if puts != shard.puts:  # it may be from before that, and knows of none
            shard.note_unknown()
        elif length >= 0:
            self._ask_in(n, LOOK_AGAIN_SECONDS if self._orders[n] else wait / 1e6)
            return
        self.ask_at[n] = 0.0  # there may be more

    def _look_whether_empty(self) -> None:
        if not self._is_looking and not self._closed:
            self._is_looking = True
            self._run(self._look())

    async def _look(self) -> None:
        pushed = self._outbox.pushed
        try:
            is_empty = await self._shards.is_empty()
            self._is_empty = is_empty and pushed == self._outbox.pushed
        finally:
            self._is_looking = False
        self._wake()

    # Signs of life

    def _beat_again(self, seconds: float) -> None:
        self._beating = call_later(seconds, self._beat_now)

    def _beat_now(self) -> None:
        self._run(self.beat())
        self._beat_again(self._lease / 3)

    async def beat(self) -> None:
        """Tell the others that we are alive; take back what dead workers had."""
        async with self._turn:
            mine: list[list[bytes]] = [[] for _ in self._shards.all]
            held: list[set[str]] = [set() for _ in self._shards.all]
            had = (*self.handed_out.values(), *self._outbox.finished)
            here = [(one.id, one.host, one.holds) for one in had]
            here += [(one.member[:ID_LENGTH], one.host, one.holds) for one in self.hand]
            for id_, host, holds in here:
                n = self._shards.number_of(host)
                mine[n].append(id_)
                if holds:
                    held[n].add(host)
            lease = micros(self._lease)
            asked = [
                shard.call(
                    "beat", [self._me, lease, lease, len(mine[n]), *mine[n], *held[n]]
                )
                for n, shard in enumerate(self._shards.all)
            ]
            taken_back = await asyncio.gather(*asked)
        for n, number in enumerate(taken_back):
            if number:
                self._log.count("redis/taken_back", number)
                self._ask_again(n)
        await self._shards.agree()

    # The end

    async def leave(self) -> None:
        """Send what is to be told, and give back the requests that are not done."""
        self._closed = True
        self.stop()
        async with self._turn:
            await self.send()
            self.hand.clear()
            # From a server that is away, others get them again when our lease is over.
            asked = [
                shard.call("leave", [self._me], *self._outbox.filter_of(shard))
                for shard in self._shards.all
            ]
            await asyncio.gather(*asked)

    def stop(self) -> None:
        """Stop all timers."""
        self._alarm.cancel()
        for timer in (self._beating, self._soon):
            if timer is not None:
                timer.cancel()
        self._beating = self._soon = None

    def forget(self) -> None:
        """Note that the queue was cleared."""
        self._outbox.clear()
        self.hand.clear()

    def _run(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)  # else nobody holds it
        task.add_done_callback(self._tasks.discard)
