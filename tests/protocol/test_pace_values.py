"""Crawl-delay, Request-rate, Visit-time and Sitemap, which RFC 9309 calls other records."""

from __future__ import annotations

from datetime import time

import pytest

from scrapy_rep.protocol import RequestRate, Rule, VisitTime, parse
from tests.conformance import params

TABLE = "2.2.4-other-records"
SIX, NINE = time(6), time(9)


def number(cell: str) -> float | None:
    return None if cell == "none" else float(cell)


def clock(cell: str) -> time:
    return time(int(cell[:2]), int(cell[2:]))


@pytest.mark.parametrize(
    ("file", "agent", "delay"), params(TABLE, "file", "agent", "delay")
)
def test_crawl_delay(file, agent, delay):
    for body in (file, file.encode()):
        found = parse(body).crawl_delay(agent)
        assert found == number(delay)
        assert found is None or type(found) is float


@pytest.mark.parametrize(("file", "a", "b", "c"), params(TABLE, "file", "a", "b", "c"))
def test_a_delay_is_of_the_user_agent_lines_directly_above(file, a, b, c):
    expected = [number(a), number(b), number(c)]
    for body in (file, file.replace("\n", "\r\n").encode()):
        policy = parse(body)
        assert [policy.crawl_delay(agent) for agent in "abc"] == expected
        # In another order, lest one agent has what was kept for another.
        again = parse(body)
        assert [again.crawl_delay(agent) for agent in "cba"] == expected[::-1]


def test_d25_rules_are_shared_by_all_runs_of_a_group() -> None:
    policy = parse(
        "User-agent: a\nCrawl-delay: 2\nUser-agent: b/2\nVisit-time: 0600-0900\n"
        "User-agent: *\nRequest-rate: 1/5\nDisallow: /x\n"
    )
    header = "Mozilla/5.0 (compatible; A/1.0)"
    agents = ("a", "b", "c", header)
    for agent in agents:
        assert policy.verdict("/x", agent).rule == Rule(False, "/x", 7)
        (group,) = policy.groups_for(agent)
        assert group.tokens == ("a", "b/2", "*")
    visit, rate = VisitTime(SIX, NINE), RequestRate(1, 5)
    assert [policy.crawl_delay(agent) for agent in agents] == [2, None, None, 2]
    assert [policy.visit_time(agent) for agent in agents] == [None, visit, None, None]
    assert [policy.request_rate(agent) for agent in agents] == [None, None, rate, None]
    assert policy.crawl_delay(["c", "a"]) == 2  # the first that has a group


def test_d25_whose_a_delay_is_counts_for_equality() -> None:
    above = parse("User-agent: a\nCrawl-delay: 2\nUser-agent: b\nDisallow: /x\n")
    below = parse("User-agent: a\nUser-agent: b\nCrawl-delay: 2\nDisallow: /x\n")
    assert above != below
    assert above == parse(f"# a comment\n{above}\nHost: a\n")


@pytest.mark.parametrize(("file", "rate"), params(TABLE, "file", "rate"))
def test_request_rate(file, rate):
    found = parse(file).request_rate("a")
    if rate == "none":
        assert found is None
    else:
        requests, seconds, *window = rate.split()
        start, end = map(clock, window) if window else (None, None)
        assert found == RequestRate(int(requests), int(seconds), start, end)


@pytest.mark.parametrize(("file", "visit"), params(TABLE, "file", "visit"))
def test_visit_time(file, visit):
    expected = None if visit == "none" else VisitTime(*map(clock, visit.split()))
    assert parse(file).visit_time("a") == expected


def test_62_the_slowest_rate_and_the_first_visit_time_hold() -> None:
    rates = "".join(f"Request-rate: {rate}\n" for rate in ("1/5", "2/30", "x", "1/10"))
    policy = parse(
        f"User-agent: a\n{rates}Visit-time: x\nVisit-time: 0600-0900\nVisit-time: 0000-0100"
    )
    assert policy.request_rate("a") == RequestRate(2, 30)
    assert policy.visit_time("a") == VisitTime(SIX, NINE)


@pytest.mark.parametrize(("file", "sitemaps"), params(TABLE, "file", "sitemaps"))
def test_sitemaps(file, sitemaps):
    assert parse(file).sitemaps == tuple(sitemaps.split())
    assert parse(file.encode()).sitemaps == tuple(sitemaps.split())
