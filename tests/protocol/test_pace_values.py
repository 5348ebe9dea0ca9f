"""Crawl-delay, Request-rate, Visit-time and Sitemap, which RFC 9309 calls other records.

The numbers that begin an id are those of the project's checklist of REP statements, see
tests/README.rst; `D` and a number is a row of its table of decisions where RFC 9309 is silent.
"""

from __future__ import annotations

from datetime import time

import pytest

from scrapy_rep.protocol import RequestRate, Rule, VisitTime, parse

DELAYS = [
    ("61-D25-whole", "10", 10.0),
    ("61-D25-decimals", "0.5", 0.5),
    ("61-D25-decimals-many", "1.25", 1.25),
    ("61-D25-zero", "0", 0.0),
    ("61-D25-zeros", "0.0", 0.0),
    ("61-D25-leading-zero", "007", 7.0),
    ("61-D25-large", "86400", 86400.0),
    ("61-D25-comment", "10 # seconds", 10.0),
    ("61-D25-spaces", " \t10\t ", 10.0),
    ("61-D25-empty", "", None),
    ("61-D25-negative", "-1", None),
    ("61-D25-negative-decimals", "-0.5", None),
    ("61-D25-nan", "nan", None),
    ("61-D25-NaN", "NaN", None),
    ("61-D25-inf", "inf", None),
    ("61-D25-minus-inf", "-inf", None),
    ("61-D25-infinity", "Infinity", None),
    ("61-D25-too-large-for-a-float", "1e999", None),
    ("61-D25-many-nines", "9" * 400, None),
    ("61-D25-unit", "10s", None),
    ("61-D25-unit-apart", "10 s", None),
    ("61-D25-comma", "1,5", None),
    ("61-D25-two-numbers", "1 2", None),
    ("61-D25-word", "ten", None),
    ("61-D25-two-dots", "1.2.3", None),
    ("61-D25-dot", ".", None),
    ("61-D25-hex", "0x10", None),
    ("61-D25-fraction", "1/2", None),
    # float() takes these, no robots.txt means them
    ("61-D25-underscore", "1_0", None),
    ("61-D25-other-digits", "\u0661\u0660", None),
]


@pytest.mark.parametrize(
    ("value", "expected"), [pytest.param(*case[1:], id=case[0]) for case in DELAYS]
)
def test_crawl_delay(value: str, expected: float | None) -> None:
    robots = f"User-agent: a\nCrawl-delay: {value}\nDisallow: /x\n"
    for body in (robots, robots.encode()):
        delay = parse(body).crawl_delay("a")
        assert delay == expected
        assert delay is None or type(delay) is float
        assert parse(body).allowed("/x", "a") is False


