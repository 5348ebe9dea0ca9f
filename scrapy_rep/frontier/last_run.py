"""What one run of a job tells the next, and what people are told of a job."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from time import time
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.frontier.job_file import FILE_NAME
from scrapy_rep.pacing import HOSTS

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy_rep.frontier.job_file import JobFile

logger = logging.getLogger(__name__)

MOST_HOSTS_TOLD = 5
LARGEST = "SELECT name, waiting FROM places ORDER BY waiting DESC LIMIT 100"
TOTAL = "SELECT coalesce(sum(waiting), 0), count(*) FROM places"
IN_HAND = "SELECT value FROM facts WHERE name = 'in hand'"
IS_RUNNING = "SELECT 1 FROM facts WHERE name = 'running'"


def begin(file: JobFile) -> None:
    """Note that a run begins, and when the last one asked each host last.

    Other hosts, and all of them if it was killed, may have been asked just now.
    """
    was_killed = bool(file.rows(IS_RUNNING))
    in_hand = sum(taken for _, taken in _in_hand(file.rows(IN_HAND)))
    if not was_killed:
        now = time()
        HOSTS.recall({host: now - at for host, at in _last_starts(file).items()})
    file.rows("INSERT OR REPLACE INTO facts VALUES ('running', 1)")
    if was_killed:
        logger.warning(
            "The last run of the job in %s did not come to its end. What it had in hand is"
            " sent again, and nothing is lost. Requests in hand: %d",
            file.path.parent,
            in_hand,
        )
    if file.rows("SELECT 1 FROM places LIMIT 1"):
        logger.info(summary(file))


def end(file: JobFile) -> None:
    """Note that a run has come to its end, and when it asked each host last."""
    now = time()
    last_starts = {host: now - ago for host, ago in HOSTS.last_starts().items()}
    file.fill(
        [
            (
                "INSERT OR REPLACE INTO facts VALUES ('last starts', ?)",
                [(json.dumps(last_starts),)],
            ),
            ("DELETE FROM facts WHERE name = ?", [("running",), ("in hand",)]),
        ]
    )


def _last_starts(file: JobFile) -> dict[str, float]:
    """Return when each host with a delay was asked last, in seconds since 1970."""
    rows = file.rows("SELECT value FROM facts WHERE name = 'last starts'")
    with suppress(AttributeError, TypeError, ValueError):
        times = json.loads(rows[0][0]) if rows else {}
        return {str(host): float(at) for host, at in times.items()}
    return {}  # it is damaged


def summary(file: JobFile) -> str:
    """Return a line that tells what waits, and where."""
    ((total, places),) = file.rows(TOTAL)
    if not places:
        return f"Nothing waits in the job in {file.path.parent}"
    hosts: Counter[str] = Counter()
    for name, waiting in file.rows(LARGEST):
        hosts[_host_of(name)] += waiting
    largest = hosts.most_common(MOST_HOSTS_TOLD)
    told = [f"{host} {number:,}" for host, number in largest]
    if sum(number for _, number in largest) < total:
        told.append("...")
    return (
        f"Requests that wait in the job in {file.path.parent}: {total:,}, by host:"
        f" {', '.join(told)}"
    )


class Host(NamedTuple):
    """What a job has for one host."""

    name: str
    waiting: int
    in_hand: int
    """Taken by the crawl that uses the job, or that was killed while it did."""
    why: str | None
    """The cause for which they wait, one of ``log.waits``; ``None``: for their turn."""
    wait: float | None
    """For so many seconds more; ``None``: nobody knows."""


class Look(NamedTuple):
    """What is in a job."""

    hosts: list[Host]
    """Hosts with the most waiting requests come first."""
    is_open: bool
    """Whether a run uses it, or did not come to its end."""


def look(folder: Path) -> Look:
    """Return what is in the job in *folder*, whether a crawl uses it or not.

    Raises ``OSError``, such as ``FileNotFoundError`` where no job is there, or ``sqlite3.Error``.
    """
    path = folder / FILE_NAME
    path.stat()
    uri = f"{path.absolute().as_uri()}?mode=ro"
    hosts: dict[str, Host] = {}
    with closing(sqlite3.connect(uri, uri=True)) as db:
        db.execute("BEGIN")
        in_hand = dict(_in_hand(db.execute(IN_HAND).fetchall()))
        for number, name, requests, why, until in db.execute(
            "SELECT id, name, waiting, why, until FROM places WHERE waiting > 0"
        ):
            host, taken = name.partition("\n")[0], in_hand.get(number, 0)
            wait = None if until is None else max(0.0, until - time())
            each = Host(host, requests - taken, taken, why or None, wait)
            hosts[host] = _together(each, hosts.get(host))
        running = db.execute(IS_RUNNING).fetchone()
    by_number = sorted(hosts.values(), key=lambda each: (-each.waiting, each.name))
    return Look(by_number, running is not None)


def _together(one: Host, other: Host | None) -> Host:
    """Return what two places of a host have; it may be asked when the first one may."""
    if other is None:
        return one
    first = min(one, other, key=lambda each: each.wait or 0.0)
    return first._replace(
        waiting=one.waiting + other.waiting, in_hand=one.in_hand + other.in_hand
    )


def _in_hand(rows: list[tuple[str]]) -> list[tuple[int, int]]:
    """Return the numbers of places, and how many of their requests the crawl has taken."""
    with suppress(AttributeError, TypeError, ValueError, IndexError):
        return [(int(n), int(taken)) for n, taken in json.loads(rows[0][0]).items()]
    return []


def _host_of(name: str) -> str:
    return name.partition("\n")[0] or "(none)"
