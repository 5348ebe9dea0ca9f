"""What a policy asks of our speed, as a table of records, times of day and settings."""

from __future__ import annotations

import pytest
from scrapy.settings import Settings as ScrapySettings

from scrapy_rep.pacing.hosts import FREE, Pace, pace_of
from scrapy_rep.protocol import parse
from scrapy_rep.settings import Settings

DAY = 86400
# 00:00 UTC of some day: which one must not matter.
MIDNIGHT = 20_000 * DAY


def at(clock: str) -> float:
    hours, minutes, *seconds = clock.split(":")
    return MIDNIGHT + int(hours) * 3600 + int(minutes) * 60 + float(*seconds or "0")


def pace(records: str, agent: str = "bot", **settings) -> Pace:
    policy = parse(f"User-agent: *\n{records}\nDisallow:\n")
    return pace_of(policy, agent, Settings.read(ScrapySettings(settings)))


@pytest.mark.parametrize(
    ("records", "clock", "asked"),
    [
        pytest.param("Crawl-delay: 10", "12:00", 10, id="crawl delay"),
        pytest.param("Crawl-delay: 0.5", "12:00", 0.5, id="part of a second"),
        pytest.param("Crawl-delay: 0", "12:00", 0, id="no crawl delay"),
        pytest.param("Crawl-delay: soon", "12:00", 0, id="no number"),
        pytest.param("Request-rate: 30/1m", "12:00", 2, id="a rate is no burst"),
        pytest.param("Request-rate: 10/1s", "12:00", 0.1, id="ten a second"),
        pytest.param("Request-rate: 1/2h", "12:00", 7200, id="one in two hours"),
        pytest.param(
            "Crawl-delay: 1\nRequest-rate: 1/5", "12:00", 5, id="the rate is slower"
        ),
        pytest.param(
            "Crawl-delay: 5\nRequest-rate: 1/1", "12:00", 5, id="the delay is slower"
        ),
        pytest.param("Request-rate: 1/5 0900-1700", "08:59:59.9", 0, id="before"),
        pytest.param("Request-rate: 1/5 0900-1700", "09:00", 5, id="it begins"),
        pytest.param("Request-rate: 1/5 0900-1700", "16:59:59.9", 5, id="still"),
        pytest.param("Request-rate: 1/5 0900-1700", "17:00", 0, id="it is over"),
        pytest.param(
            "Crawl-delay: 1\nRequest-rate: 1/5 0900-1700", "18:00", 1,
            id="out of its window the delay holds",
        ),
        pytest.param("Request-rate: 1/5 2200-0300", "21:59", 0, id="before the night"),
        pytest.param("Request-rate: 1/5 2200-0300", "22:00", 5, id="the night begins"),
        pytest.param("Request-rate: 1/5 2200-0300", "00:00", 5, id="midnight"),
        pytest.param("Request-rate: 1/5 2200-0300", "02:59", 5, id="the night ends"),
        pytest.param("Request-rate: 1/5 2200-0300", "03:00", 0, id="after the night"),
        pytest.param("Request-rate: 1/5 0000-2400", "23:59", 5, id="all day"),
        pytest.param("Request-rate: 1/5 0000-2400", "00:00", 5, id="all day, midnight"),
        pytest.param("Request-rate: 1/5 0930-0930", "09:29", 5, id="all of a later day"),
        pytest.param("Request-rate: 1/5 0930-0930", "09:30", 5, id="where two days meet"),
        pytest.param("Request-rate: 1/5 0900-0930", "09:29:59", 5, id="half past, still"),
        pytest.param("Request-rate: 1/5 0900-0930", "09:30", 0, id="half past"),
    ],
)  # fmt: skip
def test_asked(records, clock, asked):
    found = pace(records, REP_CRAWL_DELAY_MAX=86400)
    assert found.asked(at(clock)) == asked
    assert found.interval(at(clock)) == asked
    assert not found.refuses(at(clock))


