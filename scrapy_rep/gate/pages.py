"""What pages themselves ask for, in header fields, head and links (REP_PAGE_OBEY, REP_PURPOSE)."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy.exceptions import NotConfigured
from scrapy.spidermiddlewares.base import BaseSpiderMiddleware
from w3lib.url import canonicalize_url

from scrapy_rep.crawl import Crawl
from scrapy_rep.events.of_requests import Dropped
from scrapy_rep.judging.page import preferences_of, read_page, urls_not_to_follow
from scrapy_rep.judging.target import judged
from scrapy_rep.protocol.groups import name_of
from scrapy_rep.protocol.preferences import EVERYTHING_UNSTATED, TDM, combine
from scrapy_rep.protocol.printable import shorten, without_user
from scrapy_rep.signals import dropped

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


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
