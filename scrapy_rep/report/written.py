"""The forms in which an audit's sums are written: a page, JSON, CSV."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

from scrapy_rep.protocol.printable import printable
from scrapy_rep.report.changes import changes

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from scrapy_rep.report.audit import Audit

    Writer = Callable[[TextIO, Audit, Audit | None, frozenset[str]], None]

FORMULA_STARTS = ("=", "+", "-", "@")
"""What makes spreadsheets take a text for a formula."""


def facts(audit: Audit, before: Audit | None) -> dict[str, Any]:
    """Return all that JSON has but the hosts."""
    first, last = audit.span
    found = {
        "conclusion": [said._asdict() for said in audit.conclusion],
        "first": first,
        "last": last,
        "own_delay": audit.own_delay,
        "records": audit.records,
        "sums": audit.sums,
        "causes": audit.causes,
        "unsent": audit.unsent,
        "runs": audit.runs,
    }
    return found if before is None else {**found, "changes": changes(before, audit)}


def write_json(
    out: TextIO, audit: Audit, before: Audit | None, chosen: frozenset[str]
) -> None:
    found = {**facts(audit, before), "hosts": audit.hosts(chosen)}
    json.dump(found, out, indent=1)
    out.write("\n")


def write_csv(
    out: TextIO, audit: Audit, before: Audit | None, chosen: frozenset[str]
) -> None:
    """Write a line for each host. What a sheet would compute is marked as text."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(audit.values("SELECT name FROM pragma_table_info('host')"))
    for host in audit.hosts(chosen):
        name = printable(host.pop("name"))
        writer.writerow(
            [f"'{name}" if name.startswith(FORMULA_STARTS) else name, *host.values()]
        )


FORMS = ("html", "json", "csv")


def writer_of(form: str) -> Writer:
    """Return what writes a *form*, one of FORMS. Raises ``ImportError`` where Jinja2 is missing."""
    if form == "html":
        from scrapy_rep.report.page import write  # noqa: PLC0415 - Jinja2 is an extra

        return write
    return {"json": write_json, "csv": write_csv}[form]
