"""What a worker tells Redis, new requests and pages that are done, and what it takes from there."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.frontier.redis_shards import list_of

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_rep.frontier.ledger import Entry, Ledger
    from scrapy_rep.frontier.places import Place
    from scrapy_rep.frontier.redis_server import Server
    from scrapy_rep.frontier.redis_shards import Shard, Shards

GATHER_SECONDS = 0.02
"""For so long what came of pages is gathered before it goes to Redis."""
RETRY_SECONDS = 0.5
MOST_IN_A_CALL = 250
"""Requests of one shard that one call files or is done with."""
MOST_URGENT = 64
"""Requests at hand of one place, beyond which even an urgent one waits in Redis."""


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


class Batch(NamedTuple):
    """New requests of one shard; told again as they are until it is known that they were heard."""

    number: int
    term: str
    new: list[tuple[Filed, bool]]
    """Requests, and whether they are to be at hand of their owner, who files them."""


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
        if self.sent is not None:
            return self.sent.new[0][0].serial
        return self.new[0].serial if self.new else inf


class Traffic:
    """Tells Redis, some milliseconds later, and takes from it, in one call for all shards.

    Each batch has a number, so that what was heard already counts once. That a page is done is
    told when all that came of it is filed.
    """

    def __init__(self, server: Server, shards: Shards, ledger: Ledger) -> None:
        self._server, self._shards, self._ledger = server, shards, ledger
        self._boxes: dict[int, Box] = {}
        self._done: deque[tuple[int, int, bytes]] = deque()
        """What is done: the last serial when it was, its shard, its id."""
        self._batches = count(1)
        self._serial = 0
        self.unfiled = 0
        """How many requests are not filed yet, as far as we know."""
        self._flushing: asyncio.Task[Any] | None = None
        self._turn = asyncio.Lock()
        self.orders = count(1)
        """Numbers requests as they come."""
        self._wishes: dict[Place, int] = {}
        self._is_taking = False

    def next_serial(self) -> int:
        self._serial += 1
        return self._serial

    def file(self, one: Filed) -> None:
        self._box(self._shards.number_of(one.place)).new.append(one)
        self.unfiled += 1
        self._flush_soon()

    def done(self, place: Place, id_: bytes) -> None:
        self._done.append((self._serial, self._shards.number_of(place), id_))
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
            # That makes room, and would be refused with the others.
            only_done = self._server.is_full and any(
                box.done for box in self._boxes.values()
            )
            blocks = {
                n: self._block(n, box, only_done=only_done)
                for n, box in self._boxes.items()
            }
            # What takes memory comes first: a server that is full refuses no second write.
            blocks = dict(sorted(blocks.items(), key=lambda item: not item[1][4]))
            me, channel = self._server.me, self._server.channel
            answers = await self._server.for_shards("commit", blocks, me, channel)
            for n, (is_over, *seen) in answers.items():
                _, _, term, done, new, *_ = blocks[n]
                shard = self._shards.owned.get(n)
                if is_over and shard is not None and shard.term == term:
                    self._shards.lose(n)
                del self._boxes[n].done[:done]
                batch = self._boxes[n].sent
                if new and batch is not None:
                    self._server.note_room()
                    self._boxes[n].sent = None
                    self.unfiled -= new
                    self._note_heard(n, batch, set(seen))
            if answers:
                self._ledger.frontier.wake()
            return answers.keys() == blocks.keys()

    def _sort_done(self) -> None:
        """Tell of those that are done of which all that came is filed."""
        oldest = min((box.oldest() for box in self._boxes.values()), default=inf)
        while self._done and self._done[0][0] < oldest:
            _, n, id_ = self._done.popleft()
            if n in self._shards.owned:
                self._box(n).done.append(id_)

    def _block(self, n: int, box: Box, *, only_done: bool) -> list[Any]:
        """Return what is told now of a shard."""
        shard = self._shards.owned.get(n)
        term = "" if shard is None else shard.term
        done = box.done[:MOST_IN_A_CALL]
        if only_done:
            return [0, n, term, len(done), 0, *done]
        if box.sent is None and box.new:
            box.sent = Batch(next(self._batches), term, self._next_of(box, shard))
        number, its_term, new = box.sent or (0, term, [])
        if its_term != term:  # what is done is told under the term of today
            done = []
        block = [number, n, its_term, len(done), len(new), *done]
        for one, to_hand in new:
            side = "R" if one.order > 0 else "L"
            list_ = list_of(one.place.name, one.rank)
            block += [list_, side, int(to_hand), one.fingerprint, one.data]
        return block

    def _next_of(self, box: Box, shard: Shard | None) -> list[tuple[Filed, bool]]:
        room: dict[Place, int] = {}
        new: list[tuple[Filed, bool]] = []
        while box.new and len(new) < MOST_IN_A_CALL:
            one = box.new.popleft()
            new.append(
                (one, shard is not None and self._goes_to_hand(shard, one, room))
            )
        return new

    def _goes_to_hand(self, shard: Shard, one: Filed, room: dict[Place, int]) -> bool:
        """Tell whether a new request of a shard of ours is to be at hand.

        It is if nothing waits before it, or what is at hand is less urgent. *room* is for how
        many more of a place the batch has room.
        """
        if shard.is_leaving:
            return False
        place = one.place
        room.setdefault(place, self._ledger.at_hand - len(place.hand))
        if place.name in shard.waits or room[place] <= 0:
            is_urgent = any(one.rank < entry[0] for entry in place.hand)
            if not is_urgent or len(place.hand) >= MOST_URGENT:
                room[place] = 0  # those after it must not come before it
                return False
        room[place] -= 1
        return True

    def _note_heard(self, n: int, batch: Batch, seen: set[int]) -> None:
        """Note that Redis has heard *batch*: which of its requests it had seen before."""
        frontier, mine = self._ledger.frontier, self._shards.owned.get(n)
        # Of one that was not ours then we hear, or read, what waits there.
        is_mine = mine is not None and mine.term == batch.term and not mine.is_leaving
        for number, (one, to_hand) in enumerate(batch.new, 1):
            place = one.place
            if number in seen:
                self._ledger.on_seen(one.request)
            elif mine is None or not is_mine:
                if not (place.is_gone or place.count):
                    frontier.drop(place)  # its owner has it
            elif to_hand:
                frontier.arrive(place, (one.rank, one.order, one.data[:8], one.request))
            else:
                self._shards.found(mine, list_of(place.name, one.rank), 1)

    # Taking

    def wish(self, place: Place, number: int) -> None:
        """Have up to *number* requests of *place* come to the frontier."""
        self._wishes[place] = number
        if not self._is_taking:
            self._is_taking = True
            self._server.begin_task(self._take())

    async def _take(self) -> None:
        await asyncio.sleep(0)  # others may wish, too
        try:
            while self._wishes:
                wishes, self._wishes = self._wishes, {}
                if not await self._take_once(wishes):
                    await asyncio.sleep(RETRY_SECONDS)
                self._ledger.frontier.wake()
        finally:
            self._is_taking = False

    async def _take_once(self, wishes: dict[Place, int]) -> bool:
        """Take what is wished for; tell whether all servers are there."""
        wanted: dict[Shard, list[tuple[Place, int, int]]] = {}
        for place, number in wishes.items():
            shard = self._shards.of(place)
            ranks = {} if shard is None else shard.waits.get(place.name, {})
            if shard is None or not ranks:
                self._ledger.frontier.came(place, [], 0)
                continue
            if not self._server.is_there(shard.number):
                self._wishes[place] = number
                continue
            left = number
            for rank in sorted(ranks):
                wanted.setdefault(shard, []).append(
                    (place, rank, min(left, ranks[rank]))
                )
                left -= ranks[rank]
                if left <= 0:
                    break
        blocks: dict[int, list[Any]] = {}
        for shard, its in wanted.items():
            block = blocks[shard.number] = [shard.term, len(its)]
            for place, rank, number in its:
                block += [list_of(place.name, rank), number]
        answers = await self._server.for_shards("take", blocks)
        for shard, its in wanted.items():
            if self._shards.owned.get(shard.number) is not shard or shard.is_leaving:
                continue  # its next owner finds them
            is_over, *lists = answers.get(shard.number, [None])
            if is_over:
                self._shards.lose(shard.number)
            elif is_over is None:
                # What may be out, as the answer was lost, comes back when it is taken anew.
                self._shards.release(shard)
            else:
                self._note_taken(shard, its, lists)
        return not self._wishes

    def _note_taken(
        self, shard: Shard, wanted: list[tuple[Place, int, int]], lists: list[Any]
    ) -> None:
        came: dict[Place, list[Entry]] = {}
        for (place, rank, _), (left, *bodies) in zip(wanted, lists, strict=True):
            shard.note(place.name, rank, left)
            came.setdefault(place, []).extend(
                (rank, next(self.orders), body[:8], body[8:]) for body in bodies
            )
        for place, entries in came.items():
            left = sum(shard.waits.get(place.name, {}).values())
            self._ledger.frontier.came(place, entries, left)
