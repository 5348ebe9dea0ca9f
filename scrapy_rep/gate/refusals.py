"""What the gate refuses, and all who are told of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scrapy_rep.events.of_hosts import BudgetSpent, Copy
from scrapy_rep.events.of_requests import Judged, Refused
from scrapy_rep.judging.ruling import BUDGET, DOWN, OF_HOST, Judge, because
from scrapy_rep.judging.target import judged
from scrapy_rep.protocol.printable import counted, duration, without_user
from scrapy_rep.signals import request_forbidden

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_rep.crawl import Crawl
    from scrapy_rep.exceptions import RobotsRefused
    from scrapy_rep.judging.ruling import Objection
    from scrapy_rep.policies import Known

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
    """Makes the exceptions by which requests are refused, and tells the log and all others."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawler = crawl.crawler
        self._settings = crawl.settings
        self._tell = crawl.events.tell
        self._is_heard = crawl.events.listeners(Judged)
        self._agents = crawl.agents
        self._policies = crawl.policies
        self._keeper = crawl.keeper
        self._over_budget: set[str] = set()
        """Hosts of which a request was refused as they have had all that they may have."""
        failed_for = duration(crawl.settings.back_off_give_up)
        why = f"its host has done nothing but fail for {failed_for} (REP_BACK_OFF_GIVE_UP)"
        self.down = because(DOWN, why)
        """For requests to a host that does nothing but fail."""
        self._patient_judge = Judge(replace(crawl.settings, wait=True))

    def over(self, host: str) -> Objection:
        """Return the objection to one more request to *host*, and tell of the first one."""
        budget = self._keeper.budget_of(host)
        if budget is not None and host not in self._over_budget:
            self._over_budget.add(host)
            self._tell(BudgetSpent(host, budget))
        requests = counted(budget or 0, "request")
        reason = f"its host has had {requests} of this crawl (REP_HOST_BUDGET)"
        return because(BUDGET, reason)

    def refuse_for_host(self, request: Request, objection: Objection) -> RobotsRefused:
        """Return the exception by which *request* is refused, whatever is allowed there."""
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
        """Tell everyone that *request*, judged by *url*, is refused; return the exception.

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
        """Return what a crawl, which waits, would do with *request*, for who is at a prompt."""
        if known is not None and not wait:
            agent, now = self._agents.of(request), self._policies.now()
            allowed = known.policy.allowed(url, agent)
            wait = self._patient_judge.rule(url, known, agent, now, allowed).seconds
        if not wait:
            return "A crawl would not fetch it either"
        waits = f"A crawl would wait {duration(wait)} for that"
        return f"{waits}; with -s REP_WAIT=1 this does, too"
