"""Selects the hosts and robots.txt files that a page shows: the most telling ones."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.evidence.report.bodies import excerpt
from scrapy_rep.evidence.report.charts import has_chart, host_chart
from scrapy_rep.evidence.report.wording import CAUSE_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.evidence.report.bodies import Bodies, Excerpt
    from scrapy_rep.evidence.report.charts import HostChart
    from scrapy_rep.evidence.report.hosts import Copy, Host, Refusals, Why
    from scrapy_rep.evidence.report.tally import Tally

MAX_NAMED_ORIGINS = 10
"""Origins that are named of those that share a file."""


class Shows(NamedTuple):
    """How much a page shows; what is left out is counted, and said on the page."""

    hosts: int = 2000
    """Rows of the table."""
    detailed: int = 150
    """Hosts with a chart and their refusals."""
    files: int = 100
    runs: int = 50
    sources: int = 50


class File(NamedTuple):
    """A robots.txt that refused something."""

    id: str
    digest: str
    origins: list[str]
    more_origins: int
    refused: int
    excerpt: Excerpt | None
    """None: the audit does not have its text."""

    def anchor(self, line: int | None) -> str:
        """Return where on the page a line is; "" where it is not shown."""
        lines = self.excerpt.lines if self.excerpt else ()
        return f"{self.id}-{line}" if any(line == each.number for each in lines) else ""


class ShownRefusals(NamedTuple):
    """Requests of a host that were refused for one reason, and where that stands."""

    why: Why
    cause: str
    refusals: Refusals
    anchor: str
    """Of the line, on this page; "" where it is not shown."""


class Row(NamedTuple):
    """A host in the table, and below it."""

    host: Host
    id: str
    """Of its details; "" where there are none."""
    copies: list[tuple[str, Copy | None]]
    """The robots.txt of each of its origins."""
    state: str
    lacking: bool
    """The robots.txt of one of them at least was not fetched."""
    chart: HostChart | None
    refusals: list[ShownRefusals]


def rank(host: Host) -> tuple[int, int, int, str]:
    """Order hosts by how much there is to see: short gaps, refusals, requests."""
    return -host.short, -(host.refused + host.sent_anyway), -host.sent, host.name


def has_details(host: Host) -> bool:
    return bool(host.gaps or host.refusals or host.troubles or host.waits)


def rows_and_files(
    tally: Tally, bodies: Bodies, shows: Shows
) -> tuple[list[Row], list[File]]:
    """Return the hosts that are shown, and the files that refused their requests."""
    chosen = tally.chosen
    hosts = heapq.nsmallest(
        shows.hosts + len(chosen),
        tally.hosts.values(),
        key=lambda host: (host.name not in chosen, rank(host)),
    )
    detailed = [host for host in hosts if has_details(host)]
    del detailed[shows.detailed + len(chosen) :]
    ids = {host.name: f"h{number}" for number, host in enumerate(detailed)}
    files = _files_of(detailed, tally, bodies, shows.files)
    by_digest = {file.digest: file for file in files}
    return [
        _row_of(host, ids.get(host.name, ""), tally, by_digest) for host in hosts
    ], files


def _row_of(host: Host, id_: str, tally: Tally, files: dict[str, File]) -> Row:
    copies = [(origin, tally.copies.get(origin)) for origin in host.origins]
    states = Counter(_state_of(copy) for _, copy in copies)
    if len(states) == 1:
        (state,) = states
    else:
        state = ", ".join(f"{count} {name}" for name, count in states.items())
    return Row(
        host=host,
        id=id_,
        copies=copies,
        state=state or "none",
        lacking=not all(copy and copy.state == "fetched" for _, copy in copies),
        chart=host_chart(host.gaps)
        if id_ and host.gaps and has_chart(host.gaps)
        else None,
        refusals=list(_refusals_of(host, files)) if id_ else [],
    )


def _state_of(copy: Copy | None) -> str:
    if copy is None:
        return "not in the audit"
    return copy.state if copy.status is None else f"{copy.state} ({copy.status})"


def _files_of(hosts: list[Host], tally: Tally, bodies: Bodies, most: int) -> list[File]:
    """Return the robots.txt files that refused most requests of *hosts*."""
    lines: dict[str, Counter[int]] = defaultdict(Counter)
    origins: dict[str, dict[str, None]] = defaultdict(dict)
    for host in hosts:
        for why, refusals in (host.refusals or {}).items():
            if why.digest is None or why.line is None:
                continue
            lines[why.digest][why.line] += refusals.count
            for origin in host.origins:
                copy = tally.copies.get(origin)
                if copy is not None and copy.digest == why.digest:
                    origins[why.digest][origin] = None
    chosen = heapq.nsmallest(
        most, lines, key=lambda digest: -sum(lines[digest].values())
    )
    files = []
    for number, digest in enumerate(chosen):
        body = bodies.get(digest)
        named = list(origins[digest])
        files.append(
            File(
                id=f"f{number}",
                digest=digest,
                origins=named[:MAX_NAMED_ORIGINS],
                more_origins=max(0, len(named) - MAX_NAMED_ORIGINS),
                refused=sum(lines[digest].values()),
                excerpt=None if body is None else excerpt(body, lines[digest]),
            )
        )
    return files


def _refusals_of(host: Host, files: dict[str, File]) -> Iterator[ShownRefusals]:
    refusals = host.refusals or {}
    for why in sorted(refusals, key=lambda why: -refusals[why].count):
        file = files.get(why.digest or "")
        yield ShownRefusals(
            why=why,
            cause=CAUSE_WORDS.get(why.cause, why.cause),
            refusals=refusals[why],
            anchor=file.anchor(why.line) if file else "",
        )
