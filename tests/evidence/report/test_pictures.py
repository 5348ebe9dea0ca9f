"""Where things stand in the pictures."""

from __future__ import annotations

import re

import pytest

from scrapy_rep.evidence.report.charts import HEIGHT, WIDTH, of_crawl, of_host
from scrapy_rep.evidence.report.gaps import Gaps
from scrapy_rep.evidence.report.hosts import REFUSED, ROBOTS, SENT, Timeline
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
    picture = of_host(gaps((1, 1, 1), (1.5, 0.5, 1), (9, 7.5, 1), (10, 1, 1)))
    # From the request before the first gap to the last request; four delays high.
    assert dots(picture.kept) == [(100, 150), (1000, 150)]
    assert dots(picture.short) == [(150, 175)]
    assert dots(picture.longer) == [(900, 0)]
    assert picture.band == "M0 200V150H100H150H900H1000V200z"
    assert (picture.top, picture.half) == ("4 s", "2 s")
    assert picture.times[0] == clock(START, 10)
    assert picture.times[-1] == clock(START + 10, 10)


def test_the_band_is_as_high_as_the_delay_of_the_time():
    picture = of_host(gaps((1, 1, 1), (3, 2, 2), (4, 1, 0)))
    assert picture.top == "4 s"
    assert picture.band == "M0 200V150H250V100H750V200H1000V200z"


def test_without_a_delay_most_gaps_are_in_the_picture():
    many = [(number, 0.1 + number / 1000, 0.0) for number in range(60)]
    picture = of_host(gaps(*many, (99, 9, 0)))
    assert picture.band == ""
    assert len(dots(picture.kept)) == 60
    assert len(dots(picture.longer)) == 1
    picture = of_host(gaps((1, 1, 0), (2, 0.1, 0)))
    assert picture.longer == ""


@pytest.mark.parametrize("points", [[(0, 0, 0)], [(0, 0, 1)], [(0, 0, 0), (0, 0, 0)]])
def test_requests_at_one_time(points):
    picture = of_host(gaps(*points))
    assert len(dots(picture.kept + picture.short)) == len(points)


def test_bars_of_the_crawl():
    line = Timeline()
    for what in [SENT] * 6 + [ROBOTS] * 2 + [REFUSED] * 2:
        line.add(START, what)
    line.add(START + 3, REFUSED)
    picture = of_crawl(line)
    assert picture is not None
    assert (picture.most_sent, picture.most_refused, picture.width) == (8, 2, 1)
    first, second = picture.bars
    unit = HEIGHT / 10
    assert float(picture.line) == 8 * unit
    assert [*map(float, first.pages)] == [2 * unit, 6 * unit]
    assert [*map(float, first.robots)] == [0, 2 * unit]
    assert [*map(float, first.refused)] == [8 * unit, 2 * unit]
    assert first.title == "2026-10-26 07:33:20, 6 sent, 2 robots.txt, 2 refused"
    # Of 20 parts at least, so that a short crawl is no wall.
    assert float(second.x) == WIDTH / 20 * 3
    assert of_crawl(Timeline()) is None


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
