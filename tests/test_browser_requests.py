"""What becomes of a request of a page in a browser, without a browser.

``tests/crawls/test_browser.py`` has a real one.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import scrapy_rep
from scrapy_rep.browser import SETTING, AbortDisallowed, abort_disallowed
from scrapy_rep.crawl import Crawl
from tests.site import Site
from tests.utils import Pages, coroutine_test, crawl, make_crawler, sleep

RULES = "User-agent: *\nDisallow: /private/\n"


def wants(url: str, *, page: bool = False) -> Any:
    """Return a request as Playwright has it."""
    return SimpleNamespace(url=url, is_navigation_request=lambda: page)


class Asking(Pages):
    """Has what a page asks for judged, while it is crawled; and what else *then* does."""

    aborts: AbortDisallowed
    asks: Any

    def parse(self, response):
        super().parse(response)
        self.answer = self.asks(self.crawler.settings[SETTING])
        return self.answer


async def asked(
    site: Site, asks: Any, spider: type[Asking] = Asking, **settings: Any
) -> Any:
    """Return a crawler after *asks* was called with what judges, the site being known."""
    site.replies.setdefault("/robots.txt", RULES)
    name = "scrapy_rep.abort_disallowed"
    crawler = make_crawler(spider, **{SETTING: name, **settings})
    await crawl(crawler, urls=[site.url("/")], asks=asks)
    assert crawler.spider.got
    return crawler


@pytest.mark.parametrize(
    ("path", "aborted"), [("/private/x", True), ("/x", False), ("/robots.txt", False)]
)
@coroutine_test
async def test_rules_decide(path, aborted):
    found: list[bool] = []
    with Site() as site:
        crawler = await asked(
            site, lambda judge: found.append(judge(wants(site.url(path))))
        )
    assert found == [aborted]
    count = crawler.stats.get_value
    assert count("rep/browser/aborted/rule", 0) == count("rep/browser/aborted", 0)
    assert count("rep/browser/aborted", 0) == aborted
    assert count("rep/browser/allowed", 0) == (not aborted)


@coroutine_test
async def test_what_is_no_page_of_the_web_is_not_judged():
    found: list[bool] = []
    with Site() as site:
        crawler = await asked(
            site, lambda judge: found.append(judge(wants("data:image/png;base64,AA")))
        )
    assert found == [False]
    assert crawler.stats.get_value("rep/browser/allowed") is None


@coroutine_test
async def test_a_dry_run_aborts_nothing():
    found: list[bool] = []
    with Site() as site:
        crawler = await asked(
            site,
            lambda judge: found.append(judge(wants(site.url("/private/x")))),
            REP_OBEY=["crawl-delay"],
        )
    assert found == [False]
    assert crawler.stats.get_value("rep/browser/would_abort") == 1


@coroutine_test
async def test_what_is_not_known_is_aborted_and_asked_for_once():
    found: list[bool] = []
    with Site() as site, Site(host="127.0.0.2") as other:
        other.replies["/robots.txt"] = RULES

        async def asks(judge):
            found.extend(judge(wants(other.url(path))) for path in ("/a", "/b"))
            while Crawl.of(crawler).policies.peek(other.origin) is None:
                await sleep(0.01)
            found.extend(judge(wants(other.url(path))) for path in ("/a", "/private/"))

        class Waiting(Asking):
            async def parse(self, response):
                self.got.append(response.url)
                await self.asks(self.crawler.settings[SETTING])

        crawler = make_crawler(Waiting, PLAYWRIGHT_ABORT_REQUEST=abort_disallowed)
        await crawl(crawler, urls=[site.url("/")], asks=asks)
        assert other.paths == ["/robots.txt"]
    assert found == [True, True, False, True]
    assert crawler.stats.get_value("rep/browser/aborted/unknown") == 2


@coroutine_test
async def test_a_host_that_is_left_alone_is_left_alone():
    found: list[bool] = []
    with Site() as site:

        class Parking(Asking):
            def parse(self, response):
                keeper = Crawl.of(self.crawler).keeper
                keeper.park(site.host, 60)
                yield from super().parse(response) or ()
                keeper.hosts.find(site.host).parked_until = 0.0

        def asks(judge):
            found.append(judge(wants(site.url("/x"))))

        crawler = await asked(site, asks, Parking)
    assert found == [True]
    assert crawler.stats.get_value("rep/browser/aborted/parked") == 1


@coroutine_test
async def test_without_a_gate_nothing_is_judged():
    crawler = make_crawler(
        ROBOTSTXT_OBEY=False, PLAYWRIGHT_ABORT_REQUEST=abort_disallowed
    )
    crawler.spider = Pages()
    shared = Crawl.of(crawler)
    assert not crawler.settings[SETTING](wants("https://a.example/"))
    assert not shared.is_judged


# Whose crawl it is


@pytest.mark.parametrize(
    "name",
    [
        "scrapy_rep.abort_disallowed",
        "scrapy_rep.browser.abort_disallowed",
        abort_disallowed,
    ],
)
def test_the_add_on_has_each_crawl_judge_for_itself(name):
    judges = {
        make_crawler(PLAYWRIGHT_ABORT_REQUEST=name).settings[SETTING] for _ in range(2)
    }
    assert len(judges) == 2
    assert {type(judge) for judge in judges} == {AbortDisallowed}


def test_what_the_user_has_chosen_stays():
    own = lambda request: False
    assert make_crawler(PLAYWRIGHT_ABORT_REQUEST=own).settings[SETTING] is own
    assert make_crawler().settings.get(SETTING) is None


def test_without_the_add_on_everything_is_aborted_and_said(caplog):
    assert scrapy_rep.abort_disallowed(wants("https://u:p@a.example/"))
    (line,) = caplog.messages
    assert line.startswith("https://a.example/, and all else that the browser asks for")
