"""What becomes of a request of a page in a browser, without a browser.

``tests/crawls/test_browser.py`` has a real one.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import scrapy_rep
from scrapy_rep.crawl import Crawl
from scrapy_rep.gate.browser import PATHS, SETTING, AbortDisallowed, abort_disallowed
from tests.site import Site
from tests.utils import Pages, coroutine_test, crawl, make_crawler, until

RULES = "User-agent: *\nDisallow: /private/\n"


def wants(url: str, *, page: bool = False) -> Any:
    """Return a request as Playwright has it."""
    return SimpleNamespace(url=url, is_navigation_request=lambda: page)


class Asking(Pages):
    """Has what a page asks for judged, while it is crawled."""

    asks: Any
    """Called with a function that tells of a URL whether it is aborted."""

    async def parse(self, response):
        super().parse(response)
        judge = self.crawler.settings[SETTING]
        await self.asks(lambda url: judge(wants(url)))


async def judged(*urls: str, parked: bool = False, **settings: Any) -> Any:
    """Return whether each of *urls*, or paths of a site that is known, is aborted; and a stat."""
    found: list[bool] = []

    async def asks(judge):
        keeper = Crawl.of(crawler).keeper
        keeper.park(site.host, 60 * parked)
        found.extend(
            judge(site.url(url) if url.startswith("/") else url) for url in urls
        )
        keeper.hosts.find(site.host).parked_until = 0.0

    with Site({"/robots.txt": RULES}) as site:
        crawler = make_crawler(
            Asking, PLAYWRIGHT_ABORT_REQUEST="scrapy_rep.abort_disallowed", **settings
        )
        await crawl(crawler, urls=[site.url("/")], asks=asks)
    prefix = "rep/browser/"
    stats = crawler.stats.get_stats().items()
    return found, {
        name.removeprefix(prefix): count
        for name, count in stats
        if name.startswith(prefix)
    }


@pytest.mark.parametrize(
    ("urls", "settings", "aborted", "counts"),
    [
        pytest.param(
            ["/private/x", "/x", "/robots.txt"], {}, [True, False, False],
            {"aborted": 1, "aborted/rule": 1, "allowed": 2}, id="rules decide",
        ),
        pytest.param(["data:image/png;base64,AA"], {}, [False], {}, id="no page of the web"),
        pytest.param(
            ["/private/x"], {"REP_OBEY": ["crawl-delay"]}, [False], {"would_abort": 1},
            id="a dry run",
        ),
        pytest.param(
            ["/x"], {"parked": True}, [True], {"aborted": 1, "aborted/parked": 1},
            id="a host that is left alone",
        ),
    ],
)  # fmt: skip
@coroutine_test
async def test_what_is_aborted(urls, settings, aborted, counts):
    assert await judged(*urls, **settings) == (aborted, counts)


@coroutine_test
async def test_what_is_not_known_is_aborted_and_asked_for_once():
    found: list[bool] = []

    async def asks(judge):
        found.extend(judge(other.url(path)) for path in ("/a", "/b"))
        await until(lambda: Crawl.of(crawler).policies.peek(other.origin))
        found.extend(judge(other.url(path)) for path in ("/a", "/private/"))

    with Site() as site, Site({"/robots.txt": RULES}, host="127.0.0.2") as other:
        crawler = make_crawler(Asking, PLAYWRIGHT_ABORT_REQUEST=abort_disallowed)
        await crawl(crawler, urls=[site.url("/")], asks=asks)
        assert other.paths == ["/robots.txt"]
    assert found == [True, True, False, True]
    assert crawler.stats.get_value("rep/browser/aborted/unknown") == 2


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


@pytest.mark.parametrize("name", [*PATHS, abort_disallowed])
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
