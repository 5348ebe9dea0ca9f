"""Audits of records, read."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from scrapy_rep.report.audit import Audit
from tests.audits import START, line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.audits import Record

BODY = "User-agent: *\nCrawl-delay: 1\nDisallow: /p\nDisallow: /q\n"


def at(seconds: float) -> float:
    return START + seconds


@contextmanager
def audit_of(*files: Iterable[Record]) -> Iterator[Audit]:
    """Yield the audit of *files*, each some records."""
    with TemporaryDirectory() as folder:
        names = []
        for number, records in enumerate(files):
            path = Path(folder, f"{number}.jsonl")
            path.write_bytes(b"".join(map(line, records)))
            names.append(str(path))
        with Audit(names) as audit:
            yield audit


def only_host(*records: Record) -> dict[str, Any]:
    """Return the figures of the one host of some records."""
    with audit_of(records) as audit:
        (host,) = audit.hosts()
        return host
