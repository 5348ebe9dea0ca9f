"""One robots.txt for each origin and process, however many crawls want it."""

from __future__ import annotations

import gc
import sys
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, version_info
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep.crawl import Crawl
from scrapy_rep.policies.lifecycle import Bounded
from scrapy_rep.policies.sharing import OF_LOOPS, Learned, Sharing
from scrapy_rep.protocol.access import Outcome, Validators
from scrapy_rep.protocol.answers import Access
from tests.forking import run
from tests.site import Reply, Site
from tests.snapshots import changed, snapshot_of
from tests.utils import (
    SCRAPYS,
    Pages,
    at_once,
    coroutine_test,
    crawl,
    crawled,
    make_crawler,
    traced,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T0 = 1_800_000_000.0
NO_P = "User-agent: *\nDisallow: /p\n"
SLOW = Reply(NO_P, after=0.2)


def stat(name: str, *crawlers: Any) -> int:
    return sum(each.stats.get_value(name, 0) for each in crawlers)


class Noting(Pages):
    def parse(self, response):
        super().parse(response)
        self.evidence = response.meta["rep_evidence"]


class Inner(Noting):
    """Another spider, with what bears on its own crawl only."""

    name = "inner"


class Login(Pages):
    http_user, http_pass, http_auth_domain = "me", "secret", None


class Nothing:
    """A downloader middleware."""


@pytest.mark.invariant4
@pytest.mark.parametrize(
    ("spider", "settings"),
    [
        pytest.param(Noting, {}, id="the same spider"),
        pytest.param(Inner, {"LOG_LEVEL": "ERROR"}, id="another spider"),
        pytest.param(Inner, {"SCHEDULER": SCRAPYS}, id="scheduler"),
        pytest.param(Inner, {"REP_STORE": "sqlite", "JOBDIR": "job"}, id="store"),
        pytest.param(
            Inner,
            {"REP_MAX_AGE": 100, "REP_UNREACHABLE_RETRY_DELAYS": [5]},
            id="lifetime",
        ),
        pytest.param(Inner, {"REP_CACHE_BYTES": 0}, id="no memory"),
    ],
)
@coroutine_test
async def test_one_for_all_who_would_ask_alike(spider, settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Site({"/robots.txt": SLOW}) as site:
        one = make_crawler(Noting, REP_EVIDENCE=True)
        other = make_crawler(spider, REP_EVIDENCE=True, **settings)
        urls = [site.url("/p"), site.url("/q")]
        await at_once(crawl(one, urls=urls), crawl(other, urls=urls))
        assert sorted(site.paths) == ["/q", "/q", "/robots.txt"]
    for each in one, other:
        assert each.spider.got == [site.url("/q")]
        assert stat("rep/origins", each) == stat("robotstxt/forbidden", each) == 1
    assert stat("robotstxt/request_count", one, other) == 1
    assert stat("rep/shared", one, other) == 1
    told, also = (each.spider.evidence for each in (one, other))
    assert told["digest"] == also["digest"] is not None
    assert told["fetched"] == pytest.approx(also["fetched"], abs=0.001)
    assert told["status"] == also["status"] == 200


@pytest.mark.parametrize(
    ("spider", "settings", "meta"),
    [
        (Pages, {"USER_AGENT": "other/1.0"}, {}),
        (Pages, {"DEFAULT_REQUEST_HEADERS": {"Accept-Language": "fr"}}, {}),
        (Login, {}, {}),
        (Pages, {"HTTPAUTH_USER": "me", "HTTPAUTH_DOMAIN": None}, {}),
        (Pages, {"REP_DIALECT": "gym2008"}, {}),
        (Pages, {"REP_DENY_STATUSES": [403]}, {}),
        (Pages, {"REP_MAX_SIZE": 1000}, {}),
        (Pages, {"REP_MAX_REDIRECTS": 2}, {}),
        (Pages, {"REP_TIMEOUT": 7}, {}),
        (Pages, {"REP_ROBOTS_META": {"a": 1}}, {}),
        (Pages, {"REP_OBEY": ["disallow"]}, {}),
        (Pages, {"DOWNLOADER_MIDDLEWARES": {Nothing: 543}}, {}),
        (Pages, {"DOWNLOADER_MIDDLEWARES": {Nothing: 544}}, {}),
        (Pages, {}, {"proxy": "http://proxy.example"}),
    ],
)
@pytest.mark.parametrize("of", [Pages, Inner])
def test_one_for_each_way_of_asking(spider, settings, meta, of):
    def likeness(spider: Any, settings: Any, meta: Any) -> Any:
        crawler = make_crawler(spider, **settings)
        crawler.spider = spider()
        shared = Crawl(crawler)
        page = Request("http://a.example/", meta=meta)
        header = shared.agents.header(page)
        asking = Sharing(crawler, shared.settings, lambda: False)
        return asking.likeness("http://a.example", page, header)

    assert likeness(of, {"LOG_LEVEL": "ERROR"}, {}) == likeness(Pages, {}, {})
    assert likeness(spider, settings, meta) == likeness(spider, settings, meta)
    assert likeness(spider, settings, meta) != likeness(of, {}, {})


class Lasting(Pages):
    """Asks for its first URL, and for the others when it is told to go on."""

    goes_on = False

    async def start(self):
        first, *others = self.requests()
        yield first
        await until(lambda: self.goes_on)
        for request in others:
            yield request


@coroutine_test
async def test_crawls_that_start_and_end_at_different_times():
    """What was learned is known for as long as one of them runs."""
    with Site({"/robots.txt": NO_P}) as site, Site(host="127.0.0.2") as another:
        lasting = make_crawler(Lasting)
        urls = [another.url("/"), site.url("/p"), site.url("/q")]
        running = deferred_from_coro(crawl(lasting, urls=urls))
        await until(lambda: lasting.spider and lasting.spider.got)
        asked_by = await crawled([site.url("/p"), site.url("/q")])
        assert site.count("/robots.txt") == 1
        later = await crawled(urls, Inner)
        lasting.spider.goes_on = True
        await maybe_deferred_to_future(running)
        for each in (asked_by, later, lasting):
            assert site.url("/q") in each.spider.got
            assert stat("robotstxt/forbidden", each) == 1
        assert (site.count("/robots.txt"), another.count("/robots.txt")) == (1, 1)
        # Once all are over nothing is left, and the next one begins anew.
        gc.collect()
        assert not OF_LOOPS
        await crawl(make_crawler(), urls=[site.url("/q")])
        assert site.count("/robots.txt") == 2


@pytest.mark.invariant4
@coroutine_test
async def test_where_memory_has_no_room_for_it_the_store_tells_who_has_waited(tmp_path):
    store: Any = {"REP_STORE": "sqlite", "REP_STORE_PATH": str(tmp_path / "robots")}
    with Site({"/robots.txt": Reply(NO_P, after=0.2)}) as site:
        crawlers = [make_crawler(REP_CACHE_BYTES=0, **store) for _ in range(3)]
        urls = [site.url("/p"), site.url("/q")]
        await at_once(*(crawl(each, urls=urls) for each in crawlers))
        assert site.count("/robots.txt") == 1
        assert (site.count("/p"), site.count("/q")) == (0, 3)


@coroutine_test
async def test_a_robots_txt_that_may_not_be_kept_serves_all_who_wait():
    reply = Reply(NO_P, headers={"Cache-Control": "no-store"}, after=0.2)
    with Site({"/robots.txt": reply}) as site:
        # The polite queue asks ahead of need, and then the gate would ask once more.
        crawlers = [make_crawler(REP_MIN_AGE=0, SCHEDULER=SCRAPYS) for _ in range(3)]
        urls = [site.url("/q")]
        await at_once(*(crawl(each, urls=urls) for each in crawlers))
        assert site.count("/robots.txt") == 1
        assert site.count("/q") == 3


@coroutine_test
async def test_a_failure_is_one_for_all_and_is_asked_again_once():
    with Site({"/robots.txt": [Reply(status=503), Reply(status=503), NO_P]}) as site:
        crawlers = [
            make_crawler(REP_UNREACHABLE_RETRY_DELAYS=[0.3, 0.5]) for _ in range(2)
        ]
        urls = [site.url("/p"), site.url("/q")]
        await at_once(*(crawl(each, urls=urls) for each in crawlers))
        assert site.count("/robots.txt") == 3
        assert (site.count("/p"), site.count("/q")) == (0, 2)
    for each in crawlers:
        assert stat("rep/unreachable", each) == 2


async def stop(crawler: Any) -> None:
    """End it, as Ctrl-C does; what it is waiting for comes to an end by its timeout."""
    stopping = crawler.stop_async() if hasattr(crawler, "stop_async") else None
    await (stopping or maybe_deferred_to_future(crawler.stop()))


async def one_after_the_other(
    site: Site, asking: Any, waiting: Any, *, meanwhile: Callable[[], Awaitable[None]]
) -> None:
    """Run both to their end, and do *meanwhile* while one waits for what the other asks."""
    urls = [site.url("/p"), site.url("/q")]
    running = [deferred_from_coro(crawl(asking, urls=urls))]
    await until(lambda: site.count("/robots.txt"))
    running.append(deferred_from_coro(crawl(waiting, urls=urls)))
    (commons,) = (each for each in OF_LOOPS.values() if each.claims)
    await until(lambda: any(commons.claims.values()))
    await meanwhile()
    for each in running:
        await maybe_deferred_to_future(each)


async def break_off(crawler: Any) -> None:
    """Have all that it asks broken off, as where its process is told twice to end."""
    await Crawl.of(crawler).policies.close()
    await stop(crawler)


@pytest.mark.parametrize("end", [stop, break_off])
@coroutine_test
async def test_a_crawl_that_ends_while_another_one_waits_for_its_fetch(end):
    with Site({"/robots.txt": [Reply(hang=True), NO_P]}) as site:
        ending, other = (make_crawler(REP_TIMEOUT=1) for _ in range(2))
        await one_after_the_other(site, ending, other, meanwhile=lambda: end(ending))
        assert site.count("/robots.txt") == 2
        assert site.count("/p") == 0
    assert ending.spider.got == []
    assert other.spider.got == [site.url("/q")]


DAY = 86400.0
GOOD = snapshot_of(status=200, body=b"x", url="u", etag='"1"', checked=T0 - DAY)
SHORT = {"cache-control": ["no-store"]}
DOWN = {"access": Access.UNREACHABLE, "status": 503}
LATELY = snapshot_of(failures=1, failing_since=T0, retry_at=T0 + 10)


@pytest.mark.parametrize(
    ("facts", "before", "waited", "later", "saves"),
    [
        ({}, None, False, 1, True),
        ({}, None, False, DAY + 1, False),  # it is out of date
        ({}, GOOD, False, 1, True),
        ({}, changed(GOOD, checked=T0), False, 1, False),  # it is known
        ({"fields": SHORT}, None, True, 1, True),  # came while this crawl waited
        ({"fields": SHORT}, None, False, 1, False),
        (DOWN, None, False, 1, True),
        (DOWN, None, False, 99, False),  # it may be asked again
        (DOWN, LATELY, False, 1, False),  # it does not count once more
        (DOWN, changed(LATELY, retry_at=T0 - 1), False, 1, True),
        ({"access": Access.NOT_MODIFIED}, GOOD, False, 1, True),
        ({"access": Access.NOT_MODIFIED}, changed(GOOD, etag=""), True, 1, False),
        ({"access": Access.NOT_MODIFIED}, None, True, 1, False),
        ({**DOWN, "by_own_code": True}, None, True, 1, False),
        ({**DOWN, "status": None}, None, True, 1, False),  # as its crawl ends
    ],
)
@coroutine_test
async def test_what_saves_a_crawl_from_asking(facts, before, waited, later, saves):
    crawler = make_crawler(REP_MIN_AGE=0, REP_UNREACHABLE_RETRY_DELAYS=[10])
    shared = Crawl(crawler)
    # By the crawl's clock it was learned at T0.
    at = T0 - shared.events.at(0.0)
    sharing = Sharing(crawler, shared.settings, lambda: True)
    outcome = Outcome(**{"access": Access.SUCCESSFUL, "status": 200, **facts})
    learned = Learned(outcome, at, Validators("u", '"1"'))
    alike, otherwise = (("http://a.example", "", None, how) for how in "ab")
    sharing.keep(alike, learned)
    since = at - 1 if waited else inf
    assert (sharing.recall(alike, before, since, T0 + later) is not None) is saves
    assert sharing.recall(otherwise, before, since, T0 + later) is None


@coroutine_test
async def test_who_is_cancelled_takes_nobody_else_down():
    with Site({"/robots.txt": SLOW}) as site:
        asking, waiting = make_crawler(), make_crawler()
        await one_after_the_other(
            site, asking, waiting, meanwhile=lambda: break_off(waiting)
        )
        assert site.count("/p") == 0
    assert asking.spider.got == [site.url("/q")]
    assert waiting.spider.got == []


def test_what_is_shared_weighs_honestly():
    names = ["cache-control", "content-type", "date", "etag", "server", "vary"]
    with traced() as memory:
        shared = Bounded(2**30, Learned.weight)
        for number in range(1000):
            fields = {name: [f"{name} of {number}"] for name in names}
            body = b"User-agent: *\nDisallow: /%d\n" % number
            outcome = Outcome(Access.SUCCESSFUL, status=200, body=body, fields=fields)
            shared.put(f"https://{number}.example", Learned(outcome, 1.5, None))
        held, _ = memory()
    assert 0.7 < shared.weight / held < 1.5


TWO_SPIDERS = """
import scrapy
from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess

class One(scrapy.Spider):
    name = "one"
    start_urls = {urls}
    async def parse(self, response):
        pass

class Two(One):
    name = "two"
    custom_settings = {theirs}

process = {process}({{
    "ADDONS": {{"scrapy_rep.Addon": 500}},
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "LOG_LEVEL": "ERROR",
    **{settings},
}})
process.crawl(One)
process.crawl(Two)
process.start()
"""
PROCESSES = [
    pytest.param("CrawlerProcess", {}, id="CrawlerProcess"),
    pytest.param("CrawlerProcess", {"TWISTED_REACTOR": None}, id="default reactor"),
    pytest.param("AsyncCrawlerProcess", {}, id="AsyncCrawlerProcess"),
]
if version_info >= (2, 15):
    no_reactor = {"TWISTED_REACTOR_ENABLED": False}
    PROCESSES.append(pytest.param("AsyncCrawlerProcess", no_reactor, id="no reactor"))


@pytest.mark.invariant4
@pytest.mark.parametrize(("process", "settings"), PROCESSES)
def test_two_spiders_of_a_process(process, settings):
    asked = 1 if process == "CrawlerProcess" else 2
    theirs = {} if asked == 1 else {"USER_AGENT": "two/1.0"}
    with Site({"/robots.txt": SLOW}) as site:
        urls = [site.url("/p"), site.url("/q")]
        code = TWO_SPIDERS.format(
            urls=urls, theirs=theirs, process=process, settings=settings
        )
        done = run([sys.executable, "-c", code])
        assert (done.returncode, done.stderr) == (0, "")
        assert sorted(site.paths) == ["/q"] * 2 + ["/robots.txt"] * asked
