"""Makes one HTML page of bounded size from the figures of an audit."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from scrapy_rep import __version__
from scrapy_rep.evidence.report import wording
from scrapy_rep.evidence.report.charts import (
    ANSWERED_ABOVE,
    BACK_OFFS_BELOW,
    HEIGHT,
    REFUSED_BELOW,
    SENT_ABOVE,
    WAITING_ABOVE,
    WIDTH,
    bar_chart,
)
from scrapy_rep.evidence.report.gaps import KEPT_PART
from scrapy_rep.evidence.report.hosts import BACK_OFFS, FAILING, SILENT, WAIT_CAUSES
from scrapy_rep.evidence.report.selection import has_details, rows_and_files
from scrapy_rep.protocol.printable import counted, printable

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator
    from typing import TextIO

    from scrapy_rep.evidence.report.bodies import Bodies
    from scrapy_rep.evidence.report.charts import BarChart
    from scrapy_rep.evidence.report.gaps import Gaps
    from scrapy_rep.evidence.report.hosts import Host
    from scrapy_rep.evidence.report.reader import Files
    from scrapy_rep.evidence.report.selection import Row, Shows
    from scrapy_rep.evidence.report.tally import Tally

TEMPLATES = Path(__file__).parent / "templates"


class Sums(NamedTuple):
    """What all hosts come to together."""

    sent: int
    robots: int
    allowed: int
    refused: int
    sent_anyway: int
    gaps: int
    short: int

    @classmethod
    def of(cls, hosts: list[Host]) -> Sums:
        return cls(
            sent=sum(host.sent for host in hosts),
            robots=sum(host.robots for host in hosts),
            allowed=sum(host.allowed for host in hosts),
            refused=sum(host.refused for host in hosts),
            sent_anyway=sum(host.sent_anyway for host in hosts),
            gaps=sum(host.gaps.count for host in hosts if host.gaps),
            short=sum(host.short for host in hosts),
        )


def write(
    out: TextIO, tally: Tally, bodies: Bodies, files: Files, shows: Shows
) -> None:
    """Write the page of an audit that was read to its end."""
    template = environment().get_template("report.html")
    out.writelines(template.generate(**content(tally, bodies, files, shows)))


@cache
def environment() -> Environment:
    """Return what renders the page: all that is put into it is visible, and escaped."""
    env = Environment(
        autoescape=True,
        finalize=_visible,
        loader=FileSystemLoader(TEMPLATES),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    env.filters.update(
        number=wording.number, seconds=wording.seconds, moment=wording.moment
    )
    env.globals.update(plural=counted, median=_median_in_words)
    return env


def _visible(value: object) -> object:
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value


def _median_in_words(gaps: Gaps) -> str:
    median = gaps.median
    if gaps.exact or median is None:
        return wording.seconds(median)
    return f"≈ {wording.seconds(float(f'{median:.3g}'))}"


def content(tally: Tally, bodies: Bodies, files: Files, shows: Shows) -> dict[str, Any]:
    """Return the names that the template knows."""
    tally.place_copies()
    rows, robots = rows_and_files(tally, bodies, shows)
    sums = Sums.of([*tally.hosts.values(), tally.others])
    style, script = _asset("report.css"), _asset("report.js")
    return {
        "aborted": _in_words(tally.aborted, wording.CAUSE_WORDS),
        "agents": _names(run.agent for run in tally.runs),
        "anyway": _in_words(tally.sent_anyway, wording.CAUSE_WORDS),
        "causes": _in_words(tally.refused, wording.CAUSE_WORDS),
        "conclusion": _conclusion(tally, sums, list(tally.hosts.values())),
        "crawl": _names(run.spider for run in tally.runs) or "A crawl",
        "day": "" if tally.first is None else wording.moment(tally.first)[:10],
        "dropped": _in_words(tally.dropped, wording.DROPPED_WORDS),
        "files": files,
        "height": HEIGHT,
        "hosts": _number_of_hosts(tally),
        "kept": KEPT_PART,
        "left_out": [
            *_left_out_of_hosts(tally, rows, sums),
            *_left_out_of_records(tally, bodies, files),
            *_left_out_of_lists(tally, files, shows),
        ],
        "open_runs": sum(run.end is None for run in tally.runs),
        "charts": _charts(tally),
        "notes": _notes_of,
        "results": [
            (f"with status {each}" if each.isdecimal() else each, count)
            for each, count in tally.results.most_common()
        ],
        "robots": robots,
        "rows": rows,
        "runs": tally.runs[: shows.runs],
        "script": script,
        "script_hash": _hash(script),
        "sources": files.sources[: shows.sources],
        "style": style,
        "style_hash": _hash(style),
        "sums": sums,
        "tally": tally,
        "unsent": _in_words(tally.unsent, wording.WAIT_WORDS),
        "version": __version__,
        "width": WIDTH,
    }


def _charts(tally: Tally) -> dict[str, BarChart | None]:
    """Return what happened over time, as far as there is something to see."""
    return {
        "sent": bar_chart(tally.timeline, SENT_ABOVE, REFUSED_BELOW, telling=range(3)),
        "answers": bar_chart(
            tally.answers,
            ANSWERED_ABOVE,
            BACK_OFFS_BELOW,
            telling=(FAILING, SILENT, BACK_OFFS),
        ),
        "waiting": bar_chart(
            tally.waiting, WAITING_ABOVE, telling=range(len(WAIT_CAUSES))
        ),
    }


def _notes_of(host: Host) -> Iterator[str]:
    """Return the sentences on what came of its requests, and why it was not asked."""
    if host.results:
        yield f"Answers: {_by_number(host.results)}"
    if host.troubles:
        why = _by_number(host.troubles)
        yield (
            f"Left alone {counted(host.back_offs, 'time')}, "
            f"{wording.seconds(host.left_alone)} in all: {why}"
        )
    for wait in host.waits or ():
        until = f" until {wording.moment(wait.until)}" if wait.until else ""
        words = wording.WAIT_WORDS.get(wait.cause, wait.cause)
        requests = counted(wait.requests, "request waits", "requests wait")
        yield f"{wording.moment(wait.time)}: {requests}{until} for {words}"


def _by_number(counts: Counter[str]) -> str:
    return ", ".join(f"{name} ({count:,})" for name, count in counts.most_common())


def _conclusion(tally: Tally, sums: Sums, hosts: list[Host]) -> list[str]:
    """Return the sentences on what the crawl comes to, that on the delays first."""
    said = []
    if tally.first is None:
        return ["The audit is empty."]
    if sums.short:
        late = sum(bool(host.short) for host in hosts)
        said.append(
            f"{counted(sums.short, 'request')} came sooner than asked for, at "
            f"{counted(late, 'host')}"
        )
    elif any(host.most for host in hosts):
        said.append("Every delay that was asked for was kept")
    else:
        said.append("No host asked for a delay")
    if sums.sent_anyway:
        said.append(
            f"{counted(sums.sent_anyway, 'request')} went out against robots.txt, "
            "as REP_OBEY says"
        )
    if sums.refused:
        by_rule = tally.refused["rule"]
        refused = f"{counted(sums.refused, 'request')} not sent"
        if by_rule == sums.refused:
            refused += ", as a rule says"
        elif by_rule:
            refused += f", {by_rule:,} of them as a rule says"
        said.append(refused)
    else:
        said.append("No request was refused")
    if tally.back_offs:
        left_alone = sum(bool(host.back_offs) for host in hosts)
        said.append(
            f"{counted(left_alone, 'host was', 'hosts were')} left alone for a time, as "
            "they asked for that or were in trouble"
        )
    unsent = sum(tally.unsent.values())
    if unsent:
        still = counted(unsent, "request was", "requests were")
        said.append(f"{still} still waiting at the end")
    lacking = sum(
        copy.state in {"unreachable", "unknown"} for copy in tally.copies.values()
    )
    if lacking:
        said.append(f"{counted(lacking, 'site')} could not be asked for robots.txt")
    open_runs = sum(run.end is None for run in tally.runs)
    if open_runs:
        said.append(f"{counted(open_runs, 'run')} did not come to an end")
    return [f"{sentence}." for sentence in said]


def _has_requests(host: Host) -> bool:
    """Tell whether any request to *host* is known."""
    return bool(
        host.allowed or host.refused or host.sent_anyway or host.sent or host.robots
    )


def _number_of_hosts(tally: Tally) -> str:
    more = "more than " if _has_requests(tally.others) else ""
    return f"{more}{len(tally.hosts):,}"


def _left_out_of_hosts(tally: Tally, rows: list[Row], sums: Sums) -> Iterator[str]:
    """Return a sentence on each thing that the audit has and the page has not."""
    hosts = len(tally.hosts)
    if hosts > len(rows):
        yield (
            f"The table shows {len(rows):,} of {hosts:,} hosts: those with short gaps "
            "first, then those with most refusals, then those with most requests. The "
            "sums count all of them."
        )
    others = tally.others
    if _has_requests(others):
        refused = others.refused + others.sent_anyway
        yield (
            f"The crawl had more hosts than the {hosts:,} that are told apart here. Of "
            f"the others together, {others.sent:,} pages and {others.robots:,} "
            f"robots.txt were sent for, {others.allowed:,} requests were allowed and "
            f"{refused:,} refused; their gaps are not measured."
        )
    detailed = sum(bool(row.id) for row in rows)
    have_details = sum(map(has_details, tally.hosts.values()))
    if have_details > detailed:
        yield (
            f"{detailed:,} of {have_details:,} hosts are shown in detail, those at the "
            "top of the table."
        )
    refused = sums.refused + sums.sent_anyway
    shown = [each for row in rows for each in row.refusals]
    itemised = sum(each.refusals.count for each in shown)
    if refused > itemised:
        yield (
            f"{itemised:,} of {refused:,} refusals are shown with their reasons; the "
            "others are counted only."
        )
    textless = sum(
        each.refusals.count
        for each in shown
        if each.why.line is not None and not each.anchor
    )
    if textless:
        yield (
            f"For {counted(textless, 'refusal')} of these, the line is named but "
            "not shown in its file."
        )


def _left_out_of_records(tally: Tally, bodies: Bodies, files: Files) -> Iterator[str]:
    if tally.copies_left_out:
        yield (
            f"{counted(tally.copies_left_out, 'record')} of robots.txt copies "
            "belong to origins beyond those that are told apart here."
        )
    if bodies.left_out:
        count = counted(bodies.left_out, "robots.txt file")
        yield f"The text of {count} was not kept."
    if tally.late:
        yield (
            f"{counted(tally.late, 'request')} stood in the audit later than others "
            "that were sent after them, by more than is put in order; the gaps before "
            "them are not measured."
        )
    if tally.unknown:
        yield f"{counted(tally.unknown, 'record')} of unknown types are ignored."
    torn = sum(source.torn for source in files.sources)
    if torn:
        yield (
            f"The last line of {counted(torn, 'file')} was torn, as after a kill, "
            "and is ignored."
        )


def _left_out_of_lists(tally: Tally, files: Files, shows: Shows) -> Iterator[str]:
    runs = len(tally.runs) + tally.runs_left_out
    if runs > shows.runs:
        yield f"{shows.runs:,} of {runs:,} runs are listed."
    if len(files.sources) > shows.sources:
        yield f"{shows.sources:,} of {len(files.sources):,} files are listed."


def _in_words(causes: Counter[str], named: dict[str, str]) -> list[tuple[str, int]]:
    return [(named.get(name, name), count) for name, count in causes.most_common()]


def _names(names: Iterable[str]) -> str:
    """Return the names that differ, the first few of them."""
    found = list(dict.fromkeys(filter(None, names)))
    more = f" and {len(found) - 5:,} more" if len(found) > 5 else ""
    return ", ".join(found[:5]) + more


def _asset(name: str) -> Markup:
    """Return a style sheet or script of ours, which nothing from outside is put into."""
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704


def _hash(asset: str) -> str:
    """Return what a Content-Security-Policy knows an inline style or script by."""
    return "sha256-" + b64encode(sha256(asset.encode()).digest()).decode()
