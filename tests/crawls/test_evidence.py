"""REP_EVIDENCE in crawls: what stands on requests and responses, and on items."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import pytest
import scrapy

from tests.audits import digest
from tests.play import play
from tests.site import Reply, Site
from tests.utils import Pages, coroutine_test

RULES = """\
User-agent: *
Disallow: /private/
Allow: /private/press/
Crawl-delay: 0.1
Content-Usage: /drafts/ train-ai=n
Content-Signal: search=yes
"""
ON = {"REP_EVIDENCE": True, "USER_AGENT": "ExampleBot/1.0"}
DIGEST = digest(RULES)


class Shown(Pages):
    """Keeps the evidence of each page, and of what was refused."""

    def parse(self, response):
        self.got.append(response.meta.get("rep_evidence"))

    def failed(self, failure):
        self.failures.append(failure.request.meta.get("rep_evidence"))


async def shown(site, *paths, cls=Shown, **settings):
    played = await play(site, {**ON, **settings}, paths, cls)
    return played.crawler


@pytest.mark.parametrize("off", ["REP_EVIDENCE", "ROBOTSTXT_OBEY"])
@coroutine_test
async def test_nothing_unless_asked_for(off):
    with Site({"/robots.txt": RULES}) as site:
        crawler = await shown(site, "/a", **{off: False})
    assert crawler.spider.got == [None]


@coroutine_test
async def test_all_of_it_and_of_what_is_refused():
    began = time.time()
    with Site({"/robots.txt": RULES}) as site:
        crawler = await shown(site, "/private/press/a", "/private/a")
        (found,), (refused,) = crawler.spider.got, crawler.spider.failures
        url, robots_url = site.url("/private/press/a"), site.url("/robots.txt")
        origin = site.origin
    assert began - 1 < found.pop("fetched") < found.pop("time") < time.time() + 1
    assert found == {
        "url": url,
        "agent": "ExampleBot/1.0",
        "allowed": True,
        "cause": None,
        "enforced": True,
        "reason": "Allow: /private/press/ (line 3, user-agent *)",
        "group": ["*"],
        "rule": "Allow: /private/press/",
        "line": 3,
        "delay": 0.1,
        "preferences": {"search": "yes"},
        "origin": origin,
        "state": "fetched",
        "status": 200,
        "robots_url": robots_url,
        "digest": DIGEST,
        "failure": None,
    }
    assert (refused["allowed"], refused["enforced"]) == (False, True)
    assert (refused["cause"], refused["line"]) == ("rule", 2)
    assert refused["digest"] == DIGEST


@coroutine_test
async def test_a_redirected_request_has_that_of_its_own_page():
    with (
        Site({"/robots.txt": RULES}) as first,
        Site({"/robots.txt": "# free"}, host="127.0.0.2") as second,
    ):
        location = {"Location": second.url("/b")}
        first.replies["/a"] = Reply(status=302, headers=location)
        crawler = await shown(first, "/a")
        (found,) = crawler.spider.got
        assert found["url"] == second.url("/b")
        assert found["origin"] == second.origin
        assert found["digest"] != DIGEST


@coroutine_test
async def test_a_retried_request_is_judged_anew():
    with Site({"/robots.txt": RULES}) as site:
        site.replies["/a"] = [Reply(status=503), Reply("fine")]
        crawler = await shown(site, "/a", RETRY_TIMES=1)
        (found,) = crawler.spider.got
        assert crawler.stats.get_value("retry/count") == 1
        # When the first try began the delay of the second had not passed.
        first = min(hit.sent for hit in site.hits if hit.path == "/a")
    assert found["time"] - time.time() > first - time.monotonic()


class HandsItsMetaOn(Shown):
    other = ""

    def parse(self, response):
        super().parse(response)
        if "handed_on" not in response.meta:
            meta = {**response.meta, "handed_on": True}
            yield scrapy.Request(self.other, meta=meta)
            exempt = {**meta, "dont_obey_robotstxt": True}
            yield response.follow("/exempt", self.parse_exempt, meta=exempt)

    def parse_exempt(self, response):
        assert "rep_evidence" not in response.meta
        self.failures.append("exempt")


@coroutine_test
async def test_meta_that_is_handed_on(tmp_path):
    """Through the queues on disk, too."""
    with (
        Site({"/robots.txt": RULES}) as site,
        Site({"/robots.txt": "# free"}, host="127.0.0.2") as other,
    ):
        cls = type("To", (HandsItsMetaOn,), {"other": other.url("/b")})
        crawler = await shown(
            site,
            "/a",
            cls=cls,
            JOBDIR=str(tmp_path),
            SCHEDULER_DISK_QUEUE="scrapy.squeues.MarshalFifoDiskQueue",
        )
        assert [one["url"] for one in crawler.spider.got] == [
            site.url("/a"),
            other.url("/b"),
        ]
    assert crawler.spider.got[1]["origin"] == other.origin
    assert crawler.spider.failures == ["exempt"]
    stats = crawler.stats
    assert stats.get_value("scheduler/enqueued/disk") == 3
    assert stats.get_value("scheduler/unserializable") is None


# On items


@dataclass
class Page:
    url: str
    robots: str | None = field(default=None)


class Bare(scrapy.Item):
    url = scrapy.Field()


class Items(Pages):
    async def start(self):
        yield {"url": "none"}
        for request in self.requests():
            yield request

    def parse(self, response):
        yield {"url": response.url}
        yield Page(response.url)
        yield Bare(url=response.url)


class AsyncItems(Items):
    async def parse(self, response):
        for item in super().parse(response):
            yield item


class Pipeline:
    """Sees what pipelines see."""

    seen: list[Any] = []

    def process_item(self, item):
        self.seen.append(item)
        return item


@pytest.mark.parametrize("cls", [Items, AsyncItems])
@coroutine_test
async def test_the_digest_on_items(cls, caplog):
    Pipeline.seen = []
    with Site({"/robots.txt": RULES}) as site:
        settings = {"REP_EVIDENCE_FIELD": "robots", "ITEM_PIPELINES": {Pipeline: 1}}
        played = await play(site, settings, ["/a"], cls)
        url = site.url("/a")
    of_start, *items = Pipeline.seen
    assert of_start == {"url": "none"}  # it comes of no page
    assert {"url": url, "robots": DIGEST} in items
    assert Page(url, DIGEST) in items
    assert Bare(url=url) in items
    assert played.stats("rep/evidence/") == {"no_field": 1}
    (warning,) = [text for text in caplog.messages if "REP_EVIDENCE_FIELD" in text]
    assert "'robots'" in warning


@pytest.mark.parametrize(
    ("settings", "item"),
    [
        ({"REP_EVIDENCE_FIELD": "robots"}, {"robots": None}),
        ({"REP_EVIDENCE": True}, {}),
    ],
)
@coroutine_test
async def test_items_of_pages_without_a_file_and_where_nobody_asks(settings, item):
    Pipeline.seen = []
    with Site() as site:
        await play(site, {"ITEM_PIPELINES": {Pipeline: 1}, **settings}, ["/a"], Items)
        assert {"url": site.url("/a"), **item} in Pipeline.seen
