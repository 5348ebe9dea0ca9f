"""The polite queue: a request waits here, where waiting costs the others nothing."""

from __future__ import annotations

import logging
from collections import deque
from contextlib import suppress
from functools import partial
from heapq import heapify, heappop, heappush
from pathlib import Path
from shutil import rmtree
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.pqueues import DownloaderAwarePriorityQueue
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro

from scrapy_rep.access.origins import robots_url
from scrapy_rep.crawl import Crawl
from scrapy_rep.judging import Action, judged, leave_behind
from scrapy_rep.judging.ruling import UNREACHABLE, VISIT_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy.pqueues import QueueProtocol, ScrapyPriorityQueue
    from scrapy.utils.asyncio import CallLaterResult

    from scrapy_rep.policies.service import Policies

logger = logging.getLogger(__name__)

WHY = {
    UNREACHABLE: "robots.txt of {origin} is unreachable",
    VISIT_TIME: "robots.txt of {origin} wants visits at another time",
}
"""Why the requests of an origin wait, by the cause, in words."""
BEHIND = 10**12
"""What the priority of a request is lowered by, in the queue, once the HTTP cache has turned
out not to have it: so others come first, which need not wait for its robots.txt."""
RECHECKED = 2
"""How many slots without a free place are looked at again at each pop."""


class Waiting:
    """The requests that wait for one download slot; in exactly one place at a time.

    ``due``: it may be asked as far as we know. ``later``: not before a time. ``unknown``:
    an origin's policy is not known, and nobody has asked yet. ``asked``: somebody has.
    ``full``: the slot has no free place.
    """

    __slots__ = ("ask_ahead", "count", "due_at", "name", "origins", "queue", "why")

    def __init__(self, name: str, queue: ScrapyPriorityQueue) -> None:
        self.name = name
        self.queue = queue
        self.count = 0
        self.origins: dict[str, int] = {}  # of the requests pushed in this run
        self.due_at = 0.0  # when it was to leave ``later``; 0: it was not there
        self.why = ""  # it waits, in words
        self.ask_ahead = True  # False: somebody did, for the next request

    @property
    def is_looked_up(self) -> bool:
        """Whether the HTTP cache has none of the requests, as far as is known."""
        kinds = self.queue.queues, self.queue._start_queues
        return all(_is_behind(-key) for kind in kinds for key, q in kind.items() if q)


