"""What pages themselves ask for, in header fields, head and links (REP_PAGE_OBEY, REP_PURPOSE)."""

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
from scrapy_rep.events.kinds import Dropped
from scrapy_rep.judging.target import decoded, judged
from scrapy_rep.protocol.groups import agents_given, name_of, names_of
from scrapy_rep.protocol.page_rules import page_rules
from scrapy_rep.protocol.preferences import (
    EVERYTHING_UNSTATED,
    PREFERENCE_HEADERS,
    TDM,
    combine,
    header_preferences,
)
from scrapy_rep.protocol.printable import shorten, without_user
from scrapy_rep.signals import dropped

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.protocol import Agent, Preferences


HEADER_NAMES = frozenset(name.title().encode() for name in PREFERENCE_HEADERS)
MAX_READ_BYTES = 128 * 1024
"""Of a page, for meta tags."""
PAGE_RULES_HEADER = b"X-Robots-Tag"
HEADERS_OF_INTEREST = HEADER_NAMES | {PAGE_RULES_HEADER}
FLAG_RULES = ("noindex", "nofollow", "noarchive", "nosnippet")
NOTHING_SAID: dict[str, Any] = {
    **dict.fromkeys(FLAG_RULES, False),
    "unavailable_after": None,
    "rules": None,
    "preferences": None,
    "tdm_policy": None,
}
HIDDEN_PARTS = ((b"<!--", b"-->"), (b"<script", b"</script"))
"""Parts of a page in which tags are only text."""

ALL_LINKS = LinkExtractor(unique=False, deny_extensions=())


class RepSpiderMiddleware(BaseSpiderMiddleware):
    """Puts what a page asks for on ``response.meta["rep_page"]``, and obeys it if told to."""

    def __init__(self, crawler: Crawler) -> None:
        if not crawler.settings.getbool("ROBOTSTXT_OBEY"):
            raise NotConfigured  # without a message: it is what the user wants
        super().__init__(crawler)
        self._crawl = crawl = Crawl.of(crawler)
        self._obey = crawl.settings.page_obey
        self._purposes = crawl.judge.purposes
        self._decides = bool(self._obey or self._purposes)
        if not self._decides:
            # Then Scrapy does not pass us what spiders yield, which would cost the most for
            # a page that asks for nothing.
            self.process_spider_output = None  # type: ignore[assignment]
            self.process_spider_output_async = None  # type: ignore[assignment]
        self._agents = crawl.agents
        # By response: a spider may pass meta on, which has the rules of an earlier page.
        self._pages: WeakKeyDictionary[Response, dict[str, Any]] = WeakKeyDictionary()
        self._unfollowed: Any = WeakKeyDictionary()

    def process_spider_input(self, response: Response) -> None:
        page = response.meta["rep_page"] = self._read(response)
        if self._decides:
            self._pages[response] = page
        if page["noindex"]:
            self._crawl.events.count("page/noindex")
        if page["nofollow"]:
            self._crawl.events.count("page/nofollow")

    def get_processed_request(
        self, request: Request, response: Response | None
    ) -> Request | None:
        if response is None or "nofollow" not in self._obey or self._exempt(response):
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
        if response is None or self._exempt(response):
            return item
        cause, why = self._against_use(response)
        if not cause:
            return item
        self._drop("item", response.url, response, cause, why)
        return None

    def _drop(
        self, what: str, url: str, response: Response, cause: str, why: str
    ) -> None:
        url, page = without_user(url), without_user(response.url)
        assert response.request is not None
        agent = name_of(self._agents.of(response.request))
        self._crawl.events.tell(Dropped(url, page, what, agent, cause, shorten(why)))
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
        """Return why items of *response* are dropped: the cause, and its own words; "": they are not."""
        page = self._page(response)
        if "noindex" in self._obey:
            if page["noindex"]:
                return "noindex", page["rules"]["noindex"]
            if _is_over(page["unavailable_after"]):
                return "unavailable_after", page["rules"]["unavailable_after"]
        if self._purposes is None:
            return "", ""
        stated = page["preferences"]
        own = preferences_of(response) if stated else EVERYTHING_UNSTATED
        if TDM not in stated:
            own = combine(own, self._purposes.of_file(response.url))
        found = self._purposes.refused_by(own)
        return ("", "") if found is None else ("purpose", found.said)

    def _page(self, response: Response) -> dict[str, Any]:
        page = self._pages.get(response)
        if page is None:
            page = self._pages[response] = self._read(response)
        return page

    def _read(self, response: Response) -> dict[str, Any]:
        return read_page(response, lambda: self._agents.of(response.request))

    def _exempt(self, response: Response) -> bool:
        if response.meta.get("dont_obey_robotstxt"):
            return True
        permissions = self._crawl.permissions
        if not permissions:
            return False
        found = judged(response.url, response.meta)
        now = self._crawl.policies.now()
        return found is not None and permissions.at(found[1], now) is not None

    def _not_to_follow(self, response: Response) -> frozenset[str]:
        if response not in self._unfollowed:
            self._unfollowed[response] = urls_not_to_follow(response)
        urls: frozenset[str] = self._unfollowed[response]
        return urls


