"""What a page in a browser (scrapy-playwright) asks for by itself. RFC 9309 says nothing of that."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from scrapy import Request
from scrapy.utils.defer import deferred_from_coro

from scrapy_rep.crawl import Crawl
from scrapy_rep.events.kinds import InBrowser, said_by
from scrapy_rep.judging.ruling import Action, because, too_soon
from scrapy_rep.protocol.groups import name_of
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.printable import without_user

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings


SETTING = "PLAYWRIGHT_ABORT_REQUEST"
PATHS = ("scrapy_rep.abort_disallowed", "scrapy_rep.gate.browser.abort_disallowed")
MOST_ASKED = 50
"""Origins that are asked for their robots.txt at a time, for a browser."""
UNKNOWN = because("unknown", "its robots.txt is not known yet")


class BrowserRequest(Protocol):
    @property
    def url(self) -> str: ...
    def is_navigation_request(self) -> bool: ...


class AbortDisallowed:
    """Judges the requests of one crawl's browser."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._asked: set[str] = set()

    def __call__(self, request: BrowserRequest) -> bool:
        """Tell whether to abort *request*, of a page that is shown in a browser.

        It is aborted if the robots.txt of its origin disallows it, cannot be fetched, or is not
        known yet; and if its host is to be left alone. A robots.txt that is not known is asked
        for, but no request waits for it.
        """
        crawl = Crawl.of(self._crawler)
        url = without_user(request.url)
        origin = origin_of(url)
        if not crawl.is_judged or origin is None:  # such as data:
            return False
        if request.is_navigation_request() and self._has_passed(crawl, request.url):
            return False
        found = self._judge(crawl, url, origin)
        crawl.events.tell(found)
        return bool(found.cause) and bool(found.enforced)

    def _has_passed(self, crawl: Crawl, url: str) -> bool:
        """Tell whether *url* is a page that the gate has let pass, or that is exempt."""
        page = _bare(url)
        return any(_bare(each.url) == page for each in crawl.engine.active())

    def _judge(self, crawl: Crawl, url: str, origin: str) -> InBrowser:
        page, agent = Request(url), crawl.agents.of()
        now = crawl.policies.now()
        known = crawl.policies.known(origin, page, now)
        cause, enforced, digest = None, True, None
        if known is None:
            self._ask(crawl, origin)
            cause, verdict = UNKNOWN
            enforced = "disallow" in crawl.settings.obey
        else:
            verdict = known.policy.verdict(url, agent)
            digest = known.as_copy().digest
            ruling = crawl.judge.rule(url, known, agent, now, verdict.allowed)
            parked = crawl.keeper.parked_left(crawl.keeper.host_of(page))
            if ruling.action is not Action.SEND and ruling.objection is not None:
                cause, verdict = ruling.objection
            elif parked:
                cause, verdict = too_soon(parked, 0.0, is_parked=True)
            elif ruling.left_out:
                (cause, verdict), enforced = ruling.left_out[0], False
        told: Any = {"cause": cause, "enforced": enforced, "digest": digest}
        return InBrowser(url=url, agent=name_of(agent), **told, **said_by(verdict))

    def _ask(self, crawl: Crawl, origin: str) -> None:
        asked = self._asked
        if origin in asked or len(asked) >= MOST_ASKED or crawl.engine.is_ending():
            return
        self._asked.add(origin)
        asking = deferred_from_coro(crawl.policies.get(origin, Request(origin)))
        asking.addErrback(lambda _: None)  # the crawl ends
        asking.addBoth(lambda _: self._asked.discard(origin))


def abort_disallowed(request: BrowserRequest) -> bool:
    """For PLAYWRIGHT_ABORT_REQUEST: ``"scrapy_rep.abort_disallowed"``.

    The add-on puts an ``AbortDisallowed`` for each crawl in its place; without the add-on,
    everything is aborted.
    """
    # Nobody knows of which crawl, whose stream would tell it.
    logging.getLogger("scrapy_rep").error(
        "%(url)s, and all else that the browser asks for, is aborted: %(setting)s is "
        "scrapy_rep.abort_disallowed, which needs the add-on of scrapy_rep (ADDONS)",
        {"url": without_user(request.url), "setting": SETTING},
    )
    return True


def bind(settings: BaseSettings, crawler: Crawler) -> None:
    chosen = settings.get(SETTING)
    if chosen in PATHS or chosen is abort_disallowed:
        priority = settings.getpriority(SETTING) or 0
        settings.set(SETTING, AbortDisallowed(crawler), priority)


def _bare(url: str) -> str:
    return url.partition("#")[0].rstrip("/")