DELAY_GROUPS = [
    ("61-field-case", "User-agent: a\nCRAWL-DELAY: 2", "a", 2.0),
    ("61-no-space", "User-agent: a\nCrawl-delay:2", "a", 2.0),
    ("61-absent", "User-agent: a\nDisallow: /", "a", None),
    ("61-no-group", "User-agent: a\nCrawl-delay: 2", "b", None),
    ("61-empty-file", "", "a", None),
    ("61-before-any-group", "Crawl-delay: 2\nUser-agent: a\nDisallow: /", "a", None),
    ("61-default-group", "User-agent: *\nCrawl-delay: 2", "a", 2.0),
    (
        "61-7-default-stays-out",
        "User-agent: *\nCrawl-delay: 2\nDisallow: /x\n\nUser-agent: a\nDisallow: /",
        "a",
        None,
    ),
    (
        "61-D25-largest-in-a-group",
        "User-agent: a\nCrawl-delay: 2\nCrawl-delay: 5\nCrawl-delay: 3",
        "a",
        5.0,
    ),
    (
        "61-D25-largest-of-merged-groups",
        "User-agent: a\nCrawl-delay: 5\nDisallow: /x\nUser-agent: a\nCrawl-delay: 2\nDisallow: /y",
        "a",
        5.0,
    ),
    (
        "61-D25-largest-of-merged-groups-other-order",
        "User-agent: a\nCrawl-delay: 2\nDisallow: /x\nUser-agent: a\nCrawl-delay: 5\nDisallow: /y",
        "a",
        5.0,
    ),
    (
        "61-D25-largest-of-merged-default-groups",
        "User-agent: *\nCrawl-delay: 2\nDisallow: /x\nUser-agent: *\nCrawl-delay: 5",
        "b",
        5.0,
    ),
    (
        "61-D25-malformed-beside-good",
        "User-agent: a\nCrawl-delay: inf\nCrawl-delay: 2",
        "a",
        2.0,
    ),
    (
        "61-D25-zero-beside-another",
        "User-agent: a\nCrawl-delay: 0\nCrawl-delay: 2",
        "a",
        2.0,
    ),
    ("61-10-shared", "User-agent: a\nUser-agent: b\nCrawl-delay: 2", "b", 2.0),
    ("61-10-shared-first", "User-agent: a\nUser-agent: b\nCrawl-delay: 2", "a", 2.0),
    ("61-after-rules", "User-agent: a\nDisallow: /\nCrawl-delay: 2", "a", 2.0),
    (
        "61-another-groups",
        "User-agent: a\nDisallow: /\nUser-agent: b\nCrawl-delay: 2",
        "a",
        None,
    ),
    ("61-8-token-with-version", "User-agent: a/1.0\nCrawl-delay: 2", "a", 2.0),
    ("61-3-agent-case", "User-agent: AbC\nCrawl-delay: 2", "aBc", 2.0),
    ("61-not-by-rules", "User-agent: a\nDisallow:\nCrawl-delay: 2", "a", 2.0),
    # Beyond RFC 9309: two words do without the colon
    ("61-D13-no-colon", "User-agent: a\nCrawl-delay 2", "a", 2.0),
]


@pytest.mark.parametrize(
    ("robots", "agent", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in DELAY_GROUPS],
)
def test_crawl_delay_of_groups(robots: str, agent: str, expected: float | None) -> None:
    assert parse(robots).crawl_delay(agent) == expected


