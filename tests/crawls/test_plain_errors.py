"""What ends a crawl before it begins is a user's doing: it is told in a line, the last one."""

from __future__ import annotations

import logging

import pytest
from scrapy import version_info

from scrapy_rep.events.log import tell_plainly
from scrapy_rep.exceptions import JobError, SettingError
from scrapy_rep.frontier.job_file import JobFile
from tests.commands.cli import scrapy
from tests.commands.test_online import HAS_REACTORLESS, REACTORS, project

SETTINGS = """
ADDONS = {"scrapy_rep.Addon": 500}
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
SPIDER_MODULES = ["its_spiders"]
"""
SPIDER = """
import scrapy

class Shop(scrapy.Spider):
    name = "shop"
    start_urls = ["data:,x"]

    def parse(self, response):
        self.logger.info("it runs")
"""
RUNS = {
    name: options
    for name, options in REACTORS.items()
    if name != "no reactor" or HAS_REACTORLESS
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "its_spiders.py").write_text(SPIDER)
    return project(tmp_path, SETTINGS)


def lines_of(folder, *options: str) -> list[str]:
    done = scrapy("crawl", "shop", "-L", "ERROR", *options, cwd=folder)
    assert done.status == (version_info >= (2, 15))  # 2.14: 0, whatever was raised
    assert "it runs" not in done.err
    return done.err.strip().splitlines()


WRONG = {
    "a value": (
        ("-s", "REP_CRAWL_DELAY_MAX=soon"),
        "REP_CRAWL_DELAY_MAX is 'soon', expected a number of seconds",
    ),
    "a place": (
        ("-s", "REP_STORE=sqlite", "-s", "REP_STORE_PATH=its_spiders.py/x"),
        "REP_STORE_PATH is 'its_spiders.py/x', expected a file to keep policies in",
    ),
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_setting(wrong, run, folder):
    options, message = WRONG[wrong]
    lines = lines_of(folder, *options, *RUNS[run])
    if wrong == "a place" and run == "no reactor":
        # Scrapy's handlers for that are not closed where its engine cannot be made.
        assert any(message in line for line in lines)
        return
    assert message in lines[-1]
    if wrong == "a value" and run != "other reactor":
        # Without asyncio the crawl is a Deferred, whose error nobody takes. Twisted logs that, and
        # prints what is critical to standard error with its traceback, for as long as nobody has
        # begun its log, which Scrapy never does.
        assert len(lines) == 1


@pytest.mark.parametrize("run", RUNS)
def test_another_crawl_at_the_job(run, folder):
    job = folder / "job"
    job.mkdir()
    file = JobFile(job)
    try:
        lines = lines_of(folder, "-s", f"JOBDIR={job}", *RUNS[run])
    finally:
        file.close()
    says = "Another crawl is at the job in"
    assert "slot not assigned" not in "".join(lines)
    if run == "no reactor":  # as above
        assert any(says in line for line in lines)
    else:
        assert says in lines[-1]
    if run == "asyncio":
        assert len(lines) == 1


def test_who_catches_it_has_its_traceback():
    """A test runner or a debugger needs it; only the log goes without."""
    tell_plainly()
    with pytest.raises(SettingError) as it:
        raise SettingError("REP_OBEY", 5, "a list")
    assert it.value.__traceback__ is not None


def test_other_errors_keep_their_tracebacks(caplog):
    tell_plainly()
    for error in (ValueError("theirs"), JobError("ours")):
        logging.getLogger("twisted").error("Never retrieved", exc_info=error)
    theirs, ours = caplog.records
    assert theirs.exc_info is not None
    assert theirs.getMessage() == "Never retrieved"
    assert ours.exc_info is None
    assert ours.getMessage() == "ours"
