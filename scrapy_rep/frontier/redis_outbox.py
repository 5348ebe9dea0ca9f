"""What a worker has to tell Redis: new requests, and pages that are done; nothing is told twice."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import contextmanager
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from scrapy_rep.frontier.redis_shards import list_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy import Request

    from scrapy_rep.frontier.places import Place
    from scrapy_rep.frontier.redis_server import Server
    from scrapy_rep.frontier.redis_shards import Shard, Shards

GATHER_SECONDS = 0.02
"""For so long what came of pages is gathered before it goes to Redis."""
RETRY_SECONDS = 0.5
MOST_IN_A_CALL = 250
"""Requests of one shard that one call files or is done with."""


class Filed(NamedTuple):
    """A request that is to be kept."""

    serial: int
    place: Place
    rank: int
    order: int
    fingerprint: bytes
    data: bytes
    """Its id, of eight octets, and the packed request."""
    request: Request


class Batch:
    """What one call tells of one shard; the same again if it is not known whether it was heard."""

    def __init__(self, number: int, term: str) -> None:
        self.number, self.term = number, term
        self.done: list[bytes] = []
        self.new: list[tuple[Filed, bool]] = []
        """Requests, and whether they are to be at hand of their owner, who files them."""
        self.tries = 0

    def args(self, shard: int) -> list[Any]:
        args = [
            self.number,
            shard,
            self.term,
            len(self.done),
            len(self.new),
            *self.done,
        ]
        for one, to_hand in self.new:
            side = "R" if one.order > 0 else "L"
            list_ = list_of(one.place.name, one.rank)
            args += [list_, side, int(to_hand), one.fingerprint, one.data]
        return args


class Box:
    """What is to be told of one shard."""

    def __init__(self) -> None:
        self.new: deque[Filed] = deque()
        self.done: list[bytes] = []
        self.sent: Batch | None = None

    def __bool__(self) -> bool:
        return bool(self.new or self.done or self.sent)

    def oldest(self) -> float:
        """Return the serial of the first request that may not be filed yet; inf: all are."""
        if self.sent is not None and self.sent.new:
            return self.sent.new[0][0].serial
        return self.new[0].serial if self.new else inf


class Teller(Protocol):
    """The ledger, as its outbox needs it."""

    def goes_to_hand(self, shard: Shard, one: Filed, room: dict[Place, int]) -> bool:
        """Tell whether a new request of a shard of ours is to be at hand.

        *room* is for how many more of a place the batch has room.
        """

    def told(self, shard: int, batch: Batch, seen: set[int], *, is_over: bool) -> None:
        """Note that Redis has heard *batch*: which of its requests it had seen before."""

    def wake(self) -> None: ...


class Outbox:
    """Tells Redis, some milliseconds later, in one call for all shards.

    Each batch has a number, so that what was heard already counts once. That a page is done is
    told when all that came of it is filed.
    """

    def __init__(self, server: Server, shards: Shards, teller: Teller) -> None:
        self._server, self._shards, self._teller = server, shards, teller
        self._boxes: dict[int, Box] = {}
        self._done: deque[tuple[int, int, bytes]] = deque()
        """What is done: the last serial when it was, its shard, its id."""
        self._batches = count(1)
        self._serial = 0
        self.unfiled = 0
        """How many requests are not filed yet, as far as we know."""
        self._is_full = False
        """Whether the server has refused us last, as its memory is full."""
        self._flushing: asyncio.Task[Any] | None = None
        self._turn = asyncio.Lock()

    def next_serial(self) -> int:
        self._serial += 1
        return self._serial

    def file(self, shard: int, one: Filed) -> None:
        self._box(shard).new.append(one)
        self.unfiled += 1
        self._flush_soon()

    def done(self, shard: int, id_: bytes) -> None:
        self._done.append((self._serial, shard, id_))
        self._flush_soon()

    def has_news(self) -> bool:
        return bool(self._done) or any(self._boxes.values())

    def has_any_of(self, shard: int) -> bool:
        return bool(self._boxes.get(shard)) or any(n == shard for _, n, _ in self._done)

    def _box(self, shard: int) -> Box:
        return self._boxes.setdefault(shard, Box())

    def _flush_soon(self) -> None:
        if self._flushing is None:
            self._flushing = self._server.begin_task(self._flush_later())

    async def _flush_later(self) -> None:
        try:
            await asyncio.sleep(GATHER_SECONDS)
            while self.has_news():
                is_told = await self.flush()
                await asyncio.sleep(GATHER_SECONDS if is_told else RETRY_SECONDS)
        finally:
            self._flushing = None

    async def flush(self) -> bool:
        """Tell what there is; return whether all of it was heard."""
        async with self._turn:
            self._sort_done()
            self._boxes = {n: box for n, box in self._boxes.items() if box}
            batches = {n: self._batch(n, box) for n, box in self._boxes.items()}
            for batch in batches.values():
                batch.tries += 1
            blocks = {n: batch.args(n) for n, batch in batches.items()}
            with self.calling(blocks):
                before = [self._server.me, self._server.channel]
                answers = await self._server.for_shards("commit", blocks, before)
            for n, (is_over, *seen) in answers.items():
                batch = batches[n]
                self._boxes[n].sent = None
                self.unfiled -= len(batch.new)
                self._teller.told(n, batch, set(seen), is_over=bool(is_over))
            missing = batches.keys() - answers.keys()
            self._is_full = bool(missing) and self._server.is_full
            if self._is_full:
                for n in missing:
                    self._take_apart(self._boxes[n])
            if answers:
                self._teller.wake()
            return not missing

    @contextmanager
    def calling(self, shards: Iterable[int]) -> Iterator[None]:
        """Note that calls are under way which change what is out of *shards*."""
        called = [
            shard for n in shards if (shard := self._shards.owned.get(n)) is not None
        ]
        for shard in called:
            shard.calls += 1
        try:
            yield
        finally:
            for shard in called:
                shard.calls -= 1
                shard.changes += 1

    def _sort_done(self) -> None:
        """Tell of those that are done of which all that came is filed."""
        oldest = min((box.oldest() for box in self._boxes.values()), default=inf)
        while self._done and self._done[0][0] < oldest:
            _, n, id_ = self._done.popleft()
            if n in self._shards.owned:
                self._box(n).done.append(id_)

    def _batch(self, n: int, box: Box) -> Batch:
        """Return what is to be told next of a shard."""
        if box.sent is not None:
            return box.sent
        shard = self._shards.owned.get(n)
        batch = box.sent = Batch(
            next(self._batches), "" if shard is None else shard.term
        )
        batch.done, box.done = box.done[:MOST_IN_A_CALL], box.done[MOST_IN_A_CALL:]
        if (
            self._is_full and batch.done
        ):  # it makes room, and would be refused with the others
            return batch
        room: dict[Place, int] = {}
        while box.new and len(batch.new) < MOST_IN_A_CALL:
            one = box.new.popleft()
            to_hand = shard is not None and self._teller.goes_to_hand(shard, one, room)
            batch.new.append((one, to_hand))
        return batch

    def _take_apart(self, box: Box) -> None:
        """Take a batch apart that was refused whole."""
        batch = box.sent
        if batch is not None and batch.tries == 1:
            box.new.extendleft(one for one, _ in reversed(batch.new))
            box.done = batch.done + box.done
            box.sent = None
