"""What holds in a crawl is told from its settings, and at its start in a line."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.pqueues import ScrapyPriorityQueue

import scrapy_rep
from scrapy_rep import RepMiddleware, SettingError
from scrapy_rep.gate.holding import Holding, what_holds
from tests.site import Site
from tests.utils import coroutine_test, crawled

AGENT = "ExampleBot/1.0 (+https://example.com/bot)"
ADDON = {"ADDONS": {"scrapy_rep.Addon": 500}}


class Own(ScrapyPriorityQueue):
    """A user's own queue."""


class OwnScheduler(scrapy_rep.Scheduler):
    """A user's own scheduler, with our queue."""


class OwnJudge(RepMiddleware):
    """A user's own gate, derived from ours."""


class Plain(Spider):
    name = "plain"


class Chooses(Spider):
    name = "chooses"
    robotstxt_user_agent = ("ExampleBot-News", "ExampleBot")
    user_agent = "ExampleBot/2.0"
    custom_settings = {"REP_CRAWL_DELAY_MAX": 90}


def holding(spider: type[Spider] = Plain, **settings: Any) -> Holding:
    """Return what holds in a crawl that never runs."""
    crawler = Crawler(spider, {**ADDON, "USER_AGENT": AGENT, **settings})
    crawler.addons.load_settings(crawler.settings)
    return what_holds(crawler.settings, spider)


def test_the_defaults():
    assert holding() == Holding(
        version=scrapy_rep.__version__,
        spider="plain",
        judge="scrapy_rep.gate.middleware.RepMiddleware",
        agent=AGENT,
        user_agent=AGENT,
        unsent_tokens=(),
        scheduler="scrapy_rep.Scheduler",
        queue="",
        downloader="scrapy_rep.Downloader",
        has_own_downloader=False,
        waits_in_scheduler=True,
        requests_kept="memory",
        policies_kept="memory",
        is_dry_run=False,
        longest_delay=300.0,
        over_longest="drop",
        warnings=(),
    )


def test_what_a_spider_chooses():
    found = holding(Chooses)
    assert found.agent == ("ExampleBot-News", "ExampleBot")
    assert found.user_agent == "ExampleBot/2.0"
    assert found.unsent_tokens == ("ExampleBot-News",)
    assert found.longest_delay == 90
    assert (
        "spider chooses obeys the rules for ExampleBot-News or ExampleBot;"
        in found.in_words()
    )
    assert "delays of up to 1 min 30 s are kept" in found.in_words()


