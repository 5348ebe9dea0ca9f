"""A page of what a crawl did: ``--report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from scrapy_rep.evidence import report as audit_report
from scrapy_rep.protocol.printable import counted, printable

if TYPE_CHECKING:
    from scrapy_rep.commands.options import Options
    from scrapy_rep.commands.terminal import Screen
    from scrapy_rep.evidence.report import Made

MAX_BROKEN_LINES = 20
"""Broken lines that are named here; the page names some more."""


def report(options: Options, screen: Screen) -> int:
    """Write the page, and say what came of it; return the exit status.

    Raises ``UsageError`` where an audit cannot be read or the page not be written.
    """
    assert options.audits is not None
    assert options.output is not None
    total = audit_report.size_of(options.audits)
    try:
        with screen.track(total, "B") as progress:
            made = audit_report.make(
                options.audits,
                Path(options.output),
                chosen=options.hosts,
                progress=progress.add,
            )
    except audit_report.AuditError as error:
        raise UsageError(str(error), print_help=False) from None
    for trouble in made.troubles[:MAX_BROKEN_LINES]:
        screen.complain(f"warning: {trouble}")
    if made.broken > MAX_BROKEN_LINES:
        screen.complain(
            f"warning: and {made.broken - MAX_BROKEN_LINES:,} more lines that are broken"
        )
    if made.torn:
        screen.complain(
            f"warning: {made.torn:,} of {len(options.audits):,} files end in a torn line, "
            "as after a kill; it is ignored"
        )
    for host in made.missing:
        screen.complain(f"warning: --host is {host!r}, expected a host of the audits")
    screen.write(printable(summary(options.output, made)))
    return 0


def summary(page: str, made: Made) -> str:
    records, hosts = counted(made.records, "record"), counted(made.hosts, "host")
    return f"{page}: {records} of {hosts}"
