"""Computes the charts, in units of what they show; axes have round steps.

The page stretches a picture to what room there is; words and lines of the grid stand beside it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from math import ceil, floor, log10
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.report.sentences import EPOCH, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.report.audit import Audit, Row

MAX_PARTS = 120
"""Parts of the time of a crawl."""
MIN_PARTS = 8
"""Parts below which a crawl is over too soon to be drawn."""
MAX_POINTS = 96
"""Gaps of a host that are drawn."""
MIN_GAPS = 3
"""Gaps of a host below which their figures say it all."""
MAX_DELAYS = 4
"""So many delays a chart of gaps is high at the most; longer gaps stand at its edge."""
USUAL_PART = 0.95
"""Where no delay is asked for, so many of the gaps are within it."""
DAY = 86400
TIME_STEPS = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800,
    21600, 43200, DAY,
)  # fmt: skip
"""Seconds that a clock shows as round ones; beyond, whole days."""
LEAST_TOP = 1e-9
"""Seconds; the sums of an axis of less are not exact any more."""
TINY = 1e-4
"""Of a part of the time: less than a clock tells, and more than rounding takes away."""
PART = f"CAST((time - ?) / ? + {TINY} AS INTEGER) AS part"
"""The part of the time that a row falls into, by when the first one begins and their width."""
SERIES = ("sent", "robots", "refused", "answered", "failed", "alone", "waiting")
"""What is counted, in the order from the axis outwards; the page has words for it."""
BELOW = {"refused", "alone"}
"""What is drawn below the axis."""

SENT, ANSWERS = "Requests sent and refused", "Answers, and hosts left alone"
WAITING, GAPS = "Requests waiting", "Gaps between requests"
"""Titles, the first two of which the view ``happening`` has."""
PATHS = ("band", "own", "kept", "longer", "short")
"""What a chart of gaps draws, the uppermost last."""

Counts = dict[int, Counter[str]]
"""Of what SERIES names, by part of the time."""
Tick = tuple[float, str]
"""Where a line of the grid is, and its words."""


class Chart(NamedTuple):
    """A picture, from 0 to *right* and from *bottom* to *top*."""

    title: str
    right: float
    bottom: float
    top: float
    rows: list[Tick]
    columns: list[Tick]
    legend: list[str]
    """The classes of what there is."""
    start: float
    """The time at its left."""
    width: float = 0.0
    """Seconds of a bar."""
    bars: list[tuple[int, list[tuple[str, int, int]]]] = []
    """Place, and of each piece class, upper edge and number."""
    paths: dict[str, str] = {}
    """By class."""
    group: int = 1
    """Each dot is one of so many requests."""


def charts(audit: Audit) -> list[Chart]:
    """Return what happened over time, as far as there is something to see."""
    first, last = audit.span
    width = _step_of((last - first) / (MAX_PARTS - 1))
    start = (first / width + TINY) // 1 * width
    parts = int((last - start) / width + TINY) + 1
    counts: dict[str, Counts] = defaultdict(lambda: defaultdict(Counter))
    sql = f"SELECT chart, {PART}, name, COUNT(*) AS number FROM happening GROUP BY 1, 2, 3"  # noqa: S608
    for row in audit.rows(sql, start, width):
        counts[row["chart"]][row["part"]][row["name"]] = row["number"]
    if not any(each.keys() - {"answered"} for each in counts[ANSWERS].values()):
        counts[ANSWERS].clear()  # all went well
    # Of what waits, in each part of the time, the most at one moment.
    sql = f"SELECT {PART}, MAX(level) AS most, SUM(step) AS step FROM level GROUP BY 1"  # noqa: S608
    steps, level = {row["part"]: row for row in audit.rows(sql, start, width)}, 0
    for part in range(parts):
        step = steps.get(part, {"most": 0, "step": 0})
        # Below 0 where a clock went back, and what ended came first.
        counts[WAITING][part]["waiting"] = max(0, level, step["most"])
        level += step["step"]
    return [
        _bar_chart(title, counts[title], start, width, parts)
        for title in (SENT, ANSWERS, WAITING)
        if parts >= MIN_PARTS and any(map(Counter.total, counts[title].values()))
    ]


def _bar_chart(
    title: str, counts: Counts, start: float, width: float, parts: int
) -> Chart:
    bars = []
    above = under = 0
    for part, each in sorted(counts.items()):
        ends = {-1: 0, 1: 0}  # of the pieces so far, above the axis and below it
        pieces = []
        for name in filter(each.get, SERIES):
            side = 1 if name in BELOW else -1
            edges = ends[side], ends[side] + side * each[name]
            pieces.append((name, min(edges), each[name]))
            ends[side] = edges[1]
        above, under = max(above, -ends[-1]), max(under, ends[1])
        bars.append((part, pieces))
    step = ceil(_round_up((above + under) / 4))
    bottom = ceil(under / step * 2) * step / 2
    top = ceil(above / step) * step
    lines = range(-int(bottom // step) * step, top + 1, step)
    rows: list[Tick] = [(value, f"{abs(value):,}") for value in lines]
    times = _time_ticks(start, parts * width)
    columns = [(at / width, words) for at, words in times]
    legend = [name for name in SERIES if any(each[name] for each in counts.values())]
    return Chart(
        title, parts, -bottom, top, rows, columns, legend, start, width, bars=bars
    )


def host_chart(audit: Audit, host: Row) -> Chart | None:
    """Return the gaps of a host, by time; ``None``: there are too few."""
    if host["gaps"] < MIN_GAPS and not host["short"]:
        return None
    # Of requests that share a dot the one that kept least of its delay is drawn, so that no short
    # gap is lost among longer ones.
    points = audit.rows(
        f"""SELECT time, gap, delay, short, MIN(gap - delay) FROM (
            SELECT *, NTILE({MAX_POINTS}) OVER (ORDER BY time) AS tile FROM gap WHERE host = ?
        ) GROUP BY tile ORDER BY time""",  # noqa: S608
        host["name"],
    )
    start = points[0]["time"] - points[0]["gap"]  # of the request before
    span = max(points[-1]["time"] - start, 0.001)
    top = _top_of(points)
    step = _round_up(top / 3)
    top = ceil(top / step - TINY) * step
    paths = dict.fromkeys(PATHS, "")
    band = ""
    if 0 < audit.own_delay <= top:
        paths["own"] = f"M0 {-audit.own_delay:.6g}H{span:.6g}"
    for point in points:
        kind = "short" if point["short"] else "longer" if point["gap"] > top else "kept"
        x, y = point["time"] - start, min(point["gap"], top)
        band += f"V{-min(point['delay'], top):.6g}H{x:.6g}"
        # The caps of a line without length: a dot, however the chart is stretched.
        paths[kind] += f"M{x:.6g} {-y:.6g}h0"
    if host["most"]:
        paths["band"] = f"M0 0{band}V0z"
    lines = range(round(top / step) + 1)
    rows = [(at * step, seconds(round(at * step, 9))) for at in lines]
    columns, legend = list(_time_ticks(start, span)), [*filter(paths.get, paths)]
    chart = Chart(GAPS, span, 0, top, rows, columns, legend, start, paths=paths)
    return chart._replace(group=ceil(host["gaps"] / MAX_POINTS))


def _top_of(points: list[Row]) -> float:
    """Return the gap up to which a chart of *points* goes."""
    delay = max(point["delay"] for point in points)
    gaps = sorted(point["gap"] for point in points)
    if delay:
        top: float = delay * (2 if gaps[-1] <= delay * 2 else MAX_DELAYS)
    else:
        usual: float = gaps[ceil(USUAL_PART * (len(gaps) - 1))]
        top = min(gaps[-1], usual * 1.5)
    return top if top > LEAST_TOP else 1.0


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, ... and of the same parts of 1."""
    power = 10.0 ** floor(log10(value))
    return next(power * each for each in (1, 2, 5, 10) if power * each >= value)


def _step_of(least: float) -> float:
    """Return the shortest round time of *least* seconds or more."""
    days = ceil(least / DAY) * DAY
    return next((step for step in TIME_STEPS if step >= least), days)


def _time_ticks(start: float, span: float) -> Iterator[Tick]:
    """Return round times within *span* seconds, as seconds since *start*."""
    step = _step_of(span / 5)
    form = "%H:%M" if step >= 60 else "%H:%M:%S" if step >= 1 else "%H:%M:%S.%f"
    if span > DAY:
        form = "%d %b %H:%M" if step < DAY else "%d %b %Y"
    time = ceil(start / step) * step
    while time <= start + span:
        words = f"{EPOCH + timedelta(seconds=round(time, 3)):{form}}"
        yield time - start, words[:-5] if form.endswith("f") else words
        time += step
