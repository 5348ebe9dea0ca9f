"""What pages themselves ask for: to index nothing, to follow nothing.

robots.txt says what may be fetched; this is about what is done with it. Nothing of it is
enforced unless REP_PAGE_OBEY asks for it.
"""

from __future__ import annotations

import time
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy import Selector
from scrapy.exceptions import NotConfigured
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.spidermiddlewares.base import BaseSpiderMiddleware
from w3lib.url import canonicalize_url

from scrapy_rep.crawl import Crawl
from scrapy_rep.judging.purposes import HEADER_NAMES, Purposes, answers, of_response
from scrapy_rep.protocol.page_rules import page_rules
from scrapy_rep.protocol.printable import without_user
from scrapy_rep.protocol.user_agents import given, names_of
from scrapy_rep.signals import dropped

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.protocol import Agent

MOST = 128 * 1024
"""Octets of a page in which its meta tags are looked for."""
HEADER = b"X-Robots-Tag"
OF_INTEREST = HEADER_NAMES | {HEADER}
FLAGS = ("noindex", "nofollow", "noarchive", "nosnippet")
"""Rules that have a key of their own."""
HIDING = ((b"<!--", b"-->"), (b"<script", b"</script"))
"""What begins and ends a part of a page in which tags are only text."""

ALL_LINKS = LinkExtractor(unique=False, deny_extensions=())


class RepSpiderMiddleware(BaseSpiderMiddleware):
    """Puts what a page asks for on ``response.meta["rep_page"]``, and obeys it if told to."""

    def __init__(self, crawler: Crawler) -> None:
        if not crawler.settings.getbool("ROBOTSTXT_OBEY"):
            raise NotConfigured("ROBOTSTXT_OBEY is not set")
        super().__init__(crawler)
        self._crawl = crawl = Crawl.of(crawler)
        settings = crawl.settings
        self._obey = settings.page_obey
        self._purposes = Purposes(settings) if settings.purpose else None
        self._decides = bool(self._obey or self._purposes)
        if not self._decides:
            # Then Scrapy has what spiders yield pass us by. It would be the dearest part of
            # a page that asks for nothing.
            self.process_spider_output = None  # type: ignore[assignment]
            self.process_spider_output_async = None  # type: ignore[assignment]
        self._agents = crawl.agents
        self._report = crawl.report
        # By response: meta that a spider hands on has the page before in it.
        self._pages: WeakKeyDictionary[Response, dict[str, Any]] = WeakKeyDictionary()
        self._unfollowed: WeakKeyDictionary[Response, frozenset[str]] = (
            WeakKeyDictionary()
        )

    def process_spider_input(self, response: Response) -> None:
        request = response.request
        assert request is not None
        page = read_page(response, lambda: self._agents.of(request))
        request.meta["rep_page"] = page
        if self._decides:
            self._pages[response] = page
        if page["rules"]:
            if page["noindex"]:
                self._report.count("page/noindex")
            if page["nofollow"]:
                self._report.count("page/nofollow")

    def get_processed_request(
        self, request: Request, response: Response | None
    ) -> Request | None:
        """Return *request*, or ``None`` where *response* asks not to follow its link."""
        if response is None or "nofollow" not in self._obey or _exempt(response):
            return request
        if request.meta.get("dont_obey_robotstxt") or request.url == response.url:
            return request  # the page itself, once more, is no link
        rule = self._page(response)
        if rule["nofollow"]:
            cause, why = "nofollow", rule["rules"]["nofollow"]
        elif canonicalize_url(request.url) in self._not_to_follow(response):
            cause, why = "rel_nofollow", 'rel="nofollow"'
        else:
            return request
        self._drop("request", request.url, response, cause, why)
        return None

    def get_processed_item(self, item: Any, response: Response | None) -> Any:
        """Return *item*, or ``None`` where *response* asks not to be used so."""
        if response is None or _exempt(response):
            return item
        cause, why = self._against_use(response)
        if not cause:
            return item
        self._drop("item", response.url, response, cause, why)
        return None

    def _drop(
        self, what: str, url: str, response: Response, cause: str, why: str
    ) -> None:
        """Count and tell that *what* came of *response* goes no further."""
        url, page = without_user(url), without_user(response.url)
        shown = "an item" if what == "item" else f"the request for {url}"
        self._report.dropped(shown, page, cause, why)
        self.crawler.signals.send_catch_log(
            signal=dropped,
            what=what,
            url=url,
            response=response,
            cause=cause,
            reason=why,
            spider=self.crawler.spider,
        )

    def _against_use(self, response: Response) -> tuple[str, str]:
        """Return why items of *response* are dropped, in a word and as it says it."""
        page = self._page(response)
        if "noindex" in self._obey:
            if page["noindex"]:
                return "noindex", page["rules"]["noindex"]
            if _is_over(page["unavailable_after"]):
                return "unavailable_after", page["rules"]["unavailable_after"]
        if self._purposes is not None and page["preferences"]:
            found = self._purposes.refused_by(of_response(response))
            if found is not None:
                return "purpose", found.said
        return "", ""

    def _page(self, response: Response) -> dict[str, Any]:
        page = self._pages.get(response)
        if page is None:
            request = response.request
            assert request is not None
            page = read_page(response, lambda: self._agents.of(request))
            self._pages[response] = page
        return page

    def _not_to_follow(self, response: Response) -> frozenset[str]:
        """Return the canonical URLs to which *response* links with rel="nofollow" only."""
        urls = self._unfollowed.get(response)
        if urls is None:
            urls = self._unfollowed[response] = unfollowed(response)
        return urls


