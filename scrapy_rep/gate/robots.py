"""``spider.robots``: what a spider may ask of the robots.txt of any origin; its sitemaps."""

from __future__ import annotations

from functools import cached_property
from time import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from scrapy import Request
from scrapy.settings import Settings as ScrapySettings
from scrapy.spiders import SitemapSpider
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred, DeferredQueue

from scrapy_rep.crawl import Crawl
from scrapy_rep.engine.tools import sleep
from scrapy_rep.gate.pages import preferences_of, read_page
from scrapy_rep.judging.ruling import UNREACHABLE, Judge
from scrapy_rep.judging.target import Agents, Chooser
from scrapy_rep.policies import Known
from scrapy_rep.policies.sharing import END_CHECK_SECONDS
from scrapy_rep.protocol import parse
from scrapy_rep.protocol.access import some_origin_of
from scrapy_rep.protocol.origins import origin_of, robots_url
from scrapy_rep.protocol.preferences import combine
from scrapy_rep.protocol.printable import mask_uri, without_user
from scrapy_rep.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import TypeVar

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.events.waits import Waiting
    from scrapy_rep.judging.ruling import Ruling
    from scrapy_rep.protocol import Agent, Policy, Preferences, Verdict

    Answer = TypeVar("Answer")


ORIGINS_AHEAD = 100
"""Robots.txt files that are waited for at a time."""


