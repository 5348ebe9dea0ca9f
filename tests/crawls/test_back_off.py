"""429 and 503 with Retry-After: what is sent to the sites that answer so, and when.

Where nobody is to wait for a pause it is longer than a crawl may last.
"""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from email.utils import formatdate
from threading import Barrier
from typing import Any

import pytest
import scrapy
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro

from scrapy_rep import RobotsForbidden
from scrapy_rep.crawl import Crawl
from scrapy_rep.events.kinds import NEWS_SECONDS, BackedOff, PutOff
from scrapy_rep.events.stream import Stream
from scrapy_rep.pacing.hosts import HOSTS
from tests.play import play
from tests.site import Hit, Reply, Site, pages
from tests.utils import (
    SCRAPYS,
    Enough,
    Pages,
    both_schedulers,
    coroutine_test,
    crawl,
    crawled,
    make_crawler,
    sleep,
    until,
    with_files,
)

OURS = "scrapy_rep.Scheduler"
DELAY = "User-agent: *\nCrawl-delay: 0.3\n"
LONG = 3600


def busy(seconds: Any, status: int = 429) -> Reply:
    return Reply(status=status, headers={"Retry-After": str(seconds)})


def until_a_date(hit: Hit) -> Reply:
    return busy(formatdate(time.time() + 2, usegmt=True), 503)


def when(site: Site, path: str) -> list[float]:
    return [hit.sent for hit in site.hits if hit.path == path]


class Pauses:
    """From when until when a crawl has been told that its sites want to be left alone."""

    def __init__(self, crawler: Any) -> None:
        self._stream = Stream.of(crawler)
        self._told: list[BackedOff] = []
        self._stream.listen(self._told.append, [BackedOff])

    @property
    def spread(self) -> float:
        """Seconds from the first to the last."""
        return self._told[-1].time - self._told[0].time

    def sent_meanwhile(self, *sites: Site) -> list[str]:
        """Return the paths of *sites* that were asked for all the same."""
        assert self._told
        times = [
            (site, hit, self._stream.at(hit.sent))
            for site in sites
            for hit in site.hits
        ]
        # On a busy machine one is told a moment late.
        return [
            hit.path
            for each in self._told
            for site, hit, at in times
            if site.host == each.host and 0 < at - each.time < each.seconds - 0.2
        ]


class BusyFirst(Pages):
    """Asks for the other URLs when the answer to the first has parked its slot."""

    async def start(self):
        for number, request in enumerate(self.requests()):
            yield request
            if not number:
                await until(lambda: self.crawler.stats.get_value("rep/backoff/count"))


def stats(crawler: Any) -> dict[str, Any]:
    """Return what is counted of back-off, without its prefix."""
    return {
        name.removeprefix("rep/backoff/"): value
        for name, value in crawler.stats.get_stats().items()
        if name.startswith("rep/backoff/")
    }


@pytest.mark.parametrize(
    ("scheduler", "asks", "meta"),
    [
        (OURS, busy(1), {}),
        (SCRAPYS, busy(1), {}),
        (OURS, until_a_date, {}),
        (OURS, busy(1), {"dont_obey_robotstxt": True}),
        (SCRAPYS, busy(1), {"dont_obey_robotstxt": True}),
    ],
    ids=["seconds", "Scrapy's queue", "date", "not judged", "not judged, Scrapy's"],
)
@coroutine_test
async def test_all_of_the_host_waits(scheduler, asks, meta, caplog):
    caplog.set_level("INFO", logger="scrapy_rep")
    with Site({"/0": [asks, "fine"]}, host="127.0.0.2") as site:
        crawler = make_crawler(BusyFirst, SCHEDULER=scheduler, RETRY_TIMES=1)
        pauses = Pauses(crawler)
        await crawl(crawler, urls=pages(site, 5), meta=meta)
    # None is lost, the one that is retried neither.
    assert len(crawler.spider.got) == 5
    before = ["/robots.txt"] * (not meta)
    assert site.paths[: len(before) + 1] == [*before, "/0"]
    assert len(site.hits) == len(before) + 6
    assert pauses.sent_meanwhile(site) == []
    found = stats(crawler)
    asked = found["longest"]
    # The site says what time it has in whole seconds, and the next one may begin.
    assert asked == 1 if asks is not until_a_date else asked in {1, 2}
    assert found == {"count": 1, "longest": asked, "time": pytest.approx(asked)}
    first, *later = site.hits[len(before) :]
    assert min(hit.sent for hit in later) - first.sent >= asked
    (line,) = [r.getMessage() for r in caplog.records if "parked for" in r.getMessage()]
    status = 503 if asks is until_a_date else asks.status
    assert line == (
        f"127.0.0.2 is parked for {asked:g} s ({status} for {site.url('/0')}): it asks "
        "for that"
    )


