"""The tdmrep.json of each origin, for crawls that mine text and data (REP_PURPOSE has "tdm").

TDMRep wants the file to be checked before a site is scraped. It is fetched before the first page
of an origin, as a page is: judged by the robots.txt, at its pace. It says what the use of pages is,
and a page's own headers supersede it, so that a no refuses no request: items are dropped. Where a
yes is wanted (REP_PURPOSE_UNSTATED), its yes lets requests go.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from scrapy import signals
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import CancelledError

from scrapy_rep.crawl import Crawl
from scrapy_rep.events.kinds import NoTdmrep
from scrapy_rep.exceptions import RobotsForbidden
from scrapy_rep.policies.fetcher import described, request_for
from scrapy_rep.policies.sharing import OneAtATime
from scrapy_rep.protocol import access
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.preferences import (
    NO,
    TDM,
    WELL_KNOWN,
    Preference,
    Preferences,
    parse_tdmrep,
    tdm_preferences,
)

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from scrapy_rep.protocol.preferences import TdmRule

MAX_SIZE = 2**20
"""Octets of a file; a longer one is a failure."""
MAX_ORIGINS = 10_000
"""Whose files are remembered; then the one asked for first is forgotten."""
META_OF_ROBOTS = (
    "dont_obey_robotstxt",
    "dont_redirect",
    "dont_retry",
    "handle_httpstatus_all",
)
"""What a request for a robots.txt has, and this one has not."""


class KnownFile(NamedTuple):
    rules: tuple[TdmRule, ...]
    until: float
    """When it is asked for again, in seconds since 1970."""
    failure: str = ""
    """"": it could be fetched."""


BROKEN_OFF = KnownFile((), 0.0, "asking was broken off")
FORGOTTEN = KnownFile((), 0.0, "it was forgotten")


class TdmMiddleware:
    """Downloader middleware before ``RepMiddleware``: a page waits for its tdmrep.json."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._crawl = crawl = Crawl.of(crawler)
        purposes = crawl.judge.purposes
        obeys = crawler.settings.getbool("ROBOTSTXT_OBEY")
        if not obeys or purposes is None or TDM not in crawl.settings.purpose:
            raise NotConfigured  # without a message: it is what the user wants
        purposes.of_file = self.preferences
        self._files: OrderedDict[str, KnownFile] = OrderedDict()
        self._fetches = OneAtATime(
            self._find, self._keep, crawl.engine.is_ending, crawl.events
        )
        crawler.signals.connect(self._fetches.close, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def preferences(self, url: str) -> Preferences:
        known = self._files.get(origin_of(url) or "", FORGOTTEN)
        if known.failure:
            # Beyond TDMRep, which takes a file that cannot be fetched for none.
            said = f"nothing, as its tdmrep.json could not be fetched ({known.failure})"
            return Preferences({TDM: Preference(NO, said)})
        return tdm_preferences(known.rules, url)

    async def process_request(self, request: Request) -> None:
        if request.callback is NO_CALLBACK or request.meta.get("dont_obey_robotstxt"):
            return
        origin, policies = origin_of(request.url), self._crawl.policies
        if origin is None or policies.now() < self._files.get(origin, FORGOTTEN).until:
            return
        with policies.bound.lending_place():
            await maybe_deferred_to_future(self._fetches.ask(origin, request))

    def _keep(self, origin: str, known: KnownFile = BROKEN_OFF) -> KnownFile:
        self._files[origin] = known
        if len(self._files) > MAX_ORIGINS:
            self._files.popitem(last=False)
        return known

    async def _find(self, origin: str, page: Request) -> KnownFile:
        settings, now = self._crawl.settings, self._crawl.policies.now
        again = settings.unreachable_ttl
        try:
            rules, failure = await self._fetch(origin, page)
            again = again if failure else settings.max_age
        except CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a download may raise
            rules, failure = (), described(error)
            if isinstance(error, IgnoreRequest):  # not sent, perhaps only for now
                again = 0.0
        events = self._crawl.events
        events.count("tdmrep/origins")
        if failure:
            events.tell(NoTdmrep(origin, failure))
        return self._keep(origin, KnownFile(rules, now() + again, failure))

    async def _fetch(
        self, origin: str, page: Request
    ) -> tuple[tuple[TdmRule, ...], str]:
        """Return its rules, and why they cannot be fetched."""
        crawl, engine = self._crawl, self._crawler.engine
        assert engine is not None
        asked = access.Request(origin + WELL_KNOWN, {})
        agent = crawl.agents.header(page)
        request = request_for(asked, origin, page, agent, crawl.settings)
        for name in META_OF_ROBOTS:
            request.meta.pop(name, None)
        request.meta["download_maxsize"] = MAX_SIZE
        try:
            response = await engine.download_async(request)
        except RobotsForbidden as refusal:
            if refusal.verdict.rule is None:
                raise
            return (), ""  # by a rule: then it is not meant for us
        status = response.status
        if status == 429 or status >= 500:
            return (), str(status)
        return parse_tdmrep(response.body) if 200 <= status < 300 else (), ""
