from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.redis_server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def running_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def server(running_server: RedisServer) -> Iterator[RedisServer]:
    """An empty server, which a test may hang, kill and start at will."""
    running_server.client.flushall()
    yield running_server
    running_server.resume()
    if running_server.process is None:
        running_server.start()
