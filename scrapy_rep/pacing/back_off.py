"""Which hosts are parked: their sites want to be left alone for some time.

Beyond RFC 9309. The statuses: RFC 6585 4, RFC 9110 15.6.4; Retry-After: RFC 9110 10.2.3.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Protocol

from scrapy_rep.downloader import ROBOTS_HOP, sleep
from scrapy_rep.exceptions import StillParked

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    Listener = Callable[[str, float], object]

END_CHECK_SECONDS = 0.5
"""Seconds after which a request that waits in the downloader checks if the crawl is ending."""


class Engine(Protocol):
    """What back-off needs of the crawl's engine."""

    def is_ending(self) -> bool: ...
    def wake(self) -> None: ...


class BackOff:
    """Until when each host is parked. Times that have passed are forgotten."""

    def __init__(
        self,
        engine: Engine,
        until: dict[str, float] | None = None,
        what: dict[str, str] | None = None,
        *,
        is_down: Callable[[str], bool] = lambda host: False,
    ) -> None:
        """*until* and *what* are the dicts that the crawls of a process share.

        *is_down* tells whether a host is down: then its requests are refused while it is
        parked, rather than wait.
        """
        self._engine = engine
        self._is_down = is_down
        self.until: dict[str, float] = {} if until is None else until
        """Host -> when it is parked no more, by ``time.monotonic()``."""
        self.what: dict[str, str] = {} if what is None else what
        """Host -> what parked it, such as "429"; not if another process told us."""
        self._sweep_at = 16
        self._listeners: list[Listener] = []
        self._listeners_here: list[Listener] = []

    def on_parked(self, listener: Listener) -> None:
        """Call *listener* whenever a host is parked, with the host and the seconds from now.

        Not if the host is down: then the requests that wait for it are to be refused.
        """
        self._listeners.append(listener)

    def on_parked_here(self, listener: Listener) -> None:
        """As ``on_parked``, but only if this process parked the host."""
        self._listeners_here.append(listener)

    def left(self, host: str) -> float:
        """Return the seconds for which *host* is still parked; 0: it is not."""
        until = self.until.get(host)
        if until is None:
            return 0.0
        left = until - monotonic()
        if left > 0:
            return left
        del self.until[host]
        self.what.pop(host, None)
        return 0.0

    def holds(self, host: str) -> float:
        """Return the seconds for which requests to *host* must wait; 0: they need not."""
        left = self.left(host) if self.until else 0.0
        return 0.0 if left and self._is_down(host) else left

    def refuses(self, host: str) -> bool:
        """Tell whether requests to *host* are refused now rather than wait."""
        return bool(self.until and self.left(host) and self._is_down(host))

    def park(self, host: str, seconds: float, what: str = "") -> float:
        """Park *host* for *seconds* from now, unless it is parked for longer already.

        *what* says why, such as "429". Returns by how many seconds it is parked for longer
        than before.
        """
        if what and seconds > self.left(host):
            self.what[host] = what
        longer = self.learn(host, seconds)
        if longer:
            for listener in self._listeners_here:
                listener(host, seconds)
        return longer

    def learn(self, host: str, seconds: float) -> float:
        """As ``park``, for a host that another process has parked."""
        longer = seconds - self.left(host)
        if longer <= 0:
            return 0.0
        if len(self.until) >= self._sweep_at:
            for name in list(self.until):  # forgets those whose time has passed
                self.left(name)
            self._sweep_at = 2 * len(self.until) + 16
        self.until[host] = monotonic() + seconds
        if not self._is_down(host):
            for listener in self._listeners:
                listener(host, seconds)
        return longer

    async def wait(self, request: Request, host: str) -> None:
        """Wait until *host*, the host of *request*, is no longer parked.

        Raises ``StillParked`` if the crawl ends before that; and if the host is down, unless
        the request is for its robots.txt.
        """
        is_page = ROBOTS_HOP not in request.meta
        if self.left(host):
            self._engine.wake()  # another request may take the place of *request*
        while seconds := self.left(host):
            if self._engine.is_ending() or (is_page and self._is_down(host)):
                raise StillParked(request.url, seconds)
            await sleep(min(seconds, END_CHECK_SECONDS))
