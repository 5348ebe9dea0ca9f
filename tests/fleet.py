"""A fleet of workers for a test: real processes at a real Redis server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.forking import Forked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import Self

    from tests.redis_cluster import Cluster
    from tests.redis_server import RedisServer

ROOT = Path(__file__).parent.parent
SPIDER = "fleet"
ORDERS = f"{{rep:{SPIDER}}}:orders"
SOON = 90  # seconds; a busy machine is slow


def until(true: Callable[[], object], otherwise: str = "it does not come true") -> None:
    """Wait until *true* is."""
    deadline = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.02)


def seed(server: RedisServer | Cluster, urls: Iterable[str], **settings: Any) -> None:
    """Queue *urls*, by a worker that sends none of them, as the fleet is paused."""
    owner_of: Any = getattr(server, "owner", lambda _: server)
    client = owner_of(ORDERS).client
    client.hset(ORDERS, "order", "pause")
    with Fleet(server, 1, URLS=list(urls), SEEDS=True, **settings) as fleet:
        fleet.join(120)
        assert fleet.workers[0].process.returncode == 0, fleet.workers[0].log
    client.hdel(ORDERS, "order")


def left(server: RedisServer | Cluster) -> int:
    """Return how many requests wait, or are out with a worker."""
    waiting = sum(
        client.llen(key)
        for client in clients(server)
        for key in client.keys(f"{{rep:*}}:{SPIDER}:w:*")
    )
    return int(waiting + out(server))


def out(server: RedisServer | Cluster) -> int:
    """Return how many requests are out with a worker."""
    return sum(
        int(client.hlen(key))
        for client in clients(server)
        for key in client.keys(f"{{rep:*}}:{SPIDER}:out")
    )


def clients(server: RedisServer | Cluster) -> list[Any]:
    """Return a client of each server."""
    return [each.client for each in getattr(server, "servers", [server])]


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
        self.settings = {"REP_FLEET": server.url, "TOGETHER": workers, **settings}
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
