"""What a crawl did about robots.txt, from its audit (REP_AUDIT_URI).

The door is one function::

    audit = make(["audit-1.jsonl.gz", "audit-2.jsonl"], "report.html")
    audit = make(["new.jsonl"], "-", form="json", against=["old.jsonl"])

*form* is ``"html"``, a page that loads nothing (it needs Jinja2, the extra ``report``: without it
``ImportError``), ``"json"``, the sums and those of each host, or ``"csv"``, a line for each host.
``"-"`` is standard input, or output. Whatever cannot be done raises ``AuditError``.
"""

from __future__ import annotations

import csv
import json
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from scrapy_rep.protocol.printable import printable
from scrapy_rep.report.audit import Audit, changes
from scrapy_rep.report.reader import AuditError, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["AuditError", "make", "size_of"]

FORMULA_STARTS = ("=", "+", "-", "@")
"""What makes spreadsheets take a text for a formula."""


def make(
    audits: Sequence[str],
    output: str,
    *,
    form: str = "html",
    against: Sequence[str] = (),
    chosen: Iterable[str] = (),
    progress: Callable[[int], None] = lambda octets: None,
) -> Audit:
    """Read *audits*, those of one crawl, and write what they come to; return the audit.

    *against* are those of an earlier crawl: what has changed since is told. Hosts that are
    *chosen* are shown in any case. *progress* takes the octets read since its last call;
    ``size_of`` tells how many there will be. The output appears whole or not at all.
    """
    write: Callable[..., None] = write_json if form == "json" else write_csv
    if form == "html":
        from scrapy_rep.report import page  # noqa: PLC0415 - Jinja2 is an extra

        write = page.write
    with ExitStack() as stack:
        out = stack.enter_context(_written(output, [*audits, *against]))
        audit = stack.enter_context(Audit(audits, progress, chosen))
        before = stack.enter_context(Audit(against, progress)) if against else None
        write(out, audit, before)
        return audit


@contextmanager
def _written(output: str, audits: Sequence[str]) -> Iterator[TextIO]:
    """Yield what becomes *output* at its end."""
    if output == "-":
        yield sys.stdout
        return
    path = Path(output)
    others = [Path(name) for name in audits if name != "-"]
    if path.exists() and any(path.samefile(each) for each in others if each.exists()):
        raise AuditError("output", output, "an audit", "another file")
    if path.is_dir():
        raise AuditError("output", output, "a directory", "a file to write")
    if path.exists() and not path.is_file():
        # A device or a pipe, such as /dev/null: a file must not take its place.
        try:
            with path.open("w", encoding="utf-8", newline="\n") as out:
                yield out
        except OSError as error:
            raise AuditError("output", output, error.strerror, "more room") from None
        return
    path = path.resolve()  # what a link names is replaced, not the link
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as out:
            yield out
        part.replace(path)
    except OSError as error:
        raise AuditError("output", output, error.strerror, "a file to write") from None
    finally:
        part.unlink(missing_ok=True)


def write_json(out: TextIO, audit: Audit, before: Audit | None) -> None:
    first, last = audit.span
    names = ("own_delay", "records", "sums", "causes", "unsent", "runs")
    found = {
        "conclusion": [said._asdict() for said in audit.conclusion],
        "first": first,
        "last": last,
        **{name: getattr(audit, name) for name in names},
        **({"changes": changes(before, audit)} if before else {}),
        "hosts": audit.hosts(),
    }
    json.dump(found, out, indent=1)
    out.write("\n")


def write_csv(out: TextIO, audit: Audit, before: object) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(audit.values("SELECT name FROM pragma_table_info('host')"))
    for host in audit.hosts():
        name = printable(host.pop("name"))
        mark = "'" if name.startswith(FORMULA_STARTS) else ""
        writer.writerow([mark + name, *host.values()])
