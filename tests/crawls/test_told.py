"""Whoever waits is told: the log, the stats and ``spider.robots`` say what waits and why."""

from __future__ import annotations

import re
import time
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from typing import Any

import pytest
import scrapy
from scrapy.extensions.telnet import update_telnet_vars
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.engine import print_engine_status

from tests.play import play
from tests.site import Reply, some_sites
from tests.utils import (
    SCRAPYS,
    Pages,
    at_once,
    both_schedulers,
    calls_back_at_once,
    close,
    coroutine_test,
    crawl,
    crawled,
    make_crawler,
    sleep,
    until,
)

BUSY = Reply("busy", 429, {"Retry-After": "1"})
FIRST_LINE = "scrapy_rep 0."


@pytest.fixture
def told(caplog):
    """Return a function that returns what the log has told so far."""
    caplog.set_level("INFO", logger="scrapy_rep")
    return lambda: [
        record.getMessage()
        for record in caplog.records
        if record.name == "scrapy_rep"
        and record.levelname == "INFO"
        and not record.getMessage().startswith(FIRST_LINE)
    ]


def visits(hours: int) -> str:
    """Return a robots.txt that wants visits in less than so many hours."""
    hour = (datetime.now(timezone.utc).hour + hours) % 24
    return f"User-agent: *\nVisit-time: {hour:02}00-{(hour + 1) % 24:02}00\n"


def pages(sites, number: int = 3) -> list[str]:
    return [site.url(f"/{n}") for site in sites for n in range(number)]


def one(lines: list[str], part: str) -> str:
    (line,) = [line for line in lines if part in line]
    return line


def stat(crawler, name):
    return crawler.stats.get_value(name)


DOWN, DENIES = Reply(status=503), "User-agent: *\nDisallow: /\n"
HOUR = "REP_VISIT_TIME_MAX (1 h)"
LINES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "it comes back": (
        [DOWN, DOWN, ""],
        {"REP_UNREACHABLE_RETRY_DELAYS": [0.2, 0.4]},
        """\
robots.txt of ORIGIN is unreachable (503): nothing is fetched from there until * in 0.* s; 3 requests wait
robots.txt of ORIGIN is still unreachable (503): * s; 3 requests wait
robots.txt of ORIGIN is there after 0.* s; 3 requests go on
In all: 3 requests sent*""",
    ),
    "it is given up": (
        DOWN,
        {"REP_UNREACHABLE_RETRY_DELAYS": [0.2]},
        """\
robots.txt of ORIGIN is unreachable (503): *
robots.txt of ORIGIN is still unreachable (503) after 0.* s: its requests are refused (3 requests have waited); *
In all: 0 requests sent; 3 refused (3 as a robots.txt is unreachable)*
Nothing was fetched: each of the 3 requests was refused; the first: Forbidden by *""",
    ),
    "it allows nothing": (
        DENIES,
        {},
        """\
robots.txt of ORIGIN allows us nothing: Disallow: / *
In all: 0 requests sent; 3 refused (3 by a rule)
Nothing was fetched: each of *: Forbidden by robots.txt: Disallow: / (line 2, user-agent ?): ORIGIN/*""",
    ),
    "one page": (
        DENIES,
        {},
        """\
robots.txt of ORIGIN allows us nothing: *
In all: 0 requests sent; 1 refused (1 by a rule)
Nothing was fetched: the one request was refused: Forbidden by robots.txt: *""",
    ),
    "a dry run": (
        "User-agent: *\nDisallow: /1\n",
        {"REP_OBEY": []},
        "In all: 3 requests sent; 1 sent although a robots.txt is against it (REP_OBEY)",
    ),
    "hours away": (
        visits(5),
        {},
        f"""\
robots.txt of ORIGIN wants visits *, more than {HOUR}, so nothing is fetched
In all: 0 requests sent; 3 refused (3 as the visit time is too far off)
Nothing was fetched: *{HOUR}*""",
    ),
}
"""A robots.txt, settings, and all that the log says of three pages."""


@pytest.mark.invariant9
@pytest.mark.parametrize("case", LINES)
@coroutine_test
async def test_what_comes_of_a_robots_txt_is_told(case, told):
    robots, settings, expected = LINES[case]
    with some_sites(1, robots) as (site,):
        await play(site, settings, pages([site], 1 if case == "one page" else 3))
    lines = [line.replace(site.origin, "ORIGIN") for line in told()]
    for line, pattern in zip(lines, expected.splitlines(), strict=True):
        assert fnmatchcase(line, pattern)


# What waits, until it goes on