def read_page(response: Response, whose: Callable[[], Agent]) -> dict[str, Any]:
    """Return what *response* asks of an agent, as it stands on ``meta["rep_page"]``.

    *whose* tells the agent. It is asked only where *response* may ask something of one.
    """
    page: dict[str, Any] = {
        "noindex": False,
        "nofollow": False,
        "noarchive": False,
        "nosnippet": False,
        "unavailable_after": None,
        "rules": {},
        "preferences": {},
        "tdm_policy": None,
    }
    metas = meta_tags(response, whose) if isinstance(response, HtmlResponse) else []
    if not metas and OF_INTEREST.isdisjoint(response.headers.keys()):
        return page  # as of nearly all
    headers = [_text(value) for value in response.headers.getlist(HEADER)]
    if headers or metas:
        said, until = page_rules(headers, metas, whose())
        for rule in FLAGS:
            page[rule] = rule in said
        page["rules"] = dict(said)
        if until is not None:
            page["unavailable_after"] = until.isoformat()
    own = of_response(response)
    page["preferences"] = answers(own)
    if own.tdm_policies:
        page["tdm_policy"] = own.tdm_policies[0].url
    return page


def meta_tags(
    response: HtmlResponse, whose: Callable[[], Agent]
) -> list[tuple[str, str]]:
    """Return names and contents of the meta tags in the head of *response*.

    Empty where neither "robots" nor a name of the agent occurs in the head: such a page,
    the usual one, is not parsed.
    """
    body = response.body
    if body.find(b"\0", 0, 64) >= 0:  # UTF-16, or UTF-32
        body = response.text[:MOST].encode("utf-8", "replace")
    head = head_of(body)
    lowered = head.lower()
    if b"<meta" not in lowered:
        return []
    for name in _names(whose()):
        if name in lowered:
            break
    else:
        return []
    tags = Selector(text=_text(head), type="html").xpath("//meta[@name and @content]")
    return [(tag.attrib["name"], tag.attrib["content"]) for tag in tags]


def _text(octets: bytes) -> str:
    """Decode *octets*, in which names and rules are ASCII, whatever else there is."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets.decode("latin-1")


def head_of(body: bytes) -> bytes:
    """Return what stands before the end of the head of a page, or before its body.

    Where it has neither, that is all of it, up to ``MOST`` octets.
    """
    start = body[:MOST]
    end = _end_of_head(start)
    if end < 0:
        end = _end_of_head(start.lower())
    return start if end < 0 else start[:end]


def _end_of_head(page: bytes) -> int:
    for tag in (b"</head", b"<body"):
        end = page.find(tag)
        tries = 0
        while end >= 0 and _hidden(page, end):
            tries += 1  # a bound, for pages that are made to take long
            end = page.find(tag, end + 1) if tries < 8 else -1
        if end >= 0:
            return end
    return -1


def _hidden(page: bytes, position: int) -> bool:
    """Tell whether *position* is inside a comment or a script."""
    for begin, end in HIDING:
        begun = page.rfind(begin, 0, position)
        if begun >= 0 and page.find(end, begun, position) < 0:
            return True
    return False


@lru_cache(maxsize=256)
def _names(agent: Agent) -> tuple[bytes, ...]:
    """Return what the name of a meta tag for *agent* may be."""
    names = names_of(given(agent))  # a whole header is among them, and names no tag
    return (
        b"robots",
        *(name.encode() for name in names if name.isascii() and " " not in name),
    )


def unfollowed(response: Response) -> frozenset[str]:
    """Return the canonical URLs to which *response* links with rel="nofollow" only.

    A request does not show the link that it came from, so its URL is looked for here.
    """
    if not isinstance(response, HtmlResponse) or "nofollow" not in response.text:
        return frozenset()
    links = ALL_LINKS.extract_links(response)
    others = {canonicalize_url(link.url) for link in links if not link.nofollow}
    return frozenset(
        url
        for url in (canonicalize_url(link.url) for link in links if link.nofollow)
        if url not in others
    )


def _is_over(until: str | None) -> bool:
    return until is not None and datetime.fromisoformat(until).timestamp() < time.time()


def _exempt(response: Response) -> bool:
    return bool(response.meta.get("dont_obey_robotstxt"))
