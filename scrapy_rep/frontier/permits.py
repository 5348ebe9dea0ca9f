"""All that the frontier asks the rest of the crawl."""

from __future__ import annotations

from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

from scrapy_rep.engine.downloader import HOST
from scrapy_rep.events.waits import PACE
from scrapy_rep.judging.ruling import PARKED
from scrapy_rep.judging.target import EXEMPT_KEY, INSTEAD_KEY, SLOT_KEY, judged
from scrapy_rep.settings import LONGEST_AT_PROMPT

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_rep.crawl import Crawl
    from scrapy_rep.frontier.ledger import HostQueue, Key, Place, Where
    from scrapy_rep.protocol import Agent

HOST_START = len("https://")
"""No slash before this one ends a host."""
MOST_STARTS = 4096
SAID_OF_ORIGIN = frozenset({EXEMPT_KEY, INSTEAD_KEY, SLOT_KEY})
NOT_JUDGED: tuple[Agent, str] = ("", "")
UNJUDGED: Key = (None, *NOT_JUDGED, False)


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
        free_places = crawl.crawler.settings.getint("CONCURRENT_REQUESTS") or 16
        self.most_asked = 2 * free_places
        """Of how many policies are asked for ahead at a time, those that take long aside."""
        by_host = self.engine.names_slots_by_host
        self._starts_tell = by_host and not callable(crawl.settings.pace_by)
        self._of_starts: dict[str, tuple[str, str, str | None]] = {}
        """What ``_of_request`` returns of all URLs that begin so: a crawl has far fewer hosts
        than pages."""
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
        except ValueError:  # the gate will say what is wrong
            return host, slot, UNJUDGED
        was_looked_up = (
            self._is_away is not None
            and request in self.engine.handed_out.sent_back
            and self._is_away(origin, lambda: request)
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
        return (self._agents.of(), self._agents.header()) if origin else NOT_JUDGED

    # Whether it may go

    def slot_left(self, queue: HostQueue) -> float:
        """Return the seconds until its slot may start another request to its host.

        0: now; ``inf``: once it has a free place. A host with an interval has one place, until the
        answer begins.
        """
        host, engine = queue.host, self.engine
        if self.keeper.interval(host) and engine.handed_out.by(HOST, host):
            return inf
        wait = engine.free_in(queue.slot)
        return 0.0 if 0 < wait < inf and self._is_refused(host) else wait

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
        """Tell whether nothing was ever known of what decides for *place*."""
        origin = (place.key and place.key[0]) or ""
        policies = self.policies if origin else None
        return policies is not None and not policies.remembers(origin)

    def _is_refused(self, host: str) -> bool:
        """Tell whether the gate refuses requests to *host*, as they would wait for too long."""
        if self._may_wait_long:
            return False
        wait = max(self.keeper.pace_left(host), self.keeper.parked_left(host))
        return wait > LONGEST_AT_PROMPT

    # The engine

    def wake(self) -> None:
        """Make the engine ask for a request; before it has begun, it will do so anyway."""
        engine = self._crawl.crawler.engine
        if engine is not None and engine.scraper.slot is not None:
            self.engine.wake()
