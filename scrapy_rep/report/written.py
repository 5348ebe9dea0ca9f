"""The forms in which an audit's sums are written: a page, JSON, CSV."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

from scrapy_rep.protocol.printable import printable
from scrapy_rep.report.changes import changes

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from scrapy_rep.report.audit import Audit

    Hosts = frozenset[str]

FORMULA_STARTS = ("=", "+", "-", "@")
"""What makes spreadsheets take a text for a formula."""


def write_json(out: TextIO, audit: Audit, before: Audit | None, chosen: Hosts) -> None:
    first, last = audit.span
    names = ("own_delay", "records", "sums", "causes", "unsent", "runs")
    found = {
        "conclusion": [said._asdict() for said in audit.conclusion],
        "first": first,
        "last": last,
        **{name: getattr(audit, name) for name in names},
        **({"changes": changes(before, audit)} if before else {}),
        "hosts": audit.hosts(chosen),
    }
    json.dump(found, out, indent=1)
    out.write("\n")


def write_csv(out: TextIO, audit: Audit, before: Audit | None, chosen: Hosts) -> None:
    """Write a line for each host. What a sheet would compute is marked as text."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(audit.values("SELECT name FROM pragma_table_info('host')"))
    for host in audit.hosts(chosen):
        name = printable(host.pop("name"))
        mark = "'" if name.startswith(FORMULA_STARTS) else ""
        writer.writerow([mark + name, *host.values()])


FORMS = ("html", "json", "csv")


def writer_of(form: str) -> Callable[..., None]:
    """Return what writes a *form*, one of FORMS. Raises ``ImportError`` where Jinja2 is missing."""
    if form == "html":
        from scrapy_rep.report.page import write  # noqa: PLC0415 - Jinja2 is an extra

        return write
    return {"json": write_json, "csv": write_csv}[form]
