"""Where things stand in the pictures: numbers for the SVG of the page.

A picture is drawn in a box of WIDTH by HEIGHT that the page stretches to what room there
is; all words stand outside it, where they keep their size.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.evidence.report.hosts import BUCKETS, REFUSED, ROBOTS, SENT
from scrapy_rep.evidence.report.wording import clock, moment, number, seconds

if TYPE_CHECKING:
    from scrapy_rep.evidence.report.gaps import Gaps, Point
    from scrapy_rep.evidence.report.hosts import Timeline

WIDTH, HEIGHT = 1000, 200
DELAYS = 4
"""So many delays a picture of gaps is high at the most; longer gaps stand at its edge."""
USUAL = 0.95
"""Where no delay is asked for, so many of the gaps are within it."""
LABELS = 5


class Bar(NamedTuple):
    """What happened in one part of the time: heights above and below the line."""

    x: str
    width: str
    pages: tuple[str, str]
    robots: tuple[str, str]
    refused: tuple[str, str]
    """Upper edge and height."""
    title: str


class OfCrawl(NamedTuple):
    bars: list[Bar]
    line: str
    """Height of the line between what was sent and what was refused."""
    most_sent: int
    most_refused: int
    width: float
    """Seconds of one bar."""
    times: list[str]


class OfHost(NamedTuple):
    band: str
    """Path of the area below the delay; "" where none was asked for."""
    kept: str
    short: str
    longer: str
    """Paths of dots: gaps that kept the delay, that did not, that are out of the picture."""
    top: str
    half: str
    """Words for the gaps at the upper edge, and half way."""
    times: list[str]


def of_crawl(timeline: Timeline) -> OfCrawl | None:
    counts = timeline.counts
    if not counts:
        return None
    most_sent = max(each[SENT] + each[ROBOTS] for each in counts)
    most_refused = max(each[REFUSED] for each in counts)
    scale = HEIGHT / (most_sent + most_refused)
    line = most_sent * scale
    # A crawl of a few seconds is not drawn as a wall: there is room for some more.
    step = WIDTH / max(len(counts), BUCKETS // 6)
    bars = []
    for part, each in enumerate(counts):
        if not any(each):
            continue
        pages, robots, refused = (
            each[what] * scale for what in (SENT, ROBOTS, REFUSED)
        )
        words = [moment(timeline.start + part * timeline.width)]
        for what, name in (
            (SENT, "sent"),
            (ROBOTS, "robots.txt"),
            (REFUSED, "refused"),
        ):
            if each[what]:
                words.append(f"{number(each[what])} {name}")
        bars.append(
            Bar(
                x=_n(part * step),
                width=_n(step * 0.9),
                pages=(_n(line - pages), _n(pages)),
                robots=(_n(line - pages - robots), _n(robots)),
                refused=(_n(line), _n(refused)),
                title=", ".join(words),
            )
        )
    return OfCrawl(
        bars=bars,
        line=_n(line),
        most_sent=most_sent,
        most_refused=most_refused,
        width=timeline.width,
        times=_times(timeline.start, WIDTH / step * timeline.width),
    )


def of_host(gaps: Gaps) -> OfHost:
    points = list(gaps.points())
    delay = max(point.delay for point in points)
    longest = max(point.gap for point in points)
    if delay:
        top = delay * (2 if longest <= delay * 2 else DELAYS)
    else:
        usual = sorted(point.gap for point in points)
        top = min(longest, usual[ceil(USUAL * (len(usual) - 1))] * 1.5) or 1.0
    start = points[0].time - points[0].gap  # of the request before
    span = max(points[-1].time - start, 0.001)
    dots: dict[str, list[str]] = {"kept": [], "short": [], "longer": []}
    for point in points:
        kind = "short" if point.short else "longer" if point.gap > top else "kept"
        x = (point.time - start) / span * WIDTH
        y = HEIGHT - min(point.gap / top, 1.0) * HEIGHT
        # A line of next to no length with caps: a dot, however the picture is stretched.
        dots[kind].append(f"M{_n(x)} {_n(y)}h.1")
    return OfHost(
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
        y = _n(HEIGHT - min(point.delay / top, 1.0) * HEIGHT)
        if y != before:
            path.append(f"V{y}")
            before = y
        path.append(f"H{_n((point.time - start) / span * WIDTH)}")
    return "".join([*path, f"V{HEIGHT}z"])


def _times(start: float, span: float) -> list[str]:
    return [
        clock(start + span * number / (LABELS - 1), span) for number in range(LABELS)
    ]


def _n(value: float) -> str:
    """Return a coordinate, to a tenth of a unit."""
    return f"{value:.1f}".removesuffix(".0")
