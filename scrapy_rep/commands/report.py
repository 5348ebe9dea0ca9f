"""What a crawl did, as a page, JSON or CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from scrapy_rep import report
from scrapy_rep.protocol.printable import counted, printable

if TYPE_CHECKING:
    import argparse

    from scrapy_rep.commands.terminal import Screen

MAX_BROKEN_LINES = 20
"""Broken lines that are named here; the page names some more."""


def tell(opts: argparse.Namespace, settings: object, screen: Screen) -> int:
    """Write it, and say what came of it; return the exit status.

    Raises ``UsageError`` where an audit cannot be read or the output not be written.
    """
    form = "csv" if opts.csv else "json" if opts.json else "html"
    output = opts.output or "-"
    progress = screen.track(report.size_of([*opts.audit, *opts.against]), "octets")
    try:
        made = report.make(
            opts.audit,
            output,
            form=form,
            against=opts.against,
            chosen=opts.host,
            progress=progress.add,
        )
    except report.AuditError as error:
        raise UsageError(str(error)) from None
    for trouble in made.troubles[:MAX_BROKEN_LINES]:
        screen.complain(f"warning: {trouble}")
    if made.broken > MAX_BROKEN_LINES:
        screen.complain(
            f"warning: and {made.broken - MAX_BROKEN_LINES:,} more lines that are broken"
        )
    if made.torn:
        screen.complain(
            f"warning: {made.torn:,} of {len(opts.audit):,} files end in a torn line, "
            "as after a kill; it is ignored"
        )
    for host in made.missing:
        screen.complain(f"warning: --host is {host!r}, expected a host of the audits")
    if output != "-":
        records, hosts = counted(made.records, "record"), counted(made.hosts, "host")
        screen.sum_up(printable(f"{output}: {records} of {hosts}"))
        screen.sum_up(made.conclusion[0])
    return 0
