"""When hosts may be asked: what the frontier asks the rest of the crawl, which hosts are due, and
whose robots.txt is asked for ahead of need.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from contextlib import suppress
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from random import randrange
from time import monotonic
from typing import TYPE_CHECKING

from scrapy import Request

from scrapy_rep.frontier.places import Place, Where
from scrapy_rep.judging.ruling import PARKED
from scrapy_rep.judging.target import EXEMPT_KEY, INSTEAD_KEY, SLOT_KEY, judged
from scrapy_rep.log.waits import PACE
from scrapy_rep.settings import LONGEST_AT_PROMPT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.crawl import Crawl
    from scrapy_rep.frontier.places import HostQueue, Key, Places
    from scrapy_rep.policies.service import Policies
    from scrapy_rep.protocol import Agent

HOST_START = len("https://")
"""No slash before this one ends a host."""
SAID_OF_ORIGIN = frozenset({EXEMPT_KEY, INSTEAD_KEY, SLOT_KEY})
NOT_JUDGED: tuple[Agent, str] = ("", "")
UNJUDGED: Key = (None, *NOT_JUDGED, False)


DUE, LATER = Where.DUE, Where.LATER
"""By these names, as each pop needs them: a member of an ``Enum`` is looked up twenty times
as slowly before Python 3.12."""


class Permits:
    """All that the frontier asks of policies, paces, downloader and engine."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl
        self.engine = crawl.engine
        self.keeper = crawl.keeper
        self._agents = crawl.agents
        self._judge = crawl.judge
        self.events = crawl.events
        self.waits = crawl.waits
        self._may_wait_long = crawl.settings.wait
        self.policies = crawl.policies if crawl.is_judged else None
        """``None``: no request is judged."""
        self.most_asked = 2 * (
            crawl.crawler.settings.getint("CONCURRENT_REQUESTS") or 16
        )
        """Of how many policies are asked for ahead at a time, those that take long aside."""
        # A crawl has far fewer hosts than pages.
        self._starts_tell = (
            not callable(crawl.settings.pace_by) and self.engine.names_slots_by_host
        )
        self._of_start = lru_cache(maxsize=4096)(
            lambda start: self._of_request(Request(f"{start}/"))
        )
        self._has_cache = crawl.is_judged and crawl.has_cache

    # Where a request belongs

    def host_slot_key(self, request: Request) -> tuple[str, str, Key]:
        """Return the host whose pace *request* keeps, its download slot, and what judges it."""
        url = request.url
        end = url.find("/", HOST_START)
        if end > 0 and self._starts_tell and SAID_OF_ORIGIN.isdisjoint(request.meta):
            host, slot, origin = self._of_start(url[:end])
        else:
            host, slot, origin = self._of_request(request)
        try:
            if origin is None:
                return host, slot, UNJUDGED
            header = self._agents.header(request)
            agent = self._agents.of(request, header)
        except ValueError:  # the gate will say what is wrong
            return host, slot, UNJUDGED
        was_looked_up = (
            self._has_cache
            and request in self.engine.handed_out.sent_back
            and self._is_away(origin, request)
        )
        return host, slot, (origin, agent, header, was_looked_up)

    def _of_request(self, request: Request) -> tuple[str, str, str | None]:
        """Return the host, the slot and the origin of *request*, ``None``: it is not judged."""
        found = None
        with suppress(ValueError):  # the gate will say what is wrong
            found = judged(request.url, request.meta)
        origin = None if found is None else found[1]
        return self.keeper.host_of(request), self.engine.slot_of(request), origin

    def usual(self, origin: str | None) -> tuple[Agent, str]:
        """Return agent and header of a request to *origin* that has none of its own."""
        if not origin:
            return NOT_JUDGED
        return self._agents.of(), self._agents.header()

    # Whether it may go

    def is_free(self, queue: HostQueue) -> bool:
        """Tell whether its download slot has a place for another request to its host."""
        paced = self.keeper.interval(queue.host) > 0
        return self.engine.has_place(queue.slot, queue.host, paced=paced)

    def slot_due_in(self, queue: HostQueue) -> float:
        """Return the seconds for which the user's own delay of its slot holds *queue*."""
        wait = self.engine.due_in(queue.slot)
        return 0.0 if wait and self._is_refused(queue.host) else wait

    def hold_of(self, place: Place) -> tuple[float, str] | Where | None:
        """Return the seconds that *place* waits, and why; or what it waits for; ``None``: it may go.

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
        if (
            origin is not None
            and (policies := self.policies) is not None
            # A page that the HTTP cache has need not wait.
            and not (
                self._has_cache and not was_looked_up and self._is_away(origin, place)
            )
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
                return Where.ASKED if place.asked else Where.UNKNOWN
        if wait := keeper.pace_left(host):
            return wait, PACE
        return None

    def is_known(self, place: Place) -> bool:
        """Tell whether what decides for *place* is known, or nothing does."""
        if self.policies is None or place.key is None or place.key[0] is None:
            return True
        return self.policies.peek(place.key[0], place.page) is not None

    def _is_refused(self, host: str) -> bool:
        """Tell whether the gate refuses requests to *host*, as they would wait for too long."""
        if self._may_wait_long:
            return False
        wait = max(self.keeper.pace_left(host), self.keeper.parked_left(host))
        return wait > LONGEST_AT_PROMPT

    def _is_away(self, origin: str, of: Request | Place) -> bool:
        """Tell whether the robots.txt of *origin* cannot be fetched."""
        assert self.policies is not None
        page = of.page if isinstance(of, Place) else lambda: of
        return self.policies.is_away(origin, page)

    # The engine

    def wake(self) -> None:
        """Make the engine ask for a request; before it has begun, it will do so anyway."""
        engine = self._crawl.crawler.engine
        if engine is not None and engine.scraper.slot is not None:
            self.engine.wake()


class Schedule:
    """All host queues in which something waits, each in the one place that its ``where`` names.

    A ``deque`` or a heap may hold queues that have gone elsewhere since: they are skipped. So
    each step takes O(log n) for n queues, and most take O(1).
    """

    def __init__(self, permits: Permits, places: Places) -> None:
        self._permits = permits
        self._places = places
        self.due: deque[HostQueue] = deque()
        self.unknown: deque[HostQueue] = deque()
        self.full: OrderedDict[str, deque[HostQueue]] = OrderedDict()
        """By download slot, as a slot may be full for many hosts at once."""
        self.later: list[tuple[float, int, HostQueue]] = []
        """A heap: when each is due, a number that no other has, and the queue."""
        self._numbers = count()
        self.asked = 0
        """How many policies are being asked for."""
        self._asks = 0  # those that ever were

    def put(self, queue: HostQueue, where: Where) -> None:
        """Put *queue* at the end of the place *where*."""
        queue.where = where
        if where is DUE:
            self.due.append(queue)
        elif where is Where.UNKNOWN:
            self.unknown.append(queue)
        elif where is Where.FULL:
            self.full.setdefault(queue.slot, deque()).append(queue)

    def make_due(self, queue: HostQueue) -> None:
        """Let *queue* be looked at again in its turn, once it has a free place."""
        if not (queue.where is DUE or queue.where is Where.FULL):
            self.put(queue, DUE)

    def take_due(self) -> HostQueue | None:
        """Take out the queue that has been due for longest; ``None``: none is due."""
        while self.due:
            queue = self.due.popleft()
            if queue.where is DUE:
                return queue
        return None

    # Those that wait for a time

    def park(self, queue: HostQueue, wait: float) -> None:
        """Let *queue* wait for *wait* seconds."""
        queue.where = LATER
        queue.due_at = monotonic() + wait
        if len(self.later) > 2 * len(self._places) + 16:  # most entries were replaced
            self.later = [*filter(_is_held, self.later)]
            heapify(self.later)
        heappush(self.later, (queue.due_at, next(self._numbers), queue))

    def left(self) -> float:
        """Return the seconds until the next queue may be due; ``inf``: none waits."""
        return self.later[0][0] - monotonic() if self.later else inf

    def wake_due(self) -> None:
        """Let those whose time has come be looked at."""
        later, now = self.later, monotonic()
        while later and later[0][0] <= now:
            entry = heappop(later)
            if _is_held(entry):
                self.put(entry[2], DUE)

    def latest(self) -> Iterator[HostQueue]:
        """Return those that wait for a time, the one that waits for longest first."""
        return (each[2] for each in sorted(self.later, reverse=True) if _is_held(each))

    # Those without a free place

    def recheck_full(self, most: int) -> None:
        """Let one queue of up to *most* slots be looked at, if it has a free place now."""
        for _ in range(min(most, len(self.full))):
            slot, waiting = self.full.popitem(last=False)
            for _ in range(len(waiting)):
                queue = waiting.popleft()
                if queue.where is not Where.FULL:
                    continue
                if self._permits.is_free(queue):
                    self.put(queue, DUE)
                    break
                waiting.append(queue)
            if waiting:
                self.full[slot] = waiting

    # Policies are asked for ahead of need: they are known, or on their way, in time

    def ask_ahead(self) -> None:
        """Ask for policies that are not known, as many at a time as may be."""
        unknown, policies = self.unknown, self._permits.policies
        while unknown and policies is not None:
            bound = policies.bound
            if self.asked >= self._permits.most_asked + bound.slow:
                return
            self._asks += 1
            if bound.hosts_hang and self._asks % 2:
                # So that a host behind hundreds that hang need not wait until all were asked.
                unknown.rotate(randrange(len(unknown)))  # noqa: S311
            queue = unknown.popleft()
            if queue.where is not Where.UNKNOWN:
                continue
            queue.where = Where.ASKED
            for place in queue.places:
                if self._permits.hold_of(place) is Where.UNKNOWN:
                    self._ask(place, policies)
                    if len(queue.places) > 1:
                        self.make_due(queue)  # another place may go meanwhile
                    break
            else:  # known by now
                self.make_due(queue)

    def _ask(self, place: Place, policies: Policies) -> None:
        page = self._places.next_of(place) or place.page()
        assert page is not None
        assert place.key is not None
        self.asked += 1
        place.asked = True
        asking = policies.ask(place.key[0] or "", page, ahead=True)

        def answered(_: object) -> None:
            self.asked -= 1
            # If the answer must not be kept, or is forgotten before the host is due, asking
            # again would send requests for robots.txt and nothing else.
            place.asked = place.ask_ahead = False
            if place.queue.where is not Where.GONE:
                self.make_due(place.queue)
            self._permits.wake()

        asking.addBoth(answered)

    def promised(self) -> int:
        """Return how many free places are promised to requests whose policies are asked for.

        A policy that takes long has a place lent, and its requests are promised none.
        """
        if self._permits.policies is None or not self.asked:
            return 0
        bound = self._permits.policies.bound
        return self.asked - bound.slow + bound.prompt


def _is_held(entry: tuple[float, int, HostQueue]) -> bool:
    due_at, _, queue = entry
    return queue.where is LATER and queue.due_at == due_at
