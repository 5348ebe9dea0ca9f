"""Which hosts are in trouble: they are left alone for a time, and asked slowly after that."""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from scrapy.utils.defer import deferred_from_coro

from scrapy_rep.pacing.health import WELL, Health, pause_of
from scrapy_rep.pacing.hosts import HOSTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.pacing.back_off import BackOff
    from scrapy_rep.pacing.bookings import Bookings
    from scrapy_rep.settings import Settings

TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE = 429, 503
"""The statuses by which a site refuses (RFC 6585 4, RFC 9110 15.6.4)."""
CLOCK_DIFFERENCE_SECONDS = 0.05
"""Seconds by which the clocks of two workers may differ."""
TELL_EVERY_SECONDS = 1.0
"""Seconds in which the successes at a host that is out of trouble are told to others once."""


class Troubles:
    """What the failures of a crawl tell of its hosts, and what follows from that.

    How each host is, is known to all crawls of the process (``HOSTS``), and with ``share``
    to a fleet.
    """

    def __init__(self, back_off: BackOff, settings: Settings) -> None:
        self._back_off = back_off
        self._first = settings.back_off_first
        self._longest = settings.back_off_max
        self._gives_up_after = settings.back_off_give_up
        self._bookings: Bookings | None = None
        self._untold: dict[str, tuple[int, float]] = {}
        """Host -> the successes that others do not know of, and when they were told last."""

    def share(self, bookings: Bookings) -> None:
        """Have *bookings* tell others of troubles, and here of theirs."""
        self._bookings = bookings
        bookings.on_health(self._learn)

    def is_down(self, host: str) -> bool:
        """Tell whether nothing but failures came of *host* for REP_BACK_OFF_GIVE_UP."""
        return HOSTS.health(host).is_down(self._gives_up_after)

    def is_known(self, host: str) -> bool:
        """Tell whether *host* was in trouble."""
        return HOSTS.health(host) is not WELL

    def goes_on(self, host: str) -> bool:
        """Tell whether nothing but failures came of *host* since its trouble began."""
        return HOSTS.health(host).since is not None

    def note_failure(
        self, host: str, started: float, status: int | None, asked: float = 0.0
    ) -> tuple[Health, Health]:
        """Note that a request to *host* that *started* then has failed.

        *status* is ``None`` where it was not answered; *asked* are the seconds of a
        Retry-After, 0: there is none.
        Returns how it was, and how it is; the same level: this is of a burst that counts
        once.
        """
        before = HOSTS.health(host)
        pause = asked or pause_of(before.level + 1, self._first, self._longest)
        served = self._untold.pop(host, (0, 0.0))[0]
        change = partial(
            self._after_failure, started=started, status=status, pause=pause
        )
        health = change(before)
        if health is not before:
            HOSTS.note_health(host, health)
            self._tell(host, lambda health: change(_served(health, served)))
        return before, health

    def _after_failure(
        self, health: Health, *, started: float, status: int | None, pause: float
    ) -> Health:
        news = health.counts(started)
        if news:
            health = health.in_trouble(monotonic(), pause, self._longest)
        # One 503 may be about its page; where several of a burst are, they are not.
        too_fast = status == TOO_MANY_REQUESTS or (
            status == SERVICE_UNAVAILABLE and not news
        )
        return health.too_fast() if too_fast else health

    def note_success(self, host: str, started: float) -> None:
        """Note that a request to *host*, which was in trouble, has not failed."""
        before = HOSTS.health(host)
        if not before.counts(started):
            return
        HOSTS.note_health(host, before.served_well())
        if self._bookings is None:
            return
        now = monotonic()
        served, told = self._untold.get(host, (0, now))
        if (
            before.since is None
            and not before.level
            and now < told + TELL_EVERY_SECONDS
        ):
            self._untold[host] = served + 1, told
        else:
            self._untold.pop(host, None)
            self._tell(host, partial(_served, number=served + 1))

    # Others

    def _tell(self, host: str, change: Callable[[Health], Health]) -> None:
        if self._bookings is not None:
            deferred_from_coro(self._bookings.change_health(host, change))

    async def look(self, host: str) -> None:
        """Learn what is known in common of *host* now."""
        if self._bookings is not None:
            await self._bookings.change_health(host, lambda health: health)

    def _learn(self, host: str, health: Health) -> None:
        """Take over what is known in common of *host*."""
        if health.level:
            self._untold.pop(host, None)  # those were before its trouble
        HOSTS.note_health(host, health)
        left = health.resumes - monotonic()
        if left > self._back_off.left(host) + CLOCK_DIFFERENCE_SECONDS:
            self._back_off.learn(host, left)


def _served(health: Health, number: int) -> Health:
    return health.served_well(number) if number else health
