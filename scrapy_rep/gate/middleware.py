"""The gate: every request passes it, and nothing that robots.txt forbids does."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.misc import load_object

from scrapy_rep.crawl import Crawl
from scrapy_rep.engine.inner import SLOT, Downloader, hop_of, is_on_the_way
from scrapy_rep.engine.tools import cached_page, sleep
from scrapy_rep.events.kinds import (
    Exempt,
    FromHttpCache,
    Judged,
    OnTheWay,
    SentAgainstRules,
    Unsent,
)
from scrapy_rep.events.waits import ASKED
from scrapy_rep.exceptions import NotNow, StillParked
from scrapy_rep.gate.evidence import collect_evidence
from scrapy_rep.gate.holding import (
    NOT_JUDGED,
    MetaKeys,
    hints_at_end,
    hints_at_start,
    is_ours,
    what_holds,
)
from scrapy_rep.gate.outcomes import (
    MAX_WAITING,
    ON_THE_WAY,
    TOO_MANY_WAIT,
    Refusals,
    Symptoms,
)
from scrapy_rep.gate.robots import equip
from scrapy_rep.judging.ruling import (
    SEND,
    UNREACHABLE,
    Action,
    too_soon,
)
from scrapy_rep.judging.target import (
    INSTEAD_KEY,
    NOTE_KEY,
    judged,
    leave_behind,
    note_origin,
)
from scrapy_rep.pacing.hosts import LONGEST_AT_PROMPT
from scrapy_rep.pacing.keeper import OverBudgetError
from scrapy_rep.policies import Known

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

    from scrapy_rep.judging.ruling import Ruling

SENT_BACK_AFTER = 0.1
"""Seconds after which too many that wait go back. Scrapy may hand them out again at once, and
without asyncio before anything else happens: the robots.txt would never come."""
MAX_WAIT_AT_HAND = 1.0
"""Seconds for which a request may wait in the downloader, rather than in the queue."""


class RepMiddleware:
    """For DOWNLOADER_MIDDLEWARES: judges each request by the robots.txt of its origin.

    A request that may not be sent gets ``RobotsForbidden``, ``RobotsUnreachable`` or
    ``HostRefused``.
    """

    leaves_the_way = True
    """Whether the downloader is ours, which tells pages apart from what a robots.txt waits for."""

    def __init__(self, crawler: Crawler) -> None:
        if not crawler.settings.getbool("ROBOTSTXT_OBEY"):
            raise NotConfigured(NOT_JUDGED)  # which Scrapy tells as a WARNING
        self._crawler = crawler
        self._crawl = crawl = Crawl.of(crawler)
        crawl.is_judged = True
        self._events = events = crawl.events
        self._agents = crawl.agents
        self._policies = crawl.policies
        self._engine = crawl.engine
        self._keeper = crawl.keeper
        self._judge = crawl.judge
        collect_evidence(crawl)
        self._hear_judged = events.listeners(Judged)
        self._hear_exempt = events.listeners(Exempt)
        self._refusals = refusals = Refusals(crawl)
        self._refuse = refusals.refuse
        self._has_job = bool(crawler.settings["JOBDIR"])
        if self._has_job and is_ours(crawler.settings["SCHEDULER"]):
            # The scheduler's. Where that cannot open it, Scrapy's command ends as if all were well.
            from scrapy_rep.frontier.job_file import JobFile  # noqa: PLC0415 - few need it

            self._job = JobFile.of(crawler)
        self._has_cache = crawl.has_cache
        symptoms = Symptoms(crawl.settings, crawl.keeper, events, crawl.policies.now)
        crawl.engine.starts.on_over.append(symptoms.heed)
        self._meta_keys = MetaKeys(events)
        self._known_keys = self._meta_keys.seen
        crawl.log.begin()
        if crawler.spider is not None:
            self._equip()
        crawler.signals.connect(self._spider_opened, signals.spider_opened)
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        downloader = load_object(crawler.settings["DOWNLOADER"])
        if cls is RepMiddleware and not issubclass(downloader, Downloader):
            return WaitingMiddleware(crawler)  # type: ignore[return-value]
        return cls(crawler)

    def _equip(self) -> None:
        equip(self._crawler)  # not every project that enables this has the add-on
        self._agents.of()  # where it is wrong, nothing begins

    def _spider_opened(self, spider: Spider) -> None:
        self._equip()
        self._agents.warn_if_unsent()
        holding = what_holds(self._crawler.settings, spider)
        self._events.tell_user(holding.in_words())
        for sentence in holding.warnings:
            self._events.warn_user(sentence)
        self._crawl.permissions.tell_of_all(self._events, self._policies.now())
        self._crawl.log.opened()
        for sentence in hints_at_start(self._agents.header()):
            self._events.tell_user(sentence)

    def _spider_closed(self) -> None:
        self._crawl.log.closed()
        assert self._crawler.stats is not None
        settings, count = self._crawler.settings, self._crawler.stats.get_value
        for sentence in hints_at_end(settings, count):
            self._events.tell_user(sentence)

    # Where the policy is known, nothing is awaited.
    async def process_request(self, request: Request) -> Request | Response | None:
        """Let *request* pass, or raise a ``RobotsRefused``.

        A request that may be sent later goes back to the frontier, to wait there. Where
        the robots.txt cannot be fetched, a page may come from Scrapy's HTTP cache.
        """
        url, meta, keeper = request.url, request.meta, self._keeper
        if meta:
            if NOTE_KEY in meta:
                leave_behind(request, meta, self._engine.slot_of)
            if not self._known_keys.issuperset(meta):
                self._meta_keys.look(meta)
        found = judged(url, meta)
        if found is None or INSTEAD_KEY in meta:
            note_origin(url, meta)
        else:  # most are such
            meta[NOTE_KEY] = url
        is_any_parked = keeper.is_any_parked()
        if is_any_parked and self._is_down(request):
            raise self._refusals.refuse_for_host(request, self._refusals.down)
        if keeper.has_budgets and keeper.is_used_up(host := keeper.host_of(request)):
            raise self._refusals.refuse_for_host(request, self._refusals.over(host))
        if found is None:
            if self._hear_exempt:
                self._events.tell(Exempt(request))
            return None
        url, origin = found
        now = self._policies.now()
        known = self._policies.known(origin, request, now)
        if known is None or (self._has_cache and known.unreachable):
            answer = (
                await self._cached(request, origin)
                or known
                or await self._learn(request, url, origin)
            )
            if not isinstance(answer, Known):
                return answer
            known, now, is_any_parked = answer, self._policies.now(), True
        agent, policy = self._agents.of(request), known.policy
        verdict = policy.verdict(url, agent) if self._hear_judged else None
        allowed = policy.allowed(url, agent) if verdict is None else verdict.allowed
        ruling = self._judge.rule(url, known, agent, now, allowed)
        if (
            verdict is None
            and ruling is SEND
            and not (is_any_parked or keeper.keeps_intervals)
        ):
            return None
        again = self._obey(request, url, known, ruling)
        if verdict is None or again is not None:
            return again
        if ruling.permission is not None:
            self._events.tell(Exempt(request))
            return None
        cause, verdict = ruling.left_out[0] if ruling.left_out else (None, verdict)
        told = request, url, agent, verdict, cause, cause is None, policy
        self._events.tell(Judged(*told, known.as_copy(), time=now))
        return None

    async def _learn(
        self, request: Request, url: str, origin: str
    ) -> Known | Request | Response | None:
        """Return what decides, or what comes of *request* else."""
        can_wait = self._can_wait(request)
        if is_on_the_way(self._crawler, origin) and not can_wait:
            self._let_pass(request, url, origin)
            return None
        host = self._keeper.host_of(request)
        parked = self._crawl.settings.wait and self._keeper.parked_left(host)
        # The robots.txt of a parked host is not asked for either; or it is asked for again, and
        # *request* was handed out for the HTTP cache to be looked up.
        if can_wait and (
            parked > MAX_WAIT_AT_HAND or self._may_be_cached(request, origin)
        ):
            return self._again(request)
        if self._policies.bound.pages >= MAX_WAITING:
            if not self._may_go_back(request):
                raise self._refuse(request, url, origin, TOO_MANY_WAIT)
            await sleep(SENT_BACK_AFTER)
            return self._again(request)
        shown = self._crawl.waits.holding(host, ASKED)
        with self._policies.bound.lending_place(), shown:
            known = await self._policies.get(origin, request)
        return await self._cached(request, origin) or known

    def _let_pass(self, request: Request, url: str, origin: str) -> None:
        """Let *request* pass unjudged, as its robots.txt waits for it.

        Where neither scheduler nor downloader are ours, it might be a page: it is refused.
        """
        if not (self._crawl.is_queued or self.leaves_the_way):
            raise self._refuse(request, url, origin, ON_THE_WAY)
        note_origin(request.url, request.meta, unjudged=ON_THE_WAY.cause)
        self._events.tell(OnTheWay(request, url, origin))

    async def _cached(self, request: Request, origin: str) -> Response | None:
        """Return the page of *request* if it need not leave, as its robots.txt is not known.

        Returned from here, it passes by whatever else might send the request.
        """
        if not self._may_be_cached(request, origin):
            return None
        page = await cached_page(self._crawler, request)
        if page is not None:
            self._events.tell(FromHttpCache(request, request.url, origin))
        return page

    def _may_be_cached(self, request: Request, origin: str) -> bool:
        return self._has_cache and self._policies.is_away(origin, lambda: request)

    def _obey(
        self, request: Request, url: str, known: Known, ruling: Ruling
    ) -> Request | None:
        """Do what *ruling* says: return *request* where it goes back, to wait."""
        for left_out in ruling.left_out:
            refusal = left_out.refusal(url, known.origin)
            self._events.tell(SentAgainstRules(refusal, left_out.cause))
        objection = ruling.objection
        if objection is None:
            again = self._keep_pace(request, url, known, ruling.interval)
            if again is None and ruling.permission is not None:
                self._events.count("permitted")
                why = f"REP_HOSTS: {ruling.permission.reason}"
                note_origin(request.url, request.meta, unjudged=why)
            return again
        is_unreachable = objection.cause == UNREACHABLE
        may_wait = ruling.action is Action.WAIT and self._can_wait(request)
        if may_wait or (is_unreachable and self._goes_back_at_end(request)):
            return self._again(request)
        fault = known.fault if is_unreachable else None
        if fault is None or self._crawl.settings.wait:
            refusal = self._refuse(request, url, known.origin, objection, known)
        # A fault is raised as without us: it tells a person more than we can.
        raise fault.with_traceback(None) if fault is not None else refusal

    def _keep_pace(
        self, request: Request, url: str, known: Known, interval: float
    ) -> Request | None:
        keeper = self._keeper
        if not (interval or keeper.keeps_intervals or keeper.is_any_parked()):
            return None
        host = keeper.host_of(request)
        keeper.keep(host, known.origin, interval)
        parked = keeper.parked_left(host)
        wait = max(parked, keeper.pace_left(host)) if interval else parked
        if wait > LONGEST_AT_PROMPT and not self._crawl.settings.wait:
            objection = too_soon(wait, interval, is_parked=wait == parked)
            raise self._refuse(request, url, known.origin, objection, known, wait=wait)
        if wait > MAX_WAIT_AT_HAND and self._can_wait(request):
            return self._again(request)  # its pace was not known when it was handed out
        return None

    def process_exception(
        self, request: Request, exception: Exception
    ) -> Request | None:
        """Send *request* back to its queue if the crawl ends, or if it may not wait here.

        If its host is down, or has had all the requests that it may have, it is refused.
        """
        if isinstance(exception, OverBudgetError):
            over = self._refusals.over(self._keeper.host_of(request))
            raise self._refusals.refuse_for_host(request, over) from exception
        is_ours = isinstance(exception, (NotNow, StillParked))
        if not is_ours or hop_of(request) is not None:
            return None
        if self._is_down(request):
            down = self._refusals.down
            raise self._refusals.refuse_for_host(request, down) from exception
        if self._can_wait(request) or self._goes_back_at_end(request):
            return self._again(request)
        self._events.tell(Unsent(exception))
        return None

    def _can_wait(self, request: Request) -> bool:
        """Tell whether *request* comes from the frontier."""
        if not self._crawl.is_queued:
            return False
        return request in self._engine.handed_out.by(
            SLOT, self._engine.slot_of(request)
        )

    def _may_go_back(self, request: Request) -> bool:
        """Tell whether *request* comes from a scheduler, which takes it again.

        Of another queue than ours only ``NO_CALLBACK`` tells, as media pipelines have it.
        """
        if self._crawl.is_queued:
            return self._can_wait(request)
        return request.callback is not NO_CALLBACK

    def _goes_back_at_end(self, request: Request) -> bool:
        """Tell whether the crawl ends, and its job keeps *request* for the next run.

        What has gone back and comes once more, as from ``engine.download_async``, would never end
        coming.
        """
        if not (self._engine.is_ending() and self._may_go_back(request)):
            return False
        is_new = request not in self._engine.handed_out.sent_back
        return self._crawl.is_queued or (self._has_job and is_new)

    def _again(self, request: Request) -> Request:
        again = request.replace(dont_filter=True)
        self._engine.handed_out.sent_back[again] = ref(request)
        return again

    def _is_down(self, request: Request) -> bool:
        return self._keeper.refuses(self._keeper.host_of(request))


class WaitingMiddleware(RepMiddleware):
    """The same where the user has a downloader of another kind: requests wait here."""

    leaves_the_way = False

    async def process_request(self, request: Request) -> Request | Response | None:
        instead = await super().process_request(request)
        if instead is None:
            await self._engine.starts.start_at_gate(request)
        return instead

    async def process_response(self, request: Request, response: Response) -> Response:
        await self._engine.starts.end_at_gate(request, response)
        return response

    async def process_exception(  # type: ignore[override]
        self, request: Request, exception: Exception
    ) -> Request | None:
        await self._engine.starts.end_at_gate(request, exception)
        return super().process_exception(request, exception)
