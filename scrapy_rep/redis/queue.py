"""The polite queue of a fleet: requests by host, hosts by time, all in Redis."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Any
from zlib import crc32

from scrapy import signals
from scrapy.exceptions import CloseSpider, DontCloseSpider
from scrapy.utils.asyncio import call_later
from scrapy_redis.queue import Base

from scrapy_rep.crawl import Crawl
from scrapy_rep.judging import Action, Ruling, leave_behind
from scrapy_rep.judging.ruling import PARKED, UNREACHABLE, VISIT_TIME
from scrapy_rep.log.waits import PACE
from scrapy_rep.policies.on_the_way import leave_the_way
from scrapy_rep.redis.backlog import LOST_REASON
from scrapy_rep.redis.bookings import RedisBookings
from scrapy_rep.redis.clients import AWAY_ERRORS, close
from scrapy_rep.redis.dupefilter import unseen
from scrapy_rep.redis.exchange import (
    LOOK_AGAIN_SECONDS,
    Exchange,
    Popped,
)
from scrapy_rep.redis.keys import ID_LENGTH, as_member
from scrapy_rep.redis.lines import key_of, line_name, slot_in
from scrapy_rep.redis.outbox import Handed, Pushed
from scrapy_rep.redis.servers import Servers
from scrapy_rep.redis.shards import Shards
from scrapy_rep.redis.waiting import FleetWaits

if TYPE_CHECKING:
    from scrapy import Request, Spider

    from scrapy_rep.policies import Policies

logger = logging.getLogger(__name__)

LEAD_PART, LEAD_MOST_SECONDS = 0.1, 0.1
"""The part of an interval, and at most the seconds, by which a host's next request is
handed out ahead of its time, so that it is at hand when that comes."""
CLEARED_PER_CALL = 1000
DRAINED_REASON = "drained"
"""The reason with which a crawl ends whose queue an operator has drained."""
ORDERED = {
    "": "The queue %(queue)s is not held back any more: the crawl goes on",
    "pause": "The queue %(queue)s is paused: nothing more is taken from it before it is"
    " resumed (scrapy robots fleet %(spider)s resume)",
    "drain": "The queue %(queue)s is being drained: the crawl finishes what it has begun, and"
    " ends; the rest stays there",
}
CANNOT_END = (
    "The queue %(queue)s is being drained, but without SCHEDULER_PERSIST a crawl that ends"
    " deletes it: nothing more is taken from it, and the crawl does not end"
)


class PoliteQueue(Base):  # type: ignore[misc]
    """For SCHEDULER_QUEUE_CLASS: hands out a request when its host may be asked.

    A request that was handed out stays in Redis under the worker's name until it is refused,
    or answered and all that followed is done. The requests of a dead worker go back to the
    queue when its lease, REP_REDIS_LEASE, has run out. So a request may be sent twice, but
    none is lost.

    *server*, *spider*, *key* and *serializer* are as for the queues of scrapy-redis.
    """

    def __init__(
        self, server: Any, spider: Spider, key: str, serializer: Any = None
    ) -> None:
        super().__init__(server, spider, key, serializer)
        crawler = spider.crawler
        self._crawler = crawler
        self._servers = Servers.of(crawler)
        self._crawl = crawl = Crawl.of(crawler)
        crawl.join_queue()
        self._policies: Policies | None = crawl.policies if crawl.is_judged else None
        self._engine = crawl.engine
        self._keeper = crawl.keeper
        if self._keeper.sharing is None:
            self._keeper.share(RedisBookings(crawler))
        self._keeper.turns.on_booked(self._note_start)
        self._keeper.on_parked(self._note_parked)
        self.shards = Shards(server, crawler, self.key)
        self._elsewhere = FleetWaits(self.shards.all)
        crawl.waits.elsewhere.append(self._elsewhere)
        self._serial = crc32(self._servers.me.encode()) << 32
        self._most_of_a_host = self._engine.most_of_a_slot
        self.exchange = Exchange(
            crawler,
            self.shards,
            wake=self._engine.wake,
            places=self._engine.free_places,
            places_left=self._places_left,
            most_of_a_host=self._most_of_a_host,
            done=self._done_with,
            pace_of=self._pace_of,
            ordered=self._obey,
        )
        self._order = ""
        self._idle_before_close = 0.0
        self._last_request_at = monotonic()
        self._pushed = 0
        self._spider_read_at = (0.0, 0)
        connect = crawler.signals.connect
        connect(self._spider_idle, signals.spider_idle)
        connect(self._spider_closed, signals.spider_closed)
        self.shards.begin()
        self._close_connections()

    def __len__(self) -> int:
        """Return how many requests wait or are with a worker; if Redis is away, an old figure."""
        return len(self.exchange)

    def push(self, request: Request) -> None:
        leave_behind(request, request.meta, self._engine)
        host = self._host_of(request)
        wait, why = self._wait_of(request)
        self._pushed += 1
        self._serial += 1
        self.exchange.push(
            Pushed(
                request,
                host,
                -request.priority,
                as_member(self._encode_request(request), self._serial),
                monotonic() + wait,
                why,
                unseen.pop(request, None),
            )
        )

    def pop(self, timeout: float = 0) -> Request | None:
        """Return a request whose host may be asked now; ``None``: there is none.

        Then the engine is woken when there may be one. *timeout* is
        SCHEDULER_IDLE_BEFORE_CLOSE: for how many seconds an idle spider stays open.
        """
        leave_the_way()
        self._idle_before_close = timeout
        self.exchange.settle()
        while self.exchange.hand:
            request = self._take(self.exchange.hand.popleft())
            if request is not None:
                return request
        self.exchange.ask()
        self._let_spider_read()
        if not self.exchange.handed_out and not self.exchange.is_asking:
            self._elsewhere.look()
        return None

    def clear(self) -> None:
        """Delete all requests that wait, for all workers, and scrapy-redis' own queue, if any."""
        self.shards.clear(CLEARED_PER_CALL)
        self.exchange.forget()
        self._close_connections()

    def _close_connections(self) -> None:
        """Close the connections that only the start and ``clear`` need."""
        self.shards.quick.close()
        close(self.server)

    # What this worker has

    def _take(self, popped: Popped) -> Request | None:
        handed = Handed(popped.member[:ID_LENGTH], popped.host, "", popped.holds)
        try:
            request: Request = self._decode_request(popped.member[ID_LENGTH:])
        except Exception:
            # The spider's code has changed. It is off the queue, and no other is lost.
            logger.exception("A request for %s cannot be read", handed.host)
            self._crawl.log.count("unreadable")
            self.exchange.handed_out[object()] = handed  # nothing that is in progress
            return None
        slot = self._engine.slot_of(request)
        self.exchange.handed_out[request] = handed._replace(slot=slot)
        self._last_request_at = monotonic()
        self._engine.handed_out.add(slot, slot_in(handed.host), request)
        return request

    def _done_with(self) -> dict[object, Handed]:
        """Return the handed-out requests that the engine has finished with."""
        in_progress = self._engine.in_progress()
        if in_progress is None:
            return {}
        return {
            request: handed
            for request, handed in self.exchange.handed_out.items()
            if request not in in_progress
        }

    def _places_left(self) -> dict[str, int]:
        """Return how many more requests this worker can take of each host that it has any of."""
        left: dict[str, int] = {}
        for handed in self.exchange.handed_out.values():
            most = left.get(handed.host, self._most_of_a_host)
            free = self._keeper.has_place(handed.slot, slot_in(handed.host))
            left[handed.host] = max(1, most - 1) if free and most else 0
        for popped in self.exchange.hand:
            most = left.get(popped.host, self._most_of_a_host)
            left[popped.host] = max(0, most - 1)
        return left

    def _note_start(self, request: Request, host: str, interval: float) -> None:
        """Note that a request has started: Redis may hand out the next one of its host."""
        handed = self.exchange.handed_out.get(request)
        if handed is None or (not handed.holds and not interval):
            return
        self.exchange.handed_out[request] = handed._replace(holds=False)
        lead = min(LEAD_PART * interval, LEAD_MOST_SECONDS)
        self.exchange.tell(handed.host, _pace(interval), interval - lead)

    def _note_parked(self, host: str, seconds: float) -> None:
        """Note that a host is parked: other workers must not get its requests either."""
        self.exchange.tell(host, PARKED, seconds)

    def _pace_of(self, handed: Handed) -> str:
        host = slot_in(handed.host)
        return _pace(self._keeper.shared_interval(host, handed.slot))

    def _host_of(self, request: Request) -> str:
        """Return the host of *request*, or the line of that host in which it waits.

        If something makes *request* wait, but not the other agents or origins of its host,
        it waits in a line of its own.
        """
        host = self._keeper.host_of(request)
        ruling = self._ruling_on(request)
        if ruling is None or ruling.action is not Action.WAIT:
            return host
        return line_name(host, key_of(request, self._crawl.agents, host))

    def _wait_of(self, request: Request) -> tuple[float, str]:
        """Return the seconds for which *request* and the others in its line wait, and why.

        We know that if its host is parked, as for a retry, and if the request comes back, as
        it was handed out too early.
        """
        host = self._keeper.host_of(request)
        parked = self._keeper.parked_wait(host)
        ruling = None if parked else self._ruling_on(request)
        if ruling is None:
            return parked, PARKED
        if ruling.action is Action.WAIT:
            visits = (
                ruling.objection is not None and ruling.objection.cause == VISIT_TIME
            )
            return ruling.seconds, VISIT_TIME if visits else UNREACHABLE
        return self._keeper.due_in(host) if ruling.interval else 0.0, PACE

    def _ruling_on(self, request: Request) -> Ruling | None:
        """Return the ruling on *request* if it was sent back to wait; ``None``: it was not."""
        sent_back = request in self._engine.handed_out.sent_back
        if not sent_back or self._policies is None:
            return None
        origin, agent, *_ = key_of(request, self._crawl.agents, "")
        if origin is None:
            return None
        known = self._policies.peek(origin, lambda: request)
        if known is None:  # its robots.txt may just be asked for again
            is_away = self._policies.is_away(origin, lambda: request)
            return Ruling(Action.WAIT, seconds=LOOK_AGAIN_SECONDS) if is_away else None
        return self._crawl.judge.rule_line(known, agent, self._policies.now())

    # The engine

    def _obey(self, order: str) -> None:
        """Do as an operator says: "pause", "drain", or go on ("")."""
        if order == self._order:
            return
        self._order = order
        how = ORDERED[order]
        # It would delete what waits, of all workers.
        may_end = self._crawler.settings.getbool("SCHEDULER_PERSIST")
        if order == "drain" and not may_end:
            how = CANNOT_END
        values = {"queue": self.key, "spider": self.spider.name}
        logger.log(
            logging.WARNING if order else logging.INFO,
            how,
            values,
            extra={"spider": self.spider},
        )
        if order == "drain" and may_end and not self._engine.is_ending():
            self._engine.close(DRAINED_REASON)

    def _let_spider_read(self) -> None:
        """Let a ``RedisSpider`` read more start URLs, as it otherwise does when idle.

        While hosts wait for their time it may not become idle for hours.
        """
        read = getattr(self.spider, "schedule_next_requests", None)
        last_at, pushed = self._spider_read_at
        if read is None or self._order:
            return
        if pushed == self._pushed and monotonic() < last_at + LOOK_AGAIN_SECONDS:
            return
        self._spider_read_at = monotonic(), self._pushed
        call_later(0, self._read, read)

    def _read(self, read: Any) -> None:
        if self._engine.is_ending():
            return  # what it reads could not be queued any more
        try:
            read()
        except AWAY_ERRORS as error:
            self._servers.first.note_lost(error)

    def _spider_idle(self) -> None:
        idle_for = monotonic() - self._last_request_at
        if self._idle_before_close and idle_for < self._idle_before_close:
            raise DontCloseSpider
        if self.shards.has_lost:
            raise CloseSpider(LOST_REASON)

    async def _spider_closed(self) -> None:
        await self.exchange.leave()


def _pace(interval: float) -> str:
    return "paced" if interval else "free"
