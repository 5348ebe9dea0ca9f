"""Permissions (``"allow"`` in REP_HOSTS) in crawls: what a site's leave lifts, and what stays."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from scrapy_rep import RobotsForbidden
from scrapy_rep.report.audit import Audit
from tests.audits import of_type, records_of
from tests.commands.cli import robots
from tests.commands.test_online import project
from tests.play import harvest
from tests.site import Reply, Site
from tests.utils import InTurn, Pages, both_schedulers, coroutine_test, crawled

WHY = "contract of 2026-11-02 with ACME, ticket 17"
NOTHING = "User-agent: *\nDisallow: /\n"
LONG = "200\nRequest-rate: 1/100"
FORBIDS = {"/robots.txt": NOTHING}
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
    given = {"SCHEDULER": scheduler, **allowing()}
    seen, _, crawler = await harvest(FORBIDS, ["/a", "/b"], **given)
    assert sorted(seen) == ["/a", "/b", "/robots.txt"]
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
    with Site(FORBIDS, host=OTHER) as other, Site() as site:
        to_other = Reply(status=302, headers={"Location": other.url("/b")})
        site.replies = {**FORBIDS, "/a": to_other}
        crawler = await crawled([site.url("/a"), other.url("/c")], **allowing())
        assert site.paths == ["/robots.txt", "/a"]
        assert other.paths == ["/robots.txt"]
    assert [type(each) for each in crawler.spider.failures] == [RobotsForbidden] * 2


@pytest.mark.parametrize(
    ("asked", "agreed", "kept"), [("0.4", {}, 0.4), (LONG, {"delay": 0}, 0), (LONG, {"delay": 0.3}, 0.3)]
)  # fmt: skip
@coroutine_test
async def test_the_delay_of_the_site_stays_or_the_one_that_was_agreed(
    asked, agreed, kept, caplog
):
    caplog.set_level(logging.INFO, "scrapy_rep")
    site = Site({"/robots.txt": f"{NOTHING}Crawl-delay: {asked}\n"})
    _, _, crawler = await harvest(site, ["/0", "/1", "/2"], **allowing(**agreed))
    assert len(crawler.spider.got) == 3
    assert min(site.gaps()) >= kept
    assert ("between requests" in caplog.text) is not bool(agreed)
    assert (f"with a delay of {kept} s" in caplog.text) is bool(agreed)


@coroutine_test
async def test_without_one_a_delay_that_is_too_long_is_still_too_long():
    robots = f"{NOTHING}Crawl-delay: 400\n"
    seen, _, crawler = await harvest({"/robots.txt": robots}, ["/a"], **allowing())
    assert seen == ["/robots.txt"]
    assert crawler.stats.get_value("rep/forbidden/crawl_delay") == 1
    assert crawler.stats.get_value("rep/permitted") is None


NO_TRAINING = "User-agent: *\nContent-Usage: train-ai=n\n"
TRAINS = {"REP_PURPOSE": ["train-ai"], "REP_PURPOSE_UNSTATED": "refuse"}
FORBIDS_USE = Reply(
    '<a href="/b">',
    headers={
        "X-Robots-Tag": "noindex, nofollow",
        "Content-Usage": "train-ai=n",
        "Content-Type": "text/html",
    },
)
OBEYS = {"REP_PAGE_OBEY": ["noindex", "nofollow"], "REP_PURPOSE": ["train-ai"]}


@pytest.mark.parametrize(
    ("replies", "settings", "found"),
    [
        pytest.param(
            {"/robots.txt": Reply(status=503)}, {}, ["/a"], id="unreachable"
        ),
        pytest.param(
            {"/robots.txt": Reply(status=403)}, {"REP_DENY_STATUSES": [403]},
            ["/a"], id="a status",
        ),
        pytest.param(
            {"/robots.txt": NO_TRAINING}, TRAINS, ["/a"], id="a purpose"
        ),
        pytest.param(
            {"/a": FORBIDS_USE}, OBEYS, ["/a", "/b"], id="pages"
        ),
    ],
)  # fmt: skip
@coroutine_test
async def test_what_else_is_lifted(replies, settings, found):
    seen, items, _ = await harvest(replies, ["/a"], Items, **settings, **allowing())
    assert sorted({*seen} - {"/robots.txt"}) == items == found


@pytest.mark.parametrize(
    ("robots", "own", "pages", "cause"),
    [
        # Of today, and of the last day.
        pytest.param(NOTHING, {"until": 1}, ["/0", "/1"], "rule", id="the rules"),
        pytest.param(
            "User-agent: *\nCrawl-delay: 400\n", {"until": 0, "delay": 0}, ["/0"], "crawl_delay",
            id="the delay",
        ),
        pytest.param(NOTHING, {"until": -1}, [], "rule", id="over at the start"),
    ],
)  # fmt: skip
@coroutine_test
async def test_after_the_day_the_site_is_obeyed_again(
    robots, own, pages, cause, caplog
):
    own = {**own, "until": (last_day := today(own["until"]))}
    paths = [f"/{number}" for number in range(3)]
    replies, given = {"/robots.txt": robots}, allowing(**own)
    seen, _, crawler = await harvest(replies, paths, InTurn, **given)
    assert [path for path in seen if path != "/robots.txt"] == pages
    assert len(crawler.spider.failures) == 3 - len(pages)
    assert crawler.stats.get_value("rep/permitted", 0) == len(pages)
    assert crawler.stats.get_value(f"rep/forbidden/{cause}") == 3 - len(pages)
    (warning,) = warnings(caplog)
    delay = ", with a delay of 0 s" if "delay" in own else ""
    assert warning == (
        f"{HOST} is judged by its robots.txt again, as what allowed us more has ended "
        f"(REP_HOSTS): {WHY}, until the end of {last_day} (UTC){delay}"
    )


@coroutine_test
async def test_each_request_is_an_exemption_with_its_reason_in_audit_and_report(
    tmp_path,
):
    path = tmp_path / "audit.jsonl"
    audited = {"REP_AUDIT_URI": str(path), "REP_EVIDENCE": True, **allowing()}
    await harvest(FORBIDS, ["/a", "/b"], **audited)
    records = records_of(path)
    assert of_type("decision", records) == []
    sent = [each for each in of_type("sent", records) if not each.get("robots")]
    assert [each["exempt"] for each in sent] == [f"REP_HOSTS: {WHY}"] * 2
    with Audit([str(path)]) as audit:
        (cause,) = audit.causes["exempt"]
        assert (cause["cause"], cause["requests"]) == (f"REP_HOSTS: {WHY}", 2)
        assert (audit.sums["exempt"], audit.sums["unjudged"]) == (2, 0)
        first = audit.conclusion[0].text
    assert first.startswith("No URL that a rule disallows was requested, but for what")


def test_the_command_says_what_is_allowed(tmp_path):
    settings = f"REP_HOSTS = {allowing()['REP_HOSTS']!r}\n"
    with Site(FORBIDS) as site:
        done = robots(site.url("/a"), cwd=project(tmp_path, settings))
        (told,) = robots("--json", site.url("/a"), cwd=tmp_path).objects
        assert robots("--now", site.url("/a"), cwd=tmp_path).status == 0
    assert done.status == 1  # which the file decides
    now = " ".join(done.rows["now"])
    assert now == f"sent, as REP_HOSTS allows it: {WHY}, without an end"
    assert told["verdicts"][0]["now"]["permission"] == f"{WHY}, without an end"
