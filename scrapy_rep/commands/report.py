"""What a crawl did, as a page, JSON or CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from scrapy_rep import report
from scrapy_rep.commands.terminal import Screen, complain
from scrapy_rep.protocol.printable import counted

if TYPE_CHECKING:
    import argparse

MAX_BROKEN_LINES = 20
"""Broken lines that are named here; the page names some more."""


def tell(opts: argparse.Namespace, settings: object, screen: Screen) -> int:
    """Write it, and say what came of it; return the exit status.

    Raises ``UsageError`` where an audit cannot be read or the output not be written.
    """
    form = "csv" if opts.csv else "json" if opts.json else "html"
    output = opts.output or "-"
    progress = screen.track(report.size_of([*opts.audit, *opts.against]), "octets")
    how = {"form": form, "against": opts.against, "chosen": opts.host}
    try:
        made = report.make(opts.audit, output, **how, progress=progress.add)
    except report.AuditError as error:
        raise UsageError(str(error)) from None
    warnings = made.troubles[:MAX_BROKEN_LINES]
    if made.broken > MAX_BROKEN_LINES:
        more = made.broken - MAX_BROKEN_LINES
        warnings.append(f"and {more:,} more lines that are broken")
    if made.torn:
        of = f"{made.torn:,} of {len(opts.audit):,} files"
        warnings.append(f"{of} end in a torn line, as after a kill; it is ignored")
    for host in made.missing:
        warnings.append(f"--host is {host!r}, expected a host of the audits")
    for warning in warnings:
        complain(f"warning: {warning}")
    if output != "-":
        records, hosts = counted(made.records, "record"), counted(made.hosts, "host")
        screen.sum_up(f"{output}: {records} of {hosts}")
        for sentence in made.conclusion:
            screen.sum_up(sentence)
    return 0
