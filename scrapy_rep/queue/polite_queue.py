"""The polite queue: a request waits here, where that costs other requests nothing."""

from __future__ import annotations

import logging
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy_rep.downloader import Alarm
from scrapy_rep.judging import leave_behind
from scrapy_rep.log import Held
from scrapy_rep.log.waits import ASKED, DISK, PACE, TURN
from scrapy_rep.policies.on_the_way import leave_the_way
from scrapy_rep.queue.holds import Holds
from scrapy_rep.queue.inner_queues import drop_empty, drop_unreadable, look, next_of
from scrapy_rep.queue.lines import UNJUDGED, Line, key_of, line_name
from scrapy_rep.queue.slot_queues import SlotQueues
from scrapy_rep.queue.slots import DUE, LATER, Slots, Where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.pqueues import ScrapyPriorityQueue

    from scrapy_rep.policies import Policies
    from scrapy_rep.queue.lines import Key
    from scrapy_rep.queue.slots import Slot

logger = logging.getLogger(__name__)

DISK_RETRY_SECONDS = 10.0
"""Seconds after which a disk queue that failed, but is not damaged, is tried again."""
FULL_RECHECK_SECONDS = 0.1
"""Seconds after which a slot is looked at again, if one of its hosts waits for a free place and
another one for its time."""
FULL_RECHECKS_PER_POP = 2
"""How many slots without a free place are looked at again at each pop."""


