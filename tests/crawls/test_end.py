"""A crawl that is told to end does so soon, whatever robots.txt it asks for, and loses nothing.

No time is measured: what hangs does so for longer than a test may take.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
import scrapy
from scrapy import signals
from scrapy.exceptions import CloseSpider
from scrapy.utils.asyncio import call_later

from scrapy_rep import RobotsUnreachable
from scrapy_rep.events.stream import Stream
from scrapy_rep.policies import sharing
from scrapy_rep.policies.sharing import OneAtATime
from tests.crawls.processes import TIMEOUT, start
from tests.site import Reply, Site, pages
from tests.utils import (
    SCRAPYS,
    Media,
    Pages,
    both_schedulers,
    close,
    coroutine_test,
    crawl,
    crawled,
    make_crawler,
    sleep,
    until,
    with_files,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scrapy_rep import Policy

FOREVER = 10 * TIMEOUT
SOON = 60.0
"""Seconds that an end may take on a machine that does much else."""
HANGS = {"/robots.txt": Reply(hang=True)}


def run(folder: Path, urls: list[str], **settings: Any) -> Any:
    return start(
        "tests.crawls.killed_crawl",
        folder / "job",
        done=str(folder / "done"),
        seeds=urls,
        settings={"LOG_LEVEL": "INFO", "REP_TIMEOUT": FOREVER, **settings},
    )


@pytest.mark.parametrize(
    ("scheduler", "told"),
    [
        pytest.param("scrapy_rep.Scheduler", signal.SIGINT, id="SIGINT"),
        pytest.param(SCRAPYS, signal.SIGTERM, id="Scrapy's, SIGTERM"),
        pytest.param("scrapy_rep.Scheduler", {"CLOSESPIDER_TIMEOUT": 3}, id="timeout"),
        pytest.param(SCRAPYS, {"CLOSESPIDER_PAGECOUNT": 1}, id="Scrapy's, page count"),
    ],
)
def test_a_robots_txt_that_hangs_does_not_keep_a_crawl_from_ending(
    tmp_path, scheduler, told
):
    settings: dict[str, Any] = {"SCHEDULER": scheduler}
    by_setting = told if isinstance(told, dict) else {}
    done = tmp_path / "done"
    with Site() as well, Site(dict(HANGS), host="127.0.0.2") as hangs:
        urls = [*pages(hangs, 3), well.url("/page")]
        process = run(tmp_path, urls, **settings, **by_setting)
        if not by_setting:
            deadline = time.monotonic() + TIMEOUT
            while not (hangs.hits and done.exists()):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.send_signal(told)
        _, log = process.communicate(timeout=SOON)
        assert process.returncode == 0, log
        assert hangs.paths == ["/robots.txt"]
        _, closing, after = log.partition("Closing spider")
        assert closing, log
        assert "Traceback" not in log, log
        # Nothing is said of what the crawl is going to do, only of what waits in a job.
        lines = [line for line in after.splitlines() if "[scrapy_rep]" in line]
        told = [line for line in lines if " wait in the job in " not in line]
        assert [" INFO: In all: " in line for line in told] == [True], log

        hangs.replies.clear()
        process = run(tmp_path, [], **settings)
        _, log = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, log
    assert sorted(done.read_text().split()) == sorted(urls)


@both_schedulers
def test_a_deadlock_that_nothing_shows_is_told_and_ends(tmp_path, scheduler):
    """A robots.txt waits for a token, and that for the robots.txt."""
    with Site() as site:
        process = run(
            tmp_path,
            [site.url("/a")],
            SCHEDULER=scheduler,
            DOWNLOADER_MIDDLEWARES={"tests.crawls.handing_off.HandsOff": 543},
            LOGSTATS_INTERVAL=0.5,
        )
        told = ""
        while "Nothing was sent for" not in told:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line, told
            told += line
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=SOON)
        assert process.returncode == 0, log
        assert site.paths == []
    assert "its robots.txt is being asked for" in told
    assert "Spider closed" in log


class Ends(Pages):
    """Ends the crawl when *then* is true."""

    then: Any

    async def start(self):
        async for request in super().start():
            yield request
        await until(self.then, SOON)
        close(self.crawler)


def ends_when(true: Any) -> type[Ends]:
    class EndsThen(Ends):
        then = staticmethod(true)

    return EndsThen


@coroutine_test
async def test_what_only_waits_in_the_queue_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(sharing, "PATIENCE_AT_END_SECONDS", FOREVER)
    with Site(dict(HANGS)) as site:
        crawler = make_crawler(ends_when(lambda: site.hits), REP_TIMEOUT=FOREVER)
        await crawl(crawler, urls=[site.url("/0")])
    assert crawler.stats.get_value("rep/unsent/asked") == 1
    assert not crawler.spider.failures


@coroutine_test
async def test_a_request_that_waits_in_the_downloader_is_still_sent(monkeypatch):
    monkeypatch.setattr(sharing, "PATIENCE_AT_END_SECONDS", FOREVER)
    with Site({"/robots.txt": lambda _: slow()}) as site:

        def slow() -> Reply:
            while not site.closing.is_set() and not ended:
                time.sleep(0.01)
            return Reply("# fine")

        ended: list[bool] = []

        def stop() -> bool:
            if site.hits:  # and later than it is looked whether the crawl ends
                seconds = 2 * sharing.END_CHECK_SECONDS
                call_later(seconds, ended.append, True)
            return bool(site.hits)

        crawler = make_crawler(ends_when(stop), REP_TIMEOUT=FOREVER, SCHEDULER=SCRAPYS)
        await crawl(crawler, urls=[site.url("/0")])
    assert crawler.spider.got == [site.url("/0")]


@coroutine_test
async def test_what_can_go_back_to_no_queue_is_refused(tmp_path):
    with Site() as site, Site(dict(HANGS), host="127.0.0.2") as hangs:

        class EndsThen(Ends, Media):
            item = {"file_urls": [hangs.url("/file")]}
            then = staticmethod(lambda: hangs.hits)

        crawler = with_files(tmp_path, REP_TIMEOUT=FOREVER)
        crawler.spidercls = EndsThen
        await crawl(crawler, urls=[site.url("/0")])
    assert crawler.stats.get_value("item_scraped_count") == 1
    assert crawler.stats.get_value("rep/forbidden/unreachable") == 1


@both_schedulers
@coroutine_test
async def test_nor_does_what_the_spider_itself_downloads_come_again_and_again(
    scheduler, tmp_path
):
    failures: list[RobotsUnreachable] = []

    class Downloads(Ends):
        then = staticmethod(lambda: hangs.hits)

        async def parse(self, response):
            try:
                request = scrapy.Request(hangs.url("/0"))
                await self.crawler.engine.download_async(request)
            except RobotsUnreachable as error:
                failures.append(error)

    with Site() as site, Site(dict(HANGS), host="127.0.0.2") as hangs:
        crawler = make_crawler(
            Downloads, REP_TIMEOUT=FOREVER, SCHEDULER=scheduler, JOBDIR=str(tmp_path)
        )
        await crawl(crawler, urls=[site.url("/0")])
    assert len(failures) == 1
    assert "asking was broken off" in str(failures[0])


@coroutine_test
async def test_who_asks_for_a_policy_is_told_that_asking_was_broken_off():
    """Nor does who settles wait for a retry at the end."""
    policies: list[Policy] = []

    class Asks(Ends):
        async def parse(self, response):
            asked = {
                "/0": lambda: self.robots.settle(scrapy.Request(hangs.url("/"))),
                "/1": lambda: self.robots.fetch(hangs.url("/")),
                "/2": lambda: self.robots.settle(scrapy.Request(bad.url("/"))),
            }
            policies.append(await asked[response.url[-2:]]())

        def then(self):
            return hangs.hits and any(each.until for each in self.robots.waiting())

    replies = {"/robots.txt": Reply(status=503)}
    with (
        Site() as site,
        Site(dict(HANGS), host="127.0.0.2") as hangs,
        Site(replies, host="127.0.0.3") as bad,
    ):
        crawler = make_crawler(
            Asks, REP_TIMEOUT=FOREVER, REP_UNREACHABLE_RETRY_DELAYS=[FOREVER]
        )
        await crawl(crawler, urls=pages(site, 3))
    assert [policy.allowed("/", "bot") for policy in policies] == [False] * 3


class TakesTime(Ends):
    """Its callback goes on until the crawl ends, and then *free* is true."""

    lines: Callable[[], list[str]]
    free: Callable[[], Any] = staticmethod(lambda: True)
    began: int | None = None
    """How many lines there were when the callback began."""
    before = 0
    """How many lines there were before the crawl ended."""

    async def parse(self, response):
        self.began = len(self.lines())
        engine: Any = self.crawler.engine
        await until(lambda: engine._slot.closing, SOON)
        type(self).before = len(self.lines())
        await until(self.free, SOON)
        await sleep(0.5)  # five times that of LOGSTATS_INTERVAL


@pytest.fixture
def lines(caplog):
    caplog.set_level("INFO", logger="scrapy_rep")
    return lambda: [
        record.getMessage() for record in caplog.records if record.name == "scrapy_rep"
    ]


@coroutine_test
async def test_who_waits_when_a_crawl_ends_is_not_told_again_and_again(lines):
    class Slow(TakesTime):
        def then(self):
            told = "" if self.began is None else self.lines()[self.began :]
            return "Nothing was sent for " in "".join(told)

    Slow.lines = staticmethod(lines)
    away = {"/robots.txt": Reply(status=503)}
    with Site() as site, Site(away, host="127.0.0.2") as bad:
        crawler = make_crawler(
            Slow, REP_UNREACHABLE_RETRY_DELAYS=[FOREVER], LOGSTATS_INTERVAL=0.1
        )
        await crawl(crawler, urls=[site.url("/0"), bad.url("/0")])
    (line,) = lines()[Slow.before :]
    assert line.startswith("In all: ")


@coroutine_test
async def test_a_host_that_fails_when_a_crawl_ends_is_not_said_to_be_parked(lines):
    def fails(_: object) -> Reply:
        while not (Slow.before or site.closing.is_set()):
            time.sleep(0.01)
        return Reply(status=503)

    class Slow(TakesTime):
        def then(self):
            return self.began is not None and site.count("/0")

        def free(self):
            return self.crawler.stats.get_value("rep/backoff/count")

    Slow.lines = staticmethod(lines)
    with Site() as well, Site({"/0": fails}, host="127.0.0.2") as site:
        await crawled([well.url("/0"), site.url("/0")], Slow)
    (line,) = lines()[Slow.before :]
    assert line.startswith("In all: ")


@coroutine_test
async def test_who_waits_gets_an_answer_though_asking_never_began():
    async def find(key: str, page: scrapy.Request) -> Any:
        await until(lambda: False, FOREVER)

    told: list[Any] = []
    fetches = OneAtATime(
        find,
        lambda key: ("broken off", key),
        lambda: False,
        Stream.of(make_crawler(Pages)),
    )
    page = scrapy.Request("http://a.example/")
    fetches.ask("http://a.example", page).addBoth(told.append)
    fetches.close()
    await until(lambda: told)
    assert told == [("broken off", "http://a.example")]
    assert not fetches.under_way


class LateStart(Pages):
    """Goes on with its start while the crawl is being closed."""

    is_closing = False
    dropped: list[str]

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.closing, signals.spider_closed)
        crawler.signals.connect(spider.note_dropped, signals.request_dropped)
        spider.dropped = []
        return spider

    async def start(self):
        first, last = self.requests()
        yield first
        await until(lambda: self.is_closing)
        yield last

    async def closing(self):
        self.is_closing = True
        await sleep(0.2)

    def note_dropped(self, request):
        self.dropped.append(request.url)

    def parse(self, response):
        raise CloseSpider("enough")


@pytest.mark.parametrize("job", [False, True])
@coroutine_test
async def test_what_start_yields_once_all_is_closed_is_dropped(job, tmp_path, caplog):
    settings = {"JOBDIR": str(tmp_path)} if job else {}
    with Site() as site:
        crawler = make_crawler(LateStart, **settings)
        await crawl(crawler, urls=[site.url("/a"), site.url("/b")])
        assert site.paths == ["/robots.txt", "/a"]
        assert crawler.spider.dropped == [site.url("/b")]
    assert "ERROR" not in [each.levelname for each in caplog.records]
