"""What a page that nobody holds back has to pass: no more of ours than it needs."""

from __future__ import annotations

import pytest
from pydispatch.dispatcher import (  # type: ignore[import-untyped]
    getAllReceivers,
    liveReceivers,
)
from scrapy import signals
from scrapy.core.spidermw import SpiderMiddlewareManager
from scrapy.utils.test import get_crawler

from scrapy_rep import RepSpiderMiddleware
from scrapy_rep.engine.inner import Starts
from tests.site import Site
from tests.utils import Pages, coroutine_test, crawled

DISALLOW_P = "User-agent: *\nDisallow: /p\n"
OF_EACH_REQUEST = (
    signals.request_reached_downloader,
    signals.headers_received,
    signals.bytes_received,
    signals.response_downloaded,
)


def our_receivers(crawler):
    """Return whose methods Scrapy calls for each page, of ours."""
    sender = crawler.signals.sender
    return {
        type(receiver.__self__)
        for signal in OF_EACH_REQUEST
        for receiver in liveReceivers(getAllReceivers(sender, signal))
        if receiver.__module__.startswith("scrapy_rep.")
    }


class Looking(Pages):
    receivers: set[type]

    def parse(self, response):
        super().parse(response)
        self.receivers = our_receivers(self.crawler)


@pytest.mark.parametrize(
    ("robots", "expected"),
    [
        pytest.param(DISALLOW_P, set(), id="no pace to keep"),
        pytest.param(
            "User-agent: *\nCrawl-delay: 0.1\n", {Starts}, id="a pace to keep"
        ),
    ],
)
@coroutine_test
async def test_signals_are_received_where_they_are_needed(robots, expected):
    with Site({"/robots.txt": robots}) as site:
        crawler = await crawled([site.url("/1"), site.url("/2")], Looking)
    assert len(crawler.spider.got) == 2
    assert crawler.spider.receivers == expected


@pytest.mark.parametrize(
    ("settings", "passes"),
    [
        pytest.param({}, False, id="nothing to obey"),
        pytest.param({"REP_PAGE_OBEY": ["nofollow"]}, True, id="REP_PAGE_OBEY"),
        pytest.param({"REP_PURPOSE": ["search"]}, True, id="REP_PURPOSE"),
    ],
)
def test_what_spiders_yield_passes_us_where_a_page_is_obeyed(settings, passes):
    crawler = get_crawler(settings_dict={"ROBOTSTXT_OBEY": True, **settings})
    manager = SpiderMiddlewareManager(RepSpiderMiddleware(crawler), crawler=crawler)
    (found,) = manager.methods["process_spider_output"]
    assert (found is not None) == passes
