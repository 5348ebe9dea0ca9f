"""The parts of a fleet's queue, for who looks at it or orders something from outside."""

from __future__ import annotations

import warnings
from itertools import islice
from typing import TYPE_CHECKING, Any

from scrapy_redis import get_redis_from_settings
from scrapy_redis.defaults import SCHEDULER_QUEUE_KEY

from scrapy_rep.redis.clients import impatient, script
from scrapy_rep.redis.keys import literally, parts_of, pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy.settings import BaseSettings

PATIENCE = 30.0
"""Seconds that a call may take; to count a million hosts takes two or three."""
AT_A_TIME = 500
"""Hosts that are looked at in one go; the server serves nobody else meanwhile."""


class Part:
    """One part of a queue, with the scripts for it. All raise what redis-py does."""

    def __init__(self, server: Any, prefix: str, keys: list[str]) -> None:
        self.server = server
        self._prefix = prefix
        self._keys = keys
        self._scripts: dict[str, Any] = {}

    def run(self, name: str, *args: Any) -> Any:
        """Return what a script answers."""
        if name not in self._scripts:
            text = script(name, after="common")
            self._scripts[name] = self.server.register_script(text)
        return self._scripts[name](keys=self._keys, args=[self._prefix, "", "", *args])

    def exists(self) -> bool:
        return bool(self.server.exists(*self._keys)) or any(self.names())

    def names(self) -> Iterator[list[bytes]]:
        """Yield what all keys are called, without what they begin with, some at a time."""
        skip = len(self._prefix.encode())
        found = self.server.scan_iter(pattern(self._prefix), AT_A_TIME)
        return _batches(key[skip:] for key in found)

    def hosts(self, match: str | None = None) -> Iterator[list[bytes]]:
        """Yield the hosts that may be asked, now or later, some at a time.

        And the lines of a host, which wait for something of their own. One that moves
        meanwhile may come twice.
        """
        for key in self._keys[:2]:  # due and later
            found = self.server.zscan_iter(key, match, AT_A_TIME)
            yield from _batches(name for name, _ in found)

    def lines_of(self, host: str) -> list[bytes]:
        """Return *host* and its lines."""
        lines = dict.fromkeys([host.encode()])
        for names in self.hosts(literally(host) + "\n*"):
            lines |= dict.fromkeys(names)
        return list(lines)

    def order(self, order: str | None) -> None:
        """Have workers see *order* when they ask for requests; ``None``: there is none."""
        name = f"{self._prefix}order"
        if order is None:
            self.server.delete(name)
        else:
            self.server.set(name, order)


def connect(settings: BaseSettings, spider: str) -> list[Part]:
    """Return the parts of the queue of *spider*, by its name, that *settings* lead to.

    Raises ``ValueError`` where REDIS_URL is no URL.
    """
    with warnings.catch_warnings():
        # redis-py says so of what scrapy-redis gives it.
        warnings.simplefilter("ignore", DeprecationWarning)
        server = impatient(get_redis_from_settings(settings), PATIENCE)
    key = settings.get("SCHEDULER_QUEUE_KEY", SCHEDULER_QUEUE_KEY)
    return [Part(server, *each) for each in parts_of(key % {"spider": spider})]


def _batches(names: Iterable[bytes]) -> Iterator[list[bytes]]:
    left = iter(names)
    while found := list(islice(left, AT_A_TIME)):
        yield found
