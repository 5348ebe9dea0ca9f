"""Which hosts are in trouble: they are left alone for some time, and asked slowly after that."""

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
"""Seconds between two times that we tell others of successes at a host that has recovered."""


class Troubles:
    """What the failures of a crawl tell about its hosts, and what follows from that.

    The health of each host is shared by all crawls of the process (``HOSTS``), and with
    ``share`` by a fleet.
    """

    def __init__(self, back_off: BackOff, settings: Settings) -> None:
        self._back_off = back_off
        self._first = settings.back_off_first
        self._longest = settings.back_off_max
        self._gives_up_after = settings.back_off_give_up
        self._bookings: Bookings | None = None
        self._untold: dict[str, tuple[int, float]] = {}
        """Host -> successes that others do not know of yet, and when they were last told."""

    def share(self, bookings: Bookings) -> None:
        """Let *bookings* tell others of our troubles, and us of theirs."""
        self._bookings = bookings
        bookings.on_health(self._learn)

    def is_down(self, host: str) -> bool:
        """Tell whether *host* did nothing but fail for REP_BACK_OFF_GIVE_UP seconds."""
        return HOSTS.health(host).is_down(self._gives_up_after)

    def is_known(self, host: str) -> bool:
        """Tell whether *host* was in trouble."""
        return HOSTS.health(host) is not WELL

    def goes_on(self, host: str) -> bool:
        """Tell whether *host* is in trouble, and has not had a success since that began."""
        return HOSTS.health(host).since is not None

    def note_failure(
        self, host: str, started: float, status: int | None, asked: float = 0.0
    ) -> tuple[Health, Health]:
        """Note that a request to *host* has failed; it *started* then, by ``time.monotonic()``.

        *status* is ``None`` if there was no answer; *asked* are the seconds of a Retry-After,
        0: there was none. Returns the health before and after. If both have the same level,
        the failure belongs to a burst, which counts once.
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
            self._tell(host, lambda health: change(_after_successes(health, served)))
        return before, health

    def _after_failure(
        self, health: Health, *, started: float, status: int | None, pause: float
    ) -> Health:
        news = health.is_news(started)
        if news:
            health = health.after_trouble(monotonic(), pause, self._longest)
        # One 503 may be about its page alone; several in a burst are about the host.
        too_fast = status == TOO_MANY_REQUESTS or (
            status == SERVICE_UNAVAILABLE and not news
        )
        return health.after_too_fast() if too_fast else health

    def note_success(self, host: str, started: float) -> None:
        """Note a success at *host*, which was in trouble; the request *started* then."""
        before = HOSTS.health(host)
        if not before.is_news(started):
            return
        HOSTS.note_health(host, before.after_success())
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
            self._tell(host, partial(_after_successes, number=served + 1))

    # Others

    def _tell(self, host: str, change: Callable[[Health], Health]) -> None:
        if self._bookings is not None:
            deferred_from_coro(self._bookings.change_health(host, change))

    async def look(self, host: str) -> None:
        """Learn the shared health of *host* now."""
        if self._bookings is not None:
            await self._bookings.change_health(host, lambda health: health)

    def _learn(self, host: str, health: Health) -> None:
        """Take over the shared health of *host*."""
        if health.level:
            self._untold.pop(host, None)  # those were before its trouble
        HOSTS.note_health(host, health)
        left = health.resumes - monotonic()
        if left > self._back_off.left(host) + CLOCK_DIFFERENCE_SECONDS:
            self._back_off.learn(host, left)


def _after_successes(health: Health, number: int) -> Health:
    return health.after_success(number) if number else health
