"""The ledger of a fleet: requests in Redis, cut into shards of which each has one owner."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from contextlib import suppress
from itertools import count
from struct import pack
from time import monotonic
from typing import TYPE_CHECKING, Any
from zlib import crc32

from scrapy.exceptions import CloseSpider

from scrapy_rep.frontier.ledger import Ledger
from scrapy_rep.frontier.redis_nodes import AWAY_ERRORS
from scrapy_rep.frontier.redis_outbox import RETRY_SECONDS, Filed, Outbox
from scrapy_rep.frontier.redis_server import ANSWER_KEPT_SECONDS, told_key
from scrapy_rep.frontier.redis_shards import Shard, Shards, list_of, place_and_rank
from scrapy_rep.frontier.redis_store import FleetStore
from scrapy_rep.frontier.redis_turns import Facts
from scrapy_rep.log.waits import AWAY, BLOCKED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request

    from scrapy_rep.crawl import Crawl
    from scrapy_rep.frontier.ledger import Entry
    from scrapy_rep.frontier.places import Place
    from scrapy_rep.frontier.redis_outbox import Batch
    from scrapy_rep.frontier.redis_server import Server

logger = logging.getLogger("scrapy_rep")

MOST_UNFILED = 10_000
"""Requests that wait to be filed, beyond which a worker asks for no more."""
MOST_URGENT = 64
"""Requests at hand of one place, beyond which even an urgent one waits in Redis."""
MANY = 200
"""Requests of one host, in some seconds, that are worth a word where workers idle."""
CLOSE_SECONDS = 5.0
LOST_REASON = "requests_lost"
"""The reason with which a crawl ends whose server has lost requests."""


class RedisLedger(Ledger):
    """All that waits is in Redis; a few requests of each host of ours are at hand."""

    where = "redis"
    fills_ahead = True

    def __init__(self, crawl: Crawl) -> None:
        """Raises what making the server of *crawl* does."""
        server: Server = crawl.fleet
        self._server, self._crawl = server, crawl
        hosts = crawl.settings.hosts.items()
        self._wide = {host: own["wide"] for host, own in hosts if own.get("wide")}
        self._shards = Shards(server, self, Facts(server, crawl.keeper))
        self._outbox = Outbox(server, self._shards, self)
        self._order = count(1)
        self._base = crc32(server.me.encode()) << 32
        """What makes ids unique in the fleet."""
        self._wishes: dict[Place, int] = {}
        self._is_taking = False
        self._sent: Counter[str] = Counter()
        """How many requests were done since we looked last, by host."""
        self._said_wide = False
        self._ordered: str | None = None
        self._answered = ""
        """What an operator has asked last."""

    # Opening and closing

    async def open(self) -> None:
        server = self._server
        if server.settings.fleet_flush:
            told, _ = await server.run("beat", server.fleet_keys, ["", 0])
            if not told:  # else it is the others' queue as well
                await delete(server)
        server.listen(self._hear)
        await self._shards.begin()

    async def close(self) -> None:
        deadline = monotonic() + CLOSE_SECONDS
        while self._outbox.has_news() and monotonic() < deadline:
            if not await self._outbox.flush():
                await asyncio.sleep(RETRY_SECONDS)
        if self._outbox.unfiled:
            logger.error(
                "Redis is away as the crawl ends: %d requests are not filed. The pages of which"
                " they came are sent again by another worker",
                self._outbox.unfiled,
                extra={"spider": self.spider},
            )
        await self._shards.close()
        if not (self._server.settings.fleet_persist or self._shards.others_are_there):
            with suppress(*AWAY_ERRORS):
                await delete(self._server)
        await self._server.close()

    # What the frontier asks

    @property
    def is_ready(self) -> bool:  # type: ignore[override]
        return self._ordered is None and self._outbox.unfiled < MOST_UNFILED

    def hold_of(self, place: Place) -> tuple[float, str] | None:
        if f"block {place.host}" in self._shards.orders:
            return RETRY_SECONDS, BLOCKED
        shard = self._shards.owned.get(self._shard_of(place))
        if shard is not None and not shard.is_safe:  # another worker may own it
            return RETRY_SECONDS, AWAY
        return None

    def part_of(self, host: str, url: str) -> str:
        return str(crc32(url.encode()) % self._wide[host]) if host in self._wide else ""

    def _shard_of(self, place: Place) -> int:
        return self._server.shard_of(place.host + place.part)

    def file(
        self,
        place: Place,
        rank: int,
        request: Request,
        fingerprint: bytes | None,
        *,
        last_first: bool,
    ) -> str:
        if fingerprint in self.only_here:
            return ""
        order = next(self._order)
        order = -order if last_first else order
        body = self.packed(request, fingerprint)
        if body is None:
            self.frontier.arrive(place, (rank, order, None, request))
            return "memory"
        serial = self._outbox.next_serial()
        data = pack(">Q", self._base + serial) + body
        one = Filed(serial, place, rank, order, fingerprint or b"", data, request)
        self._outbox.file(self._shard_of(place), one)
        self._shards.is_empty = False
        return self.where

    def fill(self, place: Place, number: int) -> None:
        self._wishes[place] = number
        if not self._is_taking:
            self._is_taking = True
            self._server.begin_task(self._take())

    def note_unreadable(self, place: Place, id_: Any) -> None:
        self.done([(place, id_)])  # else no worker would ever end

    def done(self, gone: Iterable[tuple[Place, Any]]) -> None:
        for place, id_ in gone:
            self._sent[place.host] += 1
            self._outbox.done(self._shard_of(place), id_)

    def pending(self) -> int:
        return self._outbox.unfiled + int(not self._shards.is_empty)

    def may_end(self) -> bool:
        if not self._shards.is_empty or self._outbox.has_news():
            return False
        if self._shards.losses.has_any:
            raise CloseSpider(LOST_REASON)
        return True

    # Taking

    async def _take(self) -> None:
        await asyncio.sleep(0)  # others may wish, too
        try:
            while self._wishes:
                wishes, self._wishes = self._wishes, {}
                if not await self._take_once(wishes):
                    await asyncio.sleep(RETRY_SECONDS)
                self.wake()
        finally:
            self._is_taking = False

    async def _take_once(self, wishes: dict[Place, int]) -> bool:
        """Take what is wished for; what does not come is wished for again."""
        blocks: dict[int, list[Any]] = {}
        wanted: dict[int, list[tuple[Place, int]]] = {}
        for place, number in wishes.items():
            shard = self._shards.owned.get(self._shard_of(place))
            ranks = {} if shard is None else shard.waits.get(place.name, {})
            if shard is None or not ranks:
                self.frontier.came(place, [], 0)
                continue
            block = blocks.setdefault(shard.number, [shard.term, 0])
            left = number
            for rank in sorted(ranks):
                wanted.setdefault(shard.number, []).append((place, rank))
                block[1] += 1
                block += [list_of(place.name, rank), min(left, ranks[rank])]
                left -= ranks[rank]
                if left <= 0:
                    break
        with self._outbox.calling(blocks):
            answers = await self._server.for_shards("take", blocks)
        for n, (is_over, *lists) in answers.items():
            shard = self._shards.owned.get(n)
            if shard is None or shard.term != blocks[n][0]:
                continue
            if is_over:
                self._shards.lose(n)
            elif shard.releasing_since is None:  # else its next owner finds them
                self._came(shard, wanted[n], lists)
        away = blocks.keys() - answers.keys()
        self._wishes |= {place: wishes[place] for n in away for place, _ in wanted[n]}
        return not away

    def _came(
        self, shard: Shard, wanted: list[tuple[Place, int]], lists: list[Any]
    ) -> None:
        came: dict[Place, list[Entry]] = {}
        for (place, rank), (left, *bodies) in zip(wanted, lists, strict=True):
            ranks = shard.waits.setdefault(place.name, {})
            ranks[rank] = left
            if not left:
                del ranks[rank]
            entries = came.setdefault(place, [])
            entries += [
                (rank, next(self._order), body[:8], body[8:]) for body in bodies
            ]
            shard.out += len(bodies)
        for place, entries in came.items():
            left = sum(shard.waits[place.name].values())
            if not left:
                del shard.waits[place.name]
            self.frontier.came(place, entries, left)

    # What is told

    def goes_to_hand(self, shard: Shard, one: Filed, room: dict[Place, int]) -> bool:
        """See ``Teller``: it is if nothing waits before it, or what is at hand is less urgent."""
        if shard.releasing_since is not None:
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

    def told(self, shard: int, batch: Batch, seen: set[int], *, is_over: bool) -> None:
        """See ``Teller``."""
        mine = self._shards.owned.get(shard)
        if mine is not None and mine.term != batch.term:
            mine = None  # it was not ours then: we hear, or read, what waits there
        elif mine is not None and is_over:
            self._shards.lose(shard)
            mine = None
        if mine is not None:
            mine.out -= len(batch.done)
        for number, (one, to_hand) in enumerate(batch.new, 1):
            if number in seen:
                self.on_seen(one.request)
            elif mine is None or mine.releasing_since is not None:
                if not (one.place.is_gone or one.place.count):
                    self.frontier.drop(one.place)  # its owner has it
            elif to_hand:
                mine.out += 1
                entry = one.rank, one.order, one.data[:8], one.request
                self.frontier.arrive(one.place, entry)
            else:
                self.found(mine, list_of(one.place.name, one.rank), 1)

    # What its shards ask (``Owner``)

    @property
    def is_full(self) -> bool:
        return self.frontier.room <= 0

    def found(self, shard: Shard, list_: bytes, number: int) -> None:
        if not number:
            return
        name, rank = place_and_rank(list_)
        if (
            name not in shard.waits
            and self.is_full
            and not self.frontier.places.has(name)
        ):
            shard.is_unread = True
            return
        ranks = shard.waits.setdefault(name, {})
        ranks[rank] = ranks.get(rank, 0) + number
        if ranks[rank] <= 0:
            del ranks[rank]
            if not ranks:
                del shard.waits[name]
        place = self.frontier.places.named(name)
        if number > 0 or place.count + number > 0:
            self.frontier.found(place, number)
        else:
            self.frontier.drop(place)

    def forget(self, shard: Shard) -> None:
        shard.waits.clear()
        for place in self.frontier.places:
            if self._shard_of(place) == shard.number:
                self.frontier.drop(place)

    def is_busy_with(self, shard: int) -> bool:
        store = self._crawl.store
        fetched = store.fetched() if isinstance(store, FleetStore) else set()
        return (
            self._outbox.has_any_of(shard)
            or any(
                self._shard_of(place) == shard
                for place, _ in self.frontier.taken.values()
            )
            or any(self._server.shard_of(host) == shard for host in fetched)
        )

    def note_work(self, done: int, idle: int, workers: int) -> None:
        sent, self._sent = self._sent, Counter()
        for host, number in sent.most_common(1):
            spread = host in self._wide or self._crawl.keeper.interval(host)
            is_told = self._said_wide or spread or not 0 < idle < workers
            if number > max(MANY, done / 2) and not is_told:
                self._said_wide = True
                self._server.log.warn_user(
                    f"{host} got {number} of the last {done} requests of the fleet, and {idle} of"
                    f" {workers} workers have nothing to do: a host without a delay is spread"
                    f' over several by REP_HOSTS = {{"{host}": {{"wide": 16}}}}'
                )

    def obey(self, orders: dict[str, str]) -> None:
        order, log = orders.get("order"), self._server.log
        if order == "drain" and not self._server.settings.fleet_persist:
            order = "pause"  # the last one that ends would delete what is left
        if order != self._ordered:
            if order is None:
                log.tell_user("The fleet goes on")
            elif order == "pause":
                log.tell_user(
                    "The fleet is paused: nothing more is sent until it is resumed"
                )
            self._ordered = order
        if order == "drain" and not self._crawl.engine.is_ending():
            self._crawl.engine.close("drained")
        if (token := orders.get("ask")) and token != self._answered:
            self._answered = token
            self._server.begin_task(self._answer(token))

    async def _answer(self, token: str) -> None:
        """Say what waits here, and what is in progress, to who has asked."""
        in_hand = Counter(place.host for place, _ in self.frontier.taken.values())
        now = monotonic()
        waits = [
            (held.host, held.cause, held.requests, held.until and held.until - now)
            for held in self.frontier.held()
        ]
        said = json.dumps([self._server.me, {"in_hand": in_hand, "waits": waits}])
        key = told_key(self._server.spider, token)
        with suppress(*AWAY_ERRORS):
            await self._server.execute("RPUSH", key, said)
            await self._server.execute("EXPIRE", key, ANSWER_KEPT_SECONDS)

    def wake(self) -> None:
        self.frontier.wake()

    # What others say

    def _hear(self, channel: str, said: bytes) -> None:
        if channel == "all":
            self._shards.look_soon()
            return
        for n, seq, waiting in json.loads(said):
            shard = self._shards.owned.get(n)
            if (
                shard is None
                or shard.releasing_since is not None
                or seq != shard.seq + 1
            ):
                continue  # if we have missed something, the next tick sees it
            shard.seq = seq
            for list_, number in waiting.items():
                self.found(shard, list_.encode(), number)
        self.wake()


async def delete(server: Server) -> None:
    """Delete the queue, and what is known of its URLs."""
    for n in range(server.shards):
        while await server.run("flush", [server.owner_key(n)], [500]):
            pass
