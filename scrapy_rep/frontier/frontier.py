"""The frontier: where requests wait, by host, until they may be sent."""

from __future__ import annotations

from heapq import heappop
from math import inf
from random import randrange
from time import monotonic
from typing import TYPE_CHECKING

from scrapy_rep.engine.tools import Alarm
from scrapy_rep.events.of_hosts import GoesOn, PutOff
from scrapy_rep.events.waits import ASKED, PACE, TURN, Held
from scrapy_rep.frontier.permits import Permits
from scrapy_rep.frontier.places import WINDOW, Places
from scrapy_rep.judging.ruling import UNREACHABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request, Spider

    from scrapy_rep.crawl import Crawl
    from scrapy_rep.frontier.ledger import Entry, HostQueue, Ledger, Place, Where
    from scrapy_rep.policies.service import Policies

FULL_RECHECKS_PER_POP = 2
TOLD_ELSEWHERE = frozenset({ASKED, PACE, UNREACHABLE})
"""After a wait for one of these, the log has no line that the host goes on."""
SWEEP_SECONDS = 0.03
"""Seconds after which we look again which of the requests that the engine has are done."""


class Frontier:
    """Hands out the request of the host that has been due for longest, if it may go now.

    Of a host, the request that Scrapy would send next goes first.
    """

    def __init__(self, crawl: Crawl, ledger: Ledger, spider: Spider) -> None:
        """The crawl begins, and this holds back what must wait."""
        crawl.is_queued = True
        self._permits = permits = Permits(crawl)
        self._ledger = ledger
        self.places = places = Places(permits, ledger, spider)
        places.enter = self._enter
        # What a ledger tells
        self.arrive, self.found = places.arrive, places.found
        self.came, self.drop = places.came, places.discard
        self.taken: dict[Request, tuple[Place, Entry]] = {}
        """The requests that the engine has, each with its place and entry."""
        self._asked = 0
        """How many policies are being asked for ahead of need."""
        self._asks = 0  # those that ever were
        self._is_idle = False
        self._sweeper = Alarm(self._sweep_again)
        self.wake = permits.wake
        self._alarm = Alarm(permits.wake)
        permits.engine.back_out_while(self.is_all_promised)
        permits.waits.queue = self

    @property
    def room(self) -> int:
        """How many places more have room in its window; below 0: it has more than it should."""
        return WINDOW - len(self.places)

    # What goes, and what comes back

    def take_back(self, request: Request | None, again: Request) -> bool:
        """Have *again* wait where *request* came from; ``False``: it belongs elsewhere."""
        if request is None or (taken := self.taken.get(request)) is None:
            return False
        place, (rank, order, id_, _) = taken
        now = self.places.of(again)
        before = place.key, place.part, place.queue.host, place.queue.slot
        if (now.key, now.part, now.queue.host, now.queue.slot) != before:
            return False
        del self.taken[request]
        self.arrive(now, (rank, order, id_, again))
        return True

    def sweep(self) -> None:
        """Tell the ledger of the requests that are done since we last looked."""
        engine = self._permits.engine
        gone = [self.taken.pop(request) for request in engine.done_with(self.taken)]
        kept = [(place, entry[2]) for place, entry in gone if entry[2] is not None]
        if kept:
            self._ledger.done(kept)
        engine.handed_out.sweep()

    def _sweep_again(self) -> None:
        self.sweep()
        if self.taken:
            self._sweeper.set(SWEEP_SECONDS)

    def pop(self) -> Request | None:
        """Return a request that may be sent now; ``None``: there is none.

        Then the engine is woken when there may be one.
        """
        places = self.places
        if not (places.count and self._ledger.is_ready):
            return None
        if places.later:
            places.wake_due()
        if places.unknown:
            self._ask_ahead()
        if places.full:
            places.recheck_full(FULL_RECHECKS_PER_POP)
        request = self._pop_due()
        if request is None and places.full:
            places.recheck_full(len(places.full))
            request = self._pop_due()
        if request is None:
            self._ask_ahead()
            self._rest()
        elif self._is_idle:
            self._is_idle = False
            self._permits.waits.note_busy()
        return request

    def _rest(self) -> None:
        """Have the engine woken when a request may be sent."""
        if self.places.later:
            self._alarm.set(self.places.left())
        if self.places.count:
            self._is_idle = True
            self._permits.waits.note_idle()

    def _pop_due(self) -> Request | None:
        while self._ledger.is_ready and (queue := self.places.take_due()) is not None:
            if (request := self._pop_from(queue)) is not None:
                return request
        return None

    def _pop_from(self, queue: HostQueue) -> Request | None:
        """Return a request of *queue*; ``None``: it waits, or comes again in its turn."""
        wait = self._permits.slot_left(queue)
        if wait == inf:
            self.places.put(queue, "full")
            return None
        place = self._next_place(queue)
        if place is None:
            return None
        if wait:
            self._park(queue, wait, PACE)
            return None
        if not place.hand:
            self.places.fill(place)
        if place.hand and place.key is not None:
            return self._take_from(place)
        if not place.count:
            self.places.discard(place)
        if queue.places:  # it is looked at again, now or when they have come
            self.places.put(queue, "asked" if place.filling else "due")
        return None

    def _next_place(self, queue: HostQueue) -> Place | None:
        """Return the most urgent place that may go; ``None``: *queue* waits for one."""
        places = queue.places
        if len(places) > 1:
            for place in list(places):
                if not place.hand:
                    self.places.fill(place)  # else it is not known how urgent it is
            places = sorted(places, key=lambda place: place.urgency)
        where: Where | None = None
        soonest, why = inf, ""
        for place in places:
            if place.key is None and (request := self.places.next_of(place)):
                place.key = self._permits.host_slot_key(request)[2]
            held: tuple[float, str] | Where | None = "asked" if place.filling else None
            held = held or self._ledger.hold_of(place) or self._permits.hold_of(place)
            if held is not None or place.held_by:
                self._note(place, held)
            if held is None:
                return place
            if not isinstance(held, str):
                soonest, why = min((soonest, why), held)
            elif where != "unknown":
                where = held
        if where is not None and (where == "unknown" or soonest == inf):
            self.places.put(queue, where)
        elif queue.places:
            self._park(queue, soonest, why)
        return None

    def _take_from(self, place: Place) -> Request | None:
        queue = place.queue
        request = self.places.next_of(place)
        if request is not None:
            entry = heappop(place.hand)
            self.places.count -= 1
            if place.was_named and self._moves(request, place, entry):
                request = None
        if not (place.hand or place.behind):
            self.places.discard(place)
        elif self._ledger.fills_ahead and 2 * len(place.hand) <= self._ledger.at_hand:
            self.places.fill(place)
        if queue.places:
            self.places.put(queue, "due")
        if request is None:
            return None
        if not (place.ask_ahead or place.is_gone):
            place.ask_ahead = self._permits.is_known(place)  # else the gate asks
        if not self.taken:
            self._sweeper.set(SWEEP_SECONDS)
        self.taken[request] = place, entry
        self._permits.engine.handed_out.add(queue.slot, queue.host, request)
        if entry[2] is not None:
            self._ledger.note_taken()
        return request

    def _moves(self, request: Request, place: Place, entry: Entry) -> bool:
        """File *request* anew if it waits for something else since the last run."""
        belongs = self.places.of(request)
        if belongs is place:
            return False
        self._ledger.file(belongs, entry[0], request, None)
        self._ledger.done([(place, entry[2])])
        return True

    # Where a place is

    def _enter(self, place: Place) -> None:
        """Note that something waits in *place* again."""
        if place.queue.where == "gone" and self._permits.is_new(place):
            self._note(place, "unknown")
            self.places.put(place.queue, "unknown")
        else:  # what holds other places of its host need not hold this one
            self.places.make_due(place.queue)

    def _park(self, queue: HostQueue, wait: float, cause: str) -> None:
        self.places.park(queue, wait)
        self._permits.events.tell(PutOff(queue.host, wait, cause))

    def _note(self, place: Place, held: tuple[float, str] | Where | None) -> None:
        """Note what *place* waits for; tell the ledger of something else, the log that it goes on."""
        now, host, before = monotonic(), place.host, _as_told(place)
        seconds, cause = (0.0, ASKED) if isinstance(held, str) else held or (0.0, "")
        if not cause and place.held_by not in TOLD_ELSEWHERE:
            keeper = self._permits.keeper
            if not (keeper.refuses(host) or keeper.is_used_up(host)):
                waited = now - place.held_since
                goes_on = GoesOn(host, place.held_by, waited, place.count)
                self._permits.events.tell(goes_on)
        if cause != place.held_by:
            place.held_by, place.held_since = cause, now
        place.held_until = now + seconds if seconds else 0.0
        cause, until = _as_told(place)
        if cause != before[0] or abs(until - before[1]) > 1:
            at = self._permits.events.at(until) if until else None
            self._ledger.note_wait(place, cause, at)

    # Policies are asked for ahead of need: they are known, or on their way, in time

    def _ask_ahead(self) -> None:
        """Ask for policies that are not known, as many at a time as may be."""
        unknown, permits = self.places.unknown, self._permits
        while unknown and (policies := permits.policies) is not None:
            bound = policies.bound
            if self._asked >= permits.most_asked + bound.slow:
                return
            self._asks += 1
            if bound.hosts_hang and self._asks % 2:
                # So that a host behind hundreds that hang need not wait until all were asked.
                unknown.rotate(randrange(len(unknown)))  # noqa: S311
            queue = unknown.popleft()
            if queue.where != "unknown":
                continue
            queue.where = "asked"
            for place in queue.places:
                if permits.hold_of(place) == "unknown":
                    self._ask(place, policies)
                    if len(queue.places) > 1:
                        self.places.make_due(queue)  # another place may go meanwhile
                    break
            else:  # known by now
                self.places.make_due(queue)

    def _ask(self, place: Place, policies: Policies) -> None:
        page = self.places.next_of(place) or place.page()
        assert page is not None
        assert place.key is not None
        self._asked += 1
        place.asked = True
        asking = policies.ask(place.key[0] or "", page, ahead=True)

        def answered(_: object) -> None:
            self._asked -= 1
            # If the answer must not be kept, or is forgotten before the host is due, asking
            # again would send requests for robots.txt and nothing else.
            place.asked = place.ask_ahead = False
            if place.queue.where != "gone":
                self.places.make_due(place.queue)
            self.wake()

        asking.addBoth(answered)

    def is_all_promised(self) -> bool:
        """Tell whether the engine need not ask, as it is woken in time.

        Each free place is promised to a request here whose policy is asked for, and nothing
        else is due. A policy that takes long has a place lent, and its requests are promised none.
        """
        policies, places = self._permits.policies, self.places
        if not self._asked or policies is None:
            return False
        promised = self._asked - policies.bound.slow + policies.bound.prompt
        if not 0 < self._permits.engine.free_places() <= promised:
            return False
        if places.due or places.full or places.left() <= 0:
            return False
        self._rest()
        return True

    # What a person is told (``log.waits.Queue``)

    def held(self) -> Iterator[Held]:
        now = monotonic()
        for place in self.places:
            queue = place.queue
            later = queue.due_at if queue.where == "later" else 0.0
            cause, until = place.held_by, place.held_until
            if cause != ASKED and until <= now:
                cause, until = (cause or PACE if later else TURN), later
            yield Held(place.host, cause, until or None, place.count)
        if self._ledger.sheds and self._ledger.pending():
            yield Held("", TURN, None, self._ledger.pending())

    def requests_of(self, host: str, origin: str) -> int:
        return sum(
            place.count
            for place in self.places
            if place.host == host or (origin and place.key and place.key[0] == origin)
        )

    def next_due(self) -> float:
        places = self.places
        if places.due or places.full or places.unknown:
            return 0.0
        soonest = places.left()
        if self._asked:  # asking may wait for a parked host, too
            left = self._permits.keeper.parked_left
            asked = (each.host for each in places.queues() if each.where == "asked")
            soonest = min([soonest, *map(left, asked)])
        return soonest

    def close(self) -> None:
        """Note that the crawl is over; ``taken`` is then what it did not finish."""
        self._alarm.cancel()
        self._sweeper.cancel()
        self.sweep()
        self._permits.waits.end(keeps=self._ledger.outlives)
        for queue in self.places.queues():
            queue.where = "gone"


def _as_told(place: Place) -> tuple[str, float]:
    """Return what a ledger is told that *place* waits for, and until when."""
    if place.held_by in {PACE, ASKED}:  # these change all the time
        return "", 0.0
    return place.held_by, place.held_until
