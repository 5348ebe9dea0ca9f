"""What the origins of each download slot ask for between two requests."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

GUARD_PART, GUARD_MOST = 0.04, 0.02
"""The part of an interval, and at most the seconds, by which slots keep more of it.

The site measures arrivals, and the way there is not always equally long.
"""
SHARED_GUARD_PART = 0.01
"""The same where each start is confirmed, which takes some time as well."""
SWEEP_AT = 16
"""How many slots are kept before those that are gone are looked for the first time."""


class Intervals:
    """Slot -> origin -> seconds. Those of slots that Scrapy has dropped are forgotten."""

    def __init__(self, is_there: Callable[[str], bool]) -> None:
        """*is_there* tells whether there is such a slot."""
        self._is_there = is_there
        self.seconds: dict[str, dict[str, float]] = {}
        """Slot -> origin -> what it asks for; empty where nothing is kept."""
        self._sweep_at = SWEEP_AT
        self.quickest: dict[str, float] = {}
        """Slot -> its shortest latency, in seconds."""
        self.started: dict[str, float] = {}
        """Slot -> when its last request left, by ``time.monotonic()``."""
        self.guard_part = GUARD_PART

    def __contains__(self, slot: str) -> bool:
        return slot in self.seconds

    def keep(self, slot: str, origin: str, seconds: float) -> None:
        """Note that *origin*, asked through *slot*, asks for *seconds*; 0: for none."""
        intervals = self.seconds.get(slot)
        if seconds:
            if intervals is None:
                if len(self.seconds) > self._sweep_at:
                    self.sweep()
                intervals = self.seconds[slot] = {}
            intervals[origin] = seconds
        elif intervals:
            intervals.pop(origin, None)

    def delay(self, slot: str) -> float:
        """Return the seconds that *slot* is to keep; the slowest origin decides."""
        intervals = self.seconds.get(slot)
        if not intervals:
            return 0.0
        interval = max(intervals.values())
        return interval + min(self.guard_part * interval, GUARD_MOST)

    def left(self, slot: str) -> float:
        """Return the seconds until *slot* may start another request; 0: it may now."""
        started = self.started.get(slot)
        if started is None:
            return 0.0
        return max(0.0, started + self.delay(slot) - monotonic())

    def forget(self, slot: str) -> None:
        self.seconds.pop(slot, None)
        self.quickest.pop(slot, None)
        self.started.pop(slot, None)

    def sweep(self) -> None:
        """Forget the slots that are not there any more."""
        for slot in [slot for slot in self.seconds if not self._is_there(slot)]:
            self.forget(slot)
        self._sweep_at = 2 * len(self.seconds) + SWEEP_AT
