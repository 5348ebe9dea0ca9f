"""What sites have allowed us beyond their robots.txt, in writing (``"allow"`` in REP_HOSTS).

Beyond RFC 9309: nobody but the site may lift its rules, so a reason is demanded, the host is
named exactly, and the pace stays.
"""

from __future__ import annotations

from datetime import datetime, time, timedelta, timezone
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from scrapy_rep.events.of_hosts import Permitted
from scrapy_rep.pacing.pace import FREE, Pace
from scrapy_rep.protocol.printable import duration

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from scrapy_rep.events.stream import Stream
    from scrapy_rep.settings import Settings


class Permission(NamedTuple):
    """What one host has allowed us."""

    host: str
    reason: str
    """Who has allowed it, when, and where that stands, in the user's words."""
    until: date | None = None
    """The last day on which it holds, in UTC; ``None``: no end is agreed."""
    delay: float | None = None
    """In seconds, what is agreed in place of its Crawl-delay and Request-rate; ``None``:
    nothing is, so that these hold."""

    @property
    def ends(self) -> float:
        """Seconds since 1970 from which on the rules hold again."""
        if self.until is None:
            return inf
        day = datetime.combine(self.until, time(), timezone.utc)
        return (day + timedelta(days=1)).timestamp()

    def in_words(self) -> str:
        until = (
            f"until the end of {self.until} (UTC)" if self.until else "without an end"
        )
        delay = (
            "" if self.delay is None else f", with a delay of {duration(self.delay)}"
        )
        return f"{self.reason}, {until}{delay}"

    def pace(self, asked: Pace) -> Pace:
        """Return what is kept where the site's robots.txt has *asked* for that pace."""
        if self.delay is None:
            return asked
        if not self.delay and asked.visit is None:
            return FREE
        return Pace(self.delay, None, asked.visit, self.delay, drop=False)


class Permissions:
    """Those of one crawl. False where there are none."""

    def __init__(self, settings: Settings) -> None:
        self._of = {
            host: Permission(host, own["allow"], own.get("until"), own.get("delay"))
            for host, own in settings.hosts.items()
            if "allow" in own
        }
        self._listeners: list[Callable[[str], None]] = []

    def __bool__(self) -> bool:
        return bool(self._of)

    def that_hold(self, now: float) -> list[Permission]:
        """Return all that hold *now*, in seconds since 1970."""
        found = (self._check(each, now) for each in list(self._of.values()))
        return [each for each in found if each is not None]

    def on_end(self, listener: Callable[[str], None]) -> None:
        """Call *listener* once for each that is found to be over, with a sentence on it."""
        self._listeners.append(listener)

    def tell_of_all(self, events: Stream, now: float) -> None:
        """Tell which hold as the crawl begins, *now*, in seconds since 1970."""
        for each in list(self._of.values()):
            if self._check(each, now):
                events.tell(Permitted(each.host, each.in_words()))

    def at(self, origin: str, now: float) -> Permission | None:
        """Return what the host of *origin* allows us *now*, in seconds since 1970."""
        found = self._of.get(_host_of(origin)) if self._of else None
        return None if found is None else self._check(found, now)

    def _check(self, found: Permission, now: float) -> Permission | None:
        if now < found.ends:
            return found
        del self._of[found.host]
        for listener in self._listeners:
            listener(
                f"{found.host} is judged by its robots.txt again, as what allowed us more has "
                f"ended (REP_HOSTS): {found.in_words()}"
            )
        return None

    def pace(self, origin: str, asked: Pace, now: float) -> Pace:
        """Return the pace to keep at *origin*, which has *asked* for one."""
        found = self.at(origin, now)
        return asked if found is None else found.pace(asked)


@lru_cache(maxsize=4096)
def _host_of(origin: str) -> str:
    return (urlsplit(origin).hostname or "").rstrip(".")
