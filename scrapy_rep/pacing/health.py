"""How well a host copes with our requests, as its answers show: for how long it is left alone
after a failure, and how fast it is asked after that.

Pure: the time comes in as an argument, by ``time.monotonic()``. Beyond RFC 9309.
"""

from __future__ import annotations

from math import sqrt
from random import uniform
from typing import NamedTuple

TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE = 429, 503
"""The statuses by which a site refuses (RFC 6585 4, RFC 9110 15.6.4)."""
PAUSE_JITTER = 0.1
"""The part by which a pause varies: hosts that failed together shall not be asked together."""
ONE_AT_A_TIME_GAP = 0.001
"""Seconds: the gap of a host that gets one request at a time, as fast as it answers."""
GAP_MARGIN = 1.25
"""The factor by which a gap is longer than the gap that the host has coped with."""
LEAST_GAP = 0.02
"""Seconds; a gap that has become shorter than this counts as 0."""
GAP_HALF_LIFE_SECONDS, GAP_HALF_LIFE_GAPS = 120.0, 100
"""A gap is halved in so many seconds, or in so many times its own length if that is longer."""
TROUBLE_KEPT_SECONDS = 1800.0
"""Seconds after the pause for its last trouble, after which a host is like any other again."""


class Health(NamedTuple):
    """What is known of one host since its first trouble."""

    level: int = 0
    """How many times in a row it was in trouble, less one for each success since."""
    at: float = 0.0
    """When it was last in trouble."""
    resumes: float = 0.0
    """When it may be asked again after that."""
    since: float | None = None
    """When the present trouble began; ``None``: a success has ended it."""
    served: int = 0
    """Successes since ``at``."""
    refused_at: float = 0.0
    """The gap, in seconds, at which it last refused; 0 once that has become its ``gap``."""
    gap: float = 0.0
    """Seconds between two starts at ``resumes``; the gap gets shorter with time."""

    def after_failure(
        self, started: float, status: int | None, now: float, pause: float, most: float
    ) -> Health:
        """Return its health after a request that *started* then has failed.

        *status* is ``None`` if there was no answer. It has a *pause* of so many seconds then, and
        its gap is *most* seconds at the most. What was in flight during a pause belongs to one
        burst, which counts once.
        """
        is_news, health = started >= self.resumes, self
        if is_news:
            before = WELL if self.may_be_forgotten(now) else self
            gap = before.gap_at(now)
            refused_at = 2 * gap
            if before.served:
                # It copes with more than a mean with the pause shows, and less than one without.
                borne = sqrt((now - before.at) * max(0.0, now - before.resumes))
                refused_at = max(refused_at, GAP_MARGIN * borne / before.served)
            since = now if before.since is None else before.since
            refused_at = min(most, refused_at)
            level, resumes = before.level + 1, now + pause
            health = Health(level, now, resumes, since, 0, refused_at, gap)
        # One 503 may be about its page alone; several in a burst are about the host.
        is_too_fast = status == TOO_MANY_REQUESTS or (
            status == SERVICE_UNAVAILABLE and not is_news
        )
        if not (is_too_fast and health.refused_at):
            return health
        return health._replace(gap=max(health.gap, health.refused_at), refused_at=0.0)

    def after_success(self, started: float) -> Health:
        """Return its health after a success; its request *started* then."""
        if started < self.resumes:  # it tells nothing new
            return self
        level = max(0, self.level - 1)
        return self._replace(level=level, since=None, served=self.served + 1)

    def gap_at(self, now: float) -> float:
        """Return its gap in seconds, as it is by *now*."""
        if not self.gap:
            return 0.0
        half = max(GAP_HALF_LIFE_SECONDS, GAP_HALF_LIFE_GAPS * self.gap)
        gap = self.gap * 0.5 ** (max(0.0, now - self.resumes) / half)
        return gap if gap >= LEAST_GAP else 0.0

    def interval(self, now: float) -> float:
        """Return the seconds between two starts; 0: no limit for the sake of its health."""
        return self.gap_at(now) or (ONE_AT_A_TIME_GAP if self.level else 0.0)

    def is_down(self, longest: float) -> bool:
        """Tell whether it has been in trouble for *longest* seconds without a success."""
        return self.since is not None and self.at - self.since >= longest

    def may_be_forgotten(self, now: float) -> bool:
        return self.resumes + TROUBLE_KEPT_SECONDS < now


WELL = Health()


def pause_of(level: int, first: float, most: float) -> float:
    """Return the seconds for which a host is left alone, the *level*-th time in a row."""
    doubled = first * 2.0 ** min(level - 1, 64)
    return min(most, doubled) * uniform(1 - PAUSE_JITTER, 1 + PAUSE_JITTER)  # noqa: S311
