"""What a worker and Redis have to tell each other, for many requests at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import signals
from scrapy.utils.asyncio import call_later

from scrapy_rep.downloader import Alarm

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import CallLaterResult

    from scrapy_rep.redis.backlog import Backlog
    from scrapy_rep.redis.dupefilter import Unseen

LOOK_AGAIN = 1.0
"""Seconds after which an idle worker looks for what others have queued."""
TOGETHER = 0.005
"""Seconds for which what is to be told waits for more."""
MOST = 500
"""Requests in one call; the server serves nobody else meanwhile."""
UNPACED = b"free"
ORDERS = {-1: "pause", -2: "drain"}
"""What an operator has ordered, by the time that a pop has answered."""


class Pushed(NamedTuple):
    """A request on its way to the queue."""

    request: Request
    host: str
    score: int
    member: bytes
    parked_until: float
    why: str
    """It is parked, as a cause in the stats; "" where it is not."""
    seen: Unseen | None


class Popped(NamedTuple):
    """A request that the queue has handed to this worker."""

    member: bytes
    host: str
    pace: bytes

    @property
    def holds(self) -> bool:
        """Tell whether the others are handed none of its host until we tell of ours."""
        return self.pace != UNPACED


class Handed(NamedTuple):
    """One that the crawl has, or had."""

    id: bytes
    host: str
    """Or a line of it."""
    slot: str
    """Its download slot here."""
    holds: bool


class Exchange:
    """Sends what came of pages in one call, and asks for as many requests as have a place.

    The crawl waits for none of that: what is pushed is in Redis a little later, always
    before the page that it came of is done with there; and who pops is given what has
    arrived, and woken when more has.
    """

    def __init__(
        self,
        crawler: Crawler,
        backlog: Backlog,
        *,
        wake: Callable[[], None],
        places: Callable[[], int],
        places_left: Callable[[], dict[str, int]],
        most_of_a_host: int,
        done: Callable[[], dict[object, Handed]],
        pace_of: Callable[[Handed], str],
        ordered: Callable[[str], None],
    ) -> None:
        self._crawler = crawler
        self._backlog = backlog
        self._wake = wake
        self._places = places
        self._places_left = places_left
        self._most_of_a_host = most_of_a_host
        self._done = done
        self._pace_of = pace_of
        self._ordered = ordered
        self._me = backlog.link.me
        self._lease = backlog.link.settings.redis_lease
        self.hand: deque[Popped] = deque()
        """What has arrived, and is not in the crawl yet."""
        self.handed_out: dict[object, Handed] = {}
        """What the crawl has, by request."""
        self.outbox: list[Pushed] = []
        self._told: list[tuple[str, str, float]] = []
        """Host, pace and when it may be asked again, by ``time.monotonic()``."""
        self._fingerprints: list[str] = []
        self._alarm = Alarm(wake)
        self._ask_at = 0.0
        """Before that time there is nothing to be had."""
        self._turn = asyncio.Lock()
        """A sign of life says what we have: nothing may be on its way to us meanwhile."""
        self._sends = asyncio.Lock()
        self._soon: CallLaterResult | None = None
        self._beating: CallLaterResult | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_asking = False
        """Whether an answer to what may be had is on its way."""
        self._puts = 0
        """How many calls have queued requests."""
        self._closed = False
        self._beat_again(0.0)

    def __len__(self) -> int:
        """Return how many wait or are with a worker, as far as that is known; 0: none."""
        length = self._backlog.known_length + len(self.outbox)
        return max(1, length) if self.is_asking else length

    # What is to be told

    def push(self, pushed: Pushed) -> None:
        self.outbox.append(pushed)
        if pushed.seen is not None:
            self._fingerprints = [pushed.seen.key]
        self.send_soon()

    def tell(self, host: str, pace: str, wait: float) -> None:
        """Have the others know that *host* may be asked again in *wait* s.

        *pace* is "free", "paced", or why nobody may before that.
        """
        self._told.append((host, pace, monotonic() + wait if wait else 0.0))
        self.send_soon()

    def send_soon(self) -> None:
        if self._soon is None and not self._closed:
            self._soon = call_later(TOGETHER, self._send_now)

    def settle(self) -> None:
        """Send what there is to be sent, if any."""
        if self.outbox or self._told or self._done():
            self.send_soon()

    def _send_now(self) -> None:
        self._soon = None
        self._run(self.send())

    async def send(self) -> bool:
        """Tell whether all that there was is in Redis."""
        async with self._sends:
            while True:
                done = self._done()
                if not (self.outbox or self._told or done):
                    return True
                if not await self._send(done):
                    self._told.clear()  # their hosts are held until that is over
                    return False

    async def _send(self, done: dict[object, Handed]) -> bool:
        pushed, told = self.outbox[:MOST], self._told[:]
        own = len(told)
        if len(self.outbox) > MOST:
            done = {}  # not before all that came of them is there
        # It was refused, or goes back: its host has not been asked.
        for gone in done.values():
            if gone.holds:
                told.append((gone.host, self._pace_of(gone), 0.0))
        now = monotonic()
        told += [
            (one.host, one.why, one.parked_until)
            for one in pushed
            if one.parked_until > now
        ]
        args: list[Any] = [self._me, int(self._places() > 0 and not self._closed)]
        args += [len(done), *(gone.id for gone in done.values()), len(told)]
        for host, pace, until in told:
            args += [host, pace, _micros(until - now)]
        for one in pushed:
            fingerprint = one.seen.fingerprint if one.seen else ""
            args += [one.host, one.score, one.member, fingerprint]
        answer = await self._backlog.call("put", args, *self._fingerprints)
        if answer is None:
            return False
        queued, length, is_due, wait, *old = answer
        del self.outbox[: len(pushed)]
        del self._told[:own]
        self._puts += bool(pushed)
        for request in done:
            self.handed_out.pop(request, None)
        self._backlog.note_queued(queued)
        for number in old:
            self._drop(pushed[number - 1])
        if is_due or length <= 0:
            self.ask_again()
        else:
            self._ask_in(wait / 1e6)
        return True

    def _drop(self, pushed: Pushed) -> None:
        """Note that a request is a duplicate."""
        assert pushed.seen is not None
        spider = self._crawler.spider
        self._stat("dupefilter/filtered", 1)
        self._stat("scheduler/enqueued/redis", -1)
        pushed.seen.log(pushed.request, spider)
        self._crawler.signals.send_catch_log(
            signals.request_dropped, request=pushed.request, spider=spider
        )

    # What is asked for

    def ask(self) -> None:
        """Ask for requests, unless it is known that there are none."""
        wait = self._ask_at - monotonic()
        if wait > 0:
            self._alarm.set(wait)
        elif not self.is_asking and not self._closed:
            self.is_asking = True
            self._run(self._ask())

    def ask_again(self) -> None:
        """Ask as soon as there is a place: there is something new."""
        self._ask_at = 0.0
        self._wake()

    def _ask_in(self, seconds: float) -> None:
        self._ask_at = monotonic() + min(seconds, LOOK_AGAIN)
        self._alarm.set(min(seconds, LOOK_AGAIN))

    async def _ask(self) -> None:
        try:
            await self.receive()
        finally:
            self.is_asking = False
        self._wake()

    async def receive(self) -> None:
        """Put into the hand as many requests as have a place, if they are due."""
        async with self._turn:
            want = min(self._places() - len(self.hand), MOST)
            if want < 1 or self._closed:
                return
            left = self._places_left()
            args: list[Any] = [self._me, _micros(self._lease), want]
            args += [self._most_of_a_host, len(left)]
            args += [*(part for pair in left.items() for part in pair)]
            self._stat("rep/redis/pops", 1)
            puts = self._puts
            answer = await self._backlog.call("pop", args)
            if answer is None:
                # Who cannot look must not take the crawl for finished.
                self._backlog.known_length = max(1, self._backlog.known_length)
                self._ask_in(LOOK_AGAIN)
                return
            wait, length, lost, is_wrong, *found = answer
            for at in range(0, len(found), 3):
                member, host, pace = found[at : at + 3]
                self.hand.append(Popped(member, host.decode(errors="replace"), pace))
            self._ordered(ORDERS.get(wait, ""))
            if length >= 0:
                self._backlog.note(length, lost, is_wrong)
            if puts != self._puts:  # it may be from before that, and knows of none
                self._backlog.known_length = max(1, self._backlog.known_length)
            elif length >= 0:
                self._ask_in(LOOK_AGAIN if wait in ORDERS else wait / 1e6)
                return
            self._ask_at = 0.0  # there may be more

    # Signs of life

    def _beat_again(self, seconds: float) -> None:
        self._beating = call_later(seconds, self._beat_now)

    def _beat_now(self) -> None:
        self._run(self.beat())
        self._beat_again(self._lease / 3)

    async def beat(self) -> None:
        """Tell the others that we are alive, and what of theirs is not."""
        async with self._turn:
            had = list(self.handed_out.values())
            mine = [one.id for one in had] + [one.member[:16] for one in self.hand]
            held = {one.host for one in had if one.holds}
            held |= {one.host for one in self.hand if one.holds}
            lease = _micros(self._lease)
            args = [self._me, lease, lease, len(mine), *mine, *held]
            back = await self._backlog.call("beat", args)
        if back:
            self._stat("rep/redis/taken_back", back)
            self.ask_again()

    # The end

    async def leave(self) -> None:
        """Send what there is, and give back what was not done."""
        self._closed = True
        self.stop()
        async with self._turn:
            if not await self.send():
                return  # the others have it all again when our lease is over
            self.hand.clear()
            await self._backlog.call("leave", [self._me], *self._fingerprints)

    def stop(self) -> None:
        """Do nothing more by itself."""
        self._alarm.cancel()
        for timer in (self._beating, self._soon):
            if timer is not None:
                timer.cancel()
        self._beating = self._soon = None

    def forget(self) -> None:
        """Note that the queue was cleared."""
        self.outbox.clear()
        self.hand.clear()
        self._told.clear()

    def _stat(self, name: str, number: int) -> None:
        assert self._crawler.stats is not None
        self._crawler.stats.inc_value(name, number)

    def _run(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)  # else nobody holds it
        task.add_done_callback(self._tasks.discard)


def _micros(seconds: float) -> int:
    return max(0, round(seconds * 1e6))
