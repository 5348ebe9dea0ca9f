"""The polite queue of a fleet: requests by host, hosts by time, all in Redis."""

from __future__ import annotations

import logging
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from scrapy import signals
from scrapy.exceptions import DontCloseSpider
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro
from scrapy_redis.queue import Base

from scrapy_rep.crawl import Crawl
from scrapy_rep.downloader import Alarm
from scrapy_rep.judging import Action, Ruling, leave_behind
from scrapy_rep.queue import key_of, line_name, slot_in
from scrapy_rep.redis.bookings import RedisBookings
from scrapy_rep.redis.clients import AWAY, close, impatient, script
from scrapy_rep.redis.dupefilter import unseen
from scrapy_rep.redis.fleet import Link, RedisAwayError
from scrapy_rep.redis.keys import COUNT, ID_LENGTH, as_member, queue_keys

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.utils.asyncio import CallLaterResult

    from scrapy_rep.policies import Policies

logger = logging.getLogger(__name__)

LOOK_AGAIN = 1.0
"""Seconds after which an idle worker looks for what others have queued."""
LEAD_PART, LEAD_MOST = 0.1, 0.1
"""The part of an interval, and at most the seconds, by which a host's next request is
handed out ahead of its time, so that it is at hand when that comes."""
CLEARED_AT_A_TIME = 1000


class HandedOut(NamedTuple):
    """A request that this worker has been handed."""

    id: bytes
    host: str
    """Or a line of it."""
    slot: str
    """Its download slot here."""
    holds: bool
    """The others are not handed any of this host until we tell when ours has started."""


