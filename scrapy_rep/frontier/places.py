"""Where a request waits, with all that whatever holds it holds, too; and whether these may go."""

from __future__ import annotations

import pickle
from hashlib import sha256
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING
from zlib import crc32

from scrapy.utils.request import request_from_dict

from scrapy_rep.engine.inner import HOST, HOST_START, SLOT
from scrapy_rep.events.waits import PACE
from scrapy_rep.frontier.ledger import FIRST, LAST, HostQueue, Place
from scrapy_rep.judging.ruling import PARKED
from scrapy_rep.judging.target import EXEMPT_KEY, INSTEAD_KEY, SLOT_KEY, judged
from scrapy_rep.pacing.hosts import LONGEST_AT_PROMPT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request, Spider

    from scrapy_rep.crawl import Crawl
    from scrapy_rep.frontier.ledger import Entry, Key, Ledger, Where
    from scrapy_rep.protocol import Agent

MOST_STARTS = 4096
SAID_OF_ORIGIN = frozenset({EXEMPT_KEY, INSTEAD_KEY, SLOT_KEY})
NOT_JUDGED: tuple[Agent, str] = ("", "")
UNJUDGED: Key = (None, *NOT_JUDGED, False)
MOST_OCTETS_AT_HAND = 16 * 2**20
"""Octets of requests at hand that the ledger has, too."""
WINDOW = 20_000
FEW_AT_HAND = 4
"""Requests of a place that are read at a time while there are many octets at hand."""


class Permits:
    def __init__(self, crawl: Crawl) -> None:
        self.engine = crawl.engine
        self.keeper = crawl.keeper
        self._agents = crawl.agents
        self._judge = crawl.judge
        self.events = crawl.events
        self.waits = crawl.waits
        self._may_wait_long = crawl.settings.wait
        self.policies = crawl.policies if crawl.is_judged else None
        """``None``: no request is judged."""
        self.most_asked = 2 * crawl.settings.concurrent
        """Of how many policies are asked for ahead at a time, those that take long aside."""
        by_host = self.engine.names_slots_by_host
        self._starts_tell = by_host and not callable(crawl.settings.pace_by)
        self._of_starts: dict[str, tuple[str, str, str | None]] = {}
        """What ``_of_request`` returns of all URLs that begin so."""
        has_cache = crawl.is_judged and crawl.has_cache
        self._is_away = crawl.policies.is_away if has_cache else None
        """Tells of an origin that its robots.txt cannot be fetched; ``None``: that does not matter."""

    # Where a request belongs

    def host_slot_key(self, request: Request) -> tuple[str, str, Key]:
        """Return the host whose pace *request* keeps, its download slot, and what judges it."""
        url = request.url
        end = url.find("/", HOST_START)
        if end > 0 and self._starts_tell and SAID_OF_ORIGIN.isdisjoint(request.meta):
            of_starts, start = self._of_starts, url[:end]
            if start not in of_starts:
                if len(of_starts) >= MOST_STARTS:
                    of_starts.clear()
                of_starts[start] = self._of_request(request)
            host, slot, origin = of_starts[start]
        else:
            host, slot, origin = self._of_request(request)
        try:
            if origin is None:
                return host, slot, UNJUDGED
            header = self._agents.header(request)
            agent = self._agents.of(request, header)
        # Such as a property of the spider's raises; the gate will say what is wrong.
        except Exception:  # noqa: BLE001
            return host, slot, UNJUDGED
        was_looked_up = (
            self._is_away is not None
            and request in self.engine.handed_out.sent_back
            and self._is_away(origin, lambda: request)
        )
        return host, slot, (origin, agent, header, was_looked_up)

    def _of_request(self, request: Request) -> tuple[str, str, str | None]:
        try:
            found = judged(request.url, request.meta)
        except ValueError:  # the gate will say what is wrong
            found = None
        origin = None if found is None else found[1]
        return self.keeper.host_of(request), self.engine.slot_of(request), origin

    def usual(self, origin: str | None) -> tuple[Agent, str]:
        return (self._agents.of(), self._agents.header()) if origin else NOT_JUDGED

    # Whether it may go

    def slot_left(self, queue: HostQueue) -> float:
        """Return the seconds until its slot may start another request to its host.

        0: now; ``inf``: once it has a free place.
        """
        host, engine = queue.host, self.engine
        # As ``is_full`` has it, without its call.
        if self.keeper.interval(host) and engine.handed_out.by(HOST, host):
            return inf
        wait = engine.free_in(queue.slot)
        return 0.0 if 0 < wait < inf and self._is_refused(host) else wait

    def is_full(self, kind: str, name: str) -> bool:
        """Tell whether a SLOT has no free place; or a HOST with an interval, which has one, until
        the answer begins.
        """
        if kind == SLOT:
            return self.engine.free_in(name) == inf
        return bool(
            self.keeper.interval(name) and self.engine.handed_out.by(HOST, name)
        )

    def hold_of(self, place: Place) -> tuple[float, str] | Where | None:
        """Return the seconds that *place* waits, and why; or where; ``None``: it may go.

        A place whose requests the gate will refuse may go, too.
        """
        keeper, host = self.keeper, place.queue.host
        if keeper.has_budgets and keeper.is_used_up(host):
            return None  # so that it is refused now
        if keeper.is_any_parked() and (wait := keeper.parked_left(host)):
            # Nor is a parked host asked for its robots.txt.
            is_refused = keeper.is_down(host) or self._is_refused(host)
            return None if is_refused else (wait, PARKED)
        if not self._may_wait_long and self._is_refused(host):
            return None
        origin, agent, _, was_looked_up = place.key or UNJUDGED
        is_away = None if was_looked_up else self._is_away
        if (
            origin is not None
            and (policies := self.policies) is not None
            # A page that the HTTP cache has need not wait.
            and not (is_away and is_away(origin, place.page))
        ):
            now = policies.now()
            known = policies.peek(origin, place.page, now)
            if known is not None:
                ruling = self._judge.rule_line(known, agent, now)
                if ruling.objection is not None:
                    # When that time comes.
                    place.ask_ahead = place.ask_ahead or known.requests_wait
                    return ruling.seconds, ruling.objection.cause
                if ruling.interval or keeper.keeps_intervals:
                    keeper.keep(host, origin, ruling.interval)
            elif place.ask_ahead:
                return "asked" if place.asked else "unknown"
        if wait := keeper.pace_left(host):
            return wait, PACE
        return None

    def is_known(self, place: Place) -> bool:
        """Tell whether what decides for *place* is known, or nothing does."""
        origin = (place.key and place.key[0]) or ""
        policies = self.policies if origin else None
        return policies is None or policies.peek(origin, place.page) is not None

    def is_new(self, place: Place) -> bool:
        origin = (place.key and place.key[0]) or ""
        policies = self.policies if origin else None
        return policies is not None and not policies.remembers(origin)

    def _is_refused(self, host: str) -> bool:
        """Tell whether the gate refuses requests to *host*, as they would wait for too long."""
        if self._may_wait_long:
            return False
        wait = max(self.keeper.pace_left(host), self.keeper.parked_left(host))
        return wait > LONGEST_AT_PROMPT


