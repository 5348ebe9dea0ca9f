"""Makes one HTML page of bounded size of an audit, and its charts. The words are in the template."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter, defaultdict
from datetime import timedelta
from functools import cache
from hashlib import sha256
from itertools import pairwise
from math import ceil, floor, log10
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from scrapy_rep.protocol import __version__, parse
from scrapy_rep.protocol.printable import counted, first_of, lines_around, printable
from scrapy_rep.report.audit import (
    EPOCH,
    EXEMPT,
    KEPT_PART,
    changes,
    gap,
    moment,
    seconds,
    shortened,
    texts_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TextIO

    from scrapy_rep.report.audit import Audit, Row

MAX_WHOLE_LINES = 40
LINES_AROUND = 3
"""Lines shown around one that decided, where a file is longer than that."""
MAX_MARKED_LINES = 15
DETAILS = {
    "copies": "SELECT * FROM site WHERE host = ? ORDER BY origin LIMIT 9",
    "results": "SELECT * FROM result WHERE host = ? ORDER BY answers DESC, result LIMIT 6",
    "pauses_by": "SELECT * FROM pause WHERE host = ? ORDER BY answers DESC, result LIMIT 6",
    "waits": "SELECT * FROM waiting WHERE host = ? ORDER BY time DESC LIMIT 3",
    "reasons": "SELECT * FROM reason WHERE host = ? ORDER BY requests DESC LIMIT 12",
}
STATES = "SELECT * FROM site_state WHERE host = ? ORDER BY number DESC"
EXAMPLES = """
    SELECT DISTINCT url FROM decision WHERE host = ? AND NOT allowed
    AND cause IS ? AND rule IS ? AND line IS ? AND digest IS ? LIMIT 3
