"""What the add-on's one line sets, and what it leaves to the user."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from scrapy.settings import Settings
from scrapy.squeues import LifoMemoryQueue

import scrapy_rep
from scrapy_rep import Addon, RepMiddleware
from scrapy_rep.gate.holding import BUILT_IN
from tests.play import harvest
from tests.utils import coroutine_test, crawled

DISALLOW_P = "User-agent: *\nDisallow: /p\n"


def middlewares(crawler):
    return [type(mw) for mw in crawler.engine.downloader.middleware.middlewares]


def names(crawler):
    return [cls.__name__ for cls in middlewares(crawler)]


@coroutine_test
async def test_takes_the_place_of_the_built_in():
    crawler = await crawled()
    assert RepMiddleware in middlewares(crawler)
    assert "RobotsTxtMiddleware" not in names(crawler)
    assert crawler.settings.getbool("ROBOTSTXT_OBEY")
    # the built-in's place: before it stands what stands before the built-in
    assert (
        names(crawler).index("RepMiddleware")
        == names(crawler).index("HttpAuthMiddleware") - 1
    )


@pytest.mark.parametrize(
    "addon", [Addon, "scrapy_rep.Addon", "scrapy_rep.gate.addon.Addon"]
)
@coroutine_test
async def test_every_way_to_name_it(addon):
    crawler = await crawled(ADDONS={addon: 500})
    assert RepMiddleware in middlewares(crawler)


@pytest.mark.invariant8
@coroutine_test
async def test_the_users_settings_win():
    crawler = await crawled(
        ROBOTSTXT_OBEY=False, DOWNLOADER_MIDDLEWARES={RepMiddleware: 540}
    )
    assert crawler.settings.getbool("ROBOTSTXT_OBEY") is False
    assert crawler.settings["DOWNLOADER_MIDDLEWARES"][RepMiddleware] == 540


@coroutine_test
async def test_spider_middleware():
    crawler = await crawled()
    spidermws = crawler.engine.scraper.spidermw.middlewares
    order = [type(mw).__name__ for mw in spidermws]
    # pages of an error status are read before they are refused
    assert order.index("RepSpiderMiddleware") < order.index("HttpErrorMiddleware")
    crawler = await crawled(
        SPIDER_MIDDLEWARES={"scrapy_rep.gate.pages.RepSpiderMiddleware": None}
    )
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
    by_hand: Any = {
        "ADDONS": {},
        "ROBOTSTXT_OBEY": True,
        "DOWNLOADER_MIDDLEWARES": {BUILT_IN: None, "scrapy_rep.RepMiddleware": 100},
    }
    seen, _, _ = await harvest({"/robots.txt": DISALLOW_P}, ["/p"], **by_hand)
    assert seen == ["/robots.txt"]


@coroutine_test
async def test_parser_for_the_built_in_middleware():
    with_parser: Any = {"ADDONS": {}, "ROBOTSTXT_OBEY": True}
    with_parser["ROBOTSTXT_PARSER"] = "scrapy_rep.RepRobotParser"
    seen, _, _ = await harvest({"/robots.txt": DISALLOW_P}, ["/p", "/q"], **with_parser)
    assert seen == ["/robots.txt", "/q"]


def test_all_names_can_be_imported():
    for name in scrapy_rep.__all__:
        assert getattr(scrapy_rep, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = scrapy_rep.no_such_name


OURS = [
    "gate.browser",
    "events.audit",
    "frontier.sqlite",
    "frontier.job_file",
    "frontier.redis_server",
    "store.sqlite",
]
FEW_NEED = ["difflib", "isal", *(f"scrapy_rep.{name}" for name in OURS)]


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        ("protocol", ["scrapy", "twisted", "asyncio", "logging"]),
        ("gate.addon, scrapy_rep.gate.scheduler, scrapy_rep.store", FEW_NEED),
        ("gate.addon", ["twisted.internet.reactor"]),
        ("report", ["scrapy", "twisted"]),
    ],
)
def test_importing_brings_in_no_more_than_it_must(modules, absent):
    code = (
        f"import sys, scrapy_rep.{modules};"
        f"print([name for name in {absent!r} if name in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
