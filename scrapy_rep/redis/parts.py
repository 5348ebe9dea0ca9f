"""The parts (shards) of a fleet's queue, for commands that look at it or give it orders."""

from __future__ import annotations

import warnings
from itertools import islice
from typing import TYPE_CHECKING, Any

from scrapy_redis import get_redis_from_settings
from scrapy_redis.defaults import SCHEDULER_QUEUE_KEY

from scrapy_rep.redis.clients import Script, close
from scrapy_rep.redis.keys import (
    literally,
    pattern,
    queue_keys,
    shard_number_keys,
    shard_of,
)
from scrapy_rep.redis.quick import Quick

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import redis
    from scrapy.settings import BaseSettings

    from scrapy_rep.redis.keys import QueueKeys

CALL_SECONDS = 30.0
"""Seconds that a call may take; to count a million hosts takes two or three."""
HOSTS_PER_CALL = 500
"""Hosts that one call looks at; the server serves nobody else meanwhile."""


class Part:
    """A shard of a queue, with the scripts for it. All raise what redis-py does."""

    def __init__(self, quick: Quick, names: QueueKeys) -> None:
        self._quick = quick
        self._prefix, self._keys, _ = names

    @property
    def server(self) -> redis.Redis:
        """Return a client for the server that has this part."""
        return self._quick.at(self._prefix)

    def run(self, name: str, *args: Any) -> Any:
        """Return what a script answers."""
        args = (self._prefix, "", "", *args)
        return self._quick.call(Script.named(name, after="common"), self._keys, args)

    def exists(self) -> bool:
        return bool(self.server.exists(*self._keys)) or any(self.names())

    def names(self) -> Iterator[list[bytes]]:
        """Yield the names of all keys without their prefix, some at a time."""
        skip = len(self._prefix.encode())
        found = self.server.scan_iter(pattern(self._prefix), HOSTS_PER_CALL)
        return batches(key[skip:] for key in found)

    def hosts(self, match: str | None = None) -> Iterator[list[bytes]]:
        """Yield hosts, and lines of hosts, that may be asked now or later, some at a time.

        A line of a host waits for a cause of its own. One that moves meanwhile may come twice.
        """
        for key in self._keys[:2]:  # due and later
            found = self.server.zscan_iter(key, match, HOSTS_PER_CALL)
            yield from batches(name for name, _ in found)

    def lines_of(self, host: str) -> list[bytes]:
        """Return *host* and its lines."""
        lines = dict.fromkeys([host.encode()])
        for names in self.hosts(literally(host) + "\n*"):
            lines |= dict.fromkeys(names)
        return list(lines)

    def order(self, order: str | None) -> None:
        """Show *order* to workers when they ask for requests; ``None``: no order."""
        name = f"{self._prefix}order"
        if order is None:
            self._quick.call("DEL", [name])
        else:
            self._quick.call("SET", [name], [order])


def part_of(queue: Sequence[Part], host: str) -> Part:
    """Return the part that has *host* and its lines."""
    return queue[shard_of(host, len(queue))]


def connect(settings: BaseSettings, spider: str) -> list[Part]:
    """Return the parts of the queue of the spider named *spider*, by Scrapy's *settings*.

    Raises ``ValueError`` if REDIS_URL is not valid.
    """
    with warnings.catch_warnings():
        # redis-py says so of what scrapy-redis gives it.
        warnings.simplefilter("ignore", DeprecationWarning)
        server = get_redis_from_settings(settings)
    quick = Quick(server, CALL_SECONDS)
    close(server)
    key = settings.get("SCHEDULER_QUEUE_KEY", SCHEDULER_QUEUE_KEY) % {"spider": spider}
    number = int(quick.call("GET", shard_number_keys(key)[:1]) or 1)
    return [Part(quick, names) for names in queue_keys(key, number)]


def batches(names: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield *names*, ``HOSTS_PER_CALL`` at a time."""
    left = iter(names)
    while found := list(islice(left, HOSTS_PER_CALL)):
        yield found