@pytest.mark.invariant3
@both_schedulers
@coroutine_test
async def test_no_other_host_waits(scheduler):
    class OthersToo(BusyFirst, Enough):
        pass

    with Site({"/0": busy(LONG)}, host="127.0.0.2") as site, Site() as other:
        crawler = make_crawler(OthersToo, SCHEDULER=scheduler, CONCURRENT_REQUESTS=2)
        urls = pages(site, 5) + pages(other, 20)
        await crawl(crawler, urls=urls, enough=20)
        assert site.paths == ["/robots.txt", "/0"]
    assert sorted(crawler.spider.got) == sorted(pages(other, 20))


@coroutine_test
async def test_built_in_asks_again_at_once():
    with Site({"/0": [busy(LONG), "fine"]}) as site:
        await crawled(pages(site, 1), ADDONS={}, ROBOTSTXT_OBEY=True, RETRY_TIMES=1)
        assert site.count("/0") == 2


@both_schedulers
@coroutine_test
async def test_what_is_on_its_way_arrives_and_is_parked_once(scheduler, caplog):
    caplog.set_level("INFO", logger="scrapy_rep")
    all_there = Barrier(6)

    def late(hit):
        all_there.wait(20)
        return busy(1)

    with Site() as site:
        for n in range(6):
            site.replies[f"/{n}"] = [late, "fine"]
        crawler = make_crawler(SCHEDULER=scheduler, RETRY_TIMES=1)
        pauses = Pauses(crawler)
        await crawl(crawler, urls=pages(site, 6))
        firsts = max(when(site, f"/{n}")[0] for n in range(6))
        again = min(when(site, f"/{n}")[1] for n in range(6))
    assert len(crawler.spider.got) == 6
    assert again - firsts >= 1
    assert pauses.sent_meanwhile(site) == []
    assert stats(crawler)["count"] == 6
    assert stats(crawler)["time"] < 6 * 1  # the pauses are one
    lines = [r for r in caplog.records if "parked for" in r.getMessage()]
    assert 1 <= len(lines) <= 1 + pauses.spread // NEWS_SECONDS


@coroutine_test
async def test_why_a_slot_waits():
    one_at_a_time = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    played = await play({"/0": [busy(1), "fine"]}, one_at_a_time, ["/0", "/1"])
    put_off = played.of(PutOff)
    assert {(each.host, each.cause) for each in put_off} == {("127.0.0.1", "parked")}
    assert played.stats("rep/put_off") == {"": len(put_off)}


@both_schedulers
@coroutine_test
async def test_no_longer_than_the_maximum(scheduler):
    settings = {"SCHEDULER": scheduler, "REP_RETRY_AFTER_MAX": 1, "RETRY_TIMES": 1}
    with Site({"/0": [busy(LONG), "fine"]}) as site:
        played = await play(site, settings, ["/0"])
        first, second = when(site, "/0")
    assert second - first >= 1
    (told,) = played.of(BackedOff)
    assert (told.asked, told.seconds) == (LONG, 1)
    assert "%(asked)s, more than REP_RETRY_AFTER_MAX" in told.words
    assert stats(played.crawler)["over_max"] == 1
    assert stats(played.crawler)["longest"] == LONG


OBEY = ["disallow", "crawl-delay", "request-rate", "visit-time"]