class Robots:
    """``spider.robots``: what is known of the robots.txt of every origin, while a crawl runs.

    URLs are absolute http or https URLs. The agent is that of the spider's requests.
    """

    def __init__(
        self, parts: Callable[[], Crawl], crawler: Crawler | None = None
    ) -> None:
        self._find_parts = parts
        self.crawler = crawler
        self._has_warned = False

    @cached_property
    def _parts(self) -> Crawl:
        return self._find_parts()

    def allowed(self, url: str) -> bool | None:
        """Tell whether *url* may be fetched.

        ``None``: the robots.txt of its origin is not known (yet), or it has no origin.
        """
        return self._ask(url, lambda policy, agent: policy.allowed(url, agent))

    def verdict(self, url: str) -> Verdict | None:
        """Return the verdict on *url*, with its rule and line; ``None``: not known."""
        return self._ask(url, lambda policy, agent: policy.verdict(url, agent))

    def ruling(self, url: str) -> Ruling | None:
        """Return what this crawl would do with a request for *url* now; ``None``: not known.

        Unlike ``allowed`` this depends on the crawl's settings and the time of day, too:
        ``.action`` is ``Action.SEND``, ``WAIT`` (for ``.seconds``) or ``REFUSE``, and
        ``.objection`` says why it is not sent. It does not depend on when the host was asked
        last. ``None`` also where the crawl judges nothing (ROBOTSTXT_OBEY is off).
        """
        if not self._parts.is_judged:
            return None
        if (known := self._known(url)) is None:
            return None
        agent, now = self._agent(None), self._parts.policies.now()
        allowed = known.policy.allowed(url, agent)
        return self._parts.judge.rule(url, known, agent, now, allowed)

    def waiting(self) -> list[Waiting]:
        """Return which hosts wait in the frontier now; the first is due first.

        There is one item for each host and reason: ``.host``, ``.why`` in words, ``.until``, in
        seconds since 1970 (``None``: nobody knows), and ``.requests``, how many wait. The call
        takes time in proportion to the hosts.
        """
        return self._parts.waits.waiting()

    def policy(self, url: str) -> Policy | None:
        """Return the policy of the origin of *url*; ``None``: not known."""
        return self._ask(url, lambda policy, _: policy)

    async def fetch(self, url: str) -> Policy:
        """Return the policy of the origin of *url*; fetch the robots.txt if it is not known.

        One fetch serves all who wait for it. If the robots.txt cannot be fetched, this is the
        policy that then holds. Raises ``ValueError`` if *url* is not an absolute http or
        https URL.
        """
        origin = some_origin_of(url)
        return (await self._parts.policies.get(origin, Request(url))).policy

    async def settle(self, request: Request) -> Policy:
        """Return the policy of the origin of *request*, fetched as for that request.

        As ``fetch``, but if the robots.txt cannot be fetched, this waits for as long as requests
        in the frontier do: REP_UNREACHABLE_RETRY_DELAYS, REP_WAIT; not when the crawl
        ends. Raises ``ValueError``
        if the URL of *request* is not an http or https URL.
        """
        origin = some_origin_of(request.url, "request.url")
        policies, may_wait = self._parts.policies, self._parts.judge.settings.wait
        known = await policies.get(origin, request)
        host = urlsplit(request.url).hostname or ""
        while known.requests_wait and may_wait and not policies.is_ending():
            wait = known.standing.until - policies.now()
            with self._parts.waits.holding(host, UNREACHABLE, wait):
                await sleep(min(wait, END_CHECK_SECONDS))
            known = await policies.get(origin, request)
        return known.policy

    def page(self, response: Response) -> dict[str, Any]:
        """Return what *response* itself asks for, as ``response.meta["rep_page"]`` has it.

        This works for responses that no spider middleware has seen, too.
        """
        return read_page(response, lambda: self._agent(response))

    def preferences(self, page: str | Response) -> Preferences | None:
        """Return what the site says about the use of *page*, a URL or a response.

        For a response, its headers count as well as the robots.txt, and the more
        restrictive of the two holds. ``None``: the robots.txt is not known (yet).
        """
        url, response = (page, None) if isinstance(page, str) else (page.url, page)
        found = self._ask(
            url, lambda policy, agent: policy.preferences(url, agent), response
        )
        if found is None or response is None:
            return found
        return combine(found, preferences_of(response))

    def sitemaps(self, url: str) -> tuple[str, ...]:
        """Return the sitemaps that the origin of *url* names, made absolute.

        Empty where it names none, or its robots.txt is not known.
        """
        policy = self.policy(url)
        return () if policy is None else sitemap_urls(policy, url)

    def tell_user(self, sentence: str) -> None:
        self._parts.events.tell_user(sentence)

    def _ask(
        self,
        url: str,
        question: Callable[[Policy, Agent], Answer],
        response: Response | None = None,
    ) -> Answer | None:
        known = self._known(url, None if response is None else response.request)
        return None if known is None else question(known.policy, self._agent(response))

    def _known(self, url: str, request: Request | None = None) -> Known | None:
        origin = origin_of(url) if isinstance(url, str) else None
        if origin is not None:
            return self._parts.policies.peek(origin, lambda: request)
        is_absolute = isinstance(url, str) and urlsplit(url).scheme
        if not (is_absolute or self._has_warned):
            self._has_warned = True
            self._parts.events.warn_user(
                f"spider.robots was asked about {mask_uri(str(url))!r}, and answers None "
                "to that: it expects an absolute http or https URL, as response.urljoin "
                "makes"
            )
        return None

    def _agent(self, response: Response | None) -> Agent:
        return self._parts.agents.of(None if response is None else response.request)


def equip(crawler: Crawler) -> None:
    """Give the spider of *crawler* its ``robots``, unless it has its own."""
    spider: Any = crawler.spider
    if spider is None or has_robots_of_its_own(spider):
        return
    known = getattr(spider, "robots", None)
    if known is None or known.crawler is not crawler:
        spider.robots = Robots(lambda: Crawl.of(crawler), crawler)


def has_robots_of_its_own(spider: Any) -> bool:
    own = getattr(spider, "robots", None)
    return own is not None and not isinstance(own, Robots)


def robots_for(text: str | bytes, *, agent: Agent = "") -> Robots:
    r"""Return what ``spider.robots`` is in a crawl whose sites all have *text* as robots.txt.

    *agent* is a product token, a whole User-Agent, or a tuple of tokens, most wanted first;
    "" is one that no robots.txt names. The robots.txt of every origin is known from the
    first question on, nothing is fetched, and nothing waits. Settings have their defaults::

        spider = ProductSpider()
        spider.robots = robots_for("User-agent: *\nDisallow: /cart/", agent="ExampleBot")
        assert list(spider.parse(page)) == [...]
    """
    parts: Any = _OneFile(parse(text), agent)
    return Robots(lambda: parts)


