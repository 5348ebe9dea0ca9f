"""Which shards of a fleet are ours: leases, handed over gracefully, taken over where one dies."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.frontier.redis_hosts import facts_of, learn
from scrapy_rep.frontier.redis_server import (
    AWAY_ERRORS,
    SHARDS_KEY,
    AwayError,
    as_dict,
    escaped,
    pairs,
)
from scrapy_rep.protocol.printable import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.frontier.ledger import Ledger, Place
    from scrapy_rep.frontier.redis_server import Server
    from scrapy_rep.pacing.keeper import Keeper

PAGE = 500
LACKING_TICKS = 3
"""At so many looks in a row a shard must lack requests before we believe it."""
MOST_LOOKS = 4
"""In a large fleet every fourth look is at all shards."""
BEYOND_TICKS = 3
"""At so many a worker must have more than its share before it gives any back."""


class ShardState(NamedTuple):
    owner: bytes | None
    epoch: bytes | None
    filed: int
    done: int
    lost: int
    lists: int
    out: int
    """Requests that its owner has at hand or in progress, or has had when it died."""
    is_mine: int
    news: list[bytes]
    """If it is ours: lists, each with how many more wait there than we know."""

    @property
    def is_empty(self) -> bool:
        return not (self.lists or self.out)

    def has_moved(self, before: ShardState) -> bool:
        return (self.filed, self.done) != (before.filed, before.done)


@dataclass(slots=True, eq=False)
class Shard:
    """One that this worker owns."""

    number: int
    term: str
    """The fencing token: Redis refuses what its owner of an earlier term says."""
    surely_until: float
    """By ``time.monotonic()``: until then nobody else owns it."""
    waits: dict[str, dict[int, int]] = field(default_factory=dict)
    """How many requests wait in Redis, by the name of the place and by rank."""
    is_leaving: bool = False
    """Whether it is given back as soon as nothing of it is in progress."""
    is_read: bool = False
    """It is being read."""
    cursor: bytes = b"0"
    is_unread: bool = True
    """There may be lists of which the frontier was not told."""
    fresh: set[bytes] = field(default_factory=set)
    """Lists to which some were added since requests were asked for last."""
    lacking: int = 0
    """At how many looks in a row it was empty, and lacked requests."""

    @property
    def is_surely_ours(self) -> bool:
        return monotonic() < self.surely_until

    def number_in(self, list_: bytes) -> int:
        name, rank = place_and_rank(list_)
        return self.waits.get(name, {}).get(rank, 0)

    def note(self, name: str, rank: int, number: int) -> None:
        ranks = self.waits.setdefault(name, {})
        ranks[rank] = number
        if number <= 0:
            del ranks[rank]
        if not ranks:
            del self.waits[name]


class Shards:
    """Those that this worker owns; the workers share all of them evenly."""

    def __init__(
        self,
        server: Server,
        ledger: Ledger,
        keeper: Keeper,
        is_busy_with: Callable[[int], bool],
    ) -> None:
        self._server, self._ledger, self._keeper = server, ledger, keeper
        self._is_busy_with = is_busy_with
        self.owned: dict[int, Shard] = {}
        self.standing: dict[int, ShardState] = {}
        self.is_empty = False
        """Whether the last look was at all, nothing waited or was out, and nothing has come since."""
        self._has_filed = False
        """Whether we have filed any since the last look began."""
        self.workers: list[str] = []
        self.orders: dict[str, str] = {}
        self.has_losses = False
        self.is_closing = False
        self._said_spare = False
        self._looks = 0
        self._beyond = [deque([0] * BEYOND_TICKS, BEYOND_TICKS) for _ in range(2)]
        """How many more than our share we had of late, by whether they are empty."""

    def number_of(self, place: Place) -> int:
        return self._server.shard_of(place.host + place.part)

    def of(self, place: Place) -> Shard | None:
        """``None``: it is not ours."""
        return self.owned.get(self.number_of(place))

    async def tick(self) -> None:
        server, began = self._server, monotonic()
        await self.show_up(server.lease_ms)
        mine = dict(self.owned)
        # The more workers there are, the fewer shards are ours: most looks are at these alone.
        every = max(1, min(MOST_LOOKS, len(self.workers) // MOST_LOOKS))
        is_whole, self._looks = self._looks % every == 0, self._looks + 1
        self._has_filed = False
        asked = range(server.shards) if is_whole else mine
        blocks = {n: [mine[n].term if n in mine else ""] for n in asked}
        answers = await server.for_shards("tick", blocks, server.me, server.lease_ms)
        before = self.standing
        now = {n: ShardState(*answer) for n, answer in answers.items()}
        if is_whole:
            self.standing = before | now
            self._look_for_losses(before, now)
        for n, shard in mine.items():
            if n not in now:
                shard.is_unread = True  # Redis may have told what is new, in vain
                continue
            if not now[n].is_mine:
                self.lose(shard)
                continue
            shard.surely_until = began + server.lease
            if shard.is_leaving or self.owned.get(n) is not shard:
                continue
            for list_, number in pairs(now[n].news):
                self.found(shard, list_, int(number))
            if shard.is_unread and self._ledger.frontier.room > 0:
                server.begin_task(self._read(shard))
        # More are done than filed where the server was emptied in between.
        is_quiet = all(
            each.is_empty
            and each.filed <= each.done
            and n in before
            and not each.has_moved(before[n])
            for n, each in now.items()
        )
        # Where one server answers late, another may have told of what was before we filed there.
        is_new = len(now) == server.shards and not self._has_filed
        self.is_empty = is_quiet and is_new
        if is_whole and now:
            await self._balance()
        await self._free_idle()
        self._ledger.frontier.wake()

    def note_filed(self) -> None:
        """What is under way of a look may tell how it was before."""
        self.is_empty, self._has_filed = False, True

    async def show_up(self, lease: int) -> bool:
        """Say that we are at work for *lease* ms (0: we leave); tell whether others may be there."""
        server = self._server
        try:
            told = await server.run("beat", server.fleet_keys, [server.me, lease])
        except AWAY_ERRORS as error:
            server.note_lost(error)
            return True
        workers, self.orders = map(as_dict, told)
        self.workers = sorted(workers)
        return bool(workers)

    # What was lost

    def _look_for_losses(
        self, before: dict[int, ShardState], now: dict[int, ShardState]
    ) -> None:
        """Tell what a server has forgotten, by how shards stand and how they stood."""
        forgot = lost = 0
        for n, new in now.items():
            old, shard = before.get(n), self.owned.get(n)
            if old is None or not old.epoch:
                continue
            if new.epoch != old.epoch or new.filed < old.filed:
                forgot += 1
            else:
                lost += max(0, new.lost - old.lost)
            if shard is None:
                continue
            if new.epoch != old.epoch:
                self.lose(shard)
            else:
                lacks = new.is_empty and new.filed > new.done and not new.has_moved(old)
                shard.lacking = shard.lacking + 1 if lacks else 0
                if lacks and shard.lacking % LACKING_TICKS == 0:
                    self._server.begin_task(self._look_for_lost(n))
        if lost:
            self._server.log.count("fleet/lost", lost)
            self._tell_of_loss(f"{counted(lost, 'request')} that waited in it are gone")
        if forgot:
            self._server.log.count("fleet/forgot")
            # So that workers that begin later know it.
            number = SHARDS_KEY, self._server.shards
            self._server.begin_task(self._server.nodes.execute("SET", *number, "NX"))
            shards = counted(forgot, "shard")
            self._tell_of_loss(
                f"it was emptied, or came back without all of its data ({shards})"
            )

    def _tell_of_loss(self, what: str) -> None:
        self.has_losses = True
        self._server.log.tell_failure(
            f"Redis has lost a part of the queue of {self._server.spider}: {what}. The crawl"
            " goes on with what is left, and will not end as finished"
        )

    async def _look_for_lost(self, n: int) -> None:
        if self._is_busy_with(n):
            return
        server = self._server
        begin = server.owner_key(n).removesuffix("owner") + "w:"
        client = server.nodes.owner_of(begin).client
        there = client.scan_iter(f"{escaped(begin)}*", 1000)
        found = [name[len(begin.encode()) :] async for name in there]
        for at in range(0, len(found), PAGE):
            await server.at_shard(n, "index", 1, *found[at : at + PAGE])
        if not found:
            await server.at_shard(n, "count", 1)

    # What waits

    def found(self, shard: Shard, list_: bytes, number: int) -> None:
        """Note that *number* more requests, or so many less, wait in a list."""
        number = max(number, -shard.number_in(list_))
        if not number:
            return
        shard.fresh.add(list_)
        frontier, (name, rank) = self._ledger.frontier, place_and_rank(list_)
        is_new = name not in shard.waits and not frontier.places.has(name)
        if is_new and frontier.room <= 0:
            shard.is_unread = True
            return
        shard.note(name, rank, shard.number_in(list_) + number)
        place = frontier.places.named(name)
        if place.count + number > 0:
            frontier.found(place, number)
        else:
            frontier.drop(place)

    def _forget(self, shard: Shard) -> None:
        shard.waits.clear()
        for place in self._ledger.frontier.places:
            if self.number_of(place) == shard.number:
                self._ledger.frontier.drop(place)

    async def _read(self, shard: Shard) -> None:
        """Tell the frontier of what waits in a shard, page by page; later, if its window is full."""
        if shard.is_read:
            return
        server, frontier = self._server, self._ledger.frontier
        is_over = False
        # What was left out as it was full comes before that where this goes on.
        shard.is_read, shard.is_unread = True, shard.cursor != b"0"
        try:
            while not is_over:
                shard.cursor, *lists = await server.at_shard(
                    shard.number, "lists", shard.cursor, PAGE, "*"
                )
                if self.owned.get(shard.number) is not shard or shard.is_leaving:
                    return
                for list_, number in pairs(lists):
                    self.found(shard, list_, number - shard.number_in(list_))
                is_over = shard.cursor == b"0"
                if not is_over and frontier.room <= 0:
                    shard.is_unread = is_over = True
        except AwayError:
            shard.is_unread = True
        finally:
            shard.is_read = False
        frontier.wake()

    # Taking and giving

    async def _balance(self) -> None:
        """Take free shards up to our share; begin to give back what is beyond it."""
        server, workers, share = self._server, self.workers, 0
        if self.is_closing or server.me not in workers:
            return
        # Those in which something waits are shared, and then, as evenly, the others.
        for is_empty in (False, True):
            its = {n for n, each in self.standing.items() if each.is_empty is is_empty}
            kept = [shard for n, shard in self.owned.items() if n in its]
            kept = [shard for shard in kept if not shard.is_leaving]
            loads = Counter(self.standing[n].owner for n in its - self.owned.keys())
            loads[server.me.encode()] = len(kept)
            # Who has most has what does not come out even, so that few change hands.
            order = sorted(workers, key=lambda name: -loads[name.encode()])
            each, more = divmod(len(its), len(workers))
            part = each + (order.index(server.me) < more)
            share += part
            beyond = self._beyond[is_empty]
            beyond.append(len(kept) - part)
            for shard in random.sample(kept, max(0, min(beyond))):
                self.release(shard)
            # At random, so that workers do not all try the same one.
            free = [
                n
                for n in its - self.owned.keys()
                if not self.standing[n].owner and server.is_there(n)
            ]
            wanted = random.sample(free, min(len(free), max(0, -beyond[-1])))
            await asyncio.gather(*map(self._take, wanted))
        if len(workers) > server.shards and not (share or self._said_spare):
            self._said_spare = True
            server.log.tell_user(
                f"The fleet has {len(workers)} workers and {server.shards} shards: this worker"
                " only stands by, and takes over where another one ends. REP_FLEET_SHARDS of a"
                " new queue may be larger"
            )

    async def _take(self, n: int) -> None:
        server, began = self._server, monotonic()
        with suppress(AwayError):
            own = server.me, server.lease_ms, token_hex(6)
            answer = await server.at_shard(n, "own", *own)
            if answer is None:  # another one was quicker
                return
            term, out, facts = answer
            shard = self.owned[n] = Shard(n, term.decode(), began + server.lease)
            learn(json.loads(facts), server, self._keeper)
            if out:
                await self._give_back(shard)  # what its last owner had
                server.log.count("fleet/taken_back", out)
            await self._read(shard)

    async def _give_back(self, shard: Shard) -> None:
        n, left = shard.number, 1
        while left > 0:
            left = await self._server.at_shard(n, "back", shard.term, PAGE)

    def release(self, shard: Shard) -> None:
        if not shard.is_leaving:
            shard.is_leaving = True
            self._forget(shard)

    async def _free_idle(self) -> None:
        leaving = [shard for shard in self.owned.values() if shard.is_leaving]
        idle = [shard for shard in leaving if not self._is_busy_with(shard.number)]
        await asyncio.gather(*map(self._free, idle))

    async def _free(self, shard: Shard) -> None:
        n, server = shard.number, self._server
        if self.owned.get(n) is not shard or not server.is_there(n):
            return
        del self.owned[n]
        facts = json.dumps(facts_of(n, server, self._keeper))
        with suppress(AwayError):  # it is free when its lease is over
            await self._give_back(shard)
            await server.at_shard(n, "free", shard.term, facts)

    def lose(self, shard: Shard) -> None:
        """Note that another one has it, as our lease was over."""
        if self.owned.get(shard.number) is shard:
            del self.owned[shard.number]
            self._server.log.count("fleet/lost_shards")
            self._forget(shard)

    async def close(self) -> bool:
        """Give all back, and leave; tell whether others may be there."""
        for shard in self.owned.values():
            self.release(shard)
        await asyncio.gather(*map(self._free, list(self.owned.values())))
        return await self.show_up(0)


def list_of(name: str, rank: int) -> bytes:
    return f"{rank}\0{name}".encode()


def place_and_rank(list_: bytes) -> tuple[str, int]:
    rank, _, name = list_.decode().partition("\0")
    return name, int(rank)
