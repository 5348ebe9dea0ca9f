"""A fleet of workers for a test: real processes at a real Redis server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy_redis import picklecompat

from scrapy_rep.redis import take_over
from tests.forking import Forked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

    from tests.redis_cluster import Cluster
    from tests.redis_server import RedisServer

ROOT = Path(__file__).parent.parent
SPIDER = "fleet"
SCRAPY_REDIS = {
    "SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.PriorityQueue",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
}
"""The settings with which a worker runs on scrapy-redis' own queue."""


def seed(
    server: RedisServer | Cluster, urls: Iterable[str], *, ours: bool = True
) -> None:
    """Queue *urls*, as scrapy-redis does, and have our queue take them over."""
    client: Any = server.client
    together = client.pipeline()
    for url in urls:
        request = scrapy.Request(url, dont_filter=True)
        data = picklecompat.dumps(request.to_dict())
        together.execute_command("ZADD", f"{SPIDER}:requests", 0, data)
    together.execute()
    if ours:
        take_over(client, SPIDER)


class Worker:
    """A process that crawls."""

    def __init__(self, settings: dict[str, Any]) -> None:
        handle, name = tempfile.mkstemp()
        self._file = Path(name)
        self._log = ""
        with os.fdopen(handle, "w") as out:
            self.process = Forked(
                [
                    sys.executable,
                    *("-m", "tests.crawls.fleet_worker", json.dumps(settings)),
                ],
                cwd=ROOT,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    @property
    def log(self) -> str:
        """What it has printed so far; once it was stopped, all of it."""
        return self._file.read_text() if self._file.exists() else self._log

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self._log = self.log
        self._file.unlink(missing_ok=True)

    def said(self, word: str) -> list[str]:
        """Return what it printed after *word*, line by line."""
        return [
            line.split(" ", 1)[1]
            for line in self.log.splitlines()
            if line.startswith(f"{word} ")
        ]

    @property
    def stats(self) -> dict[str, Any]:
        (stats,) = self.said("stats")
        return dict(json.loads(stats))


class Fleet:
    """So many workers at *server*, which begin together."""

    def __init__(
        self, server: RedisServer | Cluster, workers: int, **settings: Any
    ) -> None:
        self.settings = {"REDIS_URL": server.url, "TOGETHER": workers, **settings}
        self.workers = [Worker(self.settings) for _ in range(workers)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.stop()

    def join(self, seconds: float) -> None:
        """Wait until all have come to an end."""
        for worker in self.workers:
            worker.process.wait(seconds)

    def said(self, word: str) -> list[str]:
        return [line for worker in self.workers for line in worker.said(word)]
