"""Jobs that meet a fault: nothing is lost, and the log says what is the matter."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import scrapy

from scrapy_rep.engine.inner import CUT_OFF
from scrapy_rep.exceptions import JobError
from scrapy_rep.frontier import job_file as file
from tests.crawls.kills import Killed, Web
from tests.crawls.processes import TIMEOUT, wait_for_hit
from tests.site import Reply, Site, pages
from tests.utils import (
    Enough,
    Pages,
    calls_back_at_once,
    coroutine_test,
    crawl,
    crawled,
    make_crawler,
)

PAGES = 90
SMALL = 20_000
"""Octets that a file may have, where there is no more room."""

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals, fork and limits")


def wait_until_quiet(web: Web) -> None:
    """Wait until the crawl sends nothing any more."""
    before = -1
    deadline = time.monotonic() + TIMEOUT
    while len(web.asked) != before:
        assert time.monotonic() < deadline
        before = len(web.asked)
        time.sleep(1)


@posix
@pytest.mark.parametrize(
    "signals", [[signal.SIGINT], [signal.SIGINT] * 2, [signal.SIGTERM]]
)
def test_stopped(signals, tmp_path):
    with Web(PAGES // 2) as web:
        killed = Killed(web, tmp_path)
        process = killed.start_and_do_some()
        for number in signals:
            process.send_signal(number)
            time.sleep(0.1)
        _, log = process.communicate(timeout=TIMEOUT)
        assert "Traceback" not in log
        assert set(killed.done()) < set(web.urls)
        killed.end()
        assert set(killed.done()) == set(web.urls)
        assert all(site.count("/robots.txt") == 1 for site in web.sites)
        assert not [path for path in web.asked if "private" in path]
        if len(signals) == 1:  # nothing is broken off
            assert len(killed.done()) == len(web.urls)


@pytest.mark.invariant6
@posix
@pytest.mark.parametrize("is_killed", [False, True])
def test_the_disk_is_full(is_killed, tmp_path):
    """No more is sent until there is room; what was sent is sent again by another run."""
    resource = pytest.importorskip("resource")
    with Web(PAGES // 2) as web:
        killed = Killed(web, tmp_path)
        process = killed.start_and_do_some()
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (SMALL, -1))
        wait_until_quiet(web)
        assert process.poll() is None
        assert set(killed.done()) < set(web.urls)
        if is_killed:
            process.kill()
            process.communicate()
            log = killed.end()
        else:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (-1, -1))
            _, log = process.communicate(timeout=TIMEOUT)
            assert log.count("cannot be written") == 1
            assert process.returncode == 0
        assert set(killed.done()) == set(web.urls)
        assert "Traceback" not in log


@posix
def test_a_fork_leaves_the_job_alone(tmp_path):
    with Web(PAGES // 2) as web:
        killed = Killed(web, tmp_path, {"FORKS": True})
        process = killed.start()
        wait_for_hit(process, web.sites)
        time.sleep(0.5)
        process.kill()
        process.communicate()
        killed.end()
        assert set(killed.done()) == set(web.urls)


@coroutine_test
async def test_a_file_system_without_shared_memory(tmp_path, monkeypatch, caplog):
    """As some network file systems are; this interface of SQLite has none either."""
    monkeypatch.setattr(file, "VFS", "unix-dotfile")
    with Site() as site:
        got: list[str] = []
        for spider in (Enough, Pages):
            urls = [] if got else pages(site, 30)
            crawler = await crawled(
                urls, spider, JOBDIR=str(tmp_path / "job"), CONCURRENT_REQUESTS=1
            )
            got += crawler.spider.got
    assert sorted(got) == sorted(pages(site, 30))
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert (
        sum("its journal is of mode delete" in line.lower() for line in warnings) == 2
    )


@posix
def test_a_folder_that_cannot_be_written(tmp_path):
    folder = tempfile.mkdtemp()
    path = Path(folder)
    path.chmod(0o555)
    other = os.geteuid() == 0  # who may write everywhere
    if other:
        os.seteuid(65534)
    try:
        with pytest.raises(JobError, match="cannot be begun"):
            file.JobFile(path)
    finally:
        if other:
            os.seteuid(0)
        path.chmod(0o755)
        path.rmdir()


class NoStart(Pages):
    async def start(self):
        for number, request in enumerate(self.requests()):
            if number == 2:
                raise RuntimeError("no more")
            yield request


class NoPipeline:
    def open_spider(self):
        raise RuntimeError("no pipeline")


@coroutine_test
async def test_exceptions_at_the_start(tmp_path, caplog):
    """The job is closed, and goes on with the next crawl, here or elsewhere."""
    job: dict[str, Any] = {"JOBDIR": str(tmp_path / "job")}
    with Site() as site:
        urls = pages(site, 4)
        crawler = make_crawler(Pages, ITEM_PIPELINES={NoPipeline: 1}, **job)
        with pytest.raises(RuntimeError, match="no pipeline"):
            await crawl(crawler, urls=urls)
        first = await crawled(urls, NoStart, **job)
        assert sorted(first.spider.got) == urls[:2]
        last = await crawled(urls, **job)
        assert sorted(last.spider.got) == urls


class CutsOff:
    """Drops what is in the downloader when the crawl ends, as a stop that is fast does."""

    def __init__(self, crawler):
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler)

    def process_response(self, request, response):
        if self.crawler.engine._slot.closing is not None:
            raise CUT_OFF[-1]("the crawl ends")
        return response


class FindsAndStops(Enough):
    """Has all in the queue before it stops."""

    async def start(self):
        yield scrapy.Request("data:,start", self.find)

    def find(self, response):
        yield from self.requests()


@coroutine_test
async def test_what_a_fast_stop_drops_is_sent_again(tmp_path):
    job: dict[str, Any] = {"JOBDIR": str(tmp_path / "job")}
    with Site() as site:
        urls = pages(site, 20)
        for url in urls[:15]:  # when the crawl has stopped, these are under way
            site.replies[url.removeprefix(site.origin)] = Reply("page", after=0.5)
        job["CONCURRENT_REQUESTS_PER_DOMAIN"] = 16
        first = make_crawler(FindsAndStops, DOWNLOADER_MIDDLEWARES={CutsOff: 1}, **job)
        await crawl(first, urls=urls)
        dropped = len(first.spider.failures)
        assert dropped
        last = await crawled(**job)
    assert sorted(first.spider.got + last.spider.got) == sorted(urls)


class HalfLost(FindsAndStops):
    """Has something in each second request that cannot be kept."""

    def requests(self):
        for number, request in enumerate(super().requests()):
            yield request.replace(meta={"odd": lambda: None} if number % 2 else {})


class FileIsLocked(FindsAndStops):
    """Finds its requests, and stops, while another program writes into the job's file."""

    def find(self, response):
        path = Path(self.crawler.settings["JOBDIR"]) / file.FILE_NAME
        self.other = sqlite3.connect(path, isolation_level=None)
        self.other.execute("BEGIN IMMEDIATE")
        yield from super().find(response)
        raise scrapy.exceptions.CloseSpider("locked")


