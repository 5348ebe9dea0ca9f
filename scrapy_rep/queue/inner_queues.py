"""What ``ScrapyPriorityQueue``, which holds the queues of one slot, does not do itself."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queuelib.queue import (
    FifoDiskQueue,
    FifoMemoryQueue,
    FifoSQLiteQueue,
    LifoDiskQueue,
)

from scrapy_rep.queue.job_folder import set_aside

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.pqueues import ScrapyPriorityQueue

    Kinds = tuple[type[Any], ...]

SAFE_TO_PEEK: Kinds = FifoMemoryQueue, FifoDiskQueue, FifoSQLiteQueue
"""Queues whose ``peek`` changes nothing; the LIFO ones in memory and SQLite are of them."""


def next_of(queue: ScrapyPriorityQueue, safe: Kinds) -> Request | None:
    """Return what ``queue.pop()`` would, and leave it where it is.

    *safe* are the classes whose ``peek`` changes nothing. Scrapy's own ``peek`` has
    another order. Raises ``NotImplementedError`` where looking might do harm, and whatever
    a request that cannot be read raises.
    """
    for priority in sorted({*queue.queues, *queue._start_queues}):
        for kind in (queue.queues, queue._start_queues):
            if inner := kind.get(priority):
                request: Request | None = _peek(inner, safe)
                return request
    return None


def look(queue: ScrapyPriorityQueue, safe: Kinds) -> Request | None:
    """Return the next request of *queue*; ``None``: there is none, or we cannot look."""
    with suppress(Exception):  # where it cannot be read, ``pop`` will say why
        return next_of(queue, safe)
    return None


def _peek(inner: Any, safe: Kinds) -> Any:
    if isinstance(inner, safe):
        return inner.peek()
    if not isinstance(inner, LifoDiskQueue):
        # Scrapy peeks at no queue, so what is wrong with it has not shown.
        raise NotImplementedError(f"whether {type(inner).__name__}.peek is sound")
    file = inner.f
    try:
        return inner.peek()
    finally:
        # queuelib (up to 1.10) leaves it before the last size: the next push would
        # overwrite that, and what is below could not be read.
        file.seek(0, os.SEEK_END)


def drop_empty(queue: ScrapyPriorityQueue) -> None:
    """Close the queues that a failed push or pop has left empty.

    Else ``queue.pop()`` would return ``None`` for them, whatever waits behind.
    """
    for kind in (queue.queues, queue._start_queues):
        for priority in [priority for priority, inner in kind.items() if not inner]:
            kind.pop(priority).close()
    queue._update_curprio()


def drop_unreadable(
    queue: ScrapyPriorityQueue, before: int, fault: Exception | None
) -> int:
    """Skip what ``queue.pop()`` could not read; return how many requests are left.

    If as many as *before* are left, the unreadable request is still there: then its file is
    damaged, and is set aside, unless the *fault* may pass.
    """
    with suppress(sqlite3.DatabaseError):
        if len(queue) < before:
            drop_empty(queue)
            return len(queue)
    if _may_pass(fault):
        return before
    for kind, suffix in ((queue.queues, ""), (queue._start_queues, "s")):
        if queue.curprio in kind:
            with suppress(sqlite3.DatabaseError):
                kind[queue.curprio].close()
            del kind[queue.curprio]
            path = Path(queue.key, f"{queue.curprio}{suffix}")
            set_aside(path, "it cannot be read")
            break
    drop_empty(queue)
    return len(queue)


def _may_pass(fault: Exception | None) -> bool:
    """Tell whether *fault* is one of the disk, which may be full, and not of the file."""
    if isinstance(fault, OSError):
        return fault.errno != errno.EINVAL  # a seek to before the start
    return isinstance(fault, sqlite3.OperationalError)
