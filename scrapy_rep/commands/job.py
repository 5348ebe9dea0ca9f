"""What waits in a job."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from scrapy_rep.commands import waits
from scrapy_rep.frontier.last_run import look
from scrapy_rep.protocol.printable import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from scrapy_rep.commands.terminal import Answer, Screen


def tell(opts: argparse.Namespace, settings: object, screen: Screen) -> int:
    """Write what waits in the job in DIR, by host; return the exit status, 0.

    Raises ``UsageError`` where there is no such job, or it cannot be read.
    """

    def once() -> None:
        screen.say_all(rows_of(opts.dir), words)

    waits.show(once, screen, watch=opts.watch)
    return 0


def rows_of(folder: str) -> list[Answer]:
    """Return what waits: of the job, then of each host, most first."""
    try:
        hosts, is_open = look(Path(folder))
    except (OSError, sqlite3.Error) as error:
        raise UsageError(
            f"There is no job to read in {folder!r} ({error}). Type the JOBDIR of a crawl "
            "that has the add-on."
        ) from None
    rows = [waits.row(**host._asdict()) for host in hosts]
    numbers = {its: sum(row[its] for row in rows) for its in ("waiting", "in_hand")}
    return [{"kind": "job", **numbers, "is_open": is_open}, *rows]


def words(answers: Sequence[Answer]) -> Iterator[str]:
    job, *rows = answers
    wait = counted(job["waiting"], "request waits", "requests wait")
    yield f"{wait} for {counted(len(rows), 'host')}, {job['in_hand']:,} in hand"
    if job["is_open"]:
        yield "A crawl is at it, or was killed; what it has in hand is sent again."
    yield from waits.of_hosts(rows)
