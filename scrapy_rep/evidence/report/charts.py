"""Where things stand in the charts: numbers for the SVG of the page.

A chart is drawn in a box of WIDTH by HEIGHT that the page stretches to what room there
is; all words stand outside it, where they keep their size.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.evidence.report.hosts import PAGES_SENT, REFUSALS, ROBOTS_SENT
from scrapy_rep.evidence.report.wording import clock, moment, number, seconds

if TYPE_CHECKING:
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


class Bar(NamedTuple):
    """What happened in one part of the time: heights above and below the line."""

    x: str
    width: str
    pages: tuple[str, str]
    robots: tuple[str, str]
    refused: tuple[str, str]
    """Upper edge and height."""
    title: str


class CrawlChart(NamedTuple):
    bars: list[Bar]
    line: str
    """Height of the line between what was sent and what was refused."""
    most_sent: int
    most_refused: int
    width: float
    """Seconds of one bar."""
    times: list[str]


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


def crawl_chart(timeline: Timeline) -> CrawlChart | None:
    counts = timeline.counts
    if len(counts) < MIN_PARTS:
        return None
    most_sent = max(each[PAGES_SENT] + each[ROBOTS_SENT] for each in counts)
    most_refused = max(each[REFUSALS] for each in counts)
    scale = HEIGHT / (most_sent + most_refused)
    line = most_sent * scale
    step = WIDTH / len(counts)
    bars = []
    for part, each in enumerate(counts):
        if not any(each):
            continue
        pages, robots, refused = (
            each[what] * scale for what in (PAGES_SENT, ROBOTS_SENT, REFUSALS)
        )
        words = [moment(timeline.start + part * timeline.width)]
        for what, name in (
            (PAGES_SENT, "sent"),
            (ROBOTS_SENT, "robots.txt"),
            (REFUSALS, "refused"),
        ):
            if each[what]:
                words.append(f"{number(each[what])} {name}")
        bars.append(
            Bar(
                x=_coordinate(part * step),
                width=_coordinate(step * 0.9),
                pages=(_coordinate(line - pages), _coordinate(pages)),
                robots=(_coordinate(line - pages - robots), _coordinate(robots)),
                refused=(_coordinate(line), _coordinate(refused)),
                title=", ".join(words),
            )
        )
    return CrawlChart(
        bars=bars,
        line=_coordinate(line),
        most_sent=most_sent,
        most_refused=most_refused,
        width=timeline.width,
        times=_times(timeline.start, len(counts) * timeline.width),
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