@pytest.mark.parametrize(
    ("records", "clock", "seconds"),
    [
        pytest.param("", "12:00", 0, id="none"),
        pytest.param("Visit-time: 0900-1700", "09:00", 0, id="it opens"),
        pytest.param("Visit-time: 0900-1700", "16:59:59", 0, id="open"),
        pytest.param("Visit-time: 0900-1700", "17:00", 16 * 3600, id="it closes"),
        pytest.param("Visit-time: 0900-1700", "08:59:59.5", 0.5, id="nearly"),
        pytest.param("Visit-time: 2200-0300", "21:00", 3600, id="before the night"),
        pytest.param("Visit-time: 2200-0300", "23:00", 0, id="at night"),
        pytest.param("Visit-time: 2200-0300", "02:00", 0, id="past midnight"),
        pytest.param("Visit-time: 2200-0300", "03:00", 19 * 3600, id="after the night"),
        pytest.param("Visit-time: 0000-2400", "12:00", 0, id="all day"),
        pytest.param("Visit-time: 0000-0000", "00:00", 0, id="all day, midnight"),
        pytest.param("Visit-time: 0930-0930", "09:29", 0, id="all of a later day"),
        pytest.param("Visit-time: 0930-0930", "09:30", 0, id="where two days meet"),
        pytest.param("Visit-time: 0930-1700", "09:00", 1800, id="at half past"),
        pytest.param("Visit-time: 0000-0100", "23:00", 3600, id="from midnight on"),
    ],
)
def test_opens_in(records, clock, seconds):
    assert pace(records).opens_in(at(clock)) == pytest.approx(seconds)


ALL = "Crawl-delay: 7\nRequest-rate: 1/9\nVisit-time: 0900-1000"


@pytest.mark.parametrize(
    ("obey", "asked", "opens"),
    [
        pytest.param(["crawl-delay", "request-rate", "visit-time"], 9, True, id="all"),
        pytest.param(["crawl-delay"], 7, False, id="crawl-delay"),
        pytest.param(["request-rate"], 9, False, id="request-rate"),
        pytest.param(["visit-time"], 0, True, id="visit-time"),
        pytest.param(["disallow"], 0, False, id="none of the three"),
        pytest.param([], 0, False, id="nothing"),
    ],
)
def test_obeys_what_rep_obey_names(obey, asked, opens):
    found = pace(ALL, REP_OBEY=obey)
    assert found.asked(at("12:00")) == asked
    assert bool(found.opens_in(at("12:00"))) is opens
    assert (found is not FREE) is bool(asked or opens)


@pytest.mark.parametrize(
    ("most", "over", "interval", "refuses"),
    [
        pytest.param(300, "drop", 10, False, id="below"),
        pytest.param(10, "drop", 10, False, id="exactly"),
        pytest.param(9.9, "drop", 9.9, True, id="over, dropped"),
        pytest.param(9.9, "clamp", 9.9, False, id="over, clamped"),
        pytest.param(0, "drop", 0, True, id="no delay will do"),
    ],
)
@pytest.mark.parametrize("records", ["Crawl-delay: 10", "Request-rate: 6/1m"])
def test_rep_crawl_delay_max(records, most, over, interval, refuses):
    found = pace(records, REP_CRAWL_DELAY_MAX=most, REP_CRAWL_DELAY_OVER_MAX=over)
    assert found.asked(at("12:00")) == 10
    assert found.interval(at("12:00")) == interval
    assert found.refuses(at("12:00")) is refuses


def test_over_the_maximum_at_a_part_of_the_day():
    found = pace("Request-rate: 1/1h 0900-1700")
    assert found.refuses(at("12:00"))
    assert not found.refuses(at("18:00"))


@pytest.mark.parametrize("records", ["", "Crawl-delay: 0", "Crawl-delay: -1"])
def test_free(records):
    assert pace(records) is FREE
    assert FREE.asked(at("12:00")) == FREE.opens_in(at("12:00")) == 0
    assert not FREE.refuses(at("12:00"))


def test_the_agents_own_group():
    # Without a rule between them both user-agent lines would head one group.
    policy = parse(
        "User-agent: me\nCrawl-delay: 1\nDisallow:\n\nUser-agent: *\nCrawl-delay: 60\n"
    )
    settings = Settings.read(ScrapySettings())
    delays = [pace_of(policy, agent, settings).delay for agent in ("me", "other")]
    assert delays == [1, 60]