@pytest.mark.invariant9
@coroutine_test
async def test_a_host_that_is_left_alone(told):
    with some_sites(1, "") as (site,):
        site.replies["/0"] = [BUSY, "fine"]
        settings = {"RETRY_TIMES": 1, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
        played = await play(
            site, {**settings, "LOGSTATS_INTERVAL": 0.3}, pages([site], 5)
        )
    assert one(told(), "is parked for 1 s (429").endswith(
        ": it asks for that; 4 more requests wait"
    )
    waits = next(line for line in told() if "Nothing was sent for 0." in line)
    assert "s: 5 requests of 1 host wait; next: 127.0.0.2 in 0." in waits
    assert waits.endswith(" s (it is parked (429))")
    assert one(told(), "127.0.0.2 is no longer parked, after ").endswith(
        "; 5 requests go on"
    )
    assert len(played.spider.got) == 5
    took = stat(played.crawler, "elapsed_time_seconds")
    assert 0.9 <= stat(played.crawler, "rep/waiting_time") <= took
    assert stat(played.crawler, "rep/waiting") == 0


class UntilTold(Pages):
    """Goes on, page by page, until the log has *told* who waits, or *most* pages came."""

    told: Any = None
    most = 200

    def parse(self, response):
        self.got.append(response.url)
        if len(self.got) < self.most and not any(map(CREEPS.search, self.told())):
            yield response.follow(f"/{len(self.got)}")


CREEPS = re.compile(
    r"In 1 s 1 request was sent, and for (1 s|0\.9\d* s) of it the crawl did nothing but "
    r"wait: 1 request of 1 host waits; next: 127\.0\.0\.2 in \S+ s \(its delay is not over\)"
)


@calls_back_at_once
@both_schedulers
@coroutine_test
async def test_a_crawl_that_creeps(scheduler, told):
    with some_sites(1, "User-agent: *\nCrawl-delay: 1\n") as (site,):
        crawler = make_crawler(UntilTold, LOGSTATS_INTERVAL=1, SCHEDULER=scheduler)
        await crawl(crawler, urls=pages([site], 1), told=told)
        assert len(crawler.spider.got) < UntilTold.most
    assert any(map(CREEPS.search, told()))


@both_schedulers
@coroutine_test
async def test_a_site_that_takes_long_is_not_waited_for(scheduler, told):
    """What is under way is no waiting, however long it takes."""
    with some_sites(1, "") as (site,):
        site.replies |= {f"/{n}": Reply("late", after=0.3) for n in range(5)}
        crawler = make_crawler(UntilTold, LOGSTATS_INTERVAL=0.2, SCHEDULER=scheduler)
        await crawl(crawler, urls=pages([site], 1), told=told, most=5)
    assert [line for line in told() if "wait" in line] == []


@coroutine_test
async def test_spiders_that_run_together_are_named(told, caplog):
    class Shop(Pages):
        name = "shop"

    class News(Pages):
        name = "news"

    with some_sites(2, "User-agent: *\nDisallow: /\n") as (one_site, other):
        unsent = {"ROBOTSTXT_USER_AGENT": "OtherBot"}
        crawls = [make_crawler(Shop, **unsent), make_crawler(News, **unsent)]
        urls = pages([one_site], 2), pages([other], 2)
        await at_once(
            *(crawl(each, urls=found) for each, found in zip(crawls, urls, strict=True))
        )
    assert one(told(), f"shop: robots.txt of {one_site.origin} allows us nothing")
    assert one(told(), f"news: robots.txt of {other.origin} allows us nothing")
    for name in ("shop", "news"):
        assert one(told(), f"{name}: In all: 0 requests sent; 2 refused")
        # Told before the other one is there, perhaps: in any case it names its spider.
        assert one(caplog.messages, f"OtherBot, whose rules spider {name} obeys, is no")
        assert one(caplog.messages, f": spider {name} obeys the rules for OtherBot;")
    assert not [line for line in told() if not line.startswith(("shop: ", "news: "))]
    with some_sites(1, "User-agent: *\nDisallow: /\n") as (site,):
        await crawl(make_crawler(), urls=pages([site], 1))  # alone
    assert told()[-1].startswith("Nothing was fetched: ")


@coroutine_test
async def test_what_the_cache_has_or_refuses_is_not_said_to_be_refused_by_us(
    told, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # where the HTTP cache is
    cache: Any = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_IGNORE_MISSING": True}
    with some_sites(1, "User-agent: *\nDisallow: /no\n") as (site,):
        await crawl(make_crawler(**cache), urls=[site.url("/no"), site.url("/a")])
    assert told()[-1] == "In all: 0 requests sent; 1 refused (1 by a rule)"


# At the end


@coroutine_test
async def test_a_crawl_with_nothing_but_parked_hosts_ends(told, tmp_path):
    settings: Any = {"REP_VISIT_TIME_MAX": 86400, "REP_STORE": "memory"}
    settings["JOBDIR"] = str(tmp_path)
    with some_sites(2, visits(5)) as sites:
        sites[1].replies.clear()
        crawler = await crawled(pages(sites), REP_ALL_PARKED_MAX=60, **settings)
        assert stat(crawler, "finish_reason") == "all_parked"
        assert len(crawler.spider.got) == 3
        assert stat(crawler, "rep/unsent/visit_time") == 3
        assert stat(crawler, "rep/waiting") == 3
        assert stat(crawler, "rep/waiting/hosts") == 1
        line = one(told(), "In all: ")
        assert "3 requests sent; 3 never sent (3 as its robots.txt wants visits" in line
        assert "3 of them are in JOBDIR" in line
        assert one(told(), "The crawl ends, as nothing may be sent for longer")
        sites[0].replies.clear()  # welcome now
        again = await crawled(**settings)
        assert sorted(again.spider.got) == pages(sites[:1])


@coroutine_test
async def test_a_crawl_that_still_begins_does_not_end(told):
    class Late(Pages):
        async def start(self):
            *first, last = self.requests()
            for request in first:
                yield request
            await until(lambda: any(each.until for each in self.robots.waiting()))
            await sleep(0.3)
            yield last

    with some_sites(2, visits(5)) as sites:
        sites[1].replies.clear()
        crawler = make_crawler(Late, REP_VISIT_TIME_MAX=86400, REP_ALL_PARKED_MAX=60)
        await crawl(crawler, urls=pages(sites, 1))
        assert crawler.spider.got == pages(sites[1:], 1)
    assert stat(crawler, "finish_reason") == "all_parked"
    line = one(told(), "In all: ")
    assert "1 never sent (1 as its robots.txt wants visits at another time)" in line
    assert "JOBDIR" not in line


# spider.robots.waiting() and telnet


class Looking(Pages):
    """Looks at what waits once somebody waits for a time, and ends."""

    async def start(self):
        for request in self.requests():
            yield request
        await until(lambda: any(each.until for each in self.robots.waiting()))
        self.seen = self.robots.waiting()
        engine = self.crawler.engine
        variables = {"est": lambda: print_engine_status(engine)}
        self.crawler.signals.send_catch_log(update_telnet_vars, telnet_vars=variables)
        variables["est"]()
        close(self.crawler)


@pytest.mark.invariant9
@pytest.mark.parametrize(
    ("settings", "queue"), [({}, "mqs"), ({"JOBDIR": "job"}, "dqs or []")]
)
@coroutine_test
async def test_what_waits_is_said_on_the_spider_and_by_telnet(
    settings, queue, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with some_sites(1, visits(5)) as (site,):
        settings = {"REP_VISIT_TIME_MAX": 86400, **settings}
        crawler = await crawled(pages([site]), Looking, **settings)
    ((host, why, until, requests),) = crawler.spider.seen
    assert (host, requests) == ("127.0.0.2", 3)
    assert why == "its robots.txt wants visits at another time"
    assert 3 * 3600 < until - time.time() <= 5 * 3600
    assert until % 3600 == pytest.approx(0, abs=1) or until % 3600 > 3599
    shown = capsys.readouterr().out
    status = dict(each.split(" : ") for each in shown.splitlines() if " : " in each)
    lengths = {
        key.strip(): value for key, value in status.items() if "scheduler" in key
    }
    assert lengths[f"len(engine.scheduler.{queue})"] == "3"
    assert sorted(lengths.values()) == ["0", "3"]
    assert "robots.txt: 3 requests of 1 host wait; next: 127.0.0.2 in 4 h" in shown


@coroutine_test
async def test_what_waits_beside_the_polite_queue():
    class OneByOne(Looking):
        async def start(self):
            await self.crawler.engine.download_async(scrapy.Request(self.urls.pop()))
            async for request in super().start():
                yield request

    with some_sites(1, "") as (site,):
        site.replies["/1"] = Reply("busy", 429, {"Retry-After": "1000"})
        crawler = await crawled(pages([site], 2), OneByOne, SCHEDULER=SCRAPYS)
    (waiting,) = crawler.spider.seen
    assert waiting.why == "it is parked (429)"
    assert waiting.requests == 1


@coroutine_test
async def test_who_settles_waits_too():
    class Settling(Looking):
        async def start(self):
            request = scrapy.Request(self.urls[0])
            asking = deferred_from_coro(self.robots.settle(request))
            async for item in super().start():
                yield item
            await maybe_deferred_to_future(asking)

        def requests(self):
            return []

    with some_sites(1, Reply(status=503)) as (site,):
        crawler = make_crawler(Settling, REP_UNREACHABLE_RETRY_DELAYS=[1])
        await crawl(crawler, urls=pages([site], 1))
    (waiting,) = crawler.spider.seen
    assert waiting.host == "127.0.0.2"
    assert waiting.why == "its robots.txt is unreachable"