NAME = __name__


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        pytest.param(
            {}, "spider plain obeys the rules for ExampleBot; requests wait in the scheduler, which keeps "
            "them in memory; robots.txt files are kept in memory; delays of up to 5 min are "
            "kept; where a site asks for more, nothing is fetched", id="the defaults",
        ),
        pytest.param(
            {"JOBDIR": "job"}, "them in JOBDIR; robots.txt files are kept in sqlite;", id="a job",
        ),
        pytest.param(
            {"SCHEDULER_PRIORITY_QUEUE": f"{NAME}.Own"},
            f"; as SCHEDULER_PRIORITY_QUEUE is {NAME}.Own, requests wait in the downloader, "
            "where they take places of CONCURRENT_REQUESTS;", id="a queue",
        ),
        pytest.param(
            {"SCHEDULER_PRIORITY_QUEUE": Own},
            f"; as SCHEDULER_PRIORITY_QUEUE is {NAME}.Own, requests wait", id="a queue's class",
        ),
        pytest.param(
            {"SCHEDULER": "scrapy.core.scheduler.Scheduler"},
            "; as SCHEDULER is scrapy.core.scheduler.Scheduler, requests wait in the downloader",
            id="Scrapy's scheduler",
        ),
        pytest.param(
            {"SCHEDULER": "scrapy_redis.scheduler.Scheduler"},
            "; as SCHEDULER is scrapy_redis.scheduler.Scheduler, requests wait in the",
            id="scrapy-redis' own queue",
        ),
        pytest.param(
            {"REP_FLEET": "redis://localhost"},
            "which keeps them in Redis; robots.txt files are kept in Redis;", id="a fleet",
        ),
        pytest.param(
            {"SCHEDULER": OwnScheduler},
            "requests wait in the scheduler, which keeps them in memory", id="a scheduler",
        ),
        pytest.param(
            {"DOWNLOADER": "tests.test_holding.Plain"}, "; DOWNLOADER is tests.test_holding.Plain",
            id="a downloader",
        ),
        pytest.param(
            {"DOWNLOADER": type("Local", (), {"__qualname__": "f.<locals>.Local"})},
            "; DOWNLOADER is tests.test_holding.f.<locals>.Local;", id="one of a function",
        ),
        pytest.param(
            {"DOWNLOADER_MIDDLEWARES": {partial(Plain): 1}}, "spider plain obeys", id="a callable",
        ),
        pytest.param(
            {"REP_CRAWL_DELAY_OVER_MAX": "clamp"}, "that is kept, too, where a site asks for more",
            id="longer delays are cut",
        ),
        pytest.param(
            {"REP_OBEY": ["disallow"]}, "; delays that sites ask for are not kept (REP_OBEY)",
            id="no delays",
        ),
        pytest.param(
            {"REP_OBEY": []}, "spider plain is on a dry run (REP_OBEY): what the rules for "
            "ExampleBot disallow is sent all the same, and counted in rep/would_forbid;", id="dry",
        ),
        pytest.param({"USER_AGENT": "Mozilla/5.0"}, "obeys the rules for any agent (*);", id="anon"),
        pytest.param({"ROBOTSTXT_OBEY": False}, ": no request is judged", id="nothing judged"),
    ],
)  # fmt: skip
def test_in_words(settings, told):
    line = holding(**settings).in_words()
    assert line.startswith(f"scrapy_rep {scrapy_rep.__version__}: ")
    assert told in f"{line};"


@pytest.mark.parametrize(
    ("settings", "judge", "warned"),
    [
        pytest.param({"ROBOTSTXT_OBEY": False}, "", "ROBOTSTXT_OBEY is False", id="not obeyed"),
        pytest.param(
            {"DOWNLOADER_MIDDLEWARES": {"scrapy_rep.RepMiddleware": None}}, "",
            "RepMiddleware is not enabled", id="taken out",
        ),
        pytest.param(
            {"DOWNLOADER_MIDDLEWARES": {OwnJudge: 100, RepMiddleware: None}},
            f"{NAME}.OwnJudge", "", id="a gate of the user's own",
        ),
        pytest.param(
            {"DOWNLOADER_MIDDLEWARES": {RobotsTxtMiddleware: 90}},
            "scrapy_rep.gate.middleware.RepMiddleware", "RobotsTxtMiddleware is enabled", id="both",
        ),
    ],
)  # fmt: skip
def test_who_judges(settings, judge, warned):
    found = holding(**settings)
    assert found.judge == judge
    assert [warned] == [part for part in [warned] if part in "".join(found.warnings)]
    assert len(found.warnings) == bool(warned)


def test_a_wrong_setting_is_named():
    with pytest.raises(SettingError, match="REP_CRAWL_DELAY_MAX is 'soon'"):
        holding(REP_CRAWL_DELAY_MAX="soon")


def lines(caplog: Any) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "scrapy_rep"]


@coroutine_test
async def test_a_crawl_tells_it_at_its_start(caplog):
    caplog.set_level(logging.INFO)
    with Site() as site:
        crawler = await crawled([site.url("/")], USER_AGENT=AGENT)
    told = [line for line in lines(caplog) if line.startswith("scrapy_rep ")]
    assert told == [what_holds(crawler.settings, crawler.spider).in_words()]
    assert lines(caplog)[0] == told[0]
