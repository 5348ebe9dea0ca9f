"""What one run of a job tells the next, and what people are told of a job."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from time import time
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.frontier.job_file import FILE_NAME, NEW_FACT
from scrapy_rep.pacing.hosts import HOSTS

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy_rep.frontier.job_file import JobFile

logger = logging.getLogger(__name__)

MOST_HOSTS_TOLD = 5
LARGEST = "SELECT name, waiting FROM places ORDER BY waiting DESC LIMIT 100"
TOTAL = "SELECT coalesce(sum(waiting), 0), count(*) FROM places"
FACTS = "SELECT name, value FROM facts"
RUNNING, IN_HAND, LAST_STARTS = "running", "in hand", "last starts"


def begin(file: JobFile) -> None:
    """Note that a run begins, and when the last one asked each host last.

    Other hosts, and all of them if it was killed, may have been asked just now.
    """
    facts = dict(file.rows(FACTS))
    if RUNNING in facts:
        logger.warning(
            "The last run of the job in %s did not come to its end. What it had in hand is"
            " sent again, and nothing is lost. Requests in hand: %d",
            file.path.parent,
            sum(_numbers(facts.get(IN_HAND)).values()),
        )
    else:
        now, last_starts = time(), _numbers(facts.get(LAST_STARTS))
        HOSTS.recall({host: now - at for host, at in last_starts.items()})
    file.write([(NEW_FACT, [(RUNNING, 1)])])
    if file.rows("SELECT 1 FROM places LIMIT 1"):
        logger.info(summary(file))


def end(file: JobFile) -> None:
    """Note that a run has come to its end, and when it asked each host last."""
    now = time()
    last_starts = {host: now - ago for host, ago in HOSTS.last_starts().items()}
    file.write(
        [
            (NEW_FACT, [(LAST_STARTS, json.dumps(last_starts))]),
            ("DELETE FROM facts WHERE name = ?", [(RUNNING,), (IN_HAND,)]),
        ]
    )


def _numbers(fact: str | None) -> dict[str, float]:
    """Return what *fact* says: a number for each host or place; nothing if it is damaged."""
    with suppress(AttributeError, TypeError, ValueError):
        return {
            name: float(number) for name, number in json.loads(fact or "{}").items()
        }
    return {}


def summary(file: JobFile) -> str:
    """Return a line that tells what waits, and where."""
    ((total, places),) = file.rows(TOTAL)
    if not places:
        return f"Nothing waits in the job in {file.path.parent}"
    hosts: Counter[str] = Counter()
    for name, waiting in file.rows(LARGEST):
        hosts[name.partition("\n")[0] or "(none)"] += waiting
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


def look(folder: Path) -> tuple[list[Host], bool]:
    """Return what is in the job in *folder*, whether a crawl uses it or not.

    Hosts with the most waiting requests come first; then whether a run uses it, or did not come
    to its end. Raises ``OSError``, such as ``FileNotFoundError`` where no job is there, or
    ``sqlite3.Error``.
    """
    path = folder / FILE_NAME
    path.stat()
    hosts: dict[str, Host] = {}
    with closing(
        sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    ) as db:
        db.execute("BEGIN")
        facts = dict(db.execute(FACTS))
        in_hand = _numbers(facts.get(IN_HAND))
        places = "SELECT id, name, waiting, why, until FROM places WHERE waiting > 0"
        for number, name, requests, why, until in db.execute(places):
            host, taken = name.partition("\n")[0], int(in_hand.get(str(number), 0))
            wait = None if until is None else max(0.0, until - time())
            one = Host(host, requests - taken, taken, why or None, wait)
            if (other := hosts.get(host)) is not None:
                # It may be asked when the first of its places may.
                first = min(one, other, key=lambda each: each.wait or 0.0)
                both = one.waiting + other.waiting, one.in_hand + other.in_hand
                one = first._replace(waiting=both[0], in_hand=both[1])
            hosts[host] = one
    by_number = sorted(hosts.values(), key=lambda each: (-each.waiting, each.name))
    return by_number, RUNNING in facts
