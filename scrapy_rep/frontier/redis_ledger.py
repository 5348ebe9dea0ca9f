"""The ledger of a fleet: requests in Redis, cut into shards of which each has one owner."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from struct import pack
from time import monotonic
from typing import TYPE_CHECKING, Any
from zlib import crc32

from scrapy.exceptions import CloseSpider

from scrapy_rep.frontier.ledger import Ledger
from scrapy_rep.frontier.redis_hosts import FleetStore
from scrapy_rep.frontier.redis_server import ANSWER_KEPT_SECONDS, AWAY_ERRORS, told_key
from scrapy_rep.frontier.redis_shards import PAGE, Shards
from scrapy_rep.frontier.redis_traffic import RETRY_SECONDS, Filed, Traffic
from scrapy_rep.log.waits import AWAY, BLOCKED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request

    from scrapy_rep.crawl import Crawl
    from scrapy_rep.frontier.places import Place
    from scrapy_rep.frontier.redis_server import Server

TICK_SECONDS = 0.5
"""How often a worker renews its leases and looks how all shards stand."""
WATCH_SECONDS = 10.0
MOST_UNFILED = 10_000
"""Requests that wait to be filed, beyond which a worker asks for no more."""
MANY = 200
"""Requests of one host, in WATCH_SECONDS, that are worth a word where workers idle."""
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
        self._shards = Shards(server, self, crawl.keeper, self._is_busy_with)
        self._traffic = Traffic(server, self._shards, self)
        self._base = crc32(server.me.encode()) << 32
        """What makes ids unique in the fleet."""
        self._again = asyncio.Event()
        self._ticking: asyncio.Task[Any] | None = None
        self._sent: Counter[str] = Counter()
        """How many requests were done since we watched last, by host."""
        self._watched_at, self._done_then = 0.0, 0
        self._said_wide = False
        self._told: str | None = None
        """The order of which the log tells last."""
        self._answered = ""
        """What an operator has asked last."""

    # Opening and closing

    async def open(self) -> None:
        server = self._server
        if server.settings.fleet_flush:
            told, _ = await server.run("beat", server.fleet_keys, ["", 0])
            if not told:  # else it is the others' queue as well
                await delete(server)
        server.begin_task(server.listen(self._hear))
        await self._tick()
        self._ticking = server.begin_task(self._keep_ticking())

    async def _keep_ticking(self) -> None:
        while not self._shards.is_closing:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._again.wait(), TICK_SECONDS)
            self._again.clear()
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
        deadline = monotonic() + CLOSE_SECONDS
        while self._traffic.has_news() and monotonic() < deadline:
            if not await self._traffic.flush():
                await asyncio.sleep(RETRY_SECONDS)
        if self._traffic.unfiled:
            self._server.log.tell_failure(
                f"Redis is away as the crawl ends: {self._traffic.unfiled} requests are not"
                " filed. The pages of which they came are sent again by another worker"
            )
        self._shards.is_closing = True
        self._again.set()
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
        """What an operator has ordered."""
        order = self._shards.orders.get("order")
        # The last one that ends would delete what is left.
        keeps = self._server.settings.fleet_persist
        return "pause" if order == "drain" and not keeps else order

    @property
    def is_ready(self) -> bool:  # type: ignore[override]
        return self._ordered is None and self._traffic.unfiled < MOST_UNFILED

    def hold_of(self, place: Place) -> tuple[float, str] | None:
        if f"block {place.host}" in self._shards.orders:
            return RETRY_SECONDS, BLOCKED
        shard = self._shards.of(place)
        if shard is not None and not shard.is_safe:  # another worker may own it
            return RETRY_SECONDS, AWAY
        return None

    def part_of(self, host: str, url: str) -> str:
        return str(crc32(url.encode()) % self._wide[host]) if host in self._wide else ""

    def file(
        self, place: Place, rank: int, request: Request, fingerprint: bytes | None
    ) -> str:
        if fingerprint in self.only_here:
            return ""
        order = next(self._traffic.orders)
        order = -order if self.last_first[rank % 2] else order
        body = self.packed(request, fingerprint)
        if body is None:
            self.frontier.arrive(place, (rank, order, None, request))
            return "memory"
        serial = self._traffic.next_serial()
        data = pack(">Q", self._base + serial) + body
        one = Filed(serial, place, rank, order, fingerprint or b"", data, request)
        self._traffic.file(one)
        self._shards.is_empty = False
        return self.where

    def fill(self, place: Place, number: int) -> None:
        self._traffic.wish(place, number)

    def note_unreadable(self, place: Place, id_: Any) -> None:
        self.done([(place, id_)])  # else no worker would ever end

    def done(self, gone: Iterable[tuple[Place, Any]]) -> None:
        for place, id_ in gone:
            self._sent[place.host] += 1
            self._traffic.done(place, id_)

    def pending(self) -> int:
        return self._traffic.unfiled + int(not self._shards.is_empty)

    def may_end(self) -> bool:
        if not self._shards.is_empty or self._traffic.has_news():
            return False
        if self._shards.has_losses:
            raise CloseSpider(LOST_REASON)
        return True

    def _is_busy_with(self, shard: int) -> bool:
        """Tell whether anything of a shard is in progress, or not written yet."""
        store = self._crawl.store
        fetched = store.fetched() if isinstance(store, FleetStore) else ()
        taken = self.frontier.taken.values()
        return (
            self._traffic.has_any_of(shard)
            or any(self._shards.number_of(place) == shard for place, _ in taken)
            or any(self._server.shard_of(host) == shard for host in fetched)
        )

    # What is told to people, and what they order

    def _watch(self) -> None:
        """Now and then, say so if one host has most of the work, and workers have none."""
        shards, now = self._shards, monotonic()
        if self._said_wide or now < self._watched_at + WATCH_SECONDS:
            return
        done = sum(each.done for each in shards.standing.values())
        busy = {each.owner for each in shards.standing.values() if not each.is_empty}
        workers = len(shards.workers)
        idle = sum(name.encode() not in busy for name in shards.workers)
        for host, number in self._sent.most_common(1 if self._watched_at else 0):
            last = done - self._done_then
            is_spread = host in self._wide or self._crawl.keeper.interval(host)
            if number > max(MANY, last / 2) and not is_spread and 0 < idle < workers:
                self._said_wide = True
                self._server.log.warn_user(
                    f"{host} got {number} of the last {last} requests of the fleet, and {idle} of"
                    f" {workers} workers have nothing to do: a host without a delay is spread"
                    f' over several by REP_HOSTS = {{"{host}": {{"wide": 16}}}}'
                )
        self._watched_at, self._done_then = now, done
        self._sent.clear()

    def _obey(self) -> None:
        """Do, and tell of, what an operator has ordered."""
        order, told = self._ordered, self._told
        if order == "pause" != told:
            self._server.log.tell_user(
                "The fleet is paused: nothing more is sent until it is resumed"
            )
        elif order is None and told is not None:
            self._server.log.tell_user("The fleet goes on")
        self._told = order
        if order == "drain" and not self._crawl.engine.is_ending():
            self._crawl.engine.close("drained")
        if (token := self._shards.orders.get("ask")) and token != self._answered:
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

    # What others say

    def _hear(self, is_to_all: bool, said: bytes) -> None:
        if is_to_all:
            self._again.set()
            return
        for n, seq, waiting in json.loads(said):
            shard = self._shards.owned.get(n)
            if shard is None or shard.is_leaving or seq != shard.seq + 1:
                continue  # if we have missed something, the next tick sees it
            shard.seq = seq
            for list_, number in waiting.items():
                self._shards.found(shard, list_.encode(), number)
        self.frontier.wake()


async def delete(server: Server) -> None:
    """Delete the queue, and what is known of its URLs."""
    for n in range(server.shards):
        while await server.run("flush", [server.owner_key(n)], [PAGE]):
            pass
