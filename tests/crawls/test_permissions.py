"""Permissions (``"allow"`` in REP_HOSTS) in crawls: what a site's leave lifts, and what stays."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import scrapy

from scrapy_rep import RobotsForbidden
from scrapy_rep.judging.ruling import Action
from scrapy_rep.report.audit import Audit
from tests.commands.cli import robots
from tests.commands.test_online import project
from tests.site import Reply, Site
from tests.utils import (
    InTurn,
    Pages,
    both_schedulers,
    coroutine_test,
    crawl,
    make_crawler,
)

WHY = "contract of 2026-11-02 with ACME, ticket 17"
NOTHING = "User-agent: *\nDisallow: /\n"
HOST, OTHER = "127.0.0.1", "127.0.0.2"


def allowing(host: str = HOST, **more: Any) -> dict[str, Any]:
    return {"REP_HOSTS": {host: {"allow": WHY, **more}}}


def today(days: int = 0) -> str:
    return str(datetime.now(timezone.utc).date() + timedelta(days=days))


class Items(Pages):
    """Yields an item for each page, and follows its links."""

    def parse(self, response):
        super().parse(response)
        yield {"url": response.url}
        if b"href" in response.body:
            yield from response.follow_all(css="a", callback=self.parse)


def warnings(caplog: Any) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("scrapy_rep") and record.levelno >= logging.WARNING
    ]


@both_schedulers
@coroutine_test
async def test_a_site_that_allowed_us_more_is_not_judged_by_its_rules(
    scheduler, caplog
):
    caplog.set_level(logging.INFO, "scrapy_rep")
    with Site({"/robots.txt": NOTHING}) as site:
        crawler = make_crawler(SCHEDULER=scheduler, **allowing())
        await crawl(crawler, urls=[site.url("/a"), site.url("/b")])
        assert sorted(site.paths) == ["/a", "/b", "/robots.txt"]
    assert crawler.spider.failures == []
    assert crawler.stats.get_value("rep/permitted") == 2
    assert crawler.stats.get_value("rep/forbidden/rule") is None
    assert (
        f"{HOST} is not judged by its robots.txt (REP_HOSTS): {WHY}, without an end"
        in caplog.messages
    )
    assert "allows us nothing" not in caplog.text


@coroutine_test
async def test_only_the_host_that_is_named():
    with Site({"/robots.txt": NOTHING}, host=OTHER) as other, Site() as site:
        site.replies["/robots.txt"] = NOTHING
        to_other = Reply(status=302, headers={"Location": other.url("/b")})
        site.replies["/a"] = to_other
        crawler = make_crawler(**allowing())
        await crawl(crawler, urls=[site.url("/a"), other.url("/c")])
        assert site.paths == ["/robots.txt", "/a"]
        assert other.paths == ["/robots.txt"]
    assert [type(each) for each in crawler.spider.failures] == [RobotsForbidden] * 2


@coroutine_test
async def test_the_delay_of_the_site_stays():
    rules = f"{NOTHING}Crawl-delay: 0.4\n"
    with Site({"/robots.txt": rules}) as site:
        crawler = make_crawler(**allowing())
        await crawl(crawler, urls=[site.url(f"/{number}") for number in range(4)])
        assert len(site.gaps()) == 3
        assert min(site.gaps()) >= 0.4


@pytest.mark.parametrize("delay", [0, 0.3])
@coroutine_test
async def test_a_delay_that_was_agreed_holds_instead(delay, caplog):
    caplog.set_level(logging.INFO, "scrapy_rep")
    rules = f"{NOTHING}Crawl-delay: 200\nRequest-rate: 1/100\n"
    with Site({"/robots.txt": rules}) as site:
        crawler = make_crawler(**allowing(delay=delay))
        await crawl(crawler, urls=[site.url(f"/{number}") for number in range(3)])
        assert len(crawler.spider.got) == 3
        assert min(site.gaps()) >= delay
    assert "between requests" not in caplog.text
    assert f"with a delay of {'0.3' if delay else '0'} s" in caplog.text


@coroutine_test
async def test_without_one_a_delay_that_is_too_long_is_still_too_long():
    with Site({"/robots.txt": f"{NOTHING}Crawl-delay: 400\n"}) as site:
        crawler = make_crawler(**allowing())
        await crawl(crawler, urls=[site.url("/a")])
        assert site.paths == ["/robots.txt"]
    assert crawler.stats.get_value("rep/forbidden/crawl_delay") == 1
    assert crawler.stats.get_value("rep/permitted") is None


@pytest.mark.parametrize(
    ("robots", "settings"),
    [
        (Reply(status=503), {}),
        (Reply(status=403), {"REP_DENY_STATUSES": [403]}),
        (
            "User-agent: *\nContent-Usage: train-ai=n\n",
            {"REP_PURPOSE": ["train-ai"], "REP_PURPOSE_UNSTATED": "refuse"},
        ),
    ],
    ids=["unreachable", "status", "purpose"],
)
@coroutine_test
async def test_what_else_is_lifted(robots, settings):
    for permitted, sent in (({}, 0), (allowing(), 1)):
        with Site({"/robots.txt": robots}) as site:
            crawler = make_crawler(**settings, **permitted)
            await crawl(crawler, urls=[site.url("/a")])
            assert site.count("/a") == sent


@coroutine_test
async def test_what_pages_ask_for_is_lifted_as_well():
    page = Reply(
        '<a href="/b">',
        headers={
            "X-Robots-Tag": "noindex, nofollow",
            "Content-Usage": "train-ai=n",
            "Content-Type": "text/html",
        },
    )
    obey = {"REP_PAGE_OBEY": ["noindex", "nofollow"], "REP_PURPOSE": ["train-ai"]}
    for permitted, number in ((allowing(OTHER), 0), (allowing(), 2)):
        with Site({"/a": page}) as site:
            crawler = make_crawler(Items, **obey, **permitted)
            items: list[Any] = []
            crawler.signals.connect(
                lambda item, items=items: items.append(item),
                scrapy.signals.item_scraped,
                weak=False,
            )
            await crawl(crawler, urls=[site.url("/a")])
            assert len(items) == number
            assert site.count("/b") == number // 2


@coroutine_test
async def test_after_the_day_the_rules_hold_again_also_in_a_running_crawl(caplog):
    last_day = today(1)
    with Site({"/robots.txt": NOTHING}) as site:
        crawler = make_crawler(InTurn, **allowing(until=last_day))
        urls = [site.url(f"/{number}") for number in range(4)]
        await crawl(crawler, urls=urls)
        pages = [path for path in site.paths if path != "/robots.txt"]
    assert pages == ["/0", "/1"]  # of today, and of the last day
    assert len(crawler.spider.failures) == 2
    assert crawler.stats.get_value("rep/permitted") == 2
    (warning,) = warnings(caplog)
    assert warning == (
        f"{HOST} is judged by its robots.txt again, as what allowed us more has ended "
        f"(REP_HOSTS): {WHY}, until the end of {last_day} (UTC)"
    )


@coroutine_test
async def test_after_the_day_the_delay_of_the_site_holds_again():
    with Site({"/robots.txt": "User-agent: *\nCrawl-delay: 400\n"}) as site:
        crawler = make_crawler(InTurn, **allowing(until=today(), delay=0))
        await crawl(crawler, urls=[site.url("/0"), site.url("/1")])
        assert crawler.spider.got == [site.url("/0")]
    assert crawler.stats.get_value("rep/forbidden/crawl_delay") == 1


@coroutine_test
async def test_one_that_is_over_is_told_at_the_start(caplog):
    with Site({"/robots.txt": NOTHING}) as site:
        crawler = make_crawler(**allowing(until=today(-1)))
        await crawl(crawler, urls=[site.url("/a")])
        assert site.paths == ["/robots.txt"]
    (warning,) = warnings(caplog)
    assert "is judged by its robots.txt again" in warning


class Asks(Pages):
    def parse(self, response):
        super().parse(response)
        ruling = self.robots.ruling(response.url)
        assert ruling is not None
        assert ruling.action is Action.SEND
        assert ruling.permission is not None
        self.got.append(ruling.permission.reason)
        assert self.robots.allowed(response.url) is False  # what the file says


@coroutine_test
async def test_spider_robots_tells_of_it():
    with Site({"/robots.txt": NOTHING}) as site:
        crawler = make_crawler(Asks, **allowing())
        await crawl(crawler, urls=[site.url("/a")])
        assert crawler.spider.got == [site.url("/a"), WHY]


@coroutine_test
async def test_each_request_is_an_exemption_with_its_reason_in_audit_and_report(
    tmp_path,
):
    path = tmp_path / "audit.jsonl"
    with Site({"/robots.txt": NOTHING}) as site:
        crawler = make_crawler(REP_AUDIT_URI=str(path), REP_EVIDENCE=True, **allowing())
        await crawl(crawler, urls=[site.url("/a"), site.url("/b")])
    records = [json.loads(line) for line in path.read_text().splitlines()]
    of_pages = [
        each
        for each in records
        if each["type"] in {"sent", "decision"} and not each.get("robots")
    ]
    assert [each["type"] for each in of_pages] == ["sent"] * 2
    assert {each["exempt"] for each in of_pages} == {f"REP_HOSTS: {WHY}"}
    with Audit([str(path)]) as audit:
        (cause,) = audit.causes["exempt"]
        assert (cause["cause"], cause["requests"]) == (f"REP_HOSTS: {WHY}", 2)
        assert (audit.sums["exempt"], audit.sums["unjudged"]) == (2, 0)
        first = audit.conclusion[0].text
    assert first.startswith("No URL that a rule disallows was requested, but for what")


def test_the_command_says_what_is_allowed(tmp_path):
    settings = f"REP_HOSTS = {allowing()['REP_HOSTS']!r}\n"
    with Site({"/robots.txt": NOTHING}) as site:
        done = robots(site.url("/a"), cwd=project(tmp_path, settings))
        (told,) = robots("--json", site.url("/a"), cwd=tmp_path).objects
        assert robots("--now", site.url("/a"), cwd=tmp_path).status == 0
    assert done.status == 1  # which the file decides
    now = " ".join(done.rows["now"])
    assert now == f"sent, as REP_HOSTS allows it: {WHY}, without an end"
    assert told["verdicts"][0]["now"]["permission"] == f"{WHY}, without an end"