"""


class Shows(NamedTuple):
    """How much a page shows; what is left out is counted, and said on the page."""

    hosts: int = 2000
    detailed: int = 150
    files: int = 100
    runs: int = 50
    sources: int = 50


def write(
    out: TextIO,
    audit: Audit,
    before: Audit | None = None,
    shows: Shows | None = None,
) -> None:
    shows = shows or Shows()
    files = files_of(audit, shows.files)
    hosts = audit.hosts(shows.hosts)
    anchors = {
        (file["digest"], line["number"]): f"{file['id']}-{line['number']}"
        for file in files
        for line in file["lines"]
    }
    for number, host in enumerate(hosts):
        host["states"] = audit.rows(STATES, host["name"])
        host["id"] = f"h{number}" if number < shows.detailed + len(audit.chosen) else ""
        if host["id"]:
            _detail(audit, host, anchors)
    template = _environment().get_template("page.html")
    page = template.generate(
        audit=audit,
        before=before,
        changes=changes(before, audit) if before else None,
        charts=charts(audit),
        files=files,
        hosts=hosts,
        peaks=audit.rows("SELECT * FROM peak ORDER BY most DESC LIMIT 6"),
        number_of_files=audit.values("SELECT COUNT(*) FROM refusing_file")[0],
        shows=shows,
    )
    out.writelines(page)


@cache
def _environment() -> Environment:
    # All that is put into the page is visible, and escaped.
    env = Environment(
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
        loader=FileSystemLoader(Path(__file__).parent),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    shown = {each.__name__: each for each in (gap, moment, seconds, shortened)}
    env.filters.update(shown, as_json=json.dumps, hash=_hash, names=_names)
    env.filters["number"] = "{:,}".format
    env.globals.update(
        plural=counted, kept=KEPT_PART, version=__version__, EXEMPT=EXEMPT
    )
    return env


def _detail(audit: Audit, host: Row, anchors: dict[tuple[str, int], str]) -> None:
    host["chart"] = host_chart(audit, host)
    for what, sql in DETAILS.items():
        host[what] = audit.rows(sql, host["name"])
    for each in host["reasons"]:
        of = (each[part] for part in ("host", "cause", "rule", "line", "digest"))
        each["examples"] = audit.values(EXAMPLES, *of)
        tokens = json.loads(each["tokens"] or "[]")[:20]
        each["tokens"] = ", ".join(map(str, tokens))
        each["anchor"] = anchors.get((each["digest"], each["line"]), "")


def _names(names: Iterable[str | None]) -> str:
    found = list(dict.fromkeys(filter(None, names)))
    return shortened(", ".join(first_of(found, 5)))


def _hash(asset: str) -> str:
    """Return what a Content-Security-Policy knows an inline style or script by."""
    return "sha256-" + b64encode(sha256(asset.encode()).digest()).decode()


def files_of(audit: Audit, most: int) -> list[Row]:
    sql = "SELECT * FROM refusing_file ORDER BY refused DESC, digest LIMIT ?"
    files = audit.rows(sql, most)
    for number, file in enumerate(files):
        digest = file["digest"]
        file["id"] = f"f{number}"
        sql = "SELECT DISTINCT origin FROM copy WHERE digest = ? ORDER BY 1"
        file["origins"] = audit.values(sql, digest)
        lines = audit.rows("SELECT * FROM refusing_line WHERE digest = ?", digest)
        refused = {row["line"]: row["refused"] for row in lines}
        file.update(_excerpt(texts_of(audit, digest) or [], refused))
    return files


def _excerpt(texts: list[str], refused: dict[int, int]) -> Row:
    """Return the lines of a file that are shown, and how many that decided are not.

    *refused* are the lines that decided, with how many requests. ``skipped`` are those left out
    before one, and at the end; ``missing`` stand in the audit only.
    """
    there = {number for number in refused if number and number <= len(texts)}
    often = sorted(there, key=lambda number: (-refused[number], number))
    shown = _shown_lines(texts, often[:MAX_MARKED_LINES])
    return {
        "lines": [
            {
                "number": number,
                "text": texts[number - 1],
                "refused": refused.get(number, 0),
                "skipped": number - before - 1,
            }
            for before, number in pairwise([0, *shown])
        ],
        "skipped": len(texts) - max(shown, default=0),
        "unmarked": len(there - set(shown)),
        "missing": sorted(refused.keys() - there) if texts else [],
    }


def _shown_lines(texts: list[str], marked: list[int]) -> list[int]:
    if len(texts) <= MAX_WHOLE_LINES:
        return list(range(1, len(texts) + 1))
    starts = [group.line for group in parse("\n".join(texts)).groups]
    return lines_around(marked, starts, LINES_AROUND, len(texts))


# Charts, in units of what they show: the page stretches them. Axes have round steps.


MAX_PARTS = 120
MIN_PARTS = 8
"""A crawl of fewer is over too soon to be drawn."""
MAX_POINTS = 96
MIN_GAPS = 3
"""Of fewer gaps the figures say it all."""
MAX_DELAYS = 4
"""So many delays a chart of gaps is high at the most; longer gaps stand at its edge."""
USUAL_PART = 0.95
"""Where no delay is asked for, so many of the gaps are within the chart."""
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
SERIES = ("sent", "robots", "refused", "answered", "failed", "alone", "waiting")
BELOW = {"refused", "alone"}
SENT, ANSWERS = "Requests sent and refused", "Answers, and hosts left alone"
WAITING, GAPS = "Requests waiting", "Gaps between requests"
PATHS = ("band", "own", "kept", "longer", "short")
"""What a chart of gaps draws, the uppermost last."""

Counts = dict[int, Counter[str]]
Tick = tuple[float, str]


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
    width: float = 0.0
    """Seconds of a bar."""
    bars: list[tuple[int, list[tuple[str, int, int]]]] = []
    """Place, and of each piece class, upper edge and number."""
    paths: dict[str, str] = {}
    """By class."""
    group: int = 1
    """Each dot is one of so many requests."""


def charts(audit: Audit) -> list[Chart]:
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
    """``None``: there are too few gaps."""
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