def _is_over(until: str | None) -> bool:
    return until is not None and datetime.fromisoformat(until).timestamp() < time.time()


def read_page(response: Response, whose: Callable[[], Agent]) -> dict[str, Any]:
    """Return what *response* asks of an agent, in the form of ``meta["rep_page"]``.

    *whose* returns the agent; it is called only if *response* may ask for something.
    """
    page = {**NOTHING_SAID, "rules": {}, "preferences": {}}
    metas = meta_tags(response, whose) if isinstance(response, HtmlResponse) else []
    if not metas and HEADERS_OF_INTEREST.isdisjoint(response.headers.keys()):
        return page  # as for nearly all pages
    headers = [decoded(value) for value in response.headers.getlist(PAGE_RULES_HEADER)]
    if headers or metas:
        said, until = page_rules(headers, metas, whose())
        for rule in FLAG_RULES:
            page[rule] = rule in said
        page["rules"] = dict(said)
        if until is not None:
            page["unavailable_after"] = until.isoformat()
    own = preferences_of(response)
    page["preferences"] = own.stated()
    if own.tdm_policies:
        page["tdm_policy"] = own.tdm_policies[0].url
    return page


def meta_tags(
    response: HtmlResponse, whose: Callable[[], Agent]
) -> list[tuple[str, str]]:
    """Return names and contents of the meta tags in the head of *response*.

    A head in which neither "robots" nor a name of the agent occurs, as most, is not parsed.
    """
    body = response.body
    if body.find(b"\0", 0, 64) >= 0:  # UTF-16, or UTF-32
        body = response.text[:MAX_READ_BYTES].encode("utf-8", "replace")
    head = head_of(body)
    lowered = head.lower()
    if b"<meta" not in lowered or not any(map(lowered.__contains__, _names(whose()))):
        return []
    tags = Selector(text=decoded(head), type="html").xpath("//meta[@name and @content]")
    return [(tag.attrib["name"], tag.attrib["content"]) for tag in tags]


def head_of(body: bytes) -> bytes:
    """Return what stands before the end of a page's head, or before its body, if either is there."""
    start = body[:MAX_READ_BYTES]
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
    for begin, end in HIDDEN_PARTS:
        begun = page.rfind(begin, 0, position)
        if begun >= 0 and page.find(end, begun, position) < 0:
            return True
    return False


@lru_cache(maxsize=256)
def _names(agent: Agent) -> tuple[bytes, ...]:
    # A whole header, which names no tag, is left out for its spaces.
    names = names_of(agents_given(agent))
    return (
        b"robots",
        *(name.encode() for name in names if name.isascii() and " " not in name),
    )


def urls_not_to_follow(response: Response) -> frozenset[str]:
    """Return the canonical URLs to which *response* links with rel="nofollow" only.

    A request does not show which link it came from.
    """
    if not isinstance(response, HtmlResponse) or "nofollow" not in response.text:
        return frozenset()
    urls: dict[bool, set[str]] = {True: set(), False: set()}
    for link in ALL_LINKS.extract_links(response):
        urls[link.nofollow].add(canonicalize_url(link.url))
    return frozenset(urls[True] - urls[False])


def preferences_of(response: Response) -> Preferences:
    headers = response.headers
    if HEADER_NAMES.isdisjoint(headers.keys()):
        return EVERYTHING_UNSTATED
    return header_preferences(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name in sorted(HEADER_NAMES)
        for value in headers.getlist(name)
    )
