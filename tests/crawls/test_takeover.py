"""A job that Scrapy's own scheduler began goes on with that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import scrapy_rep
from scrapy_rep.frontier.job_file import FILE_NAME
from tests.site import Site, pages
from tests.utils import (
    SCRAPYS,
    Enough,
    calls_back_at_once,
    coroutine_test,
    crawled,
    make_crawler,
)

if TYPE_CHECKING:
    import logging


def said(caplog: pytest.LogCaptureFixture, what: str) -> list[logging.LogRecord]:
    return [r for r in caplog.records if what in r.getMessage()]


@calls_back_at_once
@coroutine_test
async def test_a_job_of_scrapys_goes_on_with_scrapys_scheduler(tmp_path, caplog):
    caplog.set_level("INFO")
    job: dict[str, Any] = {"JOBDIR": str(tmp_path), "CONCURRENT_REQUESTS": 1}
    with Site() as site:
        urls = pages(site, 10)
        first = await crawled(urls, Enough, SCHEDULER=SCRAPYS, **job)
        second = await crawled(**job)
    assert first.spider.got
    assert second.spider.got
    assert sorted(first.spider.got + second.spider.got) == sorted(urls)
    assert len(said(caplog, "was begun by Scrapy's own scheduler")) == 1
    assert not (tmp_path / FILE_NAME).exists()


class Derived(scrapy_rep.Scheduler):
    """A scheduler of the user's, which knows the job of ours."""


@pytest.mark.parametrize("named", [{}, {"SCHEDULER": Derived}])
@coroutine_test
async def test_a_job_of_ours_is_not_used_by_scrapys_and_that_is_said(
    named, tmp_path, caplog
):
    job: dict[str, Any] = {"JOBDIR": str(tmp_path), "CONCURRENT_REQUESTS": 1}
    with Site() as site:
        urls = pages(site, 10)
        first = await crawled(urls, Enough, **job)
        assert not said(caplog, "is not used")
        second = await crawled(SCHEDULER=SCRAPYS, **job)
        assert second.spider.got == []
        (warning,) = said(caplog, "is not used")
        assert warning.levelname == "WARNING"
        third = await crawled(**job, **named)
    assert len(said(caplog, "is not used")) == 1
    assert sorted(first.spider.got + third.spider.got) == sorted(urls)


@pytest.mark.parametrize("more", [{}, {"JOBDIR": "job"}])
def test_a_folder_in_which_nothing_is_yet_is_ours(more, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job" / "requests.queue").mkdir(parents=True)
    assert make_crawler(**more).settings["SCHEDULER"] == "scrapy_rep.Scheduler"
