"""What an earlier run has left of Scrapy's disk queues in JOBDIR.

When a crawl is stopped, Scrapy's scheduler lists the slots with requests in ``active.json``. A
run that is killed leaves an old list, none, or half of one.
"""

from __future__ import annotations

import json
import re
import sqlite3
import struct
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.pqueues import ScrapyPriorityQueue

SLOT_FOLDER = re.compile(r".*-[0-9a-f]{32}")
QUEUE_FILE = re.compile(r"(-?\d+)(s?)")
"""A priority, and whether it is of start requests: a file or a folder."""
DAMAGE_ERRORS = (
    struct.error,  # a file queue that is shorter than its count of requests
    ValueError,  # half of the JSON of another one, or no JSON
    LookupError,
    FileNotFoundError,  # a part of it
    sqlite3.DatabaseError,
)
"""What a damaged queue raises when it is opened."""


def check_list(path: Path) -> None:
    """Set aside a list of slots that is not whole: no crawl could start with it."""
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        pass
    except ValueError as error:
        set_aside(path, error)


def slot_folders(key: str) -> list[str]:
    return [
        f"{key}/{path.name}"
        for path in sorted(Path(key).glob("*"))
        if SLOT_FOLDER.fullmatch(path.name)
    ]


def open_queues(queue: ScrapyPriorityQueue, priorities: Iterable[int] = ()) -> None:
    """Open the queues of *priorities*, and whatever else is in the folder of *queue*.

    The file queues of queuelib write down their number of requests when they are closed.
    After a kill they claim to be empty, and would hand out old requests in place of those
    that are pushed now; so they are deleted. SQLite queues know what they hold.
    """
    folder = Path(queue.key)
    names = {f"{priority}{kind}" for priority in priorities for kind in ("", "s")}
    if folder.is_dir():
        names.update(path.name for path in folder.iterdir())
    for name in names:
        if found := QUEUE_FILE.fullmatch(name):
            _open(queue, folder / name, int(found[1]), of_starts=bool(found[2]))
    queue.curprio = min({*queue.queues, *queue._start_queues}, default=None)


def _open(
    queue: ScrapyPriorityQueue, path: Path, priority: int, *, of_starts: bool
) -> None:
    kind, make = queue.queues, queue.qfactory
    if of_starts:
        if queue._start_queue_cls is None:
            return
        kind, make = queue._start_queues, queue._sqfactory
    if path.is_file() and not path.stat().st_size:
        path.unlink()  # it was killed before anything was written
    try:
        inner = make(priority)
        if len(inner):
            kind[priority] = inner
        else:
            inner.close()
    except sqlite3.OperationalError:  # it is locked, or too many files are open
        raise
    except DAMAGE_ERRORS as error:
        if not path.exists():
            raise
        set_aside(path, error)


def set_aside(path: Path, why: object) -> None:
    """As ``job.set_aside``, which is imported only if there is something to set aside."""
    from scrapy_rep import job  # noqa: PLC0415

    job.set_aside(path, why)