@pytest.mark.parametrize(
    ("path", "reply", "settings", "counted"),
    [
        ("/0", Reply(status=500), {}, {}),
        ("/0", busy(LONG, 500), {"SCHEDULER": SCRAPYS}, {}),
        ("/0", busy(LONG, 200), {}, {}),
        ("/robots.txt", busy(LONG, 503), {"REP_UNREACHABLE": "allow"}, {}),
        ("/0", busy(LONG), {"REP_OBEY": OBEY}, {"ignored": 1}),
        ("/0", busy(LONG), {"REP_OBEY": OBEY, "SCHEDULER": SCRAPYS}, {"ignored": 1}),
    ],
    ids=["one 500", "500", "200", "robots.txt", "off", "off, Scrapy's queue"],
)
@coroutine_test
async def test_what_parks_nothing(path, reply, settings, counted):
    settings = {"RETRY_TIMES": 1, **settings}
    played = await play({path: [reply, ""]}, settings, ["/0", "/1", "/2"])
    assert len(played.spider.got) == 3
    assert not played.of(BackedOff)
    assert stats(played.crawler) == counted
    if counted:
        assert played.stats("rep/would_forbid") == {}


class ParksLate:
    """Parks the host of a page that has left the queue, before it is judged."""

    def __init__(self, crawler: Any) -> None:
        self._crawler = crawler
        crawler.passed = 0

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler)

    def process_request(self, request):
        if request.url.endswith("/0"):
            self._crawler.passed += 1
            if self._crawler.passed == 1:
                Crawl.of(self._crawler).keeper.park("127.0.0.1", 1.5)


@coroutine_test
async def test_what_has_left_the_queue_goes_back_where_no_delay_is_asked_for():
    with Site() as site:
        crawler = make_crawler(DOWNLOADER_MIDDLEWARES={ParksLate: 50})
        await crawl(crawler, urls=[site.url("/0")])
        assert when(site, "/0")[0] - when(site, "/robots.txt")[0] >= 1.4
    assert crawler.passed == 2
    assert crawler.spider.got == [site.url("/0")]


THROTTLE: dict[str, Any] = {
    "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
    "AUTOTHROTTLE_ENABLED": True,
    "AUTOTHROTTLE_START_DELAY": 0.05,
    "AUTOTHROTTLE_TARGET_CONCURRENCY": 8,
}
OWN_DELAY = {"DOWNLOAD_DELAY": 0.3, "RANDOMIZE_DOWNLOAD_DELAY": False}


@both_schedulers
@pytest.mark.parametrize(
    ("robots", "settings", "least"),
    [
        pytest.param(DELAY, {}, 0.3, id="Crawl-delay"),
        # Scrapy alone keeps its own delay: from when it takes a request up, not sends it.
        pytest.param("", OWN_DELAY, 0.15, id="own delay"),
        pytest.param("", THROTTLE, 0.0, id="AutoThrottle"),
    ],
)
@pytest.mark.filterwarnings("ignore:The RANDOMIZE_DOWNLOAD_DELAY")
@coroutine_test
async def test_a_delay_is_kept_when_it_is_over(scheduler, robots, settings, least):
    # The third page is answered so late that others have come to their slot meanwhile.
    slow = Reply(status=429, headers={"Retry-After": "1"}, after=0.5)
    with Site({"/robots.txt": robots, "/2": [slow, "fine"]}) as site:
        crawler = make_crawler(SCHEDULER=scheduler, RETRY_TIMES=1, **settings)
        pauses = Pauses(crawler)
        await crawl(crawler, urls=pages(site, 5))
    assert pauses.sent_meanwhile(site) == []
    assert len(crawler.spider.got) == 5
    assert min(site.gaps()) >= least


@coroutine_test
async def test_requests_that_never_were_in_a_queue(tmp_path):
    with Site({"/busy": [busy(1), "fine"]}) as site:
        site.replies["/file.pdf"] = [busy(1), "fine"]
        crawler = with_files(tmp_path, RETRY_TIMES=2)
        pauses = Pauses(crawler)
        item = {"file_urls": [site.url("/file.pdf"), site.url("/busy")]}
        await crawl(crawler, urls=[site.url("/start")], item=item)
    assert site.count("/busy") == site.count("/file.pdf") == 2
    assert pauses.sent_meanwhile(site) == []
    assert crawler.stats.get_value("file_status_count/downloaded") == 2


