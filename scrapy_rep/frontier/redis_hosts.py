"""What a fleet keeps of a host besides its requests: starts, snapshots, what its owner knows."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count, islice
from math import inf
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from scrapy_rep.frontier.redis_server import AwayError
from scrapy_rep.pacing.hosts import WELL, Health, early_of
from scrapy_rep.pacing.keeper import ParkedError
from scrapy_rep.protocol.language import DAY
from scrapy_rep.protocol.origins import host_in
from scrapy_rep.store import Store, origin_of_key, pack, unpack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scrapy_rep.frontier.redis_server import Server
    from scrapy_rep.pacing.keeper import Keeper
    from scrapy_rep.store import Snapshot

AWAY_SECONDS = 0.5
"""So often we ask again for what another one holds, or whose server is away."""
RENEW_PART = 3
"""What is held is renewed so many times in a lease."""
SPENT_KEPT_MS = 86_400_000
"""So long after its last request it is known how many a host has had."""
LARGE_OCTETS = 64 * 1024
"""Beyond these a thread packs a body: 512 KiB take 16 ms."""
PACED_SECONDS = 1.0
"""The next owner is told of hosts that must wait for so long yet."""
MOST_FACTS = 1000


def host_of_key(key: str) -> str:
    """*key*: an origin, or the key of one of its variants."""
    return host_in(origin_of_key(key))


class FleetBookings:
    """Books each start at a host with a delay, by the clock of Redis.

    A start is held until its answer, by a lease that is renewed meanwhile, and the delay counts
    after it. So all keep the pace: other workers, media, other spiders, who wakes up too late.
    """

    def __init__(
        self, server: Server, kind: str = "turn", host_of: Callable[[str], str] = str
    ) -> None:
        """*kind* tells what is booked, *host_of* of which host that is."""
        self._server, self._kind, self._host_of = server, kind, host_of
        self.say = server.say
        self._serials = count(1)
        self.held: dict[str, tuple[float, str]] = {}
        """The delay after it, and as who we hold it."""
        self._renewing: asyncio.Task[Any] | None = None

    async def book(
        self,
        name: str,
        interval: float = 0.0,
        due: float = 0.0,
        waits: Callable[[], object] = lambda: None,
        *,
        is_known: bool = True,
    ) -> int:
        """Wait until *interval* seconds have passed since the last request, and until *due* (by
        ``time.monotonic()``); book this start. Where it *is_known* not what the host asks, a longer
        interval that others keep counts.

        Asked for some time before *due* (``early_of``), as that takes time. Until ``over`` nobody else
        starts there. *waits* is called before each wait. Returns the booking. Raises ``ParkedError``
        if another process has parked the host.
        """
        serial = next(self._serials)
        # So that what is told late of one hold is not taken for another one.
        me = f"{self._server.me}:{serial}"
        # The delay begins a little later by Redis' clock than by ours.
        early, life = 2 * early_of(interval), self._life_of(interval)
        try:
            while True:
                asked = monotonic()
                wait, *why = await self._ask(
                    name,
                    me,
                    "book",
                    interval,
                    life,
                    ms=round(early * 1e3),
                    is_known=is_known,
                )
                if why == [b"parked"]:
                    raise ParkedError(wait / 1e3)
                if why:
                    waits()
                    if why == [b"away"] and self._server.is_ending():
                        raise ParkedError(self._server.lease)
                    # Who holds it may be through with it before its lease is over.
                    most = inf if why == [b"paced"] else AWAY_SECONDS
                    await asyncio.sleep(min(wait / 1e3 - early, most))
                    continue
                self.held[name] = interval, me
                if self._renewing is None:
                    self._renewing = self._server.begin_task(self._renew())
                await asyncio.sleep(max(due - monotonic(), wait / 1e3))
                if monotonic() < asked + life:
                    return serial
                # We have slept for longer than it is held.
        except (asyncio.CancelledError, ParkedError):
            # Redis may have given it to us all the same.
            self.held[name] = interval, me
            self.say(self.over(name))
            raise

    async def over(self, name: str, booking: int = 0) -> None:
        interval, me = self.held.pop(name, (0.0, ""))
        # Redis knows for so long when that was: whose delay is the longest may ask.
        at, life = monotonic(), self._server.settings.crawl_delay_max + 1
        if me:
            ago = lambda: round((monotonic() - at) * 1e3)
            await self._ask(name, me, "over", interval, max(life, interval), ms=ago)

    async def park(self, host: str, seconds: float) -> None:
        await self._ask(host, "", "park", 0.0, seconds)

    def _spent_key(self, host: str) -> str:
        return f"{self._server.spider}:spent:{host}"

    async def give_back(self, host: str) -> None:
        """Count a request less, which does not start."""
        with suppress(AwayError):
            await self._server.at_host(host, "DECR", self._spent_key(host))

    async def spend(self, host: str, most: int) -> bool | None:
        """Count a request to *host*; ``False``: *most* requests have started already; ``None``: the
        crawl ends, and it was not counted.
        """
        name = self._spent_key(host)
        while not self._server.is_ending():
            with suppress(AwayError):
                number = await self._server.at_host(host, "INCR", name)
                await self._server.at_host(host, "PEXPIRE", name, SPENT_KEPT_MS)
                return int(number) <= most
            await asyncio.sleep(AWAY_SECONDS)
        return None

    def _life_of(self, interval: float) -> float:
        """Return for how long it is held: its delay, at least, after each renewal."""
        lease = self._server.lease
        return max(lease, interval + 2 * lease / RENEW_PART)

    async def _ask(
        self,
        name: str,
        me: str,
        what: str,
        delay: float,
        life: float,
        *,
        ms: Any = 0,
        is_known: bool = False,
    ) -> Any:
        host, server = self._host_of(name), self._server
        key = server.key_at(host, f"{self._kind}:{name}")
        spans = round(delay * 1e3), max(1, round(life * 1e3)), ms
        args = [me, what, *spans, int(is_known)]
        with suppress(AwayError):
            return await server.at_shard(server.shard_of(host), "turn", *args, key=key)
        return [AWAY_SECONDS * 1e3, b"away"]  # a lease ends by itself

    async def _renew(self) -> None:
        before: set[str] = set()
        while self.held:
            for name in before & self.held.keys():
                interval, me = self.held.get(name, (0.0, ""))
                await self._ask(name, me, "hold", interval, self._life_of(interval))
            before = set(self.held)
            await asyncio.sleep(self._server.lease / RENEW_PART)
        self._renewing = None


class FleetStore(Store):
    """Keeps each snapshot beside the requests of its host, for as long as it is of use.

    While the server of a host is away, nobody asks for its robots.txt.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        settings = server.settings
        self._expiry = round((settings.unreachable_max + settings.max_age + DAY) * 1e3)
        self._claims = FleetBookings(server, "asks", host_of_key)

    def fetched(self) -> set[str]:
        return set(map(host_of_key, self._claims.held))

    async def get(self, origin: str) -> Snapshot | None:
        try:
            row, ahead = await self._at(origin, "GET"), self._server.ahead
            return None if row is None else unpack(origin, row, ahead=ahead)
        except AwayError:
            return None
        except ValueError as error:
            await self._at(origin, "UNLINK")
            raise ValueError(f"what Redis had is damaged: {error}") from error

    async def put(self, origin: str, snapshot: Snapshot) -> None:
        packing = partial(pack, origin, snapshot, ahead=self._server.ahead)
        body = b"" if snapshot.answer is None else snapshot.answer.body
        is_large = len(body) > LARGE_OCTETS
        row = await asyncio.to_thread(packing) if is_large else packing()
        with suppress(AwayError):  # another worker may ask once more
            await self._at(origin, "SET", row, "PX", self._expiry)

    async def close(self) -> None:
        """The scheduler closes the connections."""

    @asynccontextmanager
    async def claim(self, origin: str) -> AsyncIterator[bool]:
        """See ``Store.claim``. A worker that dies meanwhile delays the others by a lease."""
        await self._claims.book(origin, waits=self._check_ending)
        try:
            yield True  # another worker may have asked between our last look and the claim
        finally:
            self._claims.say(self._claims.over(origin))

    def _check_ending(self) -> None:
        if self._server.is_ending():
            raise asyncio.CancelledError

    async def _at(self, origin: str, command: str, *args: Any) -> Any:
        host, name = host_of_key(origin), f"robots:{origin}"
        return await self._server.at_host(host, command, name, *args)