class _OneFile:
    """All that ``Robots`` asks a crawl for: the *policy* of all origins, for one *agent*."""

    is_judged = True

    def __init__(self, policy: Policy, agent: Agent) -> None:
        chosen = ScrapySettings({"ROBOTSTXT_USER_AGENT": agent, "USER_AGENT": ""})
        settings = Settings.read(chosen)
        self._policy = policy
        self.policies = self.events = self  # of which Robots asks what is below
        self.agents = Agents(Chooser(chosen), settings)
        self.judge = Judge(settings)
        self.waits: Any = SimpleNamespace(waiting=list)

    def now(self) -> float:
        return time()

    def is_ending(self) -> bool:
        return False

    def peek(self, origin: str, page: object) -> Known:
        return Known(origin, self._policy)

    async def get(self, origin: str, page: object) -> Known:
        return self.peek(origin, page)

    def tell_user(self, sentence: str) -> None:
        pass

    def warn_user(self, sentence: str) -> None:
        """What a crawl would warn of fails a test."""
        raise AssertionError(sentence)


def sitemap_urls(policy: Policy, url: str) -> tuple[str, ...]:
    """Return the sitemaps that *policy*, of the origin of *url*, names, made absolute.

    What makes no http or https URL is left out: a stranger's file must neither break a crawl nor
    send it to ``file:///``.
    """
    origin = origin_of(url)
    assert origin is not None
    urls = []
    for written in policy.sitemaps:
        try:
            sitemap = urljoin(robots_url(origin), written)
        except ValueError:  # such as http://[
            continue
        if origin_of(sitemap) is not None:
            urls.append(sitemap)
    return tuple(urls)


class RobotsSitemapSpider(SitemapSpider):
    """A ``SitemapSpider`` that takes the sitemaps from the robots.txt which the crawl has anyway.

    An entry of ``sitemap_urls`` that ends in ``/robots.txt`` is not requested: the sitemaps that
    this file names take its place, and are judged as all requests are. Everything else is as in
    Scrapy's ``SitemapSpider``, and where the spider has no ``robots``, this too.
    """

    robots: Robots | None = None

    async def start(self) -> AsyncIterator[Any]:
        # All are asked at once, so that a site that hangs does not hold up the others.
        answers: DeferredQueue[Any] = DeferredQueue()
        asking: set[Deferred[Any]] = set()

        async def answered() -> list[Request]:
            asked, requests = await maybe_deferred_to_future(answers.get())
            asking.discard(asked)
            found: list[Request] = requests
            return found

        try:
            async for item in super().start():
                robots = self.robots
                if robots is None or not self._asks_for_sitemaps(item):
                    yield item
                    continue
                if len(asking) >= ORIGINS_AHEAD:
                    for request in await answered():
                        yield request
                asked = deferred_from_coro(self._requests_for(item, robots))
                asking.add(asked)
                asked.addBoth(lambda found, asked: answers.put((asked, found)), asked)
            while asking:
                for request in await answered():
                    yield request
        finally:
            for asked in asking:  # the crawl is broken off
                asked.cancel()

    def _asks_for_sitemaps(self, item: object) -> bool:
        return (
            isinstance(item, Request)
            and item.callback == self._parse_sitemap
            and item.url.startswith(("http://", "https://"))
            and urlsplit(item.url)[2:4] == ("/robots.txt", "")
        )

    async def _requests_for(self, item: Request, robots: Robots) -> list[Request]:
        urls = sitemap_urls(await robots.settle(item), item.url)
        if not urls:
            robots.tell_user(f"{without_user(item.url)} names no sitemap")
        return [item.replace(url=url) for url in urls]
