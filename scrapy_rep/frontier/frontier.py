"""The frontier: where requests wait, by host, until they may be sent."""

from __future__ import annotations

from math import inf
from time import monotonic, time
from typing import TYPE_CHECKING

from scrapy_rep.downloader import Alarm
from scrapy_rep.events.of_hosts import PutOff
from scrapy_rep.frontier.places import Places, Where, urgency_of
from scrapy_rep.frontier.schedule import DUE, LATER, Ahead, Schedule
from scrapy_rep.frontier.stock import InHand, Stock
from scrapy_rep.log.waits import ASKED, PACE, TURN, Held

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request, Spider

    from scrapy_rep.frontier.ledger import Entry, Ledger
    from scrapy_rep.frontier.permits import Permits
    from scrapy_rep.frontier.places import HostQueue, Place
    from scrapy_rep.frontier.stock import Taken

FULL_RECHECKS_PER_POP = 2
WINDOW = 20_000
"""So many places are known at a time; what waits in others is known to the ledger alone."""
WINDOW_LOOK_SECONDS = 0.2
"""Seconds after which we look whether others may come into the window."""
LONG_WAIT = 30.0
"""Seconds for which a place must have to wait to make way in the window for others."""


class Frontier:
    """Hands out the request of the host that has been due for longest, if it may go now.

    Of a host, the request that Scrapy would send next goes first.
    """

    def __init__(self, permits: Permits, ledger: Ledger, spider: Spider) -> None:
        self._permits = permits
        self._ledger = ledger
        self.places = Places(permits, ledger)
        self.schedule = Schedule()
        self.stock = Stock(self.places, ledger, permits, spider)
        self._ahead = Ahead(permits, self.schedule, self.stock.next_of)
        self._look_at = 0.0
        self._alarm = Alarm(permits.wake)
        self._in_hand = InHand(permits.engine, ledger)
        self.taken: dict[Request, Taken] = self._in_hand.taken
        """The requests that the engine has, each with its place and entry."""
        self.wake, self.sweep = permits.wake, self._in_hand.sweep
        permits.begin(self)

    @property
    def count(self) -> int:
        """How many requests wait that it knows of."""
        return self.stock.count

    # What a ledger tells

    @property
    def room(self) -> int:
        """How many places more have room in its window; below 0: it has more than it should."""
        return WINDOW - len(self.places)

    def arrive(self, place: Place, entry: Entry) -> None:
        """Take a request to hand that nobody can read from the ledger."""
        if place.is_gone:
            place = self.places.current(place)
        is_new = not (place.hand or place.behind)
        self.stock.push(place, entry)
        if is_new:
            self._enter(place)

    def filed(self, place: Place, entry: Entry) -> bool:
        """Note a new request that the ledger has, too; ``False``: the ledger alone knows of it.

        That is so if the window is full, and nothing waits in *place* as far as is known.
        """
        place = self.places.current(place)
        is_new = not place.count
        if is_new and self.room < 0:
            self.places.discard(place)
            return False
        self.stock.add(place, entry)
        if is_new:
            self._enter(place)
        return True

    def found(self, place: Place, number: int) -> None:
        """Note that *number* more requests of *place* wait in the ledger, of any urgency."""
        place = self.places.current(place)
        is_new = not place.count
        self.stock.add_behind(place, number)
        if is_new:
            self._enter(place)

    def came(self, place: Place, entries: list[Entry], left: int | None = None) -> None:
        """Take what ``fill`` has asked for to hand, in ascending order.

        *left*: so many are behind them; ``None``: as many as were known before, less these. No
        *entries*: none is left.
        """
        place.filling = False
        if place.is_gone and entries:
            # It was dropped as nothing was left in the ledger: these were on their way here.
            place = self.places.current(place)
        if place.is_gone:
            return
        is_new = not place.count
        self.stock.came(place, entries, left)
        if not place.count:
            self._discard(place)
        elif is_new:
            self._enter(place)
        elif place.queue.where is not Where.FULL:
            self.schedule.make_due(place.queue)

    def drop(self, place: Place) -> list[Entry]:
        """Forget *place* and its requests, which are others' now; return those at hand."""
        if place.is_gone:
            return []
        entries = self.stock.clear(place)
        self._discard(place)
        return entries

    # What goes, and what comes back

    def take_back(self, request: Request, again: Request) -> bool:
        """Have *again* wait where *request* came from; ``False``: it belongs elsewhere."""
        taken = self.taken.get(request)
        if taken is None:
            return False
        place, (rank, order, id_, _) = taken
        belongs = self.places.of(again)
        if not belongs.is_like(place):
            return False
        del self.taken[request]
        if id_ is not None:
            self._ledger.put_back(belongs, id_)
        self.arrive(belongs, (rank, order, id_, again))
        return True

    def let_go(self, request: Request) -> None:
        """Note that *request*, which the engine has, was filed anew elsewhere."""
        place, entry = self.taken.pop(request, (None, None))
        if place is not None and entry is not None and entry[2] is not None:
            self._ledger.done([(place, entry[2])])

    def pop(self) -> Request | None:
        """Return a request that may be sent now; ``None``: there is none.

        Then the engine is woken when there may be one.
        """
        others = self._has_others()
        if not (self._ledger.is_ready and (self.stock.count or others)):
            return None
        schedule = self.schedule
        if schedule.later:
            schedule.wake_due()
        if others:
            self._move_window()
        if schedule.unknown:
            self._ahead.look()
        if schedule.full:
            schedule.recheck_full(FULL_RECHECKS_PER_POP, self._permits.is_free)
        request = self._pop_due()
        if request is None and schedule.full:
            schedule.recheck_full(len(schedule.full), self._permits.is_free)
            request = self._pop_due()
        if request is not None:
            self._permits.waits.note_busy()
            return request
        self._ahead.look()
        self._rest()
        return None

    def _rest(self) -> None:
        """Have the engine woken when a request may be sent."""
        if self.schedule.later:
            self._alarm.set(self.schedule.left())
        if self._has_others():
            self._alarm.set(self._look_at - monotonic())
        if self.count:
            self._permits.waits.note_idle()

    def _pop_due(self) -> Request | None:
        while (queue := self.schedule.take_due()) is not None:
            if (request := self._pop_from(queue)) is not None:
                return request
        return None

    def _pop_from(self, queue: HostQueue) -> Request | None:
        """Return a request of *queue*; ``None``: it waits, or comes again in its turn."""
        if not self._permits.is_free(queue):
            self.schedule.put(queue, Where.FULL)
            return None
        place = self._next_place(queue)
        if place is None:
            return None
        if wait := self._permits.slot_due_in(queue):
            self._park(queue, wait, PACE)
            return None
        if place.hand or (self.stock.fill(place) and place.key is not None):
            return self._take_from(place)
        if not (place.count or place.is_gone):
            self._discard(place)
        if queue.places:  # it is looked at again, now or when they have come
            self.schedule.put(queue, Where.ASKED if place.filling else DUE)
        return None

    def _next_place(self, queue: HostQueue) -> Place | None:
        """Return the most urgent place that may go; ``None``: *queue* waits for one."""
        places = queue.places
        if len(places) > 1:
            for place in list(places):
                if not place.hand:
                    self.stock.fill(place)  # else it is not known how urgent it is
            places = sorted(places, key=urgency_of)
        where, soonest, why = None, inf, ""
        for place in places:
            held = self._hold_of(place)
            if held is not None or place.held_by:
                self._permits.note(place, held)
                self._tell_ledger(place)
            if held is None:
                return place
            if not isinstance(held, Where):
                if held[0] < soonest:
                    soonest, why = held
            elif where is not Where.UNKNOWN:
                where = held
        if where is not None and (where is Where.UNKNOWN or soonest == inf):
            self.schedule.put(queue, where)
        elif queue.places:
            self._park(queue, soonest, why)
        return None

    def _hold_of(self, place: Place) -> tuple[float, str] | Where | None:
        if place.filling:
            return Where.ASKED
        if place.key is None and (request := self.stock.next_of(place)) is not None:
            place.key = self._permits.host_slot_key(request)[2]
        return self._ledger.hold_of(place) or self._permits.hold_of(place)

    def _take_from(self, place: Place) -> Request | None:
        queue = place.queue
        request = self.stock.next_of(place)
        if request is not None:
            entry = self.stock.take(place)
            if entry[2] is not None:
                self._ledger.take(place, entry[2])
            if place.was_named and self._moves(request, place, entry):
                request = None
        if not (place.hand or place.behind):
            self._discard(place)
        elif self._ledger.fills_ahead and 2 * len(place.hand) <= self._ledger.at_hand:
            self.stock.fill(place)
        if queue.places:
            self.schedule.put(queue, DUE)
        if request is None:
            return None
        if not place.ask_ahead:
            place.ask_ahead = self._permits.is_known(place)  # else the gate asks
        self._in_hand.add(request, place, entry)
        return request

    def _moves(self, request: Request, place: Place, entry: Entry) -> bool:
        """File *request* anew if it waits for something else since the last run."""
        belongs = self.places.of(request)
        if belongs is place:
            return False
        rank, order, id_, _ = entry
        self._ledger.file(belongs, rank, request, None, last_first=order < 0)
        self._ledger.done([(place, id_)])
        return True

    # Where a place is

    def _enter(self, place: Place) -> None:
        """Note that something waits in *place* again."""
        queue = place.queue
        if queue.where is not Where.GONE:
            if queue.where is not Where.FULL:
                # What holds its other places need not hold this one.
                self.schedule.make_due(queue)
        elif not self._permits.is_known(place) and (
            self._permits.hold_of(place) is Where.UNKNOWN
        ):
            self._permits.note(place, Where.UNKNOWN)
            self.schedule.put(queue, Where.UNKNOWN)
        else:
            self.schedule.put(queue, DUE)

    def _discard(self, place: Place) -> None:
        if place.noted[0]:
            place.held_by = ""
            self._tell_ledger(place)
        self.places.discard(place)

    def _park(self, queue: HostQueue, wait: float, cause: str) -> None:
        self.schedule.park(queue, wait, len(self.places))
        self._permits.events.tell(PutOff(queue.host, wait, cause))

    def _tell_ledger(self, place: Place) -> None:
        """Tell the ledger what *place* waits for, if that is something else than before."""
        cause, until = place.held_by, place.held_until
        if cause in {PACE, ASKED}:  # these change all the time
            cause, until = "", 0.0
        if cause != place.noted[0] or abs(until - place.noted[1]) > 1:
            place.noted = cause, until
            since_1970 = time() - monotonic()
            self._ledger.note_wait(place, cause, (until and until + since_1970) or None)

    # The window

    def _has_others(self) -> bool:
        """Tell whether requests wait beyond it."""
        return self._ledger.sheds and self._ledger.pending() > 0

    def _move_window(self) -> None:
        """Let places beyond the window into it, if need be instead of some that wait long."""
        now = monotonic()
        if now < self._look_at:
            return
        self._look_at = now + WINDOW_LOOK_SECONDS
        if self.room <= 0:
            self._look_at += 4 * WINDOW_LOOK_SECONDS
            for queue in self.schedule.latest():
                if self.room > WINDOW // 10 or queue.due_at < now + LONG_WAIT:
                    break
                for place in list(queue.places):
                    self._close(place, time() + queue.due_at - now)
        if self.room > 0:
            self._ledger.more(self.room)

    def _close(self, place: Place, until: float) -> None:
        self.stock.leave(place)
        if not (place.hand or place.asked or place.filling):
            self._ledger.let_go(place, until)
            self.drop(place)

    # Whether the engine need ask

    def is_all_promised(self) -> bool:
        """Tell whether each free place is promised to a request here, and nothing else is due.

        Then the engine need not ask; it is woken in time.
        """
        if not self._ahead.asked:
            return False
        promised = self._permits.promised(self._ahead.asked)
        if not 0 < self._permits.engine.free_places() <= promised:
            return False
        if self.schedule.due or self.schedule.full or self.schedule.left() <= 0:
            return False
        self._rest()
        return True

    # What a person is told (``log.waits.Queue``)

    def held(self) -> Iterator[Held]:
        now = monotonic()
        for place in self.places:
            queue = place.queue
            later = queue.due_at if queue.where is LATER else 0.0
            cause, until = place.held_by, place.held_until
            if cause != ASKED and until <= now:
                cause, until = (cause or PACE if later else TURN), later
            yield Held(place.host, cause, until or None, place.count)
        if self._has_others():
            yield Held("", TURN, None, self._ledger.pending())

    def requests_of(self, host: str, origin: str) -> int:
        return sum(
            place.count
            for place in self.places
            if place.host == host or (origin and place.key and place.key[0] == origin)
        )

    def next_due(self) -> float:
        schedule = self.schedule
        if schedule.due or schedule.full or schedule.unknown:
            return 0.0
        soonest = schedule.left()
        if self._ahead.asked:  # asking may wait for a parked host, too
            keeper = self._permits.keeper
            for queue in self.places.queues():
                if queue.where is Where.ASKED:
                    soonest = min(soonest, keeper.parked_left(queue.host))
        return soonest

    def close(self) -> None:
        """Note that the crawl is over; ``taken`` is then what it did not finish."""
        self._alarm.cancel()
        self._in_hand.close()
        self._permits.waits.end(keeps=self._ledger.outlives)
        for queue in self.places.queues():
            queue.where = Where.GONE
