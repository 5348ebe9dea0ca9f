"""A look at a job from outside, whether a crawl uses it or not."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.job.file import FILE_NAME

if TYPE_CHECKING:
    from pathlib import Path

BY_HOST = """
    SELECT slot, sum(number), sum(taken) FROM queues JOIN (
        SELECT queue, count(*) AS number, 0 AS taken FROM requests GROUP BY queue
        UNION ALL
        SELECT queue, -count(*), count(*) FROM taken JOIN requests USING (id)
        GROUP BY queue
    ) ON queues.id = queue GROUP BY slot ORDER BY sum(number) DESC, slot
"""


class Host(NamedTuple):
    """What a job has for one download slot."""

    name: str
    waiting: int
    in_hand: int
    """Taken by the crawl that uses the job, or that was killed while it did."""


class Look(NamedTuple):
    """What is in a job."""

    hosts: list[Host]
    """Hosts with the most waiting requests come first."""
    is_open: bool
    """Whether a run uses it, or did not come to its end."""


def look(folder: Path) -> Look:
    """Return what is in the job in *folder*. Raises ``OSError`` or ``sqlite3.Error``."""
    path = folder / FILE_NAME
    path.stat()
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as db:
        hosts = [Host(*row) for row in db.execute(BY_HOST)]
        running = db.execute("SELECT 1 FROM facts WHERE name = 'running'").fetchone()
    return Look(hosts, running is not None)
