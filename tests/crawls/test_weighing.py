"""REP_CACHE_BYTES counts what was read of a robots.txt, whoever asked."""

from __future__ import annotations

from typing import Any

import pytest

from scrapy_rep.crawl import Crawl
from scrapy_rep.policies.cache import weight_of
from tests.site import Site
from tests.utils import Pages, coroutine_test, crawl, make_crawler

RULES = "User-agent: *\nDisallow: /private\nAllow: /p\n" + "".join(
    f"Content-Usage: /{number}/ train-ai=n\n" for number in range(100)
)


class Asking(Pages):
    robots: Any


class Verdict(Asking):
    def parse(self, response):
        assert self.robots.verdict(response.urljoin("/private")).rule.line == 2


class OfTheUrl(Asking):
    def parse(self, response):
        assert self.robots.preferences(response.url) is not None


class OfTheResponse(Asking):
    def parse(self, response):
        assert self.robots.preferences(response) is not None


@pytest.mark.parametrize(
    ("cls", "path", "settings"),
    [
        pytest.param(Pages, "/a", {}, id="sent"),
        pytest.param(Pages, "/private", {}, id="refused"),
        pytest.param(Pages, "/private", {"REP_OBEY": []}, id="not refused"),
        pytest.param(Pages, "/a", {"REP_EVIDENCE": True}, id="evidence"),
        pytest.param(Pages, "/private", {"REP_EVIDENCE": True}, id="of a refusal"),
        pytest.param(Pages, "/a", {"REP_PURPOSE": ["search"]}, id="purposes"),
        pytest.param(Verdict, "/a", {}, id="a spider, a verdict"),
        pytest.param(OfTheUrl, "/a", {}, id="a spider, preferences"),
        pytest.param(OfTheResponse, "/a", {}, id="a spider, those of a response"),
    ],
)
@coroutine_test
async def test_what_was_read_is_weighed(cls, path, settings):
    with Site({"/robots.txt": RULES}) as site:
        crawler = make_crawler(cls, **settings)
        await crawl(crawler, urls=[site.url(path)])
        origin = site.origin
    policies = Crawl.of(crawler).policies
    known = policies.peek(origin)  # by now, all that has grown is weighed
    assert known is not None
    assert known.weight == weight_of(known)
