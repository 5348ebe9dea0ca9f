"""Where things stand in the charts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from scrapy_rep.report.audit import gap, seconds
from scrapy_rep.report.page import Chart, charts, host_chart
from tests.audits import allowed, sent
from tests.report.reading import at, audit_of, cases


def dots(path: str) -> list[tuple[float, float]]:
    """Return the times of gaps, and how long they are."""
    return [
        (float(x), -float(y)) for x, y in re.findall(r"M([\d.]+) (-?[\d.]+)h0", path)
    ]


def levels(chart: Chart) -> dict[str, tuple[int, int]]:
    """Return the first and the last part of each level."""
    parts = {part: pieces[0][2] for part, pieces in chart.bars if pieces}
    of = {
        level: [part for part in parts if parts[part] == level]
        for level in parts.values()
    }
    assert all(its == list(range(its[0], its[-1] + 1)) for its in of.values())
    return {str(level): (its[0], its[-1]) for level, its in of.items()}


def fact(audit, name: str) -> Any:
    which, _, what = name.partition(".")
    of_crawl = {chart.title: chart for chart in charts(audit)}
    if which == "titles":
        return list(of_crawl)
    named = (chart for title, chart in of_crawl.items() if title.endswith(which))
    chart = host_chart(audit, audit.hosts()[0]) if which == "host" else next(named)
    if chart is None or what == "levels":
        return chart and levels(chart)
    if what in {"kept", "short", "longer"}:
        return dots(chart.paths[what])
    return chart.paths.get(what, getattr(chart, what, None))


@pytest.mark.parametrize(("files", "expected"), cases("charts.txt"))
def test_where_things_stand(files, expected):
    with audit_of(*files) as audit:
        for name, given in (line.split(" = ") for line in expected):
            assert json.loads(json.dumps(fact(audit, name))) == json.loads(given), name


def host_chart_of(*starts: float, delay: float = 0) -> Any:
    """Return the chart of a host that was asked at some times, and asks for a delay."""
    records = [allowed(at(0), "a.example", "/", delay=delay)]
    records += [sent(at(start), "a.example", "/") for start in starts]
    with audit_of(records) as audit:
        return host_chart(audit, audit.hosts()[0])


def test_no_short_gap_is_lost_among_many():
    starts = [float(number) for number in range(5000)]
    starts[777] -= 0.5
    chart = host_chart_of(*starts, delay=1)
    assert len(dots(chart.paths["short"])) == 1
    assert 80 < len(dots(chart.paths["kept"])) < 100
    assert chart.group == 53


@pytest.mark.parametrize(
    ("value", "shown", "in_column"),
    [
        (None, "\u2013", "\u2013"),
        (0, "0 s", "0.000 s"),
        (0.0004, "< 0.001 s", "0.000 s"),
        (0.5, "0.5 s", "0.500 s"),
        (1.0034, "1.003 s", "1.003 s"),
        (10.739, "10.7 s", "10.739 s"),
        (300.0, "300 s", "300 s"),
        (6000.4, "6,000 s", "6,000 s"),
        (86400.0, "24.0 h", "24.0 h"),
    ],
)
def test_seconds_by_themselves_and_in_a_column(value, shown, in_column):
    assert (seconds(value), gap(value)) == (shown, in_column)


@pytest.mark.parametrize(
    ("span", "first"),
    [
        (1.2, "07:33:20.0"),
        (60, "07:33:30"),
        (7200, "08:00"),
        (2 * 86400, "26 Oct 12:00"),
        (3 * 86400, "27 Oct 2026"),
        (100 * 86400, "03 Nov 2026"),
    ],
)
def test_time_has_round_steps(span, first):
    chart = host_chart_of(0, span / 3, span / 2, span)
    assert chart.columns[0][1] == first
    assert 2 <= len(chart.columns) <= 6