class PoliteQueue(SlotQueues):
    """For SCHEDULER_PRIORITY_QUEUE: hands out a request only when it may be sent.

    It may be sent when the policy of its origin is known, the pace that the policy asks of
    the request's agent allows it, and its slot has a free place. Slots that are due take
    turns; within a slot, the most urgent request that may be sent goes first. Scrapy's own
    queues keep the requests, so priorities, disk queues and JOBDIR work as they do with
    ``DownloaderAwarePriorityQueue``, and a job may change from one to the other. ``push`` and
    ``pop`` take O(log slots), ``len`` O(1). Without ``RepMiddleware`` it is a fair queue that
    knows the user's delays only.
    """

    def __init__(self, crawler: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(crawler, *args, **kwargs)
        crawl = self._crawl
        crawl.join_queue()
        self._waits = crawl.waits
        self._waits.holders.append(self)
        self._policies: Policies | None = crawl.policies if crawl.is_judged else None
        self._holds = Holds(crawl)
        self._engine = crawl.engine
        self._keeper = crawl.keeper
        self._most_asked = 2 * (crawler.settings.getint("CONCURRENT_REQUESTS") or 16)
        self._count = 0
        self.slots = Slots()
        self._asked = 0  # policies that are asked for
        self._asks = 0  # those that ever were
        self._alarm = Alarm(crawl.engine.wake)
        crawl.engine.backout.queues.append(self)
        for name, queue in self.pqueues.items():
            self._adopt(name, queue)

    def __len__(self) -> int:
        return self._count

    def push(self, request: Request) -> None:
        leave_behind(request, request.meta, self._engine)
        name = self._engine.slot_of(request)
        slot = self.slots.get(name)
        key = self._key_of(request)
        if self._holds.has_cache and request in self._engine.handed_out.sent_back:
            key = (*key[:3], self._holds.is_away(key), key[4])
        line = slot.lines.get(key) or self._add_line(slot, key)
        try:
            line.queue.push(request)
        except BaseException:  # it cannot be serialized, or the disk is full
            drop_empty(line.queue)
            if not line.count:
                self._discard(slot, line)
            raise
        line.count += 1
        self._count += 1

    def pop(self) -> Request | None:
        """Return a request that may be sent now; ``None``: there is none.

        Then the engine is woken when there may be one.
        """
        leave_the_way()
        if self._job is not None and self._job.is_stuck:
            return None
        slots = self.slots
        if slots.later.heap:
            for slot in slots.later.take_due():
                slots.make_due(slot)
        if slots.unknown:
            self._look_ahead()
        if slots.full:
            self._recheck_full(FULL_RECHECKS_PER_POP)
        request = self._pop_due()
        if request is None and slots.full:
            self._recheck_full(len(slots.full))
            request = self._pop_due()
        if request is not None:
            self._waits.note_busy()
            return request
        self._look_ahead()
        self._rest()
        return None

    def _rest(self) -> None:
        """Have the engine woken when a request may be sent."""
        if self.slots.later.heap:
            self._alarm.set(self.slots.later.left())
        if self._count:
            self._waits.note_idle()

    def peek(self) -> Request | None:
        """Return a request that waits, of a slot that is due if there is one.

        Raises ``NotImplementedError`` if looking into the queues inside might lose a request.
        """
        slots = self.slots.due or self.slots.by_name.values()
        slot = next(iter(slots), None)
        if slot is None:
            return None
        return next_of(slot.by_urgency()[0].queue, self._safe_to_peek)

    # Whether the engine need ask (``Promising``)

    def promised(self) -> int:
        if self._policies is None:
            return 0
        lanes = self._policies.lanes
        # Those that take long have a place lent, and their requests are promised none.
        return self._asked - lanes.slow + lanes.prompt

    def has_none_due(self) -> bool:
        slots = self.slots
        if slots.due or slots.full or slots.later.left() <= 0:
            return False
        self._rest()
        return True

    def close(self) -> dict[str, list[int]]:
        self._alarm.cancel()
        self._engine.backout.queues.remove(self)
        self._waits.close(self, keeps=bool(self.key))
        self.slots.clear()
        self._count = 0
        return super().close()

    # What a person is told

    def held(self) -> Iterator[Held]:
        now = monotonic()
        # A copy: this may take several turns of the event loop.
        for slot in list(self.slots.by_name.values()):
            later = slot.due_at if slot.where is LATER else 0.0
            for line in list(slot.lines.values()):
                cause, until = line.held_by, line.held_until
                if cause != ASKED and until <= now:
                    cause, until = cause if later else TURN, later
                    if later:
                        cause = cause or PACE
                yield Held(line.host, cause, until or None, line.count)

    def requests_of(self, host: str, origin: str) -> int:
        return sum(
            line.count
            for slot in self.slots.by_name.values()
            for line in slot.lines.values()
            if line.host == host or (origin and line.key[0] == origin)
        )

    def next_due(self) -> float:
        slots = self.slots
        if slots.due or slots.full or slots.unknown:
            return 0.0
        soonest = slots.later.left()
        if self._asked:  # asking may wait for a parked host, too
            for slot in slots.by_name.values():
                if slot.where is Where.ASKED:
                    for line in slot.lines.values():
                        soonest = min(soonest, self._keeper.parked_left(line.host))
        return soonest

    # Slots and lines

    def names_of(self, request: Request) -> tuple[str, ...]:
        slot = self._crawl.engine.slot_of(request)
        return slot, line_name(slot, self._key_of(request))

    def _key_of(self, request: Request) -> Key:
        crawl = self._crawl
        return key_of(request, crawl.agents, crawl.keeper.host_of(request))

    def _add_line(self, slot: Slot, key: Key) -> Line:
        name = line_name(slot.name, key) if slot.name in self.pqueues else slot.name
        queue = self.pqueues[name] = self.pqfactory(name)
        return self._file(slot, Line(name, key, queue, mixed=len(queue) > 0))

    def _adopt(self, name: str, queue: ScrapyPriorityQueue) -> None:
        """Take over a queue of an earlier run; its next request tells its slot and key."""
        request = look(queue, self._safe_to_peek)
        if request is None:
            slot_name, key = name, UNJUDGED
        else:
            slot_name, key = self._engine.slot_of(request), self._key_of(request)
        self._file(self.slots.get(slot_name), Line(name, key, queue, mixed=True))

    def _file(self, slot: Slot, line: Line) -> Line:
        if line.key in slot.lines:  # of two files from a job directory
            line.place = line.name
        slot.lines[line.place] = line
        self._count += line.count
        if slot.where is Where.GONE and self._holds.is_unknown(line):
            self._holds.note(line, Where.UNKNOWN)
            self.slots.put(slot, Where.UNKNOWN)
        elif slot.where is not Where.FULL:
            # What holds its other lines need not hold this one.
            self.slots.make_due(slot)
        return line

    def _discard(self, slot: Slot, line: Line) -> None:
        """Forget *line*, in which nothing waits any more, and its files."""
        del slot.lines[line.place]
        self._close(self.pqueues.pop(line.name))
        if not slot.lines:
            self.slots.discard(slot)

    # Where a slot goes

    def _pop_due(self) -> Request | None:
        while (slot := self.slots.take_due()) is not None:
            if (request := self._serve(slot)) is not None:
                return request
        return None

    def _serve(self, slot: Slot) -> Request | None:
        """Return a request of *slot*; ``None``: the slot waits, or comes again in its turn."""
        line = self._next_line(slot)
        if line is None:
            return None
        wait = self._engine.due_in(slot.name)
        if wait and not self._holds.is_refused(line.host):
            self._park(slot, line.host, wait, PACE)
            return None
        return self._take_from(slot, line)

    def _next_line(self, slot: Slot) -> Line | None:
        """Return the most urgent line that may go; ``None``: *slot* waits for one."""
        where, soonest, why = LATER, inf, ("", "")
        for line in slot.by_urgency():
            if not self._keeper.has_place(slot.name, line.host):
                where = where if where is Where.UNKNOWN else Where.FULL
                continue
            held = self._holds.hold_of(line)
            self._holds.note(line, held)
            if held is None:
                return line
            if not isinstance(held, Where):
                if held[0] < soonest:
                    soonest, why = held[0], (line.host, held[1])
            elif held is Where.UNKNOWN or where is LATER:
                where = held
        if soonest == inf or where is Where.UNKNOWN:
            self.slots.put(slot, where)
            return None
        if where is Where.FULL:
            soonest = min(soonest, FULL_RECHECK_SECONDS)
        host, cause = why
        self._park(slot, host, soonest, cause)
        return None

    def _take_from(self, slot: Slot, line: Line) -> Request | None:
        request: Request | None = None
        fault: Exception | None = None
        left = line.count - 1
        try:
            request = line.queue.pop()
        except Exception as error:  # noqa: BLE001 - whatever comes of what was stored
            fault = error
        if request is None:
            # The spider's code has changed, or the file is damaged. Requests behind it are
            # not lost.
            left = drop_unreadable(line.queue, line.count, fault)
            logger.error(
                "A request of download slot %s cannot be read",
                slot.name,
                exc_info=fault,
            )
            if left == line.count:
                self._park(slot, line.host, DISK_RETRY_SECONDS, DISK)
                return None
            self._crawl.log.count("unreadable", line.count - left)
        self._count -= line.count - left
        line.count = left
        if not line.count:
            self._discard(slot, line)
        elif len(slot.lines) > 1:  # of equal urgency, the others go first now
            slot.lines[line.place] = slot.lines.pop(line.place)
        if slot.lines:
            self.slots.put(slot, DUE)
        if request is None:
            return None
        if line.mixed and self._key_of(request) != line.key:
            self.push(request)
            return None
        if not line.ask_ahead:
            line.ask_ahead = self._holds.is_known(line)  # else the middleware asks
        self._engine.handed_out.add(slot.name, line.host, request)
        return request

    def _park(self, slot: Slot, host: str, wait: float, cause: str) -> None:
        self.slots.park(slot, wait)
        self._crawl.log.note_put_off(host, wait, cause)

    def _recheck_full(self, most: int) -> None:
        slots = self.slots
        for _ in range(min(most, len(slots.full))):
            slot = slots.full.popleft()
            if slot.where is not Where.FULL:
                continue
            if any(
                self._keeper.has_place(slot.name, line.host)
                for line in slot.lines.values()
            ):
                slots.make_due(slot)
            else:
                slots.put(slot, Where.FULL)

    # Asking ahead of need

    def _look_ahead(self) -> None:
        if self._policies is None:
            return
        most = self._most_asked + self._policies.lanes.slow
        while self.slots.unknown and self._asked < most:
            self._asks += 1
            any_of_them = bool(self._asks % 2) and self._policies.lanes.hosts_hang
            slot = self.slots.take_unknown(any_of_them=any_of_them)
            if slot is None:
                return
            slot.where = Where.ASKED
            for line in slot.lines.values():
                if not line.asked and not self._holds.is_known(line):
                    self._ask(slot, line)
                    if len(slot.lines) > 1:
                        self.slots.make_due(slot)  # another line may go meanwhile
                    break
            else:  # known by now
                self.slots.make_due(slot)

    def _ask(self, slot: Slot, line: Line) -> None:
        origin, page = line.key[0], look(line.queue, self._safe_to_peek) or line.page()
        assert self._policies is not None
        assert origin is not None
        assert page is not None
        self._asked += 1
        line.asked = True
        asking = self._policies.ask(origin, page, ahead=True)

        def answered(_: object) -> None:
            self._asked -= 1
            # If the answer must not be kept, or is forgotten before the slot is due, asking
            # again would send requests for robots.txt and nothing else.
            line.asked = line.ask_ahead = False
            if slot.where not in {Where.GONE, Where.FULL}:  # else the queue was closed
                self.slots.make_due(slot)
            self._engine.wake()

        asking.addBoth(answered)
