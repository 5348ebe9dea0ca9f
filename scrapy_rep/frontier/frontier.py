"""The frontier: where requests wait, by host, until they may be sent."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from random import randrange
from time import monotonic
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import CancelledError

from scrapy_rep.engine.inner import HOST, SLOT
from scrapy_rep.engine.tools import Alarm
from scrapy_rep.events.kinds import GoesOn, PutOff
from scrapy_rep.events.waits import ASKED, PACE, TURN, Held
from scrapy_rep.frontier.places import WINDOW, Permits, Places
from scrapy_rep.judging.ruling import UNREACHABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request, Spider
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

    from scrapy_rep.crawl import Crawl
    from scrapy_rep.frontier.ledger import Entry, HostQueue, Ledger, Place, Where

FULL_RECHECKS_PER_POP = 2
MOST_ASKED_OF_HOST = 64
"""Policies of a host that keeps no pace: few enough to hold up no others if one asks for a delay."""
TOLD_ELSEWHERE = frozenset({ASKED, PACE, UNREACHABLE})
"""After these waits the log has no line that the host goes on."""
AFTER_FAULT_SECONDS, FAULT = 5.0, "a look at it failed"
SWEEP_SECONDS = 0.03


class Frontier:
    """Hands out the request of the host that has been due for longest, if it may go now.

    Of a host, the request that Scrapy would send next goes first. The deques and the heap may hold
    queues that have gone elsewhere since: they are skipped, so a step takes O(log n) for n queues.
    """

    def __init__(self, crawl: Crawl, ledger: Ledger, spider: Spider) -> None:
        crawl.is_queued = True
        self._permits = permits = Permits(crawl)
        self._engine, self._events = crawl.engine, crawl.events
        self._ledger = ledger
        self.places = places = Places(permits, ledger, spider)
        places.enter, places.make_due = self._enter, self._make_due
        self.due: deque[HostQueue] = deque()
        self.unknown: deque[HostQueue] = deque()
        self.full: OrderedDict[tuple[str, str], deque[HostQueue]] = OrderedDict()
        """By what has no place for them: a SLOT, a HOST that keeps a pace, or a host ASKED for other
        robots.txt files. Each may be so for many at once."""
        self.later: list[tuple[float, int, HostQueue]] = []
        """A heap: when each is due, a number that no other has, and the queue."""
        self._numbers = count()
        # What a ledger tells
        self.arrive, self.found = places.arrive, places.found
        self.came, self.drop = places.came, places.discard
        self.taken: dict[Request, tuple[Place, Entry]] = {}
        self._asked = 0
        self._asked_of: Counter[str] = Counter()
        """By host, as ``_asked`` counts all."""
        self._asks = 0  # that ever were
        self._is_idle = False
        self._sweeper = Alarm(self._sweep_again)
        self.wake = crawl.engine.wake
        self._alarm = Alarm(self.wake)
        crawl.engine.back_out_while(self.is_all_promised)
        permits.waits.queue = self

    @property
    def room(self) -> int:
        """For how many more places its window has room; below 0: too many."""
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
        gone = [self.taken.pop(each) for each in self._engine.done_with(self.taken)]
        kept = [(place, entry[2]) for place, entry in gone if entry[2] is not None]
        if kept:
            self._ledger.done(kept)
        self._engine.handed_out.sweep()

    def _sweep_again(self) -> None:
        self.sweep()
        if self.taken:
            self._sweeper.set(SWEEP_SECONDS)

    def pop(self) -> Request | None:
        """Return a request that may be sent now; ``None``: the engine is woken when there may be one."""
        places = self.places
        if not (places.count and self._ledger.is_ready):
            return None
        if self.later:
            self._wake_due()
        if self.unknown:
            self._ask_ahead()
        if self.full:
            self._recheck_full(FULL_RECHECKS_PER_POP)
        request = self._pop_due()
        if request is None and self.full:
            self._recheck_full(len(self.full))
            request = self._pop_due()
        if request is None:
            self._ask_ahead()
            self._rest()
        elif self._is_idle:
            self._is_idle = False
            self._permits.waits.note_busy()
        return request

    def _rest(self) -> None:
        if self.later:
            self._alarm.set(self._left())
        if self.places.count:
            self._is_idle = True
            self._permits.waits.note_idle()

    def _pop_due(self) -> Request | None:
        while self.due and self._ledger.is_ready:
            queue = self.due.popleft()
            if queue.where != "due":
                continue
            try:
                request = self._pop_from(queue)
            except Exception:
                self._note_fault(queue)
                raise
            if request is not None:
                return request
        return None

    def _pop_from(self, queue: HostQueue) -> Request | None:
        """Return a request of *queue*; ``None``: it waits, or comes again in its turn."""
        wait = self._permits.slot_left(queue)
        if wait == inf:
            if self._permits.is_full(HOST, queue.host):
                self._wait_for(queue, HOST, queue.host)
            else:
                self._wait_for(queue, SLOT, queue.slot)
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
            self._put(queue, "asked" if place.filling else "due")
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
        may_hold = self._ledger.hold_of
        soonest, why = inf, ""
        unknown: Place | None = None
        for place in places:
            if place.key is None and (request := self.places.next_of(place)):
                place.key = self._permits.host_slot_key(request)[2]
            held: tuple[float, str] | Where | None = "asked"
            if not place.filling and (
                may_hold is None or not (held := may_hold(place))
            ):
                held = self._permits.hold_of(place)
            if held is not None or place.held_by:
                self._note(place, held)
            if held is None:
                if unknown is not None:
                    self._ask_beside(unknown)
                return place
            if not isinstance(held, str):
                soonest, why = min((soonest, why), held)
            elif unknown is None:
                where = held
                unknown = place if held == "unknown" else None
        if where is not None and (where == "unknown" or soonest == inf):
            self._put(queue, where)
        elif queue.places:
            self._park(queue, soonest, why)
        return None

    def _take_from(self, place: Place) -> Request | None:
        queue, places, first = place.queue, self.places, place.hand[0][3]
        request = places.next_of(place) if isinstance(first, bytes) else first
        if request is not None:
            entry = heappop(place.hand)
            places.count -= 1
            if place.was_named and self._moves(request, place, entry):
                request = None
        if not (place.hand or place.behind):
            places.discard(place)
        elif self._ledger.fills_ahead and 2 * len(place.hand) <= self._ledger.at_hand:
            places.fill(place)
        if queue.places:
            self._put(queue, "due")
        if request is None:
            return None
        if not (place.ask_ahead or place.is_gone):
            place.ask_ahead = self._permits.is_known(place)  # else the gate asks
        if not self.taken:
            self._sweeper.set(SWEEP_SECONDS)
        self.taken[request] = place, entry
        self._engine.handed_out.add(queue.slot, queue.host, request)
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

    # When each host is looked at

    def _enter(self, place: Place) -> None:
        if place.queue.where == "gone" and self._permits.is_new(place):
            self._note(place, "unknown")
            self._put(place.queue, "unknown")
        elif place.queue.where not in {"due", "full"}:
            # What holds other places of its host need not hold this one.
            self._put(place.queue, "due")

    def _put(self, queue: HostQueue, where: Where) -> None:
        queue.where = where
        if where == "due":
            self.due.append(queue)
        elif where == "unknown":
            self.unknown.append(queue)

    def _wait_for(self, queue: HostQueue, kind: str, name: str) -> None:
        queue.where = "behind" if kind == ASKED else "full"
        self.full.setdefault((kind, name), deque()).append(queue)

    def _make_due(self, queue: HostQueue) -> None:
        """Let *queue* be looked at again in its turn, once it has a free place."""
        if queue.where not in {"due", "full"}:
            self._put(queue, "due")

    def _park(self, queue: HostQueue, wait: float, cause: str) -> None:
        queue.where = "later"
        queue.due_at = monotonic() + wait
        if len(self.later) > 2 * len(self.places) + 16:  # most entries were replaced
            self.later = [*filter(_is_held, self.later)]
            heapify(self.later)
        heappush(self.later, (queue.due_at, next(self._numbers), queue))
        self._events.tell(PutOff(queue.host, wait, cause))

    def _left(self) -> float:
        """Return the seconds until the next queue may be due; ``inf``: none waits."""
        return self.later[0][0] - monotonic() if self.later else inf

    def _wake_due(self) -> None:
        later, now = self.later, monotonic()
        while later and later[0][0] <= now:
            entry = heappop(later)
            if _is_held(entry):
                self._put(entry[2], "due")

    def latest(self) -> Iterator[HostQueue]:
        """Return those that wait for a time, the one that waits for longest first."""
        return (each[2] for each in sorted(self.later, reverse=True) if _is_held(each))

    def _recheck_full(self, most: int) -> None:
        """Of up to *most* that were full, let one queue each be looked at, if there is a place now."""
        for _ in range(min(most, len(self.full))):
            what, waiting = self.full.popitem(last=False)
            if not self._is_full(*what):
                while waiting:
                    queue = waiting.popleft()
                    if queue.where in {"full", "behind"}:
                        self._put(queue, "due")
                        break
            if waiting:
                self.full[what] = waiting

    def _is_any_full(self) -> bool:
        """Tell whether anything waits for a place that a page may have."""
        return any(kind != ASKED for kind, _ in self.full)

    def _is_full(self, kind: str, name: str) -> bool:
        if kind == ASKED:
            is_free = self._permits.keeper.asks_freely(name)
            return self._asked_of[name] >= (MOST_ASKED_OF_HOST if is_free else 1)
        try:
            return self._permits.is_full(kind, name)
        except Exception:  # noqa: BLE001 - the look at a queue will raise, and is told
            return False

    def _note_fault(self, queue: HostQueue) -> None:
        """Have *queue* looked at again after what the engine tells: nobody else would."""
        if queue.where in {"due", "asked"}:
            self._park(queue, AFTER_FAULT_SECONDS, FAULT)

    def _note(self, place: Place, held: tuple[float, str] | Where | None) -> None:
        """Note what *place* waits for; tell the ledger of that, and the log that it goes on."""
        now, host, before = monotonic(), place.host, _as_told(place)
        seconds, cause = (0.0, ASKED) if isinstance(held, str) else held or (0.0, "")
        if not cause and place.held_by not in TOLD_ELSEWHERE:
            keeper = self._permits.keeper
            if not (keeper.refuses(host) or keeper.is_used_up(host)):
                waited = now - place.held_since
                goes_on = GoesOn(host, place.held_by, waited, place.count)
                self._events.tell(goes_on)
        if cause != place.held_by:
            place.held_by, place.held_since = cause, now
        place.held_until = now + seconds if seconds else 0.0
        cause, until = _as_told(place)
        if cause != before[0] or abs(until - before[1]) > 1:
            at = self._events.at(until) if until else None
            self._ledger.note_wait(place, cause, at)

    # Policies are asked for ahead of need

    def _ask_ahead(self) -> None:
        unknown, policies = self.unknown, self._permits.policies
        while unknown and policies is not None and self._may_ask_more():
            self._asks += 1
            if policies.bound.hosts_hang and self._asks % 2:
                # So that a host behind hundreds that hang need not wait until all were asked.
                unknown.rotate(randrange(len(unknown)))  # noqa: S311
            queue = unknown.popleft()
            if queue.where != "unknown" or not self._may_ask(queue):
                continue
            queue.where = "asked"
            try:
                self._ask_for(queue, policies.ask)
            except Exception:
                self._note_fault(queue)
                raise

    def _may_ask_more(self) -> bool:
        policies = self._permits.policies
        slow = 0 if policies is None else policies.bound.slow
        return self._asked < self._permits.most_asked + slow

    def _ask_beside(self, place: Place) -> None:
        """Ask for *place* already, whose requests are more urgent than one of its host that goes."""
        host, policies = place.host, self._permits.policies
        is_busy = self._is_full(ASKED, host) or self._permits.keeper.pace_left(host)
        if policies is not None and not is_busy and self._may_ask_more():
            self._ask(place, policies.ask)

    def _may_ask(self, queue: HostQueue) -> bool:
        """Tell whether a robots.txt of its host may be asked for; else have *queue* wait until then.

        Else hundreds of origins that share a host would take the places of other hosts' fetches,
        for as long as they wait for their turns.
        """
        host = queue.host
        if host and self._is_full(ASKED, host):
            self._wait_for(queue, ASKED, host)
        elif wait := self._permits.keeper.pace_left(host):
            self._park(queue, wait, PACE)
        else:
            return True
        return False

    def _ask_for(self, queue: HostQueue, ask: Callable[..., Deferred[Any]]) -> None:
        for place in queue.places:
            if self._permits.hold_of(place) == "unknown":
                self._ask(place, ask)
                if len(queue.places) > 1:
                    self._make_due(queue)  # another place may go meanwhile
                return
        self._make_due(queue)  # known by now

    def _ask(self, place: Place, ask: Callable[..., Deferred[Any]]) -> None:
        page = self.places.next_of(place) or place.page()
        assert page is not None
        assert place.key is not None
        host = place.host
        asking = ask(place.key[0] or "", page, ahead=True)
        self._asked += 1
        self._asked_of[host] += 1
        place.asked = True

        def answered(found: object) -> object:
            self._asked -= 1
            self._asked_of[host] -= 1
            if not self._asked_of[host]:
                del self._asked_of[host]
            # If the answer must not be kept, or is forgotten before the host is due, asking
            # again would send requests for robots.txt and nothing else.
            place.asked = place.ask_ahead = False
            if place.queue.where != "gone":
                self._make_due(place.queue)
            self.wake()
            return found

        def failed(failure: Failure) -> None:
            if failure.check(CancelledError) is None:  # else the crawl ends
                about = f"Asking for the robots.txt of {place.host} failed"
                self._events.tell_failure(about, failure.value)

        asking.addBoth(answered).addErrback(failed)

    def is_all_promised(self) -> bool:
        """Tell whether the engine need not ask: each free place is promised to a request here whose
        policy is asked for (one that takes long has a place lent), and nothing else is due.
        """
        policies = self._permits.policies
        if not self._asked or policies is None:
            return False
        promised = self._asked - policies.bound.slow + policies.bound.prompt
        if not 0 < self._engine.free_places() <= promised:
            return False
        if self.due or self._is_any_full() or self._left() <= 0:
            return False
        self._rest()
        return True

    # What a person is told (``events.waits.Queue``)

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
        if self.due or self.unknown or self._is_any_full():
            return 0.0
        soonest = self._left()
        if self._asked:  # asking may wait for a parked host, too
            left = self._permits.keeper.parked_left
            asked = (
                each.host for each in self.places.queues() if each.where == "asked"
            )
            soonest = min([soonest, *map(left, asked)])
        return soonest

    def close(self) -> None:
        """Note that the crawl is over; ``taken`` is then what it did not finish."""
        self._alarm.cancel()
        self._sweeper.cancel()
        self.sweep()
        entries = [entry for _, entry in self.taken.values()]
        for place in self.places:
            entries += place.hand
        lost = self._ledger.unwritten() + sum(entry[2] is None for entry in entries)
        self._permits.waits.end(self._ledger.kept_in, lost)
        for queue in self.places.queues():
            queue.where = "gone"


def _as_told(place: Place) -> tuple[str, float]:
    """Return what a ledger is told of a wait, and until when."""
    if place.held_by in {PACE, ASKED}:  # these change all the time
        return "", 0.0
    return place.held_by, place.held_until


def _is_held(entry: tuple[float, int, HostQueue]) -> bool:
    due_at, _, queue = entry
    return queue.where == "later" and queue.due_at == due_at
