"""Which shards of a fleet are ours: leases, handed over gracefully, taken over where one dies."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from contextlib import suppress
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from scrapy_rep.frontier.redis_losses import Losses, Standing
from scrapy_rep.frontier.redis_nodes import AWAY_ERRORS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_rep.frontier.redis_server import Server
    from scrapy_rep.frontier.redis_turns import Facts

logger = logging.getLogger("scrapy_rep")

TICK_SECONDS = 0.5
"""How often a worker renews its leases and looks how all shards stand."""
WATCH_SECONDS = 10.0
PAGE = 500
"""Lists, or requests, that one call reads or moves when a shard is taken."""


class Shard:
    """One that this worker owns."""

    def __init__(self, number: int, term: str, seq: int, safe_until: float) -> None:
        self.number = number
        self.term = term
        """The fencing token: Redis refuses what its owner of an earlier term says."""
        self.seq = self.seq_at_tick = seq
        """How often others have filed requests there, as far as we have heard."""
        self.safe_until = safe_until
        """By ``time.monotonic()``: until then nobody else owns it."""
        self.waits: dict[str, dict[int, int]] = {}
        """How many requests wait in Redis, by the name of the place and by rank."""
        self.out = 0
        """How many requests are out, as far as we know."""
        self.calls = self.changes = 0
        """How many of our calls that change that are under way, and how many have been."""
        self.strays = 0
        """At how many ticks in a row Redis knew of more."""
        self.releasing_since: float | None = None
        self.reading = False
        self.cursor = b"0"
        """Where reading goes on."""
        self.is_unread = False
        """Whether there are lists of which the frontier was not told, as its window is full."""

    @property
    def is_safe(self) -> bool:
        return monotonic() < self.safe_until

    def number_in(self, list_: bytes) -> int:
        """Return how many requests wait in a list, as far as we know."""
        name, rank = place_and_rank(list_)
        return self.waits.get(name, {}).get(rank, 0)


class Owner(Protocol):
    """The ledger, as its shards need it."""

    @property
    def is_full(self) -> bool:
        """Whether it takes no more places."""

    def found(self, shard: Shard, list_: bytes, number: int) -> None:
        """Note that *number* more requests, or so many less, wait in a list."""

    def forget(self, shard: Shard) -> None:
        """Let go of all that waits there."""

    def is_busy_with(self, shard: int) -> bool:
        """Tell whether anything of a shard is in progress, or not written yet."""

    def obey(self, orders: dict[str, str]) -> None:
        """Do what an operator has ordered."""

    def note_work(self, done: int, idle: int, workers: int) -> None:
        """Note how many requests the fleet was done with in the last WATCH_SECONDS, and how many
        of its workers have nothing to do.
        """

    def wake(self) -> None: ...


class Shards:
    """Those that this worker owns; the workers share all of them evenly."""

    def __init__(self, server: Server, owner: Owner, facts: Facts) -> None:
        self._server, self._owner, self._facts = server, owner, facts
        self.owned: dict[int, Shard] = {}
        self.standing: dict[int, Standing] = {}
        self.is_empty = False
        """Whether nothing waits or is out in any shard, and nothing came between two looks."""
        self.workers: list[str] = []
        self.orders: dict[str, str] = {}
        self.losses = Losses(server, owner.is_busy_with)
        self._again = asyncio.Event()
        self._ticking: asyncio.Task[Any] | None = None
        self._freeing: set[asyncio.Task[Any]] = set()
        self._said_spare = False
        self._closing = False
        self._watched_at, self._done_then = 0.0, 0
        self.others_are_there = True

    def look_soon(self) -> None:
        """Tick at once."""
        self._again.set()

    async def begin(self) -> None:
        """Tick, and from now on again and again."""
        await self.tick()
        self._ticking = self._server.begin_task(self._keep_ticking())

    async def _keep_ticking(self) -> None:
        while not self._closing:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._again.wait(), TICK_SECONDS)
            self._again.clear()
            try:
                await self.tick()
            except Exception:  # a worker that ticks no more would stand still for ever
                logger.exception("A look at the fleet failed")

    async def tick(self) -> None:
        """Show up, renew our leases, and see to it that each shard has an owner."""
        server, began = self._server, monotonic()
        lease = round(server.lease * 1e3)
        try:
            told, orders = await server.run(
                "beat", server.fleet_keys, [server.me, lease]
            )
            self.workers = sorted(name.decode() for name in told[::2])
            texts = [part.decode() for part in orders]
            self.orders = dict(zip(texts[::2], texts[1::2], strict=True))
        except AWAY_ERRORS as error:
            server.note_lost(error, set())
        terms = {n: shard.term for n, shard in self.owned.items()}
        calm = {n: s.changes for n, s in self.owned.items() if not s.calls}
        blocks = {n: [terms.get(n, "")] for n in range(server.shards)}
        answers = await server.for_shards(
            "tick", blocks, [server.me, lease], looks=True
        )
        before = self.standing
        now = {n: Standing.read(answer) for n, answer in answers.items()}
        self.standing = before | now
        for n in self.losses.note(before, now, self.owned):
            self.lose(n)
        for n, term in terms.items():
            shard = self.owned.get(n)
            if shard is None or shard.term != term or n not in answers:
                continue
            if not self.standing[n].is_mine:
                self.lose(n)
                continue
            shard.safe_until = began + server.lease
            missed = shard.seq < shard.seq_at_tick  # what was said, and not heard
            has_room = shard.is_unread and not self._owner.is_full
            if (missed or has_room) and not shard.reading:
                server.begin_task(self.read(shard))
            shard.seq_at_tick = self.standing[n].seq
            if calm.get(n) == shard.changes and not shard.calls:
                self._look_for_strays(shard, self.standing[n].out)
        self.is_empty = (
            len(answers) == server.shards
            and all(
                # More are done than filed where the server was emptied in between.
                each.is_empty and each.filed <= each.done
                for each in self.standing.values()
            )
            and before.keys() == self.standing.keys()
            and not any(each.has_moved(before[n]) for n, each in now.items())
        )
        self._owner.obey(self.orders)
        self._watch()
        if answers:
            await self._balance()
        self.release_idle()
        self._owner.wake()

    def _watch(self) -> None:
        """Now and then, tell the ledger how many requests the fleet sent, and how many idled."""
        now = monotonic()
        if now < self._watched_at + WATCH_SECONDS:
            return
        done = sum(each.done for each in self.standing.values())
        busy = {each.owner for each in self.standing.values() if not each.is_empty}
        idle = len(set(self.workers) - busy)
        if self._watched_at:
            self._owner.note_work(done - self._done_then, idle, len(self.workers))
        self._watched_at, self._done_then = now, done

    # Taking and giving

    async def _balance(self) -> None:
        """Take free shards up to our share; begin to give back what is beyond it."""
        me, workers = self._server.me, self.workers
        if self._closing or me not in workers:
            return
        number, rank = len(workers), workers.index(me)
        target = self._server.shards // number + (rank < self._server.shards % number)
        kept = [shard for shard in self.owned.values() if shard.releasing_since is None]
        if len(kept) > target:
            # As many of those with much to do as of the others.
            kept.sort(key=lambda shard: -len(shard.waits))
            given = len(kept) - target
            for nth in range(given):
                self.release(kept[nth * len(kept) // given])
        free = [
            n
            for n, each in self.standing.items()
            if not each.owner and n not in self.owned and self._server.is_there(n)
        ]
        random.shuffle(free)  # so that workers do not all try the same one
        for n in free[: max(0, target - len(kept))]:
            await self._own(n)
        if not target and not self._said_spare:
            self._said_spare = True
            self._server.log.tell_user(
                f"The fleet has {number} workers and {self._server.shards} shards: this worker"
                " only stands by, and takes over where another one ends. REP_FLEET_SHARDS of a"
                " new queue may be larger"
            )

    async def _own(self, n: int) -> None:
        try:
            await self._take(n)
        except AWAY_ERRORS as error:
            self._server.note_lost(error, {n})

    async def _take(self, n: int) -> None:
        server, began = self._server, monotonic()
        keys = [server.owner_key(n)]
        args = [server.me, round(server.lease * 1e3), token_hex(6)]
        answer = await server.run("own", keys, args)
        if answer is None:  # another one was quicker
            return
        term, seq, out = answer
        shard = Shard(n, term.decode(), seq, began + server.lease)
        self.owned[n] = shard
        if out:
            await self._give_back(shard)  # what its last owner had
            server.log.count("fleet/taken_back", out)
        told = keys[0].removesuffix("owner") + "hosts"
        known = await server.execute("HGETALL", told)
        await server.execute("UNLINK", told)
        self._facts.learn(
            {host.decode(): json.loads(fact) for host, fact in known.items()}
        )
        await self.read(shard)

    async def _give_back(self, shard: Shard) -> None:
        """Have what is out wait again."""
        left = 1
        while left > 0:
            keys = [self._server.owner_key(shard.number)]
            left = await self._server.run("back", keys, [shard.term, PAGE])

    async def read(self, shard: Shard) -> None:
        """Read what waits in a shard, page by page, and tell of what we did not know.

        Where the frontier's window is full it goes on later.
        """
        server, n = self._server, shard.number
        shard.reading, seq = True, -1
        gone = dict.fromkeys(_lists(shard)) if shard.cursor == b"0" else {}
        shard.is_unread = shard.cursor != b"0"
        try:
            while seq < 0 or shard.cursor != b"0":
                args = [shard.cursor, PAGE, "*"]
                now, at, *lists = await server.run("lists", [server.owner_key(n)], args)
                seq = now if seq < 0 else seq
                if self.owned.get(n) is not shard or shard.releasing_since is not None:
                    return
                shard.cursor = at
                for list_, number in _pairs(lists):
                    gone.pop(list_, None)
                    self._owner.found(shard, list_, number - shard.number_in(list_))
                if at != b"0" and self._owner.is_full:
                    shard.is_unread, gone = True, {}
                    break
            for list_ in gone:  # an operator has deleted it
                self._owner.found(shard, list_, -shard.number_in(list_))
            shard.seq = max(shard.seq, seq)
        except AWAY_ERRORS as error:
            server.note_lost(error, {n})
        finally:
            shard.reading = False
        self._owner.wake()

    def release(self, shard: Shard) -> None:
        """Give a shard back as soon as nothing of it is in progress."""
        if shard.releasing_since is None:
            shard.releasing_since = monotonic()
            self._owner.forget(shard)

    def release_idle(self) -> None:
        """Give back those that are to be given back, and with which we are through."""
        for shard in list(self.owned.values()):
            if shard.releasing_since is not None and not self._owner.is_busy_with(
                shard.number
            ):
                task = self._server.begin_task(self._free(shard))
                self._freeing.add(task)
                task.add_done_callback(self._freeing.discard)

    async def _free(self, shard: Shard) -> None:
        n, server = shard.number, self._server
        if self.owned.get(n) is not shard:
            return
        del self.owned[n]
        if not server.is_there(n):  # it is free when its lease is over
            return
        facts = [
            part
            for host, fact in self._facts.known(n).items()
            for part in (host, json.dumps(fact))
        ]
        args = [shard.term, f"{server.channel}all", n, *facts]
        try:
            await self._give_back(shard)
            await server.run("free", [server.owner_key(n)], args)
        except AWAY_ERRORS as error:
            server.note_lost(error, {n})

    def _look_for_strays(self, shard: Shard, out: int) -> None:
        """Take a shard anew if requests are out of which we do not know: an answer was lost."""
        shard.strays = shard.strays + 1 if out > shard.out else 0
        if shard.strays > 1:
            self.release(shard)

    def lose(self, n: int) -> None:
        """Note that a shard is not ours any more: its lease was over, and another one has it."""
        shard = self.owned.pop(n, None)
        if shard is not None:
            self._server.log.count("fleet/lost_shards")
            self._owner.forget(shard)

    async def close(self) -> None:
        """Give all back, and leave."""
        self._closing = True
        self.look_soon()
        if self._ticking is not None:  # a look under way may be about to own one more
            await self._ticking
        await asyncio.gather(*self._freeing, return_exceptions=True)
        for shard in self.owned.values():
            self.release(shard)
        await asyncio.gather(
            *(self._free(shard) for shard in list(self.owned.values()))
        )
        server = self._server
        try:
            left, _ = await server.run("beat", server.fleet_keys, [server.me, 0])
            self.others_are_there = bool(left)
        except AWAY_ERRORS as error:
            server.note_lost(error, set())


def _pairs(told: list[Any]) -> Iterable[tuple[Any, Any]]:
    return zip(told[::2], told[1::2], strict=True)


def _lists(shard: Shard) -> list[bytes]:
    return [
        list_of(name, rank) for name, ranks in shard.waits.items() for rank in ranks
    ]


def list_of(name: str, rank: int) -> bytes:
    """Return the name of the list with the requests of *rank* of the place called *name*."""
    return f"{rank}\0{name}".encode()


def place_and_rank(list_: bytes) -> tuple[str, int]:
    rank, _, name = list_.decode().partition("\0")
    return name, int(rank)
