"""Computes the charts: the numbers for the SVG of the page.

A chart is drawn in a box of WIDTH by HEIGHT that the page stretches to what room there
is; all words stand outside it, where they keep their size.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.evidence.report.hosts import (
    BACK_OFFS,
    FAILING,
    MISSING,
    PAGES_SENT,
    REFUSALS,
    ROBOTS_SENT,
    SILENT,
    WAIT_CAUSES,
    WELL,
)
from scrapy_rep.evidence.report.wording import (
    WAIT_WORDS,
    clock,
    moment,
    number,
    seconds,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_rep.evidence.report.gaps import Gaps, Point
    from scrapy_rep.evidence.report.hosts import Timeline

WIDTH, HEIGHT = 1000, 200
MAX_DELAYS = 4
"""So many delays a chart of gaps is high at the most; longer gaps stand at its edge."""
USUAL_PART = 0.95
"""Where no delay is asked for, so many of the gaps are within it."""
TIME_LABELS = 5
MIN_PARTS = 8
"""Parts of the time below which a crawl is over too soon to be drawn."""
MIN_GAPS = 3
"""Gaps of a host below which their figures say it all."""


class Series(NamedTuple):
    """One kind of what a chart counts."""

    kind: int
    """Its place among the counts of a part."""
    name: str
    """Its class in the page."""
    words: str
    """In the legend."""
    short: str
    """After a number."""


SENT_ABOVE = (
    Series(PAGES_SENT, "pages", "pages asked for", "sent"),
    Series(ROBOTS_SENT, "robots", "robots.txt asked for", "robots.txt"),
)
REFUSED_BELOW = (Series(REFUSALS, "refused", "refused", "refused"),)
ANSWERED_ABOVE = (
    Series(WELL, "well", "answered: 2xx and 3xx", "answered"),
    Series(MISSING, "missing", "other 4xx than 429", "4xx"),
    Series(FAILING, "failing", "429 and 5xx", "429 or 5xx"),
    Series(SILENT, "silent", "no answer", "without an answer"),
)
BACK_OFFS_BELOW = (Series(BACK_OFFS, "backoff", "a host is left alone", "left alone"),)
WAITING_ABOVE = tuple(
    Series(number, f"wait-{cause}", WAIT_WORDS[cause], f"for {WAIT_WORDS[cause]}")
    for number, cause in enumerate(WAIT_CAUSES)
)


class Bar(NamedTuple):
    """What happened in one part of the time."""

    x: str
    width: str
    parts: list[tuple[str, str, str]]
    """Class, upper edge and height of what is above the line, and below it."""
    title: str


class BarChart(NamedTuple):
    bars: list[Bar]
    line: str
    """Height of the line."""
    most_above: int
    most_below: int
    width: float
    """Seconds of one bar."""
    times: list[str]
    legend: list[Series]
    """Of what there is any."""


class HostChart(NamedTuple):
    band: str
    """Path of the area below the delay; "" where none was asked for."""
    kept: str
    short: str
    longer: str
    """Paths of dots: gaps that kept the delay, that did not, that are out of the chart."""
    top: str
    half: str
    """Words for the gaps at the upper edge, and half way."""
    times: list[str]


def bar_chart(
    timeline: Timeline,
    above: Sequence[Series],
    below: Sequence[Series] = (),
    *,
    telling: Iterable[int] = (),
) -> BarChart | None:
    """Return a chart of what is counted above a line and *below* it.

    ``None``: there is too little of it to see, or nothing of the kinds that are *telling*.
    """
    counts = timeline.counts
    found = [sum(each) for each in zip(*counts, strict=True)]
    if len(counts) < MIN_PARTS or not any(found[kind] for kind in telling):
        return None
    most_above = max(sum(each[one.kind] for one in above) for each in counts)
    most_below = max(sum(each[one.kind] for one in below) for each in counts)
    scale = HEIGHT / (most_above + most_below)
    line = most_above * scale
    step = WIDTH / len(counts)
    bars = []
    for part, each in enumerate(counts):
        words = [moment(timeline.start + part * timeline.width)]
        parts = []
        upper = lower = line
        for one in (*above, *below):
            number_of = each[one.kind]
            if not number_of:
                continue
            words.append(f"{number(number_of)} {one.short}")
            height = number_of * scale
            at = lower
            if one in below:
                lower += height
            else:
                upper -= height
                at = upper
            parts.append((one.name, _coordinate(at), _coordinate(height)))
        if parts:
            bars.append(
                Bar(
                    x=_coordinate(part * step),
                    width=_coordinate(step * 0.9),
                    parts=parts,
                    title=", ".join(words),
                )
            )
    return BarChart(
        bars=bars,
        line=_coordinate(line),
        most_above=most_above,
        most_below=most_below,
        width=timeline.width,
        times=_times(timeline.start, len(counts) * timeline.width),
        legend=[one for one in (*above, *below) if found[one.kind]],
    )


def has_chart(gaps: Gaps) -> bool:
    return gaps.count >= MIN_GAPS or bool(gaps.short)


def host_chart(gaps: Gaps) -> HostChart:
    points = list(gaps.points())
    delay = max(point.delay for point in points)
    longest = max(point.gap for point in points)
    if delay:
        top = delay * (2 if longest <= delay * 2 else MAX_DELAYS)
    else:
        usual = sorted(point.gap for point in points)
        top = min(longest, usual[ceil(USUAL_PART * (len(usual) - 1))] * 1.5) or 1.0
    start = points[0].time - points[0].gap  # of the request before
    span = max(points[-1].time - start, 0.001)
    dots: dict[str, list[str]] = {"kept": [], "short": [], "longer": []}
    for point in points:
        kind = "short" if point.short else "longer" if point.gap > top else "kept"
        x = (point.time - start) / span * WIDTH
        y = HEIGHT - min(point.gap / top, 1.0) * HEIGHT
        # A line of next to no length with caps: a dot, however the chart is stretched.
        dots[kind].append(f"M{_coordinate(x)} {_coordinate(y)}h.1")
    return HostChart(
        band=_band(points, start, span, top) if delay else "",
        kept="".join(dots["kept"]),
        short="".join(dots["short"]),
        longer="".join(dots["longer"]),
        top=seconds(top),
        half=seconds(top / 2),
        times=_times(start, span),
    )


def _band(points: list[Point], start: float, span: float, top: float) -> str:
    """Return the area below the delay, which may have changed from request to request."""
    path = [f"M0 {HEIGHT}"]
    before = ""
    for point in points:
        y = _coordinate(HEIGHT - min(point.delay / top, 1.0) * HEIGHT)
        if y != before:
            path.append(f"V{y}")
            before = y
        path.append(f"H{_coordinate((point.time - start) / span * WIDTH)}")
    return "".join([*path, f"V{HEIGHT}z"])


def _times(start: float, span: float) -> list[str]:
    return [
        clock(start + span * number / (TIME_LABELS - 1), span)
        for number in range(TIME_LABELS)
    ]


def _coordinate(value: float) -> str:
    """Return a coordinate, to a tenth of a unit."""
    return f"{value:.1f}".removesuffix(".0")
