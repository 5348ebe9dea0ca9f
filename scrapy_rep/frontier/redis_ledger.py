"""The ledger of a fleet: requests in Redis, cut into shards of which each has one owner."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from contextlib import suppress
from math import inf
from struct import pack
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from scrapy.exceptions import CloseSpider

from scrapy_rep.events.waits import AWAY, BLOCKED
from scrapy_rep.frontier.ledger import LOST_REASON, Ledger
from scrapy_rep.frontier.redis_hosts import FleetStore
from scrapy_rep.frontier.redis_server import (
    ANSWER_KEPT_SECONDS,
    AWAY_ERRORS,
    AwayError,
    told_key,
)
from scrapy_rep.frontier.redis_shards import PAGE, Shards, list_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request

    from scrapy_rep.crawl import Crawl
    from scrapy_rep.frontier.frontier import Frontier
    from scrapy_rep.frontier.ledger import Entry, Place
    from scrapy_rep.frontier.redis_server import Server
    from scrapy_rep.frontier.redis_shards import Shard

TICK_SECONDS = 0.25
GATHER_SECONDS = 0.02
"""So long what came of pages is gathered before it goes to Redis."""
RETRY_SECONDS = 0.5
MOST_IN_A_CALL = 250
MOST_URGENT = 64
"""Requests at hand of a place, beyond which even an urgent one waits in Redis."""
WATCH_SECONDS = 10.0
MOST_UNFILED = 10_000
"""Requests that are not filed, beyond which a worker sends no more."""
MANY = 200
"""Requests of a host in WATCH_SECONDS that are worth a word where workers idle."""
CLOSE_SECONDS = 5.0
ORDERED = {
    "pause": "The fleet is paused: nothing more is sent until it is resumed",
    None: "The fleet goes on",
}


class Filed(NamedTuple):
    serial: int
    place: Place
    rank: int
    order: int
    fingerprint: bytes
    data: bytes
    """Its id (eight octets), and the packed request."""
    request: Request


class Batch(NamedTuple):
    """New requests of one shard, told until it is known that they were heard."""

    shard: Shard | None
    """``None``: it was not ours."""
    new: list[tuple[Filed, bool]]
    """And whether they are to be at hand of their owner, who files them."""


class RedisLedger(Ledger):
    """All that waits is in Redis; a few requests of each host of ours are at hand.

    Redis is told some milliseconds later, in one call for all shards. Batches are numbered, so that
    what is told twice counts once. That a page is done is told when all that came of it is filed.
    """

    where = "redis"
    kept_in = "Redis"
    frontier: Frontier
    fills_ahead = True

    def __init__(self, crawl: Crawl) -> None:
        server: Server = crawl.fleet
        self._server, self._crawl = server, crawl
        hosts = crawl.settings.hosts.items()
        self.wide = {host: own["wide"] for host, own in hosts if own.get("wide")}
        self._shards = Shards(server, self, crawl.keeper, self.is_busy_with)
        self._base = crc32(server.me.encode()) << 32
        self._serial = 0
        """Numbers requests as they are filed, or come."""
        self._new: dict[int, deque[Filed]] = {}
        """By shard."""
        self._batches: dict[int, Batch] = {}
        self._done: list[tuple[int, int, bytes]] = []
        """The last serial when it was done, its shard, its id."""
        self._unfiled = 0
        self._flushing: asyncio.Task[Any] | None = None
        self._ticking: asyncio.Task[Any] | None = None
        self._sent: Counter[str] | None = Counter()
        """Requests to each host since ``_watched_at``; ``None``: it is said what they tell."""
        self._watched_at, self._done_then = 0.0, 0
        self._told: str | None = None
        self._answered = ""

    # Opening and closing

    async def open(self) -> None:
        server = self._server
        if server.settings.fleet_flush:
            told, _ = await server.run("beat", server.fleet_keys, ["", 0])
            if not told:  # else it is the others' queue as well
                await delete(server)
        await self._tick()
        self._ticking = server.begin_task(self._keep_ticking())

    async def _keep_ticking(self) -> None:
        while not self._shards.is_closing:
            await asyncio.sleep(TICK_SECONDS)
            try:
                await self._tick()
            # A worker that ticks no more would stand still for ever.
            except Exception as error:  # noqa: BLE001
                self._server.log.tell_failure("A look at the fleet failed", error)

    async def _tick(self) -> None:
        await self._shards.tick()
        self._obey()
        self._watch()

    async def close(self) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._flush_soon(), CLOSE_SECONDS)
        if self._unfiled:
            self._server.log.tell_failure(
                f"Redis is away as the crawl ends: {self._unfiled} requests are not filed. The"
                " pages of which they came are sent again by another worker"
            )
        self._shards.is_closing = True
        if self._ticking is not None:  # it may be about to own one more
            await self._ticking
        others_are_there = await self._shards.close()
        if not (self._server.settings.fleet_persist or others_are_there):
            with suppress(*AWAY_ERRORS):
                await delete(self._server)
        await self._server.close()

    # What the frontier asks

    @property
    def _ordered(self) -> str | None:
        order = self._shards.orders.get("order")
        # The last one that ends would delete what is left.
        keeps = self._server.settings.fleet_persist
        return "pause" if order == "drain" and not keeps else order

    @property
    def is_ready(self) -> bool:  # type: ignore[override]
        return self._ordered is None and self._unfiled < MOST_UNFILED

    def unwritten(self) -> int:
        # Where nothing is to persist, the last worker deletes what is left.
        frontier = self.frontier
        is_kept = self._server.settings.fleet_persist
        return 0 if is_kept else frontier.places.count + len(frontier.taken)

    def hold_of(self, place: Place) -> tuple[float, str] | None:
        if f"block {place.host}" in self._shards.orders:
            return RETRY_SECONDS, BLOCKED
        shard = self._shards.of(place)
        if shard is not None and not shard.is_surely_ours:  # another worker may own it
            return RETRY_SECONDS, AWAY
        return None

    def file(
        self, place: Place, rank: int, request: Request, fingerprint: bytes | None
    ) -> str:
        if fingerprint in self.only_here:
            return ""
        serial = self._next_serial()
        order = -serial if self.last_first[rank % 2] else serial
        body = self.packed(request, fingerprint)
        if body is None:
            self.frontier.arrive(place, (rank, order, None, request))
            return "memory"
        data = pack(">Q", self._base + serial) + body
        one = Filed(serial, place, rank, order, fingerprint or b"", data, request)
        self._new.setdefault(self._shards.number_of(place), deque()).append(one)
        self._unfiled += 1
        self._flush_soon()
        return self.where

    def _next_serial(self) -> int:
        self._serial += 1
        return self._serial

    def fill(self, place: Place, number: int) -> None:
        self._server.begin_task(self._take(place, number))

    def note_unreadable(self, place: Place, id_: Any) -> None:
        self.done([(place, id_)])  # else no worker would ever end

    def done(self, gone: Iterable[tuple[Place, Any]]) -> None:
        for place, id_ in gone:
            if self._sent is not None:
                self._sent[place.host] += 1
            self._done.append((self._serial, self._shards.number_of(place), id_))
        self._flush_soon()

    def pending(self) -> int:
        return self._unfiled + int(not self._shards.is_empty)

    def may_end(self) -> bool:
        if not self._shards.is_empty or self.has_news():
            return False
        if self._shards.has_losses:
            raise CloseSpider(LOST_REASON)
        return True

    def is_busy_with(self, shard: int) -> bool:
        """Tell whether anything of it is in progress, or not written yet."""
        store = self._crawl.store
        fetched = store.fetched() if isinstance(store, FleetStore) else ()
        taken = self.frontier.taken.values()
        return (
            shard in self._new
            or shard in self._batches
            or any(n == shard for _, n, _ in self._done)
            or any(self._shards.number_of(place) == shard for place, _ in taken)
            or any(self._server.shard_of(host) == shard for host in fetched)
        )

    # What is told to Redis

    def has_news(self) -> bool:
        return bool(self._done or self._new or self._batches)

    def _flush_soon(self) -> asyncio.Task[Any]:
        if self._flushing is None:
            self._flushing = self._server.begin_task(self._flush())
        return self._flushing

    async def _flush(self) -> None:
        try:
            await asyncio.sleep(GATHER_SECONDS)
            while self.has_news():
                are_told = await self._tell_new(), await self._tell_done()
                self.frontier.wake()
                await asyncio.sleep(GATHER_SECONDS if all(are_told) else RETRY_SECONDS)
        finally:
            self._flushing = None

    async def _tell_new(self) -> bool:
        for n in self._new.keys() - self._batches.keys():
            self._batches[n] = self._next_batch(n)
        blocks = {n: _block_of(batch) for n, batch in self._batches.items()}
        answers = await self._server.for_shards("file", blocks, self._server.me)
        if answers:
            self._shards.note_filed()
        for n, (is_over, *seen) in answers.items():
            batch = self._batches.pop(n)
            if is_over and batch.shard is not None:
                self._shards.lose(batch.shard)
            self._server.note_room()
            self._unfiled -= len(batch.new)
            self._note_heard(n, batch, set(seen))
        return answers.keys() == blocks.keys()

    def _next_batch(self, n: int) -> Batch:
        shard, left = self._shards.owned.get(n), self._new[n]
        room: dict[Place, int] = {}
        new: list[tuple[Filed, bool]] = []
        while left and len(new) < MOST_IN_A_CALL:
            one = left.popleft()
            to_hand = shard is not None and self._goes_to_hand(shard, one, room)
            new.append((one, to_hand))
        if not left:
            del self._new[n]
        return Batch(shard, new)

    async def _tell_done(self) -> bool:
        """Tell of what is done, if all that came of it is filed; return whether it was heard."""
        first = [batch.new[0][0] for batch in self._batches.values()]
        first += [new[0] for new in self._new.values()]
        oldest = min((one.serial for one in first), default=inf)
        ids: dict[int, list[bytes]] = {}
        for serial, n, id_ in self._done:
            if serial < oldest and n in self._shards.owned:
                ids.setdefault(n, []).append(id_)
        its = {n: found[:MOST_IN_A_CALL] for n, found in ids.items()}
        owned = self._shards.owned
        blocks = {n: [owned[n].term, len(its[n]), *its[n]] for n in its}
        answers = await self._server.for_shards("done", blocks)
        heard = {id_ for n in answers for id_ in its[n]}
        self._done = [
            (serial, n, id_)
            for serial, n, id_ in self._done
            if id_ not in heard and n in owned
        ]
        return answers.keys() == blocks.keys()

    def _goes_to_hand(self, shard: Shard, one: Filed, room: dict[Place, int]) -> bool:
        """Tell whether nothing waits before a new request, or what is at hand is less urgent.

        *room*: for how many more of a place the batch has room.
        """
        if shard.is_leaving:
            return False
        place = one.place
        room.setdefault(place, self.at_hand - len(place.hand))
        if place.name in shard.waits or room[place] <= 0:
            is_urgent = any(one.rank < entry[0] for entry in place.hand)
            if not is_urgent or len(place.hand) >= MOST_URGENT:
                room[place] = 0  # those after it must not come before it
                return False
        room[place] -= 1
        return True

    def _note_heard(self, n: int, batch: Batch, seen: set[int]) -> None:
        frontier, mine = self.frontier, self._shards.owned.get(n)
        # Of one that was not ours then we hear, or read, what waits there.
        is_mine = mine is batch.shard and mine is not None and not mine.is_leaving
        for number, (one, to_hand) in enumerate(batch.new, 1):
            place = one.place
            if is_seen := number in seen:
                self.on_seen(one.request)
            if is_seen or mine is None or not is_mine:  # then nothing of it waits here
                if not (place.is_gone or place.count):
                    frontier.drop(place)
            elif to_hand:
                frontier.arrive(place, (one.rank, one.order, one.data[:8], one.request))
            else:
                self._shards.found(mine, list_of(place.name, one.rank), 1)

    # What comes from there

    async def _take(self, place: Place, number: int) -> None:
        shards, n = self._shards, self._shards.number_of(place)
        while not self._server.is_there(n):  # noqa: ASYNC110 - a tick sees that
            await asyncio.sleep(RETRY_SECONDS)
        shard, entries, left = shards.of(place), list["Entry"](), 0
        while shard is not None and (ranks := shard.waits.get(place.name)):
            rank = min(ranks)
            list_, most = list_of(place.name, rank), min(number, ranks[rank])
            shard.fresh.discard(list_)
            try:
                told = await self._server.at_shard(n, "take", shard.term, list_, most)
            except AwayError:
                # What may be out, as the answer was lost, comes back when it is taken anew.
                shards.release(shard)
                return
            if told is None:
                shards.lose(shard)
            if shards.of(place) is not shard or shard.is_leaving:
                return  # its next owner finds them
            there, *bodies = told
            # Others may have come since that was so.
            shard.note(place.name, rank, max(there, int(list_ in shard.fresh)))
            left = sum(shard.waits.get(place.name, {}).values())
            if bodies:
                entries = [(rank, self._next_serial(), b[:8], b[8:]) for b in bodies]
                break
        self.frontier.came(place, entries, left)
        self.frontier.wake()

    # What is told to people, and what they order

    def _watch(self) -> None:
        """Now and then, say so if one host has most of the work, and workers have none."""
        shards, sent, now = self._shards, self._sent, monotonic()
        if sent is None or now < self._watched_at + WATCH_SECONDS:
            return
        done = sum(each.done for each in shards.standing.values())
        busy = {each.owner for each in shards.standing.values() if not each.is_empty}
        workers = len(shards.workers)
        idle = sum(name.encode() not in busy for name in shards.workers)
        self._sent = Counter()
        for host, number in sent.most_common(1 if self._watched_at else 0):
            last = done - self._done_then
            is_spread = host in self.wide or self._crawl.keeper.interval(host)
            if number > max(MANY, last / 2) and not is_spread and 0 < idle < workers:
                self._sent = None
                self._server.log.warn_user(
                    f"{host} got {number} of the last {last} requests of the fleet, and {idle} of"
                    f" {workers} workers have nothing to do: a host without a delay is spread"
                    f' over several by REP_HOSTS = {{"{host}": {{"wide": 16}}}}'
                )
        self._watched_at, self._done_then = now, done

    def _obey(self) -> None:
        """Do, and tell of, what an operator has ordered."""
        order = self._ordered
        if order != self._told and order in ORDERED:
            self._server.log.tell_user(ORDERED[order])
        self._told = order
        if order == "drain" and not self._crawl.engine.is_ending():
            self._crawl.engine.close("drained")
        if (token := self._shards.orders.get("ask")) and token != self._answered:
            self._answered = token
            self._server.begin_task(self._answer(token))

    async def _answer(self, token: str) -> None:
        in_hand = Counter(place.host for place, _ in self.frontier.taken.values())
        now = monotonic()
        waits = [
            (held.host, held.cause, held.requests, held.until and held.until - now)
            for held in self.frontier.held()
        ]
        said = json.dumps([self._server.me, {"in_hand": in_hand, "waits": waits}])
        key = told_key(self._server.spider, token)
        await self._server.nodes.execute("RPUSH", key, said)
        await self._server.nodes.execute("EXPIRE", key, ANSWER_KEPT_SECONDS)


def _block_of(batch: Batch) -> list[Any]:
    term = "" if batch.shard is None else batch.shard.term
    block = [batch.new[0][0].serial, term, len(batch.new)]
    for one, to_hand in batch.new:
        side = "R" if one.order > 0 else "L"
        list_ = list_of(one.place.name, one.rank)
        block += [list_, side, int(to_hand), one.fingerprint, one.data]
    return block


async def delete(server: Server) -> None:
    """Delete the queue, and what is known of its URLs."""
    for n in range(server.shards):
        while await server.run("flush", [server.owner_key(n)], [PAGE]):
            pass
