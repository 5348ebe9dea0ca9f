"""An audit (REP_AUDIT_URI) as a page to look at: ``scrapy robots report``.

Needs Jinja2, the extra ``report``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.evidence.report.bodies import Bodies
from scrapy_rep.evidence.report.page import write
from scrapy_rep.evidence.report.reader import AuditError, Files, size_of
from scrapy_rep.evidence.report.selection import Shows
from scrapy_rep.evidence.report.tally import Limits, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scrapy_rep.evidence.report.reader import Broken

__all__ = ["AuditError", "Limits", "Made", "Shows", "make", "size_of"]


class Made(NamedTuple):
    """What came of making a page."""

    records: int
    hosts: int
    troubles: list[Broken]
    """The first broken lines."""
    broken: int
    torn: int
    """Files whose last line was torn."""
    missing: list[str]
    """Chosen hosts that the audits do not have."""


def make(
    audits: Sequence[str],
    page: Path,
    *,
    chosen: Iterable[str] = (),
    progress: Callable[[int], None] = lambda octets: None,
    limits: Limits | None = None,
    shows: Shows | None = None,
) -> Made:
    """Read *audits*, ``"-"`` is standard input, and write their *page*.

    Hosts that are *chosen* are shown in detail however many there are. The page appears
    whole or not at all. Raises ``AuditError`` where an audit cannot be read or the page not
    be written.
    """
    for name in audits:
        if (
            name != "-"
            and page.exists()
            and Path(name).exists()
            and page.samefile(name)
        ):
            msg = f"page is {str(page)!r}, which is an audit, expected another file"
            raise AuditError(msg)
    if page.is_dir():
        msg = f"page is {str(page)!r} (a directory), expected a file to write"
        raise AuditError(msg)
    part = page.with_name(f"{page.name}.part")
    try:
        out = part.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        msg = f"page is {str(page)!r} ({error.strerror}), expected a file to write"
        raise AuditError(msg) from None
    try:
        with out, Bodies() as bodies:
            files = Files(audits, bodies.add, progress)
            tally = Tally(limits or Limits(), frozenset(chosen))
            tally.take(files.records())
            write(out, tally, bodies, files, shows or Shows())
        part.replace(page)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return Made(
        records=tally.records,
        hosts=len(tally.hosts),
        troubles=files.troubles,
        broken=sum(source.broken for source in files.sources),
        torn=sum(source.torn for source in files.sources),
        missing=sorted(tally.chosen - tally.hosts.keys()),
    )
