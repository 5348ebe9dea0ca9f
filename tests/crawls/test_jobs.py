"""Crawls with JOBDIR: every request is sent, once, whatever queue it waits in."""

from __future__ import annotations

import itertools
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import scrapy
from scrapy.squeues import PickleLifoDiskQueue
from scrapy.utils.misc import build_from_crawler

from scrapy_rep.frontier.job_file import FILE_NAME
from scrapy_rep.pacing.hosts import HOSTS
from tests.site import Site, gaps_between, some_sites
from tests.utils import (
    DISK_QUEUES,
    Pages,
    calls_back_at_once,
    coroutine_test,
    crawl,
    crawled,
    make_crawler,
)

if TYPE_CHECKING:
    from pathlib import Path


class FromPages(Pages):
    """Finds two more of its URLs on each page, so that most are pushed while some wait."""

    async def start(self):
        self.left = list(self.requests())
        for number in range(20 * bool(self.urls)):
            yield scrapy.Request(f"data:,{number}", self.find)

    def find(self, response):
        for _ in range(min(2, len(self.left))):
            yield self.left.pop(0)

    def parse(self, response):
        super().parse(response)
        yield from self.find(response)


class Stopped(FromPages):
    """Is stopped, as by Ctrl-C, when it has got so many pages, and found all URLs."""

    most = 10

    def parse(self, response):
        yield from super().parse(response)
        if len(self.got) >= self.most and not self.left:
            raise scrapy.exceptions.CloseSpider("enough")


class HandOver:
    """A disk queue of somebody's own, on top of Scrapy's."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.push, self.pop, self.peek = inner.push, inner.pop, inner.peek
        self.close = inner.close

    @classmethod
    def from_crawler(cls, crawler: Any, key: str) -> HandOver:
        return cls(build_from_crawler(PickleLifoDiskQueue, crawler, key))

    def __len__(self) -> int:
        return len(self.inner)


@pytest.mark.invariant6
@calls_back_at_once
@pytest.mark.parametrize(
    "queues",
    [
        *DISK_QUEUES[1::2],  # the others are as those that the add-on has
        pytest.param({}, id="as the add-on has it"),
        pytest.param({"SCHEDULER_DISK_QUEUE": HandOver}, id="somebody's own"),
        pytest.param({"JOBDIR": None}, id="memory"),
    ],
)
@coroutine_test
async def test_stopped_twice(queues, tmp_path, caplog):
    """Which origin of a host is next must be known each time that the host is due."""
    settings = {"JOBDIR": str(tmp_path), "REP_STORE": "memory", **queues}
    robots = "User-agent: *\nCrawl-delay: 0.02"
    crawlers: list[Any] = []
    with (
        some_sites(3, robots) as some,
        some_sites(3, robots) as others,
        some_sites(3, None, first=5) as new,
    ):
        sites = [*some, *others, *new]
        urls = [site.url(f"/{n}") for n in range(8) for site in sites]
        is_ours = settings["JOBDIR"] and queues.get("SCHEDULER_DISK_QUEUE") != HandOver
        stops = [Stopped, Stopped] if is_ours else []
        for spider in (*stops, FromPages):
            crawler = await crawled([] if crawlers else urls, spider, **settings)
            assert crawler.spider.failures == []
            assert crawler.stats.get_value("rep/unreadable") is None
            crawlers.append(crawler)
    got = [crawler.spider.got for crawler in crawlers]
    assert all(len(each) >= 10 for each in got)
    assert sorted(itertools.chain(*got)) == sorted(urls)
    assert not [r for r in caplog.records if r.levelname == "ERROR"]
    if (tmp_path / FILE_NAME).exists():
        with closing(sqlite3.connect(tmp_path / FILE_NAME)) as db:
            for table in ("requests", "places"):
                assert db.execute(f"SELECT * FROM {table}").fetchall() == []


class Learns(Pages):
    """Asks its site for nothing but robots.txt."""

    async def start(self):
        for url in self.urls:
            await self.robots.fetch(url)
        for url in ():
            yield scrapy.Request(url)


def note_earlier_starts(folder: Path, seconds: float) -> None:
    """Have a job believe that its hosts were asked *seconds* earlier."""
    with closing(sqlite3.connect(folder / FILE_NAME)) as db:
        ((text,),) = db.execute("SELECT value FROM facts WHERE name = 'last starts'")
        times = {host: at - seconds for host, at in json.loads(text).items()}
        assert times
        sql = "UPDATE facts SET value = ? WHERE name = 'last starts'"
        db.execute(sql, (json.dumps(times),))
        db.commit()


@pytest.mark.parametrize(
    ("delay", "earlier", "statement"),
    [
        pytest.param(1, 0, None, id="asked a moment ago"),
        pytest.param(60, 100, None, id="asked long ago"),
        pytest.param(
            1, 100, "INSERT INTO facts VALUES ('running', 1)", id="then killed"
        ),
        pytest.param(1, 100, "UPDATE facts SET value = 'x'", id="damaged"),
        pytest.param(1, 100, "UPDATE facts SET value = '[{}]'", id="of another form"),
    ],
)
@coroutine_test
async def test_where_the_last_start_is_known_that_decides(
    delay, earlier, statement, tmp_path
):
    with Site({"/robots.txt": f"User-agent: *\nCrawl-delay: {delay}"}) as site:
        url = site.url("/1")
        await crawl(make_crawler(Learns, JOBDIR=str(tmp_path)), urls=[url])
        note_earlier_starts(tmp_path, earlier)
        with closing(sqlite3.connect(tmp_path / FILE_NAME)) as db:
            db.execute(statement or "SELECT 1")
            db.commit()
        HOSTS.forget_all()  # as in another process
        await crawl(make_crawler(JOBDIR=str(tmp_path)), urls=[url])
        assert site.paths == ["/robots.txt", "/1"]
        (gap,) = gaps_between(site.hits)
    assert (gap < delay) == (delay == 60)