@calls_back_at_once
@coroutine_test
async def test_what_cannot_be_kept_is_not_told_to_be_there(tmp_path, caplog):
    caplog.set_level("INFO", logger="scrapy_rep")
    job: dict[str, Any] = {"JOBDIR": str(tmp_path / "job"), "CONCURRENT_REQUESTS": 1}
    with Site() as site:
        first = await crawled(pages(site, 20), HalfLost, **job)
        told = re.search(
            r"(\d+) never sent .*; (\d+) of them are in JOBDIR", caplog.text
        )
        assert told
        never_sent, kept = map(int, told.groups())
        assert never_sent == first.stats.get_value("rep/unsent/turn") > kept
        last = await crawled(**job)
    assert len(last.spider.got) == kept


@calls_back_at_once
@coroutine_test
async def test_what_is_not_in_the_file_is_not_told_to_be_there(tmp_path, caplog):
    caplog.set_level("INFO", logger="scrapy_rep")
    job: dict[str, Any] = {"JOBDIR": str(tmp_path / "job"), "CONCURRENT_REQUESTS": 1}
    with Site() as site:
        crawler = await crawled(pages(site, 20), FileIsLocked, **job)
    crawler.spider.other.close()
    (line,) = [r.getMessage() for r in caplog.records if "In all" in r.getMessage()]
    assert re.search(r"20 never sent \([^;]*\)$", line)


def overwrite(path: Path, table: str) -> None:
    """Damage the root page of *table*, of which nothing can be read then."""
    with closing(sqlite3.connect(path)) as db:
        sql = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        ((page,),) = db.execute(sql, (table,))
    with path.open("r+b") as damaged:
        damaged.seek((page - 1) * 4096)
        damaged.write(b"\xa5" * 4096)


@pytest.mark.invariant6
@pytest.mark.parametrize(
    ("damage", "stats", "told"),
    [
        pytest.param(
            lambda path: overwrite(path, "requests"),
            {"rep/job/lost"},
            "{left} requests are lost",
            id="requests",
        ),
        pytest.param(
            lambda path: overwrite(path, "seen"),
            set(),
            "No request is lost. Fingerprints are: pages that were fetched may be fetched",
            id="fingerprints",
        ),
        pytest.param(
            lambda path: path.write_bytes(b"\xa5" * 65536),
            {"rep/job/forgot"},
            "How many more requests there were is not known",
            id="all",
        ),
        pytest.param(
            lambda path: path.write_bytes(b""),
            {"rep/job/forgot"},
            "of a job that was begun, is gone or empty",
            id="emptied",
        ),
        pytest.param(
            Path.unlink,
            {"rep/job/forgot"},
            "of a job that was begun, is gone or empty",
            id="removed",
        ),
    ],
)
@calls_back_at_once
@coroutine_test
async def test_what_a_damage_loses_is_said(damage, stats, told, tmp_path, caplog):
    """By an ERROR, by a stat, and by the reason for which the crawl ends; once."""
    job: dict[str, Any] = {"JOBDIR": str(tmp_path), "CONCURRENT_REQUESTS": 1}
    with Site() as site:
        first = await crawled(pages(site, 20), FindsAndStops, **job)
        left = first.stats.get_value("rep/unsent/turn")
        assert left > 10
        damage(tmp_path / file.FILE_NAME)
        caplog.clear()
        second = await crawled(pages(site, 1), FindsAndStops, enough=99, **job)
        of_job = {
            name: value
            for name, value in second.stats.get_stats().items()
            if name.startswith("rep/job/")
        }
        assert of_job == dict.fromkeys(stats, left if "rep/job/lost" in stats else 1)
        assert second.stats.get_value("finish_reason") == (
            "requests_lost" if stats else "finished"
        )
        errors = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
        assert told.format(left=left) in errors[-1]
        third = await crawled(pages(site, 1), **job)
        assert third.stats.get_value("finish_reason") == "finished"