# A file, and the delays of a, b and c, which is named nowhere: see D25.
RUNS = [
    ("above", "User-agent: a\nCrawl-delay: 2\nUser-agent: b\nDisallow: /x", (2, None, None)),
    ("above-the-default", "User-agent: a\nCrawl-delay: 2\nUser-agent: *\nDisallow: /x", (2, None, None)),
    ("of-the-default", "User-agent: *\nCrawl-delay: 2\nUser-agent: a\nDisallow: /x", (None, 2, 2)),
    ("below", "User-agent: a\nUser-agent: b\nCrawl-delay: 2\nDisallow: /x", (2, 2, None)),
    ("each-its-own", "User-agent: a\nCrawl-delay: 2\nUser-agent: b\nCrawl-delay: 3\nDisallow: /x", (2, 3, None)),
    ("runs-of-two", "User-agent: a\nUser-agent: b\nCrawl-delay: 2\nUser-agent: *\nCrawl-delay: 3\nDisallow: /x", (2, 2, 3)),
    ("behind-the-rules", "User-agent: a\nCrawl-delay: 2\nUser-agent: b\nDisallow: /x\nCrawl-delay: 3", (2, 3, None)),
    ("behind-the-rules-only", "User-agent: a\nVisit-time: 0600-0700\nUser-agent: b\nDisallow: /x\nCrawl-delay: 3", (None, 3, None)),
    ("two-in-one-run", "User-agent: a\nCrawl-delay: 2\nCrawl-delay: 5\nUser-agent: b\nDisallow: /x", (5, None, None)),
    ("two-runs-of-one-agent", "User-agent: a\nCrawl-delay: 2\nUser-agent: b\nUser-agent: a\nCrawl-delay: 1\nDisallow: /x", (2, 1, None)),
    ("two-groups-of-one-agent", "User-agent: a\nCrawl-delay: 2\nUser-agent: b\nDisallow: /x\nUser-agent: b\nCrawl-delay: 7", (2, 7, None)),
    ("two-groups-of-another", "User-agent: a\nCrawl-delay: 2\nUser-agent: b\nDisallow: /x\nUser-agent: a\nCrawl-delay: 7", (7, None, None)),
    ("blank-lines", "User-agent: a\n\nCrawl-delay: 2\n\n\nUser-agent: b\nDisallow: /x", (2, None, None)),
    ("comment", "User-agent: a\n# Crawl-delay: 2\nUser-agent: b\nCrawl-delay: 3", (3, 3, None)),
    ("sitemap-ends-no-run", "User-agent: a\nSitemap: https://a/\nUser-agent: b\nCrawl-delay: 2", (2, 2, None)),
    ("unknown-ends-no-run", "User-agent: a\nHost: a\nUser-agent: b\nCrawl-delay: 2", (2, 2, None)),
    ("prose-ends-no-run", "User-agent: a\nCrawl-delay of two: seconds\nUser-agent: b\nCrawl-delay: 3", (3, 3, None)),
    ("malformed-ends-a-run", "User-agent: a\nCrawl-delay: soon\nUser-agent: b\nCrawl-delay: 3", (None, 3, None)),
    ("rate-ends-a-run", "User-agent: a\nRequest-rate: 1/5\nUser-agent: b\nCrawl-delay: 3", (None, 3, None)),
    ("usage-ends-a-run", "User-agent: a\nContent-Usage: search=y\nUser-agent: b\nCrawl-delay: 3", (None, 3, None)),
    ("signal-ends-a-run", "User-agent: a\nContent-Signal: search=yes\nUser-agent: b\nCrawl-delay: 3", (None, 3, None)),
    ("misspelt", "User-agent: a\nCRAWL DELAY: 2\nUser-agent: b\nDisallow: /x", (2, None, None)),
    ("without-a-colon", "User-agent: a\ncrawldelay 2\nUser-agent: b\nDisallow: /x", (2, None, None)),
    ("invisible-before-it", "User-agent: a\n\u200bCrawl-delay: 2\nUser-agent: b\nDisallow: /x", (2, None, None)),
    ("at-the-end-of-the-file", "User-agent: a\nCrawl-delay: 2\nUser-agent: b", (2, None, None)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("robots", "expected"),
    [pytest.param(*case[1:], id=f"61-D25-{case[0]}") for case in RUNS],
)
def test_a_delay_is_of_the_user_agent_lines_directly_above(
    robots: str, expected: tuple[float | None, ...]
) -> None:
    for body in (robots, robots.replace("\n", "\r\n").encode()):
        policy = parse(body)
        assert tuple(policy.crawl_delay(agent) for agent in "abc") == expected
        # In another order, lest one agent has what was kept for another.
        again = parse(body)
        assert tuple(again.crawl_delay(agent) for agent in "cba") == expected[::-1]


def test_d25_rules_are_shared_by_all_runs_of_a_group() -> None:
    policy = parse(
        "User-agent: a\nCrawl-delay: 2\nUser-agent: b/2\nVisit-time: 0600-0700\n"
        "User-agent: *\nRequest-rate: 1/5\nDisallow: /x\n"
    )
    for agent in ("a", "b", "c", "Mozilla/5.0 (compatible; A/1.0)"):
        assert policy.allowed("/x", agent) is False
        assert policy.verdict("/x", agent).rule == Rule(False, "/x", 7)
        (group,) = policy.groups_for(agent)
        assert group.tokens == ("a", "b/2", "*")
    assert [policy.crawl_delay(agent) for agent in "abc"] == [2, None, None]
    assert policy.crawl_delay("Mozilla/5.0 (compatible; A/1.0)") == 2
    visits = [policy.visit_time(agent) for agent in "abc"]
    assert visits == [None, VisitTime(time(6), time(7)), None]
    rates = [policy.request_rate(agent) for agent in "abc"]
    assert rates == [None, None, RequestRate(1, 5)]
    assert policy.crawl_delay(["c", "a"]) == 2  # the first that has a group


def test_d25_whose_a_delay_is_counts_for_equality() -> None:
    above = parse("User-agent: a\nCrawl-delay: 2\nUser-agent: b\nDisallow: /x\n")
    below = parse("User-agent: a\nUser-agent: b\nCrawl-delay: 2\nDisallow: /x\n")
    assert above != below
    assert above == parse(f"# a comment\n{above}\nHost: a\n")


RATES = [
    ("62-per-seconds", "1/10s", (1, 10, None, None)),
    ("62-no-unit-is-seconds", "1/5", (1, 5, None, None)),
    ("62-per-minutes", "30/60m", (30, 3600, None, None)),
    ("62-per-hours", "100/24h", (100, 86400, None, None)),
    ("62-unit-case", "1/10S", (1, 10, None, None)),
    ("62-window", "30/60m 0900-1700", (30, 3600, time(9), time(17))),
    ("62-window-past-midnight", "1/1m 2230-0415", (1, 60, time(22, 30), time(4, 15))),
    ("62-window-spaces", "1/10s \t 0600-0845 ", (1, 10, time(6), time(8, 45))),
    ("62-comment", "1/10s # slow", (1, 10, None, None)),
    ("62-empty", "", None),
    ("62-one-number", "1", None),
    ("62-no-period", "1/", None),
    ("62-no-requests", "/10s", None),
    ("62-words", "a/b", None),
    ("62-period-of-zero", "1/0", None),
    ("62-period-of-zero-minutes", "1/0m", None),
    ("62-negative", "-1/10", None),
    ("62-negative-period", "1/-10", None),
    ("62-unknown-unit", "1/10x", None),
    ("62-two-slashes", "1/2/3", None),
    ("62-inf", "1/inf", None),
    ("62-nan", "nan/1", None),
    ("62-window-of-no-hours", "1/10s 2500-2600", None),
    ("62-window-of-no-minutes", "1/10s 0960-1000", None),
    ("62-window-of-words", "1/10s day-night", None),
    ("62-window-half", "1/10s 0900-", None),
    ("62-window-spaces-inside", "1/10s 0900 - 1700", (1, 10, time(9), time(17))),
    ("62-window-without-hyphen", "1/10s 0900 1700", (1, 10, time(9), time(17))),
    ("62-window-three-times", "1/10s 0900 1700 1800", None),
    ("62-other-digits", "\u0661/\u0661", None),
    ("62-huge", "1/" + "9" * 5000, None),
]


@pytest.mark.parametrize(
    ("value", "expected"), [pytest.param(*case[1:], id=case[0]) for case in RATES]
)
def test_request_rate(
    value: str, expected: tuple[int, float, time | None, time | None] | None
) -> None:
    rate = parse(f"User-agent: a\nRequest-rate: {value}\nDisallow: /x\n").request_rate(
        "a"
    )
    if expected is None:
        assert rate is None
    else:
        assert isinstance(rate, RequestRate)
        assert (rate.requests, rate.seconds, rate.start, rate.end) == expected


VISITS = [
    ("62-morning", "0600-0845", (time(6), time(8, 45))),
    ("62-past-midnight", "2200-0400", (time(22), time(4))),
    ("62-from-midnight", "0000-2359", (time(0), time(23, 59))),
    ("62-spaces", " 0600-0845 \t", (time(6), time(8, 45))),
    ("62-comment", "0600-0845 # UTC", (time(6), time(8, 45))),
    ("62-empty", "", None),
    ("62-one-time", "0600", None),
    ("62-half", "0600-", None),
    ("62-other-half", "-0600", None),
    ("62-no-such-hour", "2500-0300", None),
    ("62-no-such-minute", "0660-0700", None),
    ("62-words", "six-eight", None),
    ("62-short", "6-8", None),
    ("62-long", "060000-084500", None),
    ("62-three-times", "0600-0700-0800", None),
    ("62-without-hyphen", "0200 0630", (time(2), time(6, 30))),
    ("62-without-hyphen-tab", "0200\t06:30", (time(2), time(6, 30))),
    ("62-without-anything", "02000630", None),
    ("62-without-hyphen-no-such-hour", "2500 0630", None),
    ("62-without-hyphen-three-times", "0200 0630 0700", None),
    ("62-other-digits", "\u0660\u0666\u0660\u0660-\u0660\u0668\u0660\u0660", None),
]


@pytest.mark.parametrize(
    ("value", "expected"), [pytest.param(*case[1:], id=case[0]) for case in VISITS]
)
def test_visit_time(value: str, expected: tuple[time, time] | None) -> None:
    visit = parse(f"User-agent: a\nVisit-time: {value}\nDisallow: /x\n").visit_time("a")
    if expected is None:
        assert visit is None
    else:
        assert isinstance(visit, VisitTime)
        assert (visit.start, visit.end) == expected


@pytest.mark.parametrize("value", ["1/10s", "30/60m 0900-1700"])
def test_request_rate_belongs_to_a_group(value: str) -> None:
    robots = f"REQUEST-RATE: 9/9\nUser-agent: *\nrequest-rate: {value}\n\nDisallow: /x\nUser-agent: a\n"
    policy = parse(robots + "Disallow: /\n")
    assert policy.request_rate("b") is not None
    assert policy.request_rate("b") != RequestRate(9, 9, None, None)
    assert policy.request_rate("a") is None


def test_visit_time_belongs_to_a_group() -> None:
    policy = parse(
        "User-agent: *\nVISIT-TIME: 0600-0845\nDisallow: /x\nUser-agent: a\nDisallow: /"
    )
    assert policy.visit_time("b") == VisitTime(time(6), time(8, 45))
    assert policy.visit_time("a") is None


SITEMAPS = [
    ("63-none", "User-agent: *\nDisallow: /", ()),
    ("63-one", "Sitemap: https://example.com/s.xml", ("https://example.com/s.xml",)),
    (
        "63-field-case",
        "SITEMAP: https://example.com/s.xml",
        ("https://example.com/s.xml",),
    ),
    (
        "63-no-space",
        "sitemap:https://example.com/s.xml",
        ("https://example.com/s.xml",),
    ),
    (
        "63-any-host",
        "Sitemap: http://cdn.example.net:81/s.gz?a=b",
        ("http://cdn.example.net:81/s.gz?a=b",),
    ),
    (
        "63-in-file-order",
        "Sitemap: https://b/\nUser-agent: *\nSitemap: https://a/",
        ("https://b/", "https://a/"),
    ),
    (
        "63-not-bound-to-a-group",
        "User-agent: a\nDisallow: /\nSitemap: https://a/",
        ("https://a/",),
    ),
    (
        "63-as-written",
        "Sitemap: /sitemap.xml\nSitemap: s.xml",
        ("/sitemap.xml", "s.xml"),
    ),
    (
        "63-not-normalised",
        "Sitemap: HTTPS://A/%7e/../\u00e9",
        ("HTTPS://A/%7e/../\u00e9",),
    ),
    ("63-spaces-around", "  Sitemap \t: \t https://a/ \t", ("https://a/",)),
    ("63-comment", "Sitemap: https://a/ # main", ("https://a/",)),
    ("63-empty", "Sitemap:\nSitemap: # none", ()),
    ("63-commented-out", "# Sitemap: https://a/", ()),
    ("63-other-field", "Sitemaps: https://a/\nXSitemap: https://a/", ()),
]


@pytest.mark.parametrize(
    ("robots", "expected"), [pytest.param(*case[1:], id=case[0]) for case in SITEMAPS]
)
def test_sitemaps(robots: str, expected: tuple[str, ...]) -> None:
    assert parse(robots).sitemaps == expected
    assert parse(robots.encode()).sitemaps == expected