# What the next owner of a shard is told of hosts, so that their requests wait in the frontier and
# not for their booking.


def facts_of(shard: int, server: Server, keeper: Keeper) -> dict[str, Any]:
    """Return what is known of hosts of *shard* that must wait, or are not well, by its clock."""
    clock, now, found = _clock_of(server), monotonic(), dict[str, Any]()
    for host, record in keeper.hosts.by_name.items():
        if server.shard_of(host) != shard:
            continue
        is_parked, is_well = record.parked_left(now) > 0, record.health is WELL
        paced = keeper.pace_left(host, behind=False) > PACED_SECONDS
        if is_parked or paced or not is_well:
            found[host] = {
                "parked": record.parked_until + clock if is_parked else 0.0,
                "health": _shifted(record.health, clock),
                "last": record.last and record.last + clock,
            }
    return dict(islice(found.items(), MOST_FACTS))


def learn(facts: dict[str, Any], server: Server, keeper: Keeper) -> None:
    clock, now = _clock_of(server), monotonic()
    for host, fact in facts.items():
        record, health = keeper.hosts.of(host), Health(**fact["health"])
        if record.health is WELL and health.at:
            record.health = Health(**_shifted(health, -clock))
        if record.last is None and fact["last"]:
            record.last = min(now, fact["last"] - clock)
        if (left := fact["parked"] - clock - now) > 0:
            keeper.learn_parked(host, left)


def _clock_of(server: Server) -> float:
    """Return how far the wall clock of *server* is ahead of our monotonic one."""
    return time() - monotonic() + server.ahead


def _shifted(health: Health, seconds: float) -> dict[str, Any]:
    times = {name: getattr(health, name) for name in ("at", "resumes", "since")}
    later = {name: at + seconds for name, at in times.items() if at}
    return health._asdict() | later
