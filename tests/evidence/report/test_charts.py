"""Where things stand in the charts."""

from __future__ import annotations

import re

import pytest

from scrapy_rep.evidence.report.charts import (
    ANSWERED_ABOVE,
    BACK_OFFS_BELOW,
    HEIGHT,
    REFUSED_BELOW,
    SENT_ABOVE,
    WAITING_ABOVE,
    WIDTH,
    bar_chart,
    has_chart,
    host_chart,
)
from scrapy_rep.evidence.report.gaps import Gaps
from scrapy_rep.evidence.report.hosts import (
    BACK_OFFS,
    FAILING,
    MAX_PARTS,
    PAGES_SENT,
    REFUSALS,
    ROBOTS_SENT,
    WELL,
    Levels,
    Timeline,
)
from scrapy_rep.evidence.report.wording import clock, seconds
from tests.audits import START


def dots(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"M([\d.]+) ([\d.]+)h", path)]


def gaps(*points: tuple[float, float, float]) -> Gaps:
    found = Gaps()
    for time, gap, delay in points:
        found.add(START + time, gap, delay)
    return found


def test_dots_by_time_and_gap():
    chart = host_chart(gaps((1, 1, 1), (1.5, 0.5, 1), (9, 7.5, 1), (10, 1, 1)))
    # From the request before the first gap to the last request; four delays high.
    assert dots(chart.kept) == [(100, 150), (1000, 150)]
    assert dots(chart.short) == [(150, 175)]
    assert dots(chart.longer) == [(900, 0)]
    assert chart.band == "M0 200V150H100H150H900H1000V200z"
    assert (chart.top, chart.half) == ("4 s", "2 s")
    assert chart.times[0] == clock(START, 10)
    assert chart.times[-1] == clock(START + 10, 10)


def test_the_band_is_as_high_as_the_delay_of_the_time():
    chart = host_chart(gaps((1, 1, 1), (3, 2, 2), (4, 1, 0)))
    assert chart.top == "4 s"
    assert chart.band == "M0 200V150H250V100H750V200H1000V200z"


def test_without_a_delay_most_gaps_are_in_the_picture():
    many = [(number, 0.1 + number / 1000, 0.0) for number in range(60)]
    chart = host_chart(gaps(*many, (99, 9, 0)))
    assert chart.band == ""
    assert len(dots(chart.kept)) == 60
    assert len(dots(chart.longer)) == 1
    chart = host_chart(gaps((1, 1, 0), (2, 0.1, 0)))
    assert chart.longer == ""


@pytest.mark.parametrize("points", [[(0, 0, 0)], [(0, 0, 1)], [(0, 0, 0), (0, 0, 0)]])
def test_requests_at_one_time(points):
    chart = host_chart(gaps(*points))
    assert len(dots(chart.kept + chart.short)) == len(points)


def test_bars_of_the_crawl():
    line = Timeline(3)
    for what in [PAGES_SENT] * 6 + [ROBOTS_SENT] * 2 + [REFUSALS] * 2:
        line.add(START, what)
    line.add(START + 3, REFUSALS)
    # It ends with the crawl.
    chart = bar_chart(line, SENT_ABOVE, REFUSED_BELOW, telling=range(3))
    assert chart is not None
    assert (chart.most_above, chart.most_below, chart.width) == (8, 2, 0.125)
    first, second = chart.bars
    unit = HEIGHT / 10
    assert float(chart.line) == 8 * unit
    assert [(name, float(y), float(tall)) for name, y, tall in first.parts] == [
        ("pages", 2 * unit, 6 * unit),
        ("robots", 0, 2 * unit),
        ("refused", 8 * unit, 2 * unit),
    ]
    assert first.title == "2026-10-26 07:33:20, 6 sent, 2 robots.txt, 2 refused"
    assert float(second.x) == pytest.approx(WIDTH / 25 * 24)
    assert chart.times[-1] == clock(START + 3.125, 3.125)


def test_a_crawl_of_a_moment_has_no_picture():
    line = Timeline(3)
    assert bar_chart(line, SENT_ABOVE, telling=range(3)) is None
    line.add(START, PAGES_SENT)
    line.add(START + 0.5, PAGES_SENT)
    assert bar_chart(line, SENT_ABOVE, telling=range(3)) is None
    line.reach(START + 5)
    assert bar_chart(line, SENT_ABOVE, telling=range(3)) is not None


def test_answers_are_drawn_where_some_failed():
    line = Timeline(5)
    line.add(START, WELL)
    line.reach(START + 5)
    telling = FAILING, BACK_OFFS
    assert bar_chart(line, ANSWERED_ABOVE, BACK_OFFS_BELOW, telling=telling) is None
    line.add(START + 5, BACK_OFFS)
    chart = bar_chart(line, ANSWERED_ABOVE, BACK_OFFS_BELOW, telling=telling)
    assert chart is not None
    assert [one.name for one in chart.legend] == ["well", "backoff"]


def test_what_waits_does_so_until_that_changes():
    line = Levels(6)
    line.reach(START)
    line.set(START + 1, 0, 2, 7)
    line.set(START + 1, 1, 2, 3)  # another worker
    line.set(START + 2, 0, 2, 1)
    line.end(START + 3, 1)
    line.reach(START + 4)
    found = [counts[2] for counts in line.counts]
    assert found[:8] == [0] * 8
    assert found[8:16] == [10] * 8
    assert found[17:24] == [4] * 7
    assert found[25:] == [1] * 8
    line.reach(START + 0.125 * MAX_PARTS)
    assert [counts[2] for counts in line.counts][4:8] == [10] * 4  # not 20
    chart = bar_chart(line, WAITING_ABOVE, telling=range(6))
    assert chart is not None
    assert chart.most_above == 10
    assert [one.name for one in chart.legend] == ["wait-parked"]


@pytest.mark.parametrize(
    ("points", "is_drawn"),
    [
        ([(1, 1, 1)], False),
        ([(1, 1, 1), (2, 1, 1)], False),
        ([(1, 0.5, 1)], True),
        ([(1, 1, 0), (2, 1, 0), (3, 1, 0)], True),
    ],
    ids=["one", "two", "a short one", "three"],
)
def test_gaps_are_drawn_where_there_is_something_to_see(points, is_drawn):
    assert has_chart(gaps(*points)) is is_drawn


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "\u2013"),
        (0, "0 s"),
        (0.0004, "< 0.001 s"),
        (0.5, "0.5 s"),
        (1.0034, "1.003 s"),
        (10.0, "10 s"),
        (300.0, "300 s"),
        (6000.4, "6,000 s"),
        (86400.0, "24.0 h"),
    ],
)
def test_seconds(value, shown):
    assert seconds(value) == shown


@pytest.mark.parametrize(
    ("span", "shown"),
    [(2, "07:33:20.500"), (60, "07:33:20"), (1e6, "10-26 07:33"), (1e8, "2026-10-26")],
)
def test_clock(span, shown):
    assert clock(START + 0.5, span) == shown
