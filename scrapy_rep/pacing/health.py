"""How a host bears what is asked of it, from what its answers tell: for how long it is left
alone, and how fast it is asked after that.

Pure: the time comes in as an argument, by ``time.monotonic()``. Beyond RFC 9309.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from random import uniform

PAUSE_JITTER = 0.1
"""The part by which a pause varies, so that hosts that failed together are not asked together."""
ONE_AT_A_TIME_GAP = 0.001
"""The gap, in seconds, of a host that is asked one request at a time and as fast as it answers."""
GAP_MARGIN = 1.25
"""By so much a gap is longer than what the host has borne."""
LEAST_GAP = 0.02
"""Seconds; what is shorter has faded."""
GAP_HALF_LIFE_SECONDS, GAP_HALF_LIFE_GAPS = 120.0, 100
"""A gap is halved in so many seconds, or in so many times itself where that is longer."""
TROUBLE_KEPT_SECONDS = 1800.0
"""Seconds after its last trouble, and the pause for it, that a host is as any other."""


@dataclass(frozen=True, slots=True)
class Health:
    """What is known of one host since its first trouble."""

    level: int = 0
    """How many times in a row it was in trouble, less one for each success since."""
    at: float = 0.0
    """When it was last."""
    resumes: float = 0.0
    """When it was to be asked again after that."""
    since: float | None = None
    """When the trouble began that no success has ended; ``None``: it has ended."""
    served: int = 0
    """Successes since ``at``."""
    refused_at: float = 0.0
    """The gap at which it has refused last, in seconds, until that has become its gap."""
    gap: float = 0.0
    """Seconds between two starts that it was to have when it was asked again; it fades."""

    def in_trouble(self, now: float, pause: float, most: float) -> Health:
        """Return what is known after a failure that counts, and asks for *pause* seconds."""
        before = WELL if self.may_be_forgotten(now) else self
        gap = before.gap_at(now)
        refused_at = 2 * gap
        if before.served:
            # It bears more than with the pause counted, and less than without.
            borne = sqrt((now - before.at) * max(0.0, now - before.resumes))
            refused_at = max(refused_at, GAP_MARGIN * borne / before.served)
        return Health(
            before.level + 1,
            now,
            now + pause,
            now if before.since is None else before.since,
            refused_at=min(most, refused_at),
            gap=gap,
        )

    def too_fast(self) -> Health:
        """Return the same where it has refused us for asking too fast."""
        if not self.refused_at:
            return self
        return replace(self, gap=max(self.gap, self.refused_at), refused_at=0.0)

    def served_well(self, number: int = 1) -> Health:
        """Return what is known after *number* successes that began since its trouble."""
        return replace(
            self,
            level=max(0, self.level - number),
            since=None,
            served=self.served + number,
        )

    def counts(self, started: float) -> bool:
        """Tell whether what *started* then is news, not of the burst that was in flight."""
        return started >= self.resumes

    def gap_at(self, now: float) -> float:
        """Return what is left of its gap."""
        if not self.gap:
            return 0.0
        half = max(GAP_HALF_LIFE_SECONDS, GAP_HALF_LIFE_GAPS * self.gap)
        gap = self.gap * 0.5 ** (max(0.0, now - self.resumes) / half)
        return gap if gap >= LEAST_GAP else 0.0

    def interval(self, now: float) -> float:
        """Return the seconds between two starts; 0: as many at a time as anywhere."""
        return self.gap_at(now) or (ONE_AT_A_TIME_GAP if self.level else 0.0)

    def is_down(self, longest: float) -> bool:
        """Tell whether it has been in trouble for *longest* seconds, and no success."""
        return self.since is not None and self.at - self.since >= longest

    def may_be_forgotten(self, now: float) -> bool:
        return self.resumes + TROUBLE_KEPT_SECONDS < now


WELL = Health()


def pause_of(level: int, first: float, most: float) -> float:
    """Return for how long a host is left alone, the *level*-th time in a row."""
    doubled = first * 2.0 ** min(level - 1, 64)
    return min(most, doubled) * uniform(1 - PAUSE_JITTER, 1 + PAUSE_JITTER)  # noqa: S311