class Late:
    """A downloader middleware that takes its time."""

    async def process_request(self, request):
        if not (request.url.endswith("/0") or "robots" in request.url):
            await sleep(0.2)


class ThenMore(Pages):
    """Asks for its last URLs when so many others wait in their parked slot."""

    holds, last = 2, 1

    async def start(self):
        requests = list(self.requests())
        for request in requests[: -self.last]:
            yield request
        slots = self.crawler.engine.downloader.slots
        await until(lambda: self.crawler.stats.get_value("rep/backoff/count"))
        await until(lambda: any(len(s.active) == self.holds for s in slots.values()))
        for request in requests[-self.last :]:
            yield request


@coroutine_test
async def test_requests_that_have_left_the_queue_already():
    class ThenOthers(ThenMore, Enough):
        holds, last = 1, 10

    with Site({"/0": busy(LONG)}) as site, Site(host="127.0.0.2") as other:
        crawler = make_crawler(
            ThenOthers, DOWNLOADER_MIDDLEWARES={Late: 999}, CONCURRENT_REQUESTS=2
        )
        # The others would not be asked for if its place was not lent.
        await crawl(crawler, urls=pages(site, 2) + pages(other, 10), enough=10)
        assert site.paths == ["/robots.txt", "/0"]
    assert sorted(crawler.spider.got) == sorted(pages(other, 10))


@pytest.mark.parametrize("place", [999, 50], ids=["judged", "not judged"])
@coroutine_test
async def test_none_that_has_left_the_queue_is_sent_or_lost(place):
    with Site({"/0": busy(1)}) as site:
        spider = ThenMore if place == 999 else Pages
        crawler = make_crawler(spider, DOWNLOADER_MIDDLEWARES={Late: place})
        pauses = Pauses(crawler)
        await crawl(crawler, urls=pages(site, 4))
    assert sorted(crawler.spider.got) == pages(site, 3, start=1)
    assert pauses.sent_meanwhile(site) == []


@both_schedulers
@coroutine_test
async def test_robots_txt_of_the_host_waits_and_its_pages_for_it(scheduler):
    one = Site({"/0": [busy(2), "fine"]}, host="127.0.0.2")
    two = Site({"/robots.txt": "User-agent: *\nDisallow: /no"}, host="127.0.0.2")

    with one, two:
        crawler = make_crawler(
            BusyFirst, SCHEDULER=scheduler, REP_TIMEOUT=1.5, RETRY_TIMES=1
        )
        pauses = Pauses(crawler)
        await crawl(crawler, urls=[one.url("/0"), two.url("/1"), two.url("/no")])
        assert two.paths == ["/robots.txt", "/1"]
    assert pauses.sent_meanwhile(one, two) == []
    assert len(crawler.spider.got) == 2
    (failure,) = crawler.spider.failures
    assert isinstance(failure, RobotsForbidden)


@pytest.mark.invariant3
@pytest.mark.parametrize("seconds", [LONG, 2])
@coroutine_test
async def test_a_robots_txt_that_waits_takes_no_place_of_others(seconds):
    """Nor do those that lead to a host that is parked."""
    hub = Site({"/0": busy(seconds), "/robots.txt": "# fine"}, host="127.0.0.2")
    away = [Site(host=f"127.0.0.{n}") for n in range(3, 12)]

    class OtherLast(BusyFirst, Enough):
        async def start(self):
            async for request in super().start():
                yield request
            await until(lambda: all(site.hits for site in (hub, *away)))
            yield scrapy.Request(other.url("/"))

    with ExitStack() as stack:
        other = stack.enter_context(Site(host="127.0.0.20"))
        for site in (hub, *away):
            stack.enter_context(site)
        for site in away:
            location = {"Location": hub.url("/robots.txt")}
            site.replies["/robots.txt"] = Reply(status=301, headers=location)
        crawler = make_crawler(OtherLast, REP_FETCH_CONCURRENCY=1)
        pauses = Pauses(crawler)
        urls = [hub.url("/0"), *(site.url("/") for site in away)]
        await crawl(crawler, urls=urls, enough=1 if seconds == LONG else 10)
    assert pauses.sent_meanwhile(hub) == []
    if seconds == LONG:
        assert crawler.spider.got == [other.url("/")]
    assert all(site.count("/") == (seconds != LONG) for site in away)


