"""REP_EVIDENCE in crawls: what stands on requests and responses, and on items."""

from __future__ import annotations

import hashlib
import json
import marshal
import pickle
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
import scrapy

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
DIGEST = f"sha256:{hashlib.sha256(RULES.encode()).hexdigest()}"


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


@coroutine_test
async def test_nothing_unless_asked_for():
    with Site({"/robots.txt": RULES}) as site:
        crawler = await shown(site, "/a", "/private/a", REP_EVIDENCE=False)
    assert crawler.spider.got == [None]
    assert crawler.spider.failures == [None]


@coroutine_test
async def test_nothing_without_robotstxt_obey():
    with Site({"/robots.txt": RULES}) as site:
        crawler = await shown(site, "/a", ROBOTSTXT_OBEY=False)
    assert crawler.spider.got == [None]


@coroutine_test
async def test_all_of_it():
    began = time.time()
    with Site({"/robots.txt": RULES}) as site:
        crawler = await shown(site, "/private/press/a")
        (found,) = crawler.spider.got
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


@coroutine_test
async def test_it_is_plain():
    with Site({"/robots.txt": RULES}) as site:
        crawler = await shown(site, "/a", "/private/a", "/drafts/a")
    for found in [*crawler.spider.got, *crawler.spider.failures]:
        assert json.loads(json.dumps(found)) == found
        assert marshal.loads(marshal.dumps(found)) == found
        assert pickle.loads(pickle.dumps(found)) == found


@coroutine_test
async def test_what_is_refused_has_its_rule_and_line():
    with Site({"/robots.txt": RULES}) as site:
        crawler = await shown(site, "/private/a")
    (found,) = crawler.spider.failures
    assert not found["allowed"]
    assert found["enforced"]
    assert (found["cause"], found["rule"], found["line"]) == (
        "rule",
        "Disallow: /private/",
        2,
    )
    assert found["digest"] == DIGEST


@coroutine_test
async def test_preferences_of_the_url():
    with Site({"/robots.txt": RULES}) as site:
        crawler = await shown(site, "/drafts/a", "/a", REP_PURPOSE=["train-ai"])
    (refused,), (allowed,) = crawler.spider.failures, crawler.spider.got
    assert refused["cause"] == "purpose"
    assert refused["reason"].startswith("no to train-ai (REP_PURPOSE)")
    assert refused["preferences"] == {"train-ai": "no", "search": "yes"}
    assert allowed["preferences"] == {"search": "yes"}


@coroutine_test
async def test_a_dry_run():
    with Site({"/robots.txt": RULES}) as site:
        crawler = await shown(site, "/private/a", "/a", REP_OBEY=[])
    found = {one["url"].rpartition("/")[0]: one for one in crawler.spider.got}
    refused, allowed = found[site.url("/private")], found[site.origin]
    assert not refused["allowed"]
    assert not refused["enforced"]
    assert (refused["cause"], refused["line"]) == ("rule", 2)
    assert allowed["allowed"]
    assert allowed["enforced"]
    assert refused["delay"] == allowed["delay"] == 0.1  # asked, though not kept


@coroutine_test
async def test_more_than_one_thing_left_out():
    """The first one counts, and what is enforced counts more."""
    rules = RULES.replace("0.1", "500")
    with Site({"/robots.txt": rules}) as site:
        crawler = await shown(site, "/private/a", REP_OBEY=[])
        (found,) = crawler.spider.got
        assert (found["cause"], found["enforced"]) == ("rule", False)
        crawler = await shown(site, "/private/a", REP_OBEY=["crawl-delay"])
        (found,) = crawler.spider.failures
        assert (found["cause"], found["enforced"]) == ("crawl_delay", True)
        crawler = await shown(site, "/a", REP_OBEY=["crawl-delay"])
        (found,) = crawler.spider.failures
        assert (found["cause"], found["delay"]) == ("crawl_delay", 500)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(status=404), ("unavailable", 404, None, "no robots.txt (404)")),
        (Reply(status=403), ("denied", 403, None, "robots.txt answered 403")),
    ],
)
@coroutine_test
async def test_there_is_no_file(reply, expected):
    with Site({"/robots.txt": reply}) as site:
        crawler = await shown(site, "/a", REP_DENY_STATUSES=[403])
        (found,) = crawler.spider.got + crawler.spider.failures
        assert found["robots_url"] == site.url("/robots.txt")
    names = "state", "status", "digest", "reason"
    assert tuple(found[name] for name in names) == expected
    assert (found["rule"], found["line"], found["group"]) == (None, None, None)


