"""REP_PURPOSE in crawls: what is refused for it, and which items are dropped."""

from __future__ import annotations

import logging

import pytest

from scrapy_rep import RobotsForbidden
from scrapy_rep.protocol.preferences import WELL_KNOWN
from tests.play import harvest
from tests.site import Reply
from tests.utils import Pages, coroutine_test

USAGE = "User-agent: *\nContent-Usage: train-ai=n\nContent-Usage: /ok/ train-ai=y\n"
SIGNAL = (
    "User-agent: *\nContent-Signal: search=yes, ai-train=no, use=reference\nAllow: /\n"
)
TRAIN = {"REP_PURPOSE": ["train-ai"]}


class Items(Pages):
    """Yields an item for each page, and keeps what is said of it."""

    def parse(self, response):
        self.got.append(response.meta["rep_page"]["preferences"])
        yield {"url": response.url}


class AsyncItems(Items):
    async def parse(self, response):
        for item in super().parse(response):
            yield item


async def outcome(
    robots, *, paths=("/a",), headers=None, cls=Items, meta=None, **settings
):
    """Crawl *paths*; return those that the site saw, the items and the crawler."""
    if isinstance(robots, str):
        robots = Reply(robots)
    replies = {path: Reply("page", headers=headers or {}) for path in paths}
    replies["/robots.txt"] = robots
    seen, items, crawler = await harvest(replies, paths, cls, meta, **settings)
    return sorted({*seen} - {"/robots.txt", WELL_KNOWN}), items, crawler


@coroutine_test
async def test_nothing_is_refused_unless_a_purpose_is_declared():
    for robots in (USAGE, SIGNAL):
        headers = {"Content-Usage": "train-ai=n", "TDM-Reservation": "1"}
        seen, items, crawler = await outcome(robots, headers=headers)
        assert seen == items == ["/a"]
        assert crawler.spider.got == [{"train-ai": "no", "tdm": "no"}]
        assert crawler.stats.get_value("rep/forbidden/purpose") is None


@pytest.mark.parametrize("robots", [USAGE, SIGNAL])
@coroutine_test
async def test_a_no_refuses(robots, caplog):
    caplog.set_level(logging.DEBUG, "scrapy_rep")
    seen, items, crawler = await outcome(robots, **TRAIN)
    assert seen == items == []
    (failure,) = crawler.spider.failures
    assert type(failure) is RobotsForbidden
    said = robots.splitlines()[1]
    assert failure.reason == f"no to train-ai (REP_PURPOSE): {said} (line 2)"
    assert str(failure).startswith("Forbidden by robots.txt: no to train-ai")
    assert crawler.stats.get_value("rep/forbidden/purpose") == 1
    assert crawler.stats.get_value("robotstxt/forbidden") == 1
    assert str(failure) in caplog.messages


@coroutine_test
async def test_exempt_requests():
    seen, items, _ = await outcome(
        USAGE,
        meta={"dont_obey_robotstxt": True},
        headers={"Content-Usage": "train-ai=n"},
        **TRAIN,
    )
    assert seen == items == ["/a"]


HEADERS = [
    ({"Content-Usage": "train-ai=n, search=y"}, "Content-Usage: train-ai=n, search=y"),
    ({"Content-Signal": "ai-train=no"}, "Content-Signal: ai-train=no"),
    ({"TDM-Reservation": "1"}, "TDM-Reservation: 1"),
]


@pytest.mark.parametrize("cls", [Items, AsyncItems])
@pytest.mark.parametrize(("headers", "said"), HEADERS)
@coroutine_test
async def test_a_header_that_says_no_drops_items(cls, headers, said, caplog):
    caplog.set_level(logging.DEBUG, "scrapy_rep")
    robots = USAGE.replace("train-ai=n", "train-ai=y")
    seen, items, crawler = await outcome(
        robots, headers=headers, cls=cls, REP_PURPOSE=["train-ai", "tdm"]
    )
    assert seen == ["/a"]
    assert items == []
    assert crawler.stats.get_value("rep/page/dropped/purpose") == 1
    assert any(
        text.startswith("Dropped an item") and text.endswith(f"which says {said}")
        for text in caplog.messages
    )
    _, items, _ = await outcome(robots, headers=headers, REP_PURPOSE=["ai-input"])
    assert items == ["/a"]


@coroutine_test
async def test_a_header_that_says_yes_takes_no_no_back():
    seen, _, _ = await outcome(USAGE, headers={"Content-Usage": "train-ai=y"}, **TRAIN)
    assert seen == []


class Asks(Pages):
    def parse(self, response):
        unknown = "https://unknown.example/"
        assert self.robots.preferences(unknown) is None
        assert self.robots.preferences(response.replace(url=unknown)) is None
        for page in (response.url, response):
            found = self.robots.preferences(page)
            assert found is not None
            self.got += [found.of("train-ai").answer, found.of("search").answer]
            self.got += [pointer.url for pointer in found.licenses]
            self.got += [pointer.url for pointer in found.tdm_policies]


@coroutine_test
async def test_spider_robots_preferences():
    _, _, crawler = await outcome(
        "User-agent: *\nContent-Usage: search=y\nLicense: https://example.com/rsl.xml\n",
        cls=Asks,
        headers={
            "Content-Usage": "train-ai=n",
            "TDM-Policy": "https://example.com/tdm",
        },
    )
    license_url = "https://example.com/rsl.xml"
    assert crawler.spider.got == [
        *("unstated", "yes", license_url),
        *("no", "yes", license_url, "https://example.com/tdm"),
    ]