class Places:
    """All places in which something waits, and what of it is at hand; the rest is in the ledger.

    What is at hand stays bounded, if ``Ledger.fill`` can bring it again.
    """

    enter: Callable[[Place], None]
    """Called with a place in which something waits again."""
    make_due: Callable[[HostQueue], None]
    """Called with a host of which something has come to hand."""

    def __init__(self, permits: Permits, ledger: Ledger, spider: Spider) -> None:
        self._permits = permits
        self._ledger = ledger
        self._spider = spider
        self._queues: dict[tuple[str, str], HostQueue] = {}
        self._number = 0
        self.count = 0
        self.octets = 0

    def __iter__(self) -> Iterator[Place]:
        # A copy: who asks may take several turns of the event loop.
        for queue in self.queues():
            yield from list(queue.places)

    def __len__(self) -> int:
        return self._number

    def queues(self) -> list[HostQueue]:
        return list(self._queues.values())

    # Which place

    def of(self, request: Request) -> Place:
        host, slot, key = self._permits.host_slot_key(request)
        part, wide = "", self._ledger.wide
        if wide and host in wide:
            part = str(crc32(request.url.encode()) % wide[host])
        queue = self._queues.get((host, slot))
        if queue is not None:
            for place in queue.places:
                if place.key == key and place.part == part:
                    return place
        name = ""
        if self._ledger.kept_in:
            name = self._name_of(host, slot, key, part)
            if (named := self._find(queue, name)) is not None:  # its key was not known
                named.key = key
                return named
        return self._add(queue or HostQueue(host, slot), key, part, name)

    def named(self, name: str) -> Place:
        host, origin, slot, own, part = _parts_of(name)
        queue = self._queues.get((host, slot))
        if (place := self._find(queue, name)) is None:
            key = None if own else (origin or None, *self._permits.usual(origin), False)
            place = self._add(queue or HostQueue(host, slot), key, part, name)
            place.was_named = True
        return place

    def has(self, name: str) -> bool:
        host, _, slot, *_ = _parts_of(name)
        return self._find(self._queues.get((host, slot)), name) is not None

    def current(self, place: Place) -> Place:
        return self.named(place.name) if place.is_gone else place

    def discard(self, place: Place) -> None:
        if place.is_gone:
            return
        if place.hand or place.behind:
            self.count -= place.count
            self.octets -= sum(map(_size, place.hand))
            place.hand, place.behind = [], 0
        queue = place.queue
        queue.places.remove(place)
        place.is_gone = True
        self._number -= 1
        if not queue.places:
            del self._queues[queue.host, queue.slot]
            queue.where = "gone"

    def _find(self, queue: HostQueue | None, name: str) -> Place | None:
        places = () if queue is None else queue.places
        return next((place for place in places if place.name == name), None)

    def _add(self, queue: HostQueue, key: Key | None, part: str, name: str) -> Place:
        place = Place(queue, key, part, name)
        self._queues[queue.host, queue.slot] = queue
        queue.places.append(place)
        self._number += 1
        return place

    def _name_of(self, host: str, slot: str, key: Key, part: str) -> str:
        origin, agent, header, was_looked_up = key
        own = ""
        if was_looked_up or (agent, header) != self._permits.usual(origin):
            own = sha256(repr(key[1:]).encode()).hexdigest()[:12]
        other = "" if slot == host else slot.replace("\n", " ")
        return "\n".join((host, origin or "", other, own, part)).rstrip("\n")

    # What comes, as a ledger tells

    def arrive(self, place: Place, entry: Entry) -> bool:
        """Take a new request to hand, or if the ledger has it, too, and others go first, behind.

        ``False``: the ledger alone knows of it, as the window is full.
        """
        if place.is_gone:
            place = self.current(place)
        size = len(entry[3]) if isinstance(entry[3], bytes) else 0
        is_new = not (place.hand or place.behind)
        if size and is_new and self._number > WINDOW:
            self.discard(place)
            return False
        self.count += 1
        if place.behind and size and entry[:2] >= place.edge:
            place.behind += 1
            return True
        heappush(place.hand, entry)
        if size:
            self.octets += size
            self._shed_if_need_be(place)
        if is_new:
            self.enter(place)
        return True

    def found(self, place: Place, number: int) -> None:
        """Note that *number* more requests of *place* wait in the ledger, of any urgency."""
        place = self.current(place)
        is_new = not (place.hand or place.behind)
        place.behind += number
        place.edge = FIRST
        self.count += number
        if is_new:
            self.enter(place)

    def fill(self, place: Place) -> None:
        if place.behind and not place.filling:
            place.filling = True
            many = self.octets < MOST_OCTETS_AT_HAND // 2
            self._ledger.fill(place, self._ledger.at_hand if many else FEW_AT_HAND)

    def came(self, place: Place, entries: list[Entry], left: int | None = None) -> None:
        """Take to hand what ``fill`` has asked for, in ascending order; none: none is left.

        *left* are behind them; ``None``: as many as were known before, less these.
        """
        place.filling = False
        if entries:  # else it may have been dropped, as nothing was left in the ledger
            place = self.current(place)
        if place.is_gone:
            return
        if left is None or not entries:
            left = max(0, place.behind - len(entries)) if entries else 0
        self.count += left + len(entries) - place.behind
        place.behind = left
        for entry in entries:
            heappush(place.hand, entry)
            self.octets += _size(entry)
        place.edge = entries[-1][:2] if left else LAST
        self._shed_if_need_be(place)
        if place.count:
            self.make_due(place.queue)
        else:
            self.discard(place)

    # What goes

    def next_of(self, place: Place) -> Request | None:
        """Return the next request at hand; ``None``: there is none. Those that cannot be read stay
        in the ledger, as if they were taken for good.
        """
        while place.hand:
            rank, order, id_, body = place.hand[0]
            if not isinstance(body, bytes):
                return body
            self.octets -= len(body)
            try:
                request = request_from_dict(pickle.loads(body), spider=self._spider)  # noqa: S301
            except Exception as error:  # noqa: BLE001 - whatever comes of what was stored
                self._permits.events.tell_failure(
                    f"A request of {place.host or 'no host'} cannot be read", error
                )
                heappop(place.hand)
                self.count -= 1
                self._ledger.note_unreadable(place, id_)
                self._permits.events.count("unreadable")
            else:
                place.hand[0] = rank, order, id_, request
                return request
        return None

    def _leave(self, place: Place, keep: int) -> None:
        hand = sorted(place.hand, key=lambda entry: entry[:2])
        gone = [entry for entry in hand[keep:] if entry[2] is not None]
        if gone:
            place.hand = hand[:keep] + [each for each in hand[keep:] if each[2] is None]
            self.octets -= sum(map(_size, gone))
            place.behind += len(gone)
            place.edge = min(place.edge, gone[0][:2])

    def _shed_if_need_be(self, kept: Place) -> None:
        """Where that is too much, leave to the ledger what is at hand, but the first of *kept*."""
        if self.octets > MOST_OCTETS_AT_HAND and self._ledger.sheds:
            for place in self:
                if not place.filling:
                    self._leave(place, self._ledger.at_hand if place is kept else 0)


def _size(entry: Entry) -> int:
    """Return the octets of a packed request; 0: it is not."""
    return len(entry[3]) if isinstance(entry[3], bytes) else 0


def _parts_of(name: str) -> tuple[str, str, str, str, str]:
    """Return host, origin, download slot, what tells a strange agent, and part."""
    host, origin, slot, own, part = (name.split("\n") + [""] * 4)[:5]
    return host, origin, slot or host, own, part
