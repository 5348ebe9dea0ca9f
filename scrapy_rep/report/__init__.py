"""What a crawl did about robots.txt, from its audit (REP_AUDIT_URI).

The door is one function::

    made = make(["audit-1.jsonl.gz", "audit-2.jsonl"], "report.html")
    made = make(["new.jsonl"], "-", form="json", against=["old.jsonl"])

*form*, one of FORMS, is ``"html"``, a page that loads nothing (it needs Jinja2, the extra
``report``: without it ``ImportError``), ``"json"``, the sums and those of each host, or ``"csv"``,
a line for each host. ``"-"`` as an audit is
standard input, as output standard output. Whatever cannot be done raises ``AuditError``, whose
text says what was given and what was expected: also where a file is no audit.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from scrapy_rep.report.audit import Audit
from scrapy_rep.report.reader import AuditError, size_of
from scrapy_rep.report.written import FORMS, writer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["FORMS", "AuditError", "Made", "make", "size_of"]


class Made(NamedTuple):
    """What came of it, for whoever asked."""

    conclusion: list[str]
    """Sentences; the first tells whether rules and delays were kept."""
    records: int
    hosts: int
    troubles: list[str]
    """The first lines that cannot be read: file, line and what."""
    broken: int
    """How many there are."""
    torn: int
    """Files whose last line was torn, as after a kill."""
    missing: list[str]
    """Chosen hosts that the audits do not have."""


def make(
    audits: Sequence[str],
    output: str,
    *,
    form: str = "html",
    against: Sequence[str] = (),
    chosen: Iterable[str] = (),
    progress: Callable[[int], None] = lambda octets: None,
) -> Made:
    """Read *audits*, those of one crawl, and write what they come to.

    *against* are the audits of an earlier crawl: what has changed since is told, too. Hosts that
    are *chosen* are shown in any case, however many there are. *progress* takes the octets that
    were read since it was called last; ``size_of`` tells how many there will be. The output
    appears whole or not at all.
    """
    write = writer_of(form)
    with ExitStack() as stack:
        out = stack.enter_context(_written(output, [*audits, *against]))
        audit = stack.enter_context(Audit(audits, progress))
        before = stack.enter_context(Audit(against, progress)) if against else None
        hosts = frozenset(chosen)
        known = "SELECT 1 FROM host WHERE name = ?"
        write(out, audit, before, hosts)
        return Made(
            conclusion=[said.text for said in audit.conclusion],
            records=audit.records,
            hosts=audit.sums["hosts"],
            troubles=audit.troubles,
            broken=audit.sums["broken"],
            torn=sum(source.torn for source in audit.sources),
            missing=[name for name in sorted(hosts) if not audit.values(known, name)],
        )


@contextmanager
def _written(output: str, audits: Sequence[str]) -> Iterator[TextIO]:
    """Yield what is to be written; it becomes *output* once that has come to its end."""
    if output == "-":
        yield sys.stdout
        return
    path = Path(output)
    others = [Path(name) for name in audits if name != "-"]
    if path.exists() and any(path.samefile(each) for each in others if each.exists()):
        raise AuditError("output", output, "an audit", "another file")
    if path.is_dir():
        raise AuditError("output", output, "a directory", "a file to write")
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as out:
            yield out
        part.replace(path)
    except OSError as error:
        raise AuditError("output", output, error.strerror, "a file to write") from None
    finally:
        part.unlink(missing_ok=True)