class PoliteQueue(DownloaderAwarePriorityQueue):
    """For SCHEDULER_PRIORITY_QUEUE: hands out a request only when it may be sent.

    That is when the policies of its slot's waiting origins are known, their pace allows
    it, and the slot has a free place. Slots that are due take turns; within a slot
    Scrapy's own queues decide, so that priorities, disk queues and JOBDIR work as they
    do with ``DownloaderAwarePriorityQueue``, whose job directories it shares. ``push``
    and ``pop`` take O(log slots), ``len`` O(1). Without ``RepMiddleware`` it is a fair
    queue that knows the user's delays only.
    """

    def __init__(
        self,
        crawler: Any,
        downstream_queue_cls: type[QueueProtocol],
        key: str,
        slot_startprios: dict[str, Iterable[int]] | None = None,
        *,
        start_queue_cls: type[QueueProtocol] | None = None,
    ) -> None:
        super().__init__(
            crawler,
            downstream_queue_cls,
            key,
            slot_startprios,
            start_queue_cls=start_queue_cls,
        )
        self._crawl = crawl = Crawl.of(crawler)
        crawl.join_queue()
        self._policies: Policies | None = crawl.policies if crawl.is_judged else None
        self._has_cache = crawl.is_judged and crawl.http_cache is not None
        self._downloader = crawl.downloader
        self._keeper = crawl.keeper
        self._most_asked = 2 * (crawler.settings.getint("CONCURRENT_REQUESTS") or 16)
        self._count = 0
        self._slots: dict[str, Waiting] = {}
        self._due: deque[Waiting] = deque()
        self._later: list[tuple[float, int, Waiting]] = []  # a heap; by time
        self._unknown: deque[Waiting] = deque()
        self._asked: set[Waiting] = set()
        self._full: deque[Waiting] = deque()
        self._serial = 0  # breaks ties in the heap
        self._alarm: CallLaterResult | None = None
        self._alarm_at = 0.0
        for name, queue in list(self.pqueues.items()):
            if len(queue):
                self._count += len(queue)
                self._add(name, queue).count = len(queue)
            else:  # a job directory may name slots where nothing waits
                self._discard(name)

    def __len__(self) -> int:
        return self._count

    def push(self, request: Request) -> None:
        leave_behind(request, self._downloader)
        name = self._downloader.slot_of(request)
        slot = self._slots.get(name)
        origin = _origin_of(request)
        if request in self._downloader.handed_out.sent_back:
            self._put_behind(request, origin)
        was_looked_up = self._has_cache and slot is not None and slot.is_looked_up
        if slot is None:
            queue = self.pqueues[name] = self.pqfactory(name)
            if self.key:
                # Left by a run that was killed, and in no state. The disk queues would
                # take it for what is pushed now, and lose as many of these.
                rmtree(queue.key, ignore_errors=True)
            try:
                queue.push(request)
            except BaseException:  # it cannot be serialized, or the disk is full
                self._discard(name)
                raise
            slot = self._add(name, queue)
        else:
            slot.queue.push(request)
        slot.count += 1
        self._count += 1
        if origin is not None:
            slot.origins[origin] = slot.origins.get(origin, 0) + 1
        if was_looked_up and not slot.is_looked_up:
            self._bring_back(slot)

    def pop(self) -> Request | None:
        """Return a request that may be sent now; ``None``: there is none.

        In that case the engine is woken when there may be one.
        """
        if self._later:
            self._bring_due()
        if self._unknown:
            self._look_ahead()
        if self._full:
            self._recheck_full(RECHECKED)
        request = self._pop_due()
        if request is None and self._full:
            self._recheck_full(len(self._full))
            request = self._pop_due()
        if request is None:
            self._look_ahead()
            self._set_alarm()
        return request

    def peek(self) -> Request | None:
        """Return a request that waits, one of a slot that is due where there is one.

        Raises ``NotImplementedError`` where the queues inside have no ``peek``.
        """
        slot = self._due[0] if self._due else next(iter(self._slots.values()), None)
        return None if slot is None else _peek(slot.queue)

    def close(self) -> dict[str, list[int]]:
        if self._alarm is not None:
            self._alarm.cancel()
        self._slots.clear()
        self._due.clear()
        self._later.clear()
        self._unknown.clear()
        self._asked.clear()
        self._full.clear()
        self._count = 0
        return super().close()

    # Where a slot goes

    def _add(self, name: str, queue: ScrapyPriorityQueue) -> Waiting:
        slot = self._slots[name] = Waiting(name, queue)
        self._due.append(slot)
        return slot

    def _discard(self, name: str) -> None:
        """Forget the queues of a slot where nothing waits, and their files."""
        queue = self.pqueues.pop(name)
        queue.close()
        if self.key:
            with suppress(OSError):  # it is not empty: the queues left a file
                Path(queue.key).rmdir()

    def _pop_due(self) -> Request | None:
        while self._due:
            slot = self._due.popleft()
            if self._keeper.has_place(slot.name):
                wait = self._wait_of(slot)
                if wait is None:
                    self._unknown.append(slot)
                elif wait:
                    self._park(slot, wait)
                elif (request := self._take_from(slot)) is not None:
                    return request
            else:
                self._full.append(slot)
        return None

    def _take_from(self, slot: Waiting) -> Request | None:
        request: Request | None = None
        try:
            request = slot.queue.pop()
        except Exception:
            # The spider's code has changed, or the file is damaged. It is off the queue;
            # what waits behind it is not lost.
            logger.exception("A request of download slot %s cannot be read", slot.name)
            self.crawler.stats.inc_value("rep/unreadable")
        slot.count -= 1
        self._count -= 1
        if slot.count:
            self._due.append(slot)
        else:
            del self._slots[slot.name]
            self._discard(slot.name)
        if slot.due_at:
            self._crawl.report.handed_out_late(monotonic() - slot.due_at)
        slot.due_at = 0.0
        if request is not None:
            if _is_behind(request.priority):
                request.priority += BEHIND
            if slot.count:  # else it was forgotten just now
                origin = _origin_of(request)
                _forget_one(slot.origins, origin)
                if not slot.ask_ahead:
                    # Else the middleware asks.
                    slot.ask_ahead = self._is_known(origin, request)
            self._downloader.handed_out.add(slot.name, request)
        return request

    def _wait_of(self, slot: Waiting) -> float | None:
        """Return the seconds until *slot* may be asked; ``None``: a policy is unknown."""
        paused = self._keeper.back_off.left(slot.name)
        if paused:  # not asked for its robots.txt either
            slot.why = "its site wants to be left alone (Retry-After)"
            return paused
        if self._policies is not None:
            now = self._policies.now()
            for origin in self._origins_of(slot):
                page = partial(self._next_of, slot)
                is_away = self._is_away(origin, page)
                if is_away and not slot.is_looked_up:
                    continue  # the gate looks whether the HTTP cache has the next one
                known = self._policies.peek(origin, page)
                if known is None:
                    if slot.ask_ahead or is_away:
                        return None
                    continue
                agent = self._crawl.agents.default()
                ruling = self._crawl.judge.rule_line(known, agent, now)
                if ruling.action is Action.WAIT:
                    assert ruling.objection is not None
                    slot.why = WHY[ruling.objection.cause].format(origin=origin)
                    # Again, when that time has come.
                    slot.ask_ahead = slot.ask_ahead or known.patient
                    return ruling.seconds
                self._keeper.keep(slot.name, origin, ruling.interval)
        slot.why = "its delay has not passed yet"
        return self._keeper.paced_for(slot.name)  # it is not parked

    def _is_known(self, origin: str | None, request: Request | None) -> bool:
        if origin is None or self._policies is None:
            return True
        return self._policies.peek(origin, lambda: request) is not None

    def _put_behind(self, request: Request, origin: str | None) -> None:
        """Have others come before *request* if the HTTP cache does not have it."""
        if not _is_behind(request.priority) and self._is_away(origin, lambda: request):
            request.priority -= BEHIND

    def _is_away(self, origin: str | None, page: Callable[[], Request | None]) -> bool:
        """Tell whether the robots.txt of *origin* cannot be had, but pages perhaps can."""
        if origin is None or self._policies is None or not self._has_cache:
            return False
        return self._policies.is_away(origin, page)

    def _origins_of(self, slot: Waiting) -> Iterable[str]:
        """Return the origins that the next request of *slot* may have."""
        if len(slot.origins) != 1:
            # One that is away must not keep the others of its slot; and of what is out of
            # a job directory, only the next request tells its origin.
            request = self._next_of(slot)
            if request is not None:
                origin = _origin_of(request)
                return () if origin is None else (origin,)
        return slot.origins

    def _next_of(self, slot: Waiting) -> Request | None:
        # They cannot tell, or it cannot be read; ``pop`` will say what is wrong with it.
        with suppress(Exception):
            return _peek(slot.queue)
        return None

    def _park(self, slot: Waiting, wait: float) -> None:
        slot.due_at = monotonic() + wait
        self._serial += 1
        heappush(self._later, (slot.due_at, self._serial, slot))
        self._crawl.report.parked(slot.name, wait, slot.why)

    def _bring_back(self, slot: Waiting) -> None:
        """Make *slot* due, wherever it waits for its robots.txt."""
        if slot in self._asked:
            self._asked.remove(slot)
        elif slot in self._unknown:
            self._unknown.remove(slot)
        else:
            later = [entry for entry in self._later if entry[2] is not slot]
            if len(later) == len(self._later):
                return  # it is due, or full
            heapify(later)
            self._later = later
            slot.due_at = 0.0
        self._due.append(slot)

    def _bring_due(self) -> None:
        now = monotonic()
        while self._later and self._later[0][0] <= now:
            self._due.append(heappop(self._later)[2])

    def _recheck_full(self, most: int) -> None:
        for _ in range(min(most, len(self._full))):
            slot = self._full.popleft()
            where = self._due if self._keeper.has_place(slot.name) else self._full
            where.append(slot)

    # Asking ahead of need

    def _look_ahead(self) -> None:
        if self._policies is None or not self._unknown:
            return
        most = self._most_asked + self._policies.slow_fetches
        while self._unknown and len(self._asked) < most:
            slot = self._unknown.popleft()
            page = partial(self._next_of, slot)
            origins = self._origins_of(slot)
            unknown = (o for o in origins if self._policies.peek(o, page) is None)
            origin = next(unknown, None)
            if origin is None:  # known by now
                self._due.append(slot)
                continue
            self._asked.add(slot)
            asking = deferred_from_coro(
                self._policies.get(origin, page() or Request(robots_url(origin)))
            )
            asking.addBoth(self._answered(slot))

    def _answered(self, slot: Waiting) -> Callable[[object], None]:
        def answered(_: object) -> None:
            if slot in self._asked:  # else the queue was closed
                # Where the answer is not to be kept, or is forgotten before the slot is
                # due, asking again would send robots.txt requests and nothing else.
                slot.ask_ahead = False
                self._asked.remove(slot)
                self._due.append(slot)
                self._downloader.wake()

        return answered

    # Waking the engine

    def _set_alarm(self) -> None:
        if not self._later:
            return
        at = self._later[0][0]
        if self._alarm is not None:
            if self._alarm_at <= at:
                return
            self._alarm.cancel()
        self._alarm_at = at
        self._alarm = call_later(max(0.0, at - monotonic()), self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._downloader.wake()


def _peek(queue: ScrapyPriorityQueue) -> Request | None:
    """Return what ``queue.pop()`` would; Scrapy's own ``peek`` has another order."""
    kinds = queue.queues, queue._start_queues
    first = min(priority for kind in kinds for priority, q in kind.items() if q)
    request: Request | None = next(
        kind[first] for kind in kinds if kind.get(first)
    ).peek()  # type: ignore[attr-defined]
    return request


def _origin_of(request: Request | None) -> str | None:
    if request is None:
        return None
    try:
        found = judged(request)
    except ValueError:  # the middleware will say what is wrong
        return None
    return None if found is None else found[1]


def _is_behind(priority: int) -> bool:
    return priority < -BEHIND // 2


def _forget_one(origins: dict[str, int], origin: str | None) -> None:
    if origin is None or origin not in origins:
        return
    if origins[origin] == 1:
        del origins[origin]
    else:
        origins[origin] -= 1
