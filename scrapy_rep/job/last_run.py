"""What the last run has left in a job, and how the log tells of it."""

from __future__ import annotations

import json
import logging
import pickle
from collections import Counter
from contextlib import suppress
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.utils.request import request_from_dict

from scrapy_rep.job.folders import folder_of
from scrapy_rep.job.takeover import QUEUE_NAME, take_over

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request, Spider

    from scrapy_rep.engine import Engine
    from scrapy_rep.job.file import JobFile

logger = logging.getLogger(__name__)

MOST_HOSTS_TOLD = 5
COUNT_BY_QUEUE = "SELECT queue, count(*) FROM requests GROUP BY queue"
UNNAMED_QUEUES = "SELECT id, leaf, slot FROM queues WHERE name IS NULL AND folder != ''"
UNLISTED_QUEUES = (
    "SELECT queue, min(id) FROM requests"
    " WHERE queue NOT IN (SELECT id FROM queues) GROUP BY queue"
)


class LastRun(NamedTuple):
    """What a run begins with."""

    next_number: int
    next_queue: int
    counts: dict[int, int]
    """Number of a queue -> how many requests wait in it."""
    last_starts: dict[str, float]
    """Host -> how many seconds ago it was asked; other hosts may have been asked just now."""


def begin(file: JobFile, engine: Engine, spider: Spider | None, root: str) -> LastRun:
    """Free the requests that were taken, and list what waits where Scrapy looks for it."""
    (taken,) = file.rows("SELECT count(*) FROM taken")[0]
    was_killed = bool(file.rows("SELECT 1 FROM facts WHERE name = 'running'"))
    take_over(file, engine, spider, Path(root))
    _list_again(file, engine, spider)
    _name_all(file)
    gone = "DELETE FROM queues WHERE id NOT IN (SELECT DISTINCT queue FROM requests)"
    for statement in (
        "DELETE FROM taken",
        gone,
        "INSERT OR REPLACE INTO facts VALUES ('running', 1)",
    ):
        file.rows(statement)
    _write_list(file, Path(root, "active.json"))
    if was_killed:
        logger.warning(
            "The last run of the job in %s did not come to its end. What it had in hand is"
            " sent again, and nothing is lost. Requests in hand: %d",
            file.path.parent,
            taken,
        )
    counts = dict(file.rows(COUNT_BY_QUEUE))
    if counts:
        logger.info(summary(file))
    next_number, next_queue = (
        (file.rows(f"SELECT max(id) FROM {table}")[0][0] or 0) + 1  # noqa: S608
        for table in ("requests", "queues")
    )
    last_starts = {} if was_killed else _last_starts(file)
    return LastRun(next_number, next_queue, counts, last_starts)


def finish(file: JobFile, last_starts: dict[str, float]) -> None:
    """Note that a run has come to its end, and when it asked each host last."""
    now = time()
    times = json.dumps({host: now - ago for host, ago in last_starts.items()})
    file.fill(
        [
            ("INSERT OR REPLACE INTO facts VALUES ('last starts', ?)", [(times,)]),
            ("DELETE FROM facts WHERE name = ?", [("running",)]),
        ]
    )


def _last_starts(file: JobFile) -> dict[str, float]:
    """Return the last starts that the last run noted at its end; empty if damaged."""
    now = time()
    rows = file.rows("SELECT value FROM facts WHERE name = 'last starts'")
    with suppress(AttributeError, TypeError, ValueError):
        times = json.loads(rows[0][0]) if rows else {}
        return {str(host): now - float(at) for host, at in times.items()}
    return {}


def by_host(rows: Iterable[tuple[str, int]]) -> Counter[str]:
    """Return how many requests wait, by download slot; *rows* are slots with counts."""
    hosts: Counter[str] = Counter()
    for slot, number in rows:
        hosts[slot] += number
    return hosts


def waiting(file: JobFile) -> Counter[str]:
    sql = (
        "SELECT slot, number FROM queues JOIN"
        " (SELECT queue, count(*) AS number FROM requests GROUP BY queue) ON id = queue"
    )
    return by_host(file.rows(sql))


def summary(file: JobFile) -> str:
    """Return a line that tells what waits, and where."""
    hosts = waiting(file)
    if not hosts:
        return f"Nothing waits in the job in {file.path.parent}"
    told = [
        f"{host or '(none)'} {number:,}"
        for host, number in hosts.most_common(MOST_HOSTS_TOLD)
    ]
    if len(hosts) > MOST_HOSTS_TOLD:
        told.append("...")
    return (
        f"Requests that wait in the job in {file.path.parent}: {hosts.total():,}, by host:"
        f" {', '.join(told)}"
    )


def _list_again(file: JobFile, engine: Engine, spider: Spider | None) -> None:
    """List again the queues that a damaged file has lost, by the requests in them."""
    lost = 0
    for queue, _ in file.rows(UNLISTED_QUEUES):
        request = _some_of(file, queue, spider)
        if request is None:
            lost += 1
            continue
        slot = engine.slot_of(request)
        starts = "s" if request.meta.get("is_start_request") else ""
        leaf = f"{-request.priority}{starts}"
        # Under a name that no other queue has; ``_name_all`` gives it its own.
        row = (queue, f"?{queue}", leaf, slot)
        file.rows("INSERT INTO queues VALUES (?, ?, ?, ?, NULL)", row)
    if lost:
        logger.error("The requests of %d queues cannot be read: they stay there", lost)


def _some_of(file: JobFile, queue: int, spider: Spider | None) -> Request | None:
    for (body,) in file.rows(
        "SELECT body FROM requests WHERE queue = ? LIMIT 100", (queue,)
    ):
        with suppress(Exception):  # whatever comes of what was stored
            return request_from_dict(pickle.loads(body), spider=spider)  # noqa: S301
    return None


def _name_all(file: JobFile) -> None:
    """Name each queue without a known name after its slot."""
    for number, leaf, slot in file.rows(UNNAMED_QUEUES):
        place = folder_of(slot), leaf
        sql = "SELECT id FROM queues WHERE folder = ? AND leaf = ?"
        same = [row[0] for row in file.rows(sql, place)]
        if same and same[0] != number:
            file.rows("UPDATE requests SET queue = ? WHERE queue = ?", (*same, number))
            file.rows("UPDATE queues SET name = slot WHERE id = ?", (*same,))
        else:
            file.rows(
                "UPDATE queues SET folder = ?, name = slot WHERE id = ?",
                (place[0], number),
            )


def _write_list(file: JobFile, path: Path) -> None:
    """Write what Scrapy's scheduler reads: which slots have requests, and of what priority.

    It writes that itself when a crawl is stopped, and not when it is killed.
    """
    slots: dict[str, list[int]] = {}
    no_slots: list[int] = []
    for folder, leaf, name in file.rows("SELECT folder, leaf, name FROM queues"):
        if found := QUEUE_NAME.fullmatch(leaf):
            priorities = slots.setdefault(name, []) if folder else no_slots
            if int(found[1]) not in priorities:
                priorities.append(int(found[1]))
    state: Any = slots or no_slots  # the latter of a priority queue without slots
    if state:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(state), encoding="utf-8")
    else:
        path.unlink(missing_ok=True)