class PoliteQueue(Base):  # type: ignore[misc]
    """For SCHEDULER_QUEUE_CLASS: hands out a request when its host may be asked.

    What was handed out stays in Redis under the worker's name until it was answered,
    with all that came of it, or refused; what a dead worker had goes back to the queue
    when its lease, REP_REDIS_LEASE, has run out. So a request may be sent twice, but
    none is lost.

    *server*, *spider*, *key* and *serializer* are as for the queues of scrapy-redis.
    """

    def __init__(
        self, server: Any, spider: Spider, key: str, serializer: Any = None
    ) -> None:
        super().__init__(server, spider, key, serializer)
        crawler = spider.crawler
        self._crawler = crawler
        self._link = Link.of(crawler)
        self._lease = self._link.settings.redis_lease
        self._crawl = crawl = Crawl.of(crawler)
        crawl.join_queue()
        self._policies: Policies | None = crawl.policies if crawl.is_judged else None
        self._downloader = crawl.downloader
        self._keeper = crawl.keeper
        if not self._keeper.is_shared:
            self._keeper.share(RedisBookings(crawler))
        self._keeper.on_booked(self._started)
        self._keeper.back_off.on_parked(self._parked)
        self._quick = impatient(server)
        self._prefix, self._keys = queue_keys(self.key)
        register = self._quick.register_script
        self._push, self._pop, self._beat, self._leave, self._clear = (
            register(script(name, after="common"))
            for name in ("push", "pop", "beat", "leave", "clear")
        )
        self._tell = self._link.client.register_script(script("tell", after="common"))
        self._serial = crc32(self._link.me.encode()) << 32
        self._handed_out: dict[object, HandedOut] = {}  # by request
        self._outbox: list[tuple[list[str], list[Any]]] = []
        self._idle_before_close = 0.0
        self._last_request_at = monotonic()
        self._alarm = Alarm(self._downloader.wake)
        self._beating: CallLaterResult | None = None
        self._known_length = 1
        """Not 0: a worker that cannot look must not take its crawl for finished."""
        self._pushed = 0
        self._spider_read_at = (0.0, 0)
        connect = crawler.signals.connect
        connect(self._spider_idle, signals.spider_idle)
        connect(self._spider_closed, signals.spider_closed)
        connect(self._engine_stopped, signals.engine_stopped)
        self._show_up()

    def __len__(self) -> int:
        """Return how many requests wait, or are with a worker; an old figure if need be."""
        count = self._try(lambda: self._quick.get(self._keys[COUNT]))
        if count is not None or self._link.up:
            self._known_length = int(count or 0)
        return self._known_length + len(self._outbox)

    def push(self, request: Request) -> None:
        leave_behind(request, self._downloader)
        host = self._host_of(request)
        self._pushed += 1
        self._serial += 1
        args = [
            self._prefix,
            host,
            -request.priority,
            as_member(self._encode_request(request), self._serial),
            round(self._wait_of(request) * 1e6),
        ]
        keys = list(self._keys)
        if seen := unseen.pop(request, None):
            keys.append(seen.key)
            args.append(seen.fingerprint)
        self._outbox.append((keys, args))
        self._send_outbox()

    def pop(self, timeout: float = 0) -> Request | None:
        """Return a request whose host may be asked now; ``None``: there is none.

        In that case the engine is woken when there may be one. *timeout*,
        SCHEDULER_IDLE_BEFORE_CLOSE, is for how many seconds an idle spider stays open.
        """
        self._idle_before_close = timeout
        while (answer := self._next()) is not None:
            if len(answer) == 1:
                self._alarm.set(min(answer[0] / 1e6, LOOK_AGAIN))
                self._let_spider_read()
                return None
            request = self._take(*answer)
            if request is not None:
                return request
        self._alarm.set(LOOK_AGAIN)
        return None

    def _next(self) -> Any:
        """Return what the script answers; ``None`` where Redis is away."""
        if not self._send_outbox():
            return None
        # Only now: what came of those that are done with is safe in Redis.
        done = self._done_with()
        ids = [gone.id for gone in done.values()]
        full = self._full_hosts()
        hold = round(self._lease * 1e6)
        args = [self._prefix, self._link.me, hold, len(full), *full, *ids]
        answer = self._try(lambda: self._pop(self._keys, args))
        if answer is not None:
            for request, gone in done.items():
                del self._handed_out[request]
                if gone.holds:
                    self._release(gone.host, gone.slot)
        return answer

    def clear(self) -> None:
        """Delete all that waits, for all workers; and scrapy-redis' own queue, if any."""
        super().clear()
        while self._try(
            lambda: self._clear(self._keys, [self._prefix, CLEARED_AT_A_TIME])
        ):
            pass
        self._outbox.clear()

    # What this worker has

    def _take(self, member: bytes, host: bytes, pace: bytes) -> Request | None:
        handed = HandedOut(
            member[:ID_LENGTH], host.decode(errors="replace"), "", pace != b"free"
        )
        try:
            request: Request = self._decode_request(member[ID_LENGTH:])
        except Exception:
            # The spider's code has changed. It is off the queue, and no other is lost.
            logger.exception("A request for %s cannot be read", handed.host)
            assert self._crawler.stats is not None
            self._crawler.stats.inc_value("rep/unreadable")
            self._handed_out[object()] = handed  # nothing that is in progress
            return None
        slot = self._downloader.slot_of(request)
        self._handed_out[request] = handed._replace(slot=slot)
        self._last_request_at = monotonic()
        self._downloader.handed_out.add(slot, slot_in(handed.host), request)
        return request

    def _done_with(self) -> dict[object, HandedOut]:
        """Return what was handed out, and is answered with all that came of it."""
        in_progress = self._downloader.in_progress()
        if in_progress is None:
            return {}
        return {
            request: handed
            for request, handed in self._handed_out.items()
            if request not in in_progress
        }

    def _full_hosts(self) -> list[str]:
        """Return the hosts for which this worker has no free place."""
        hosts = {(handed.host, handed.slot) for handed in self._handed_out.values()}
        return [
            host
            for host, slot in hosts
            if not self._keeper.has_place(slot, slot_in(host))
        ]

    def _started(self, request: Request, host: str, interval: float) -> None:
        """A request is handed to its handler; Redis may hand out the host's next one."""
        handed = self._handed_out.get(request)
        if handed is None or (not handed.holds and not interval):
            return
        self._handed_out[request] = handed._replace(holds=False)
        lead = min(LEAD_PART * interval, LEAD_MOST)
        self._say(handed.host, _pace(interval), interval - lead)

    def _parked(self, host: str, seconds: float) -> None:
        """A site wants to be left alone; the others are not handed any of this host."""
        self._say(host, "parked", seconds)

    def _release(self, host: str, slot: str) -> None:
        """It was refused, or goes back: its host has not been asked."""
        interval = self._keeper.shared_interval(slot_in(host), slot)
        self._say(host, _pace(interval), 0.0)

    def _say(self, host: str, pace: str, wait: float) -> None:
        args = [self._prefix, host, pace, round(wait * 1e6)]
        if wait:
            self._alarm.set(wait)

        async def say() -> None:
            with suppress(RedisAwayError):  # else the host is held until that is over
                await self._link.call(self._tell, self._keys, args)

        deferred_from_coro(say())

    def _host_of(self, request: Request) -> str:
        """Return the host in whose line *request* waits.

        What makes it wait by itself, and no other agent or origin of its host, has a line
        of its own.
        """
        host = self._keeper.host_of(request)
        ruling = self._ruling_on(request)
        if ruling is None or ruling.action is not Action.WAIT:
            return host
        return line_name(host, key_of(request, self._crawl.agents, host))

    def _wait_of(self, request: Request) -> float:
        """Return the seconds for which *request*, and its host's others, are to wait.

        That is known of one whose host is parked, such as a retry, and of one that was
        handed out too early, and comes back.
        """
        host = self._keeper.host_of(request)
        parked = self._keeper.back_off.left(host)
        ruling = None if parked else self._ruling_on(request)
        if ruling is None:
            return parked
        if ruling.action is Action.WAIT:
            return ruling.seconds
        return self._keeper.due_in(host) if ruling.interval else 0.0

    def _ruling_on(self, request: Request) -> Ruling | None:
        """Return what holds *request*, which comes back; ``None``: it does not."""
        sent_back = request in self._downloader.handed_out.sent_back
        if not sent_back or self._policies is None:
            return None
        origin, agent, *_ = key_of(request, self._crawl.agents, "")
        if origin is None:
            return None
        known = self._policies.peek(origin, lambda: request)
        if known is None:  # it may be asked again just now
            is_away = self._policies.is_away(origin, lambda: request)
            return Ruling(Action.WAIT, seconds=LOOK_AGAIN) if is_away else None
        return self._crawl.judge.rule_line(known, agent, self._policies.now())

    # Redis

    def _try(self, call: Any) -> Any:
        """Return what *call* does; ``None`` where Redis is away."""
        if not self._link.up:
            return None
        try:
            return call()
        except AWAY as error:
            self._link.lost(error)
            return None

    def _send_outbox(self) -> bool:
        """Tell whether all that was pushed is in Redis."""
        while self._outbox:
            keys, args = self._outbox[0]
            if (new := self._try(lambda: self._push(keys, args))) is None:  # noqa: B023
                return False
            del self._outbox[0]
            if not new:
                assert self._crawler.stats is not None
                self._crawler.stats.inc_value("dupefilter/filtered")
        return True

    def _show_up(self) -> None:
        """Tell the others that we are alive, and what of theirs is not."""
        self._beating = None
        mine = [handed.id for handed in self._handed_out.values()]
        held = {handed.host for handed in self._handed_out.values() if handed.holds}
        lease = round(self._lease * 1e6)
        args = [self._prefix, self._link.me, lease, lease, len(mine), *mine, *held]
        back = self._try(lambda: self._beat(self._keys, args))
        if back:
            assert self._crawler.stats is not None
            self._crawler.stats.inc_value("rep/redis/taken_back", back)
            self._downloader.wake()
        self._beating = call_later(self._lease / 3, self._show_up)

    # The engine

    def _let_spider_read(self) -> None:
        """Have a ``RedisSpider`` read more start URLs, where it would when idle.

        With hosts that wait for their time it may not be idle for hours.
        """
        read = getattr(self.spider, "schedule_next_requests", None)
        last_at, pushed = self._spider_read_at
        if read is None or (
            pushed == self._pushed and monotonic() < last_at + LOOK_AGAIN
        ):
            return
        self._spider_read_at = monotonic(), self._pushed
        call_later(0, self._read, read)

    def _read(self, read: Any) -> None:
        if self._downloader.ends():
            return  # what it reads could not be queued any more
        try:
            read()
        except AWAY as error:
            self._link.lost(error)

    def _spider_idle(self) -> None:
        idle_for = monotonic() - self._last_request_at
        if self._idle_before_close and idle_for < self._idle_before_close:
            raise DontCloseSpider

    def _spider_closed(self) -> None:
        self._alarm.cancel()
        if self._beating is not None:
            self._beating.cancel()
        if self._send_outbox():
            done = [gone.id for gone in self._done_with().values()]
            self._try(
                lambda: self._leave(self._keys, [self._prefix, self._link.me, *done])
            )
        # Else the others have it all again when our lease is over.

    def _engine_stopped(self) -> None:
        close(self._quick)
        close(self.server)


def _pace(interval: float) -> str:
    return "paced" if interval else "free"
