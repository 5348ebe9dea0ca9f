"""Where things stand in the charts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.report.charts import Chart, charts, host_chart
from scrapy_rep.report.sentences import gap, seconds
from tests.audits import allowed, answered, back_off, end, refused, run, sent, waiting
from tests.report.reading import at, audit_of

if TYPE_CHECKING:
    from tests.audits import Record


def dots(path: str) -> list[tuple[float, float]]:
    """Return the times of gaps, and how long they are."""
    return [
        (float(x), -float(y)) for x, y in re.findall(r"M([\d.]+) (-?[\d.]+)h0", path)
    ]


def host_chart_of(*starts: float, delay: float = 0, **settings: object) -> Chart:
    """Return the chart of a host that was asked at some times, and asks for a delay."""
    records: list[Record] = [run(at(0), settings=settings)]
    records.append(allowed(at(0), "a.example", "/", delay=delay))
    records += [sent(at(start), "a.example", "/") for start in starts]
    with audit_of(records) as audit:
        chart = host_chart(audit, audit.hosts()[0])
    assert chart is not None
    return chart


def charts_of(*files: list[Record]) -> dict[str, Chart]:
    with audit_of(*files) as audit:
        return {chart.title: chart for chart in charts(audit)}


def test_dots_by_time_and_gap():
    chart = host_chart_of(0, 1, 1.5, 9, 10, delay=1, DOWNLOAD_DELAY=2)
    # From the first request to the last one; four delays high.
    assert (chart.right, chart.top, chart.bottom) == (10, 4, 0)
    assert dots(chart.paths["kept"]) == [(1, 1), (10, 1)]
    assert dots(chart.paths["short"]) == [(1.5, 0.5)]
    assert dots(chart.paths["longer"]) == [(9, 4)]
    assert chart.paths["band"] == "M0 0V-1H1V-1H1.5V-1H9V-1H10V0z"
    assert chart.paths["own"] == "M0 -2H10"
    assert chart.rows == [(0, "0 s"), (2, "2 s"), (4, "4 s")]
    assert chart.columns == [
        (number * 2, f"07:33:{20 + number * 2}") for number in range(6)
    ]


def test_the_delay_may_change():
    with audit_of(
        [
            allowed(at(0), "a.example", "/", delay=1),
            sent(at(0), "a.example", "/"),
            sent(at(1), "a.example", "/"),
            allowed(at(2), "a.example", "/", delay=2),
            sent(at(3), "a.example", "/"),
            sent(at(5), "a.example", "/"),
        ]
    ) as audit:
        chart = host_chart(audit, audit.hosts()[0])
    assert chart is not None
    assert chart.paths["band"] == "M0 0V-1H1V-2H3V-2H5V0z"


def test_without_a_delay_most_gaps_are_in_the_picture():
    starts = [number * 0.1 for number in range(61)]
    chart = host_chart_of(*starts, 15.0)
    assert chart.legend == ["kept", "longer"]
    assert len(dots(chart.paths["kept"])) == 60
    assert len(dots(chart.paths["longer"])) == 1


def test_a_delay_that_no_axis_can_show():
    chart = host_chart_of(0, 0, 0, 0, 0, delay=5e-324)
    assert (chart.top, len(dots(chart.paths["short"]))) == (1, 4)


def test_no_short_gap_is_lost_among_many():
    starts = [float(number) for number in range(5000)]
    starts[777] -= 0.5
    chart = host_chart_of(*starts, delay=1)
    assert len(dots(chart.paths["short"])) == 1
    assert 80 < len(dots(chart.paths["kept"])) < 100
    assert chart.group == 53


@pytest.mark.parametrize(
    ("starts", "is_drawn"),
    [((0,), False), ((0, 1, 2), False), ((0, 0.5), True), ((0, 1, 2, 3), True)],
    ids=["no gap", "two", "a short one", "three"],
)
def test_gaps_are_drawn_where_there_is_something_to_see(starts, is_drawn):
    records = [allowed(at(0), "a.example", "/", delay=1)]
    records += [sent(at(start), "a.example", "/") for start in starts]
    with audit_of(records) as audit:
        assert (host_chart(audit, audit.hosts()[0]) is not None) is is_drawn


def test_requests_at_one_time():
    assert len(dots(host_chart_of(0, 0, 0, 0).paths["kept"])) == 3


def test_bars_of_the_crawl():
    (chart,) = charts_of(
        [
            run(at(0)),
            *(sent(at(1), "a.example", "/") for _ in range(60)),
            *(sent(at(1), "a.example", "/robots.txt", robots=True) for _ in range(20)),
            *(refused(at(1), "a.example", "/") for _ in range(30)),
            refused(at(12), "a.example", "/"),
            end(at(12)),
        ]
    ).values()
    assert (chart.width, chart.right) == (0.2, 61)  # it ends with the crawl
    # Round steps: there is room for 100 above the axis and 50 below it.
    assert (chart.bottom, chart.top) == (-50, 100)
    assert chart.rows == [(-50, "50"), (0, "0"), (50, "50"), (100, "100")]
    assert chart.bars == [
        (5, [("sent", -60, 60), ("robots", -80, 20), ("refused", 0, 30)]),
        (60, [("refused", 0, 1)]),
    ]
    assert chart.columns[1] == (25, "07:33:25")
    assert chart.legend == ["sent", "robots", "refused"]


def test_a_crawl_of_a_moment_has_no_picture():
    assert charts_of([sent(at(0), "a", "/"), sent(at(0.5), "a", "/")]) == {}
    assert charts_of([sent(at(0), "a", "/"), sent(at(0.9), "a", "/")]) != {}


def test_answers_are_drawn_where_some_failed():
    well = [sent(at(0), "a", "/"), answered(at(1), "a", "/"), end(at(9))]
    assert list(charts_of(well)) == ["Requests sent and refused"]
    found = charts_of([*well, back_off(at(2), "a", 5.0)])
    assert found["Answers, and hosts left alone"].legend == ["answered", "alone"]


def test_what_waits_does_so_until_that_changes():
    one = [
        run(at(0)),
        waiting(at(10), "parked", 7, hosts=1),
        waiting(at(10), "pace", 2, hosts=1),
        waiting(at(20), "parked", 1, hosts=1),
        waiting(at(20), "odd", 5, host="a.example"),  # of one host: among the others
        end(at(40)),
    ]
    other = [waiting(at(10), "parked", 3, hosts=1), end(at(30)), end(at(119))]
    chart = charts_of(one, other)["Requests waiting"]
    levels = {part: pieces[0][2] for part, pieces in chart.bars if pieces}
    expected = dict.fromkeys(range(10, 21), 12) | dict.fromkeys(range(21, 31), 6)
    assert levels == expected | dict.fromkeys(range(31, 41), 3)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "\u2013"),
        (0, "0 s"),
        (0.0004, "< 0.001 s"),
        (0.5, "0.5 s"),
        (1.0034, "1.003 s"),
        (10.739, "10.7 s"),
        (300.0, "300 s"),
        (6000.4, "6,000 s"),
        (86400.0, "24.0 h"),
    ],
)
def test_seconds(value, shown):
    assert seconds(value) == shown


def test_gaps_in_a_column_have_as_many_decimals():
    assert [gap(value) for value in (0.5, 10.0, None, 300.0)] == [
        "0.500 s",
        "10.000 s",
        "\u2013",
        "300 s",
    ]


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