@coroutine_test
async def test_what_comes_out_of_the_cache_parks_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings: dict[str, Any] = {
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_IGNORE_HTTP_CODES": [],
    }
    with Site({"/0": busy(LONG)}) as site:
        first = await crawled(pages(site, 1), **settings)
        HOSTS.forget_all()  # as in another process
        second = await crawled(pages(site, 4), **settings)
        assert site.count("/0") == 1
    assert stats(first)["count"] == 1
    assert second.stats.get_value("httpcache/hit") == 1
    assert stats(second) == {}
    assert len(second.spider.got) == 3


class Stopped(Pages):
    """Is stopped as by Ctrl-C a moment after its site has asked for a pause."""

    async def start(self):
        for request in self.requests():
            yield request
        await until(lambda: self.crawler.stats.get_value("rep/backoff/count"))
        call_later(0.4, self.stop)

    def stop(self):
        deferred_from_coro(self.crawler.engine.stop_async())


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="in the queue"),
        # Those that have left it when their slot is parked go back to it.
        pytest.param({"DOWNLOADER_MIDDLEWARES": {Late: 999}}, id="on their way"),
    ],
)
@coroutine_test
async def test_a_crawl_that_ends_waits_for_nobody(settings, tmp_path):
    with Site({"/0": [busy(LONG), "fine"]}) as site:
        first = make_crawler(
            Stopped,
            JOBDIR=str(tmp_path),
            CONCURRENT_REQUESTS_PER_DOMAIN=3,
            RETRY_TIMES=1,
            **settings,
        )
        await crawl(first, urls=pages(site, 6))
        assert first.spider.failures == []
        # Where slots are parked is not kept from run to run.
        HOSTS.forget_all()  # as in another process
        second = await crawled(JOBDIR=str(tmp_path))
    assert len(first.spider.got) < 6
    assert sorted(first.spider.got + second.spider.got) == pages(site, 6)
    assert "unsent" not in stats(first)


@pytest.mark.invariant6
@coroutine_test
async def test_what_can_go_back_to_no_queue_is_refused_when_the_crawl_ends():
    with Site({"/0": busy(LONG)}) as site:
        crawler = make_crawler(
            BusyFirst, SCHEDULER=SCRAPYS, CLOSESPIDER_TIMEOUT=1, RETRY_TIMES=1
        )
        await crawl(crawler, urls=pages(site, 5))
        assert len(site.hits) == 2
    unsent = stats(crawler)["unsent"]
    assert unsent == len(crawler.spider.failures) > 0
    for failure in crawler.spider.failures:
        assert isinstance(failure, IgnoreRequest)
        # Nearly all of it: the crawl is told to end after a second.
        assert re.search(r"is parked for 5\d min( \d+ s)? more", str(failure))


@both_schedulers
@coroutine_test
async def test_a_crawl_ends_while_robots_txt_waits(scheduler, tmp_path):
    one = Site({"/0": [busy(LONG), "fine"]}, host="127.0.0.2")
    two = Site(host="127.0.0.2")

    class Two(Stopped):
        async def start(self):
            async for request in super().start():
                yield request
            yield scrapy.Request(two.url("/1"), errback=self.failed)

        def stop(self):
            # It waits in the queue, or for its robots.txt.
            stat = self.crawler.stats.get_value
            if stat("robotstxt/request_count") + stat("rep/put_off", 0) < 2:
                call_later(0.02, self.stop)
            else:
                super().stop()

    settings: dict[str, Any] = {"JOBDIR": str(tmp_path), "SCHEDULER": scheduler}
    with one, two:
        await crawled([one.url("/0")], Two, **settings)
        assert two.paths == []
        HOSTS.forget_all()  # as in another process
        second = await crawled(**settings)
        # With Scrapy's queue it was waiting outside of that, and went back.
        assert second.spider.got == [two.url("/1")]
