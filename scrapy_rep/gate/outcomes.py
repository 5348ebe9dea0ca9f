"""What comes of requests: who is told that one is refused, and what answers say of a host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scrapy_rep.engine.inner import LOST, REFUSED, TIMEOUT, kind_of
from scrapy_rep.events.kinds import (
    BackedOff,
    BudgetSpent,
    Copy,
    Demanded,
    Down,
    Judged,
    Refused,
)
from scrapy_rep.judging.ruling import BUDGET, DOWN, OF_HOST, Judge, because
from scrapy_rep.judging.target import judged
from scrapy_rep.pacing.hosts import SERVICE_UNAVAILABLE, TOO_MANY_REQUESTS, WELL
from scrapy_rep.policies.lifecycle import fields_of, retry_after
from scrapy_rep.protocol.answers import REFUSALS, demand_of
from scrapy_rep.protocol.printable import counted, duration, without_user
from scrapy_rep.signals import request_forbidden

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.http import Response

    from scrapy_rep.crawl import Crawl
    from scrapy_rep.engine.inner import Departure, Outcome
    from scrapy_rep.events.stream import Stream
    from scrapy_rep.exceptions import RobotsRefused
    from scrapy_rep.judging.ruling import Objection
    from scrapy_rep.pacing.keeper import Keeper
    from scrapy_rep.policies import Known
    from scrapy_rep.settings import Settings

MAX_WAITING = 1000
"""How many requests of a crawl wait here for a robots.txt; the others go back."""
TOO_MANY_WAIT = because(
    "waiting",
    f"its robots.txt is not known yet, and {MAX_WAITING} requests wait for theirs",
)
ON_THE_WAY = because(
    "on_the_way",
    "a middleware sends it while it holds up its robots.txt; if that is right, give it "
    "dont_obey_robotstxt in its meta",
)


class Refusals:
    def __init__(self, crawl: Crawl) -> None:
        self._crawler = crawl.crawler
        self._settings = crawl.settings
        self._tell = crawl.events.tell
        self._is_heard = crawl.events.listeners(Judged)
        self._agents = crawl.agents
        self._policies = crawl.policies
        self._keeper = crawl.keeper
        self._over_budget: set[str] = set()
        """Hosts of whose spent budget was told."""
        failed_for = duration(crawl.settings.back_off_give_up)
        why = f"its host has done nothing but fail for {failed_for} (REP_BACK_OFF_GIVE_UP)"
        self.down = because(DOWN, why)
        self._patient_judge = Judge(replace(crawl.settings, wait=True))

    def over(self, host: str) -> Objection:
        """Return the objection to one more request to *host*; tell of the first one."""
        budget = self._keeper.budget_of(host)
        if budget is not None and host not in self._over_budget:
            self._over_budget.add(host)
            self._tell(BudgetSpent(host, budget))
        requests = counted(budget or 0, "request")
        reason = f"its host has had {requests} of this crawl (REP_HOST_BUDGET)"
        return because(BUDGET, reason)

    def refuse_for_host(self, request: Request, objection: Objection) -> RobotsRefused:
        page = request.url
        url, origin = judged(page, request.meta) or (without_user(page), "")
        known = self._policies.peek(origin, lambda: request) if origin else None
        return self.refuse(request, url, origin, objection, known)

    def refuse(
        self,
        request: Request,
        url: str,
        origin: str,
        objection: Objection,
        known: Known | None = None,
        *,
        wait: float = 0.0,
    ) -> RobotsRefused:
        """Tell that *request*, judged by *url*, is refused; return the exception.

        *wait*: a crawl would send it so many seconds later.
        """
        refusal = objection.refusal(url, origin)
        patient = not self._settings.wait
        instead = self._with_patience(request, url, known, wait) if patient else ""
        is_of_site = objection.cause not in OF_HOST
        self._tell(Refused(refusal, objection.cause, is_of_site, instead))
        if self._is_heard:
            agent, verdict = self._agents.of(request), refusal.verdict
            policy, copy = None, Copy(origin)
            if known is not None:
                policy, copy = known.policy, known.as_copy()
            told = request, url, agent, verdict, objection.cause, True, policy, copy
            self._tell(Judged(*told))
        self._crawler.signals.send_catch_log(
            signal=request_forbidden,
            request=request,
            verdict=refusal.verdict,
            spider=self._crawler.spider,
        )
        return refusal

    def _with_patience(
        self, request: Request, url: str, known: Known | None, wait: float
    ) -> str:
        """Return what a crawl, which waits, would do, for who is at a prompt."""
        if known is not None and not wait:
            agent, now = self._agents.of(request), self._policies.now()
            allowed = known.policy.allowed(url, agent)
            wait = self._patient_judge.rule(url, known, agent, now, allowed).seconds
        if not wait:
            return "A crawl would not fetch it either"
        waits = f"A crawl would wait {duration(wait)} for that"
        return f"{waits}; with -s REP_WAIT=1 this does, too"


OF_THE_HOST = frozenset({REFUSED, TIMEOUT})
"""Failures that speak for the host; a lost connection may be about one page."""
IN_A_ROW = 3
"""So many pages in a row speak for the host, too."""
MAX_ROWS = 10_000


class Symptoms:
    """Heeds what comes of requests for pages: a robots.txt is asked for again later."""

    def __init__(
        self,
        settings: Settings,
        keeper: Keeper,
        events: Stream,
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._keeper = keeper
        self._events = events
        self._now = now
        self._backs_off = "back-off" in settings.obey
        self._rows: dict[str, set[int]] = {}
        """Host -> the pages that have failed in a row, by their hashes."""

    def heed(self, departure: Departure, outcome: Outcome) -> None:
        if departure.robots_hop is not None or outcome is None:
            return
        if not isinstance(outcome, Exception):
            self._heed_answer(departure, outcome)
        elif departure.host:
            kind = kind_of(outcome)
            if kind in OF_THE_HOST or (kind == LOST and self._is_a_row(departure)):
                self._suffers(departure, kind)

    def _heed_answer(self, departure: Departure, response: Response) -> None:
        status, host = response.status, departure.host
        if status < 500 and status != TOO_MANY_REQUESTS:
            if status in REFUSALS:
                self._look_for_demand(departure, response)
            if self._rows:
                self._rows.pop(host, None)
            if self._keeper.health(host) is not WELL:
                self._keeper.note_success(host, departure.started_at)
            return
        if host and status in {TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE}:
            # Then Retry-After is about the host.
            asked = retry_after(fields_of(response.headers), self._now())
            self._suffers(departure, str(status), status, asked)
        elif host and self._is_a_row(departure):
            self._suffers(departure, str(status), status)

    def _look_for_demand(self, departure: Departure, response: Response) -> None:
        request = departure.request
        demand = demand_of(request.url, response.status, fields_of(response.headers))
        if demand is None:
            return
        if response.status in self._settings.retried:
            request.meta["dont_retry"] = True  # another try would get the same answer
        host, url, status = departure.host, without_user(request.url), response.status
        terms = demand.license or None, demand.price or None
        self._events.tell(Demanded(host, url, status, demand.cause, *terms))

    def _is_a_row(self, departure: Departure) -> bool:
        """Note that a page failed; tell whether so many have that it is not the page."""
        if self._keeper.health(departure.host).since is not None:
            return True
        if len(self._rows) >= MAX_ROWS:
            self._rows.clear()
        row = self._rows.setdefault(departure.host, set())
        if len(row) < IN_A_ROW:
            row.add(hash(departure.request.url))
        return len(row) >= IN_A_ROW

    def _suffers(
        self,
        departure: Departure,
        what: str,
        status: int | None = None,
        asked: float = 0,
    ) -> None:
        """Leave the host alone for as long as it has *asked* for, or as it has failed."""
        keeper, settings, host = self._keeper, self._settings, departure.host
        heeded = asked if "retry-after" in settings.obey else 0.0
        if not (heeded or self._backs_off):
            self._events.count("backoff/ignored")
            return
        pause = min(heeded, settings.retry_after_max)
        if self._backs_off:
            before, health = keeper.note_failure(
                host, departure.started_at, status, pause
            )
            is_news = health.at != before.at
            if is_news and keeper.is_down(host):
                self._events.tell(Down(host, settings.back_off_give_up))
            if is_news and not heeded:
                pause = health.resumes - health.at
        url = without_user(departure.request.url)
        longer, down = keeper.park(host, pause, what), keeper.refuses(host) or None
        told = host, url, what, pause, longer
        self._events.tell(BackedOff(*told, asked=heeded or None, down=down))
