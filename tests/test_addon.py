"""What the add-on's one line sets, and what it leaves to the user."""

from __future__ import annotations

import subprocess
import sys

import pytest
from scrapy.settings import Settings
from scrapy.squeues import LifoMemoryQueue
from scrapy.utils.test import get_crawler

import scrapy_rep
from scrapy_rep import Addon, RepMiddleware
from tests.site import Site
from tests.utils import QUIET, Pages, coroutine_test, crawl, make_crawler

DISALLOW_P = "User-agent: *\nDisallow: /p\n"


def middlewares(crawler):
    return [type(mw) for mw in crawler.engine.downloader.middleware.middlewares]


def names(crawler):
    return [cls.__name__ for cls in middlewares(crawler)]


@coroutine_test
async def test_takes_the_place_of_the_built_in():
    crawler = make_crawler()
    await crawl(crawler)
    assert RepMiddleware in middlewares(crawler)
    assert "RobotsTxtMiddleware" not in names(crawler)
    assert crawler.settings.getbool("ROBOTSTXT_OBEY")
    # the built-in's place: before it stands what stands before the built-in
    assert (
        names(crawler).index("RepMiddleware")
        == names(crawler).index("HttpAuthMiddleware") - 1
    )


@pytest.mark.parametrize("addon", [Addon, "scrapy_rep.Addon", "scrapy_rep.addon.Addon"])
@coroutine_test
async def test_every_way_to_name_it(addon):
    crawler = make_crawler(ADDONS={addon: 500})
    await crawl(crawler)
    assert RepMiddleware in middlewares(crawler)


@pytest.mark.invariant8
@coroutine_test
async def test_the_users_settings_win():
    crawler = make_crawler(
        ROBOTSTXT_OBEY=False, DOWNLOADER_MIDDLEWARES={RepMiddleware: 540}
    )
    await crawl(crawler)
    assert crawler.settings.getbool("ROBOTSTXT_OBEY") is False
    assert crawler.settings["DOWNLOADER_MIDDLEWARES"][RepMiddleware] == 540


@coroutine_test
async def test_spider_middleware():
    crawler = make_crawler()
    await crawl(crawler)
    spidermws = crawler.engine.scraper.spidermw.middlewares
    order = [type(mw).__name__ for mw in spidermws]
    # pages of an error status are read before they are refused
    assert order.index("RepSpiderMiddleware") < order.index("HttpErrorMiddleware")
    crawler = make_crawler(
        SPIDER_MIDDLEWARES={"scrapy_rep.pages.RepSpiderMiddleware": None}
    )
    await crawl(crawler)
    spidermws = crawler.engine.scraper.spidermw.middlewares
    assert "RepSpiderMiddleware" not in [type(mw).__name__ for mw in spidermws]


OUR_SCHEDULER = "scrapy_rep.Scheduler"
FIFO = "scrapy.squeues.PickleFifoDiskQueue"


class OwnQueue(LifoMemoryQueue):  # type: ignore[valid-type,misc]
    """A queue of the user's own."""


@pytest.mark.invariant8
@pytest.mark.parametrize(
    ("chosen", "is_ours"),
    [
        pytest.param({}, True, id="the defaults"),
        pytest.param({"JOBDIR": "job"}, True, id="a job"),
        pytest.param({"SCHEDULER_DISK_QUEUE": FIFO}, True, id="an order"),
        pytest.param({"SCHEDULER_START_DISK_QUEUE": None}, True, id="no queue of starts"),
        pytest.param({"DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"}, True, id="a filter"),
        pytest.param({"SCHEDULER_MEMORY_QUEUE": OwnQueue}, False, id="a queue of theirs"),
        pytest.param(
            {"SCHEDULER_START_DISK_QUEUE": f"{__name__}.OwnQueue"}, False, id="one of starts"
        ),
        pytest.param(
            {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"},
            False, id="a priority queue",
        ),
        pytest.param({"SCHEDULER": "scrapy.core.scheduler.Scheduler"}, False, id="Scrapy's by name"),
        pytest.param({"SCHEDULER": "scrapy_redis.scheduler.Scheduler"}, False, id="another"),
    ],
)  # fmt: skip
def test_our_scheduler_where_the_user_has_left_the_defaults(chosen, is_ours):
    settings = Settings(chosen)
    Addon().update_settings(settings)
    assert (settings["SCHEDULER"] == OUR_SCHEDULER) == is_ours
    for name, value in chosen.items():
        assert settings[name] == value


@coroutine_test
async def test_enabled_by_hand():
    built_in = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
    settings = make_crawler().settings.copy_to_dict()
    crawler = get_crawler(
        Pages,
        {
            **QUIET,
            "TWISTED_REACTOR": settings["TWISTED_REACTOR"],
            "TWISTED_REACTOR_ENABLED": settings.get("TWISTED_REACTOR_ENABLED", True),
            "ROBOTSTXT_OBEY": True,
            "DOWNLOADER_MIDDLEWARES": {built_in: None, "scrapy_rep.RepMiddleware": 100},
        },
    )
    with Site({"/robots.txt": DISALLOW_P}) as site:
        await crawl(crawler, urls=[site.url("/p")])
        assert site.paths == ["/robots.txt"]


@coroutine_test
async def test_parser_for_the_built_in_middleware():
    crawler = make_crawler(
        ADDONS={}, ROBOTSTXT_OBEY=True, ROBOTSTXT_PARSER="scrapy_rep.RepRobotParser"
    )
    with Site({"/robots.txt": DISALLOW_P}) as site:
        await crawl(crawler, urls=[site.url("/p"), site.url("/q")])
        assert site.paths == ["/robots.txt", "/q"]


def test_all_names_can_be_imported():
    for name in scrapy_rep.__all__:
        assert getattr(scrapy_rep, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = scrapy_rep.no_such_name


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import scrapy_rep.protocol", ("scrapy", "twisted", "asyncio", "logging")),
        (
            "import scrapy_rep.addon",
            ("twisted.internet.reactor", "scrapy_rep.evidence.witness", "isal"),
        ),
        (
            "import scrapy_rep.report",
            ("scrapy", "twisted", "scrapy_rep.evidence.witness"),
        ),
    ],
)
def test_importing_brings_in_no_more_than_it_must(statement, absent):
    code = (
        f"import sys; {statement}; "
        f"print([name for name in {absent!r} if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_what_few_crawls_need_is_not_imported():
    few = [
        "browser",
        "evidence.audit",
        "evidence.witness",
        "frontier.sqlite",
        "frontier.job_file",
        "frontier.redis_server",
        "store.sqlite",
    ]
    code = (
        "import sys, scrapy_rep.addon, scrapy_rep.scheduler, scrapy_rep.store;"
        f"print([name for name in {few} if 'scrapy_rep.' + name in sys.modules],"
        " 'difflib' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[] False\n"
