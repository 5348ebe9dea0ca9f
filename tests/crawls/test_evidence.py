"""REP_EVIDENCE in crawls: what stands on requests and responses, and on items."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import pytest
import scrapy

from tests.audits import digest
from tests.site import Reply, Site
from tests.utils import Pages, coroutine_test, crawl, make_crawler, sleep

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


async def shown(site, *paths, cls=Shown, meta=None, **settings):
    crawler = make_crawler(cls, **{**ON, **settings})
    await crawl(crawler, urls=[site.url(path) for path in paths], meta=meta)
    return crawler


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
async def test_unreachable():
    with Site({"/robots.txt": Reply(status=503)}) as site:
        crawler = await shown(site, "/a")
        (found,) = crawler.spider.failures
        assert (found["cause"], found["state"]) == ("unreachable", "unreachable")
        assert (found["status"], found["digest"]) == (None, None)
        assert found["failure"] == "503"
        crawler = await shown(site, "/a", REP_OBEY=["crawl-delay"])
        (found,) = crawler.spider.got
        assert (found["cause"], found["enforced"]) == ("unreachable", False)


class InTurn(Shown):
    """Asks for one page after the other, until what decides has changed."""

    async def start(self):
        for number, request in enumerate(self.requests(), 1):
            yield request
            found: Any = self.got
            while len(found) < number:
                await sleep(0.01)
            if any(found[0][name] != found[-1][name] for name in ("state", "fetched")):
                return


async def first_and_last(site):
    """Return the evidence of the first page, and of the first that differs."""
    pages = [f"/{number}" for number in range(500)]
    settings = {"REP_MIN_AGE": 0.02, "REP_OBEY": ["disallow"]}
    crawler = await shown(site, *pages, cls=InTurn, **settings)
    return crawler.spider.got[0], crawler.spider.got[-1]


def confirmed(hit):
    if "If-None-Match" in hit.headers:
        return Reply(status=304, headers={"Cache-Control": "max-age=0"})
    headers = {"ETag": '"1"', "Cache-Control": "no-cache"}
    return Reply(RULES, headers=headers)


FAILS = [Reply(RULES, headers={"Cache-Control": "max-age=0"}), Reply(status=500)]


@pytest.mark.parametrize(
    ("answers", "state", "failure"),
    [(FAILS, "holding", "500"), (confirmed, "fetched", None)],
)
@coroutine_test
async def test_an_earlier_copy_holds_and_one_that_is_confirmed_is_dated_anew(
    answers, state, failure
):
    with Site({"/robots.txt": answers}) as site:
        first, last = await first_and_last(site)
    assert (first["state"], first["failure"]) == ("fetched", None)
    assert (last["state"], last["failure"]) == (state, failure)
    assert first["digest"] == last["digest"] == DIGEST
    assert (first["fetched"] < last["fetched"]) is (failure is None)


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


@pytest.mark.parametrize("queue", ["Marshal", "Pickle"])
@coroutine_test
async def test_meta_that_is_handed_on(queue, tmp_path):
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
            SCHEDULER_DISK_QUEUE=f"scrapy.squeues.{queue}FifoDiskQueue",
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
        crawler = make_crawler(
            cls, REP_EVIDENCE_FIELD="robots", ITEM_PIPELINES={Pipeline: 1}
        )
        await crawl(crawler, urls=[site.url("/a")])
        url = site.url("/a")
    of_start, *items = Pipeline.seen
    assert of_start == {"url": "none"}  # it comes of no page
    assert {"url": url, "robots": DIGEST} in items
    assert Page(url, DIGEST) in items
    assert Bare(url=url) in items
    assert crawler.stats.get_value("rep/evidence/no_field") == 1
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
        crawler = make_crawler(Items, ITEM_PIPELINES={Pipeline: 1}, **settings)
        await crawl(crawler, urls=[site.url("/a")])
        assert {"url": site.url("/a"), **item} in Pipeline.seen
