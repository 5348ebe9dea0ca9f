"""What a worker tells Redis: what came of pages, and that they are done."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.redis.backlog import Backlog
    from scrapy_rep.redis.dupefilter import Unseen
    from scrapy_rep.redis.shards import Shards

MOST_PER_CALL = 250
"""The most new requests, done requests and hosts in one call, each: meanwhile the server serves
nobody else, and preparing the call holds the event loop."""


class Pushed(NamedTuple):
    """A request on its way to the queue."""

    request: Request
    host: str
    score: int
    member: bytes
    parked_until: float
    why: str
    """The cause of its wait, as in the stats; "" if it need not wait."""
    seen: Unseen | None


class Handed(NamedTuple):
    """A request that the crawl has, or had."""

    id: bytes
    host: str
    """The host, or a line of it."""
    slot: str
    """Its download slot here."""
    holds: bool


class Told(NamedTuple):
    """What the other workers are to know of a host."""

    host: str
    pace: str
    until: float
    """When it may be asked again, by ``time.monotonic()``."""


class Outbox:
    """Holds what is to be told, until it is told.

    A page is done only when all that came of it is in Redis, in whatever shards. So while one
    server is away, pages with requests for it stay with us, though the crawl has finished
    with them.
    """

    def __init__(
        self,
        crawler: Crawler,
        shards: Shards,
        *,
        pace_of: Callable[[Handed], str],
        finish: Callable[[], None],
        could_take: Callable[[], bool],
        note_due: Callable[[int, float | None], None],
    ) -> None:
        self._crawler = crawler
        self._shards = shards
        self._pace_of = pace_of
        self._finish = finish
        self._could_take = could_take
        self._note_due = note_due
        self.boxes: list[list[Pushed]] = [[] for _ in shards.all]
        """New requests, by shard."""
        self.finished: list[Handed] = []
        """Requests that the crawl has finished with, and Redis was not told of yet."""
        self.pushed = 0
        self._told: list[list[Told]] = [[] for _ in shards.all]
        self._filter = ""
        """The key of the fingerprints, if any."""
        self._sends = asyncio.Lock()

    def __len__(self) -> int:
        return len(self.finished) + self.number_queued

    @property
    def number_queued(self) -> int:
        """Return how many requests are on their way to the queue."""
        return sum(map(len, self.boxes))

    def has_any(self) -> bool:
        return any(self.boxes) or any(self._told) or bool(self.finished)

    def push(self, pushed: Pushed) -> None:
        self.pushed += 1
        self.boxes[self._shards.number_of(pushed.host)].append(pushed)
        if pushed.seen is not None:
            self._filter = pushed.seen.key

    def tell(self, host: str, pace: str, wait: float) -> None:
        """Tell the others that *host* may be asked again in *wait* seconds.

        *pace* is "free", "paced", or the cause why it may not be asked before.
        """
        told = Told(host, pace, monotonic() + wait if wait else 0.0)
        self._told[self._shards.number_of(host)].append(told)

    def clear(self) -> None:
        self.boxes = [[] for _ in self.boxes]
        self._told = [[] for _ in self._told]
        self.finished.clear()

    async def send(self) -> bool:
        """Send all that is to be told; ``False``: some of it could not be sent."""
        async with self._sends:
            away: set[int] = set()
            while True:
                self._finish()
                done = self._done_now()
                told = {n for n, told in enumerate(self._told) if told}
                held = {n for n, one in self._finished_by_shard() if one.holds}
                full = {n for n, box in enumerate(self.boxes) if box}
                to = list((full | told | held | done.keys()) - away)
                if not to:
                    return not away
                sent = await asyncio.gather(
                    *(self._put(n, done.get(n, [])) for n in to)
                )
                away.update(
                    n for n, arrived in zip(to, sent, strict=True) if not arrived
                )

    def _finished_by_shard(self) -> list[tuple[int, Handed]]:
        return [(self._shards.number_of(one.host), one) for one in self.finished]

    def _done_now(self) -> dict[int, list[Handed]]:
        """Return the finished requests that are done, by shard.

        All that came of them is in Redis, or goes there in the same call.
        """
        full = [n for n, box in enumerate(self.boxes) if box]
        done: dict[int, list[Handed]] = {}
        if not full or (len(full) == 1 and len(self.boxes[full[0]]) <= MOST_PER_CALL):
            for n, one in self._finished_by_shard():
                if not full or n in full:
                    done.setdefault(n, []).append(one)
        return done

    async def _put(self, n: int, done: list[Handed]) -> bool:
        """Send the shard *n* what there is for it, and that *done* are done."""
        shard, box = self._shards.all[n], self.boxes[n]
        pushed, told, done = (
            box[:MOST_PER_CALL],
            self._told[n][:MOST_PER_CALL],
            done[:MOST_PER_CALL],
        )
        del self._told[n][:MOST_PER_CALL]
        # It was refused, or goes back: its host has not been asked.
        held = [one for m, one in self._finished_by_shard() if m == n and one.holds]
        del held[MOST_PER_CALL:]
        told += [Told(one.host, self._pace_of(one), 0.0) for one in held]
        now = monotonic()
        told += [
            Told(one.host, one.why, one.parked_until)
            for one in pushed
            if one.parked_until > now
        ]
        args: list[Any] = [self._shards.servers.me, int(self._could_take())]
        args += [len(done), *(one.id for one in done), len(told)]
        for host, pace, until in told:
            args += [host, pace, micros(until - now)]
        for one in pushed:
            fingerprint = one.seen.fingerprint if one.seen else ""
            args += [one.host, one.score, one.member, fingerprint]
        answer = await shard.call("put", args, *self.filter_of(shard))
        if answer is None:
            return False  # hosts that it was to be told of are held until it is back
        queued, length, is_due, wait, *old = answer
        del box[: len(pushed)]
        gone, free = {one.id for one in done}, {one.id for one in held}
        self.finished = [
            one._replace(holds=one.holds and one.id not in free)
            for one in self.finished
            if one.id not in gone
        ]
        shard.note_queued(queued)
        if pushed:
            shard.note_put(length)
        for number in old:
            self._drop(pushed[number - 1])
        self._note_due(n, None if is_due or length <= 0 else wait / 1e6)
        return True

    def filter_of(self, shard: Backlog) -> list[str]:
        return [shard.names.of_filter(self._filter)] if self._filter else []

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

    def _stat(self, name: str, number: int) -> None:
        assert self._crawler.stats is not None
        self._crawler.stats.inc_value(name, number)


def micros(seconds: float) -> int:
    return max(0, round(seconds * 1e6))