@coroutine_test
async def test_unreachable():
    with Site({"/robots.txt": Reply(status=503)}) as site:
        crawler = await shown(site, "/a")
        (found,) = crawler.spider.failures
        assert (found["cause"], found["state"]) == ("unreachable", "unreachable")
        assert (found["status"], found["digest"]) == (None, None)
        assert found["failure"] == "503"
        crawler = await shown(site, "/a", REP_UNREACHABLE="allow")
        (found,) = crawler.spider.got
        assert (found["allowed"], found["state"]) == (True, "unreachable")
        crawler = await shown(site, "/a", REP_OBEY=["crawl-delay"])
        (found,) = crawler.spider.got
        assert (found["cause"], found["enforced"]) == ("unreachable", False)


class InTurn(Shown):
    async def start(self):
        for request in self.requests():
            yield request
            await sleep(0.4)


@coroutine_test
async def test_an_earlier_copy_holds():
    answers = [Reply(RULES, headers={"Cache-Control": "max-age=0"}), Reply(status=500)]
    with Site({"/robots.txt": answers}) as site:
        # The second page has the file asked for again, the third knows that it failed.
        crawler = await shown(site, "/a", "/b", "/c", cls=InTurn, REP_MIN_AGE=0.2)
    first, *_, last = crawler.spider.got
    assert (first["state"], first["failure"]) == ("fetched", None)
    assert (last["state"], last["failure"]) == ("holding", "500")
    assert first["digest"] == last["digest"] == DIGEST
    assert first["fetched"] == last["fetched"]


@coroutine_test
async def test_a_confirmed_copy_is_dated_anew():
    def answer(hit):
        if "If-None-Match" in hit.headers:
            return Reply(status=304, headers={"Cache-Control": "max-age=0"})
        headers = {"ETag": '"1"', "Cache-Control": "no-cache"}
        return Reply(RULES, headers=headers)

    with Site({"/robots.txt": answer}) as site:
        crawler = await shown(site, "/a", "/b", cls=InTurn, REP_MIN_AGE=0.2)
    first, second = crawler.spider.got
    assert first["digest"] == second["digest"] == DIGEST
    assert second["fetched"] > first["fetched"]


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
        first = min(hit.seconds for hit in site.hits if hit.path == "/a")
    assert found["time"] - time.time() > first + 0.05 - time.monotonic()


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


@coroutine_test
async def test_what_a_spider_does_to_it_stays_there():
    class Breaks(Shown):
        def parse(self, response):
            super().parse(response)
            found = response.meta["rep_evidence"]
            self.failures.append(json.loads(json.dumps(found)))
            found["group"].append("broken")
            found["preferences"]["broken"] = "yes"
            found["digest"] = "broken"

    with Site({"/robots.txt": RULES}) as site:
        crawler = await shown(site, "/a", "/b", "/c", cls=Breaks)
    for found in crawler.spider.failures:
        assert found["group"] == ["*"]
        assert found["preferences"] == {"search": "yes"}
        assert found["digest"] == DIGEST


@coroutine_test
async def test_the_url_that_was_judged():
    with Site({"/robots.txt": RULES}) as site, Site(host="127.0.0.2") as proxy:
        meta = {"robotstxt_url": site.url("/private/press/a")}
        crawler = await shown(proxy, "/render", meta=meta)
        (found,) = crawler.spider.got
        assert found["url"] == meta["robotstxt_url"]
        assert found["origin"] == site.origin


@coroutine_test
async def test_a_file_that_is_made_to_fill_memory():
    """A rule of 100 KB and thousands of user-agent lines are cut; the line is not."""
    agents = "".join(f"User-agent: bot{number}\n" for number in range(3000))
    rules = f"{agents}Disallow: /{'*' * 100_000}a\n"
    with Site({"/robots.txt": rules}) as site:
        crawler = await shown(site, "/a", "/ba", USER_AGENT="bot7/1.0")
    assert len(crawler.spider.failures) == 2
    for found in crawler.spider.failures:
        assert found["line"] == 3001
        assert found["rule"].startswith("Disallow: /***")
        assert len(found["rule"]) == len(found["reason"]) == 500
        assert found["group"] == [f"bot{number}" for number in range(20)]


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


@coroutine_test
async def test_items_of_pages_without_a_file():
    Pipeline.seen = []
    with Site() as site:
        crawler = make_crawler(
            Items, REP_EVIDENCE_FIELD="robots", ITEM_PIPELINES={Pipeline: 1}
        )
        await crawl(crawler, urls=[site.url("/a")])
        assert {"url": site.url("/a"), "robots": None} in Pipeline.seen


@coroutine_test
async def test_items_are_left_alone_unless_asked_for():
    Pipeline.seen = []
    with Site({"/robots.txt": RULES}) as site:
        crawler = make_crawler(Items, REP_EVIDENCE=True, ITEM_PIPELINES={Pipeline: 1})
        await crawl(crawler, urls=[site.url("/a")])
        assert {"url": site.url("/a")} in Pipeline.seen
    names = [type(mw).__name__ for mw in crawler.engine.scraper.spidermw.middlewares]
    assert "EvidenceSpiderMiddleware" not in names
