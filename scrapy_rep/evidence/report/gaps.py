"""The gaps between requests to one host, in little memory however many they are."""

from __future__ import annotations

from array import array
from math import exp, inf, log
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_POINTS = 96
"""Gaps that are kept to be drawn; an even number."""
KEPT_PART = 0.99
"""Of the delay; a gap under that is short. What is nearer may be the clock's doing."""

# Where there are too many gaps to keep, they are counted in classes, each 2 % wider than
# the one before: a median is then known within 2 %.
CLASS_STEP = log(1.02)
MIN_GAP, MAX_GAP = 0.001, 86400.0  # seconds; what is beyond is counted with them
CLASSES = int(log(MAX_GAP / MIN_GAP) / CLASS_STEP) + 1


class Point(NamedTuple):
    """A request: when, how long after the one before, and how long it was to be."""

    time: float
    gap: float
    delay: float
    """Seconds; 0: none was asked for."""

    @property
    def short(self) -> bool:
        return is_short(self.gap, self.delay)


def is_short(gap: float, delay: float) -> bool:
    return gap < delay * KEPT_PART


class Gaps:
    """Takes all gaps of a host; all in seconds."""

    __slots__ = (
        "_best",
        "_classes",
        "_points",
        "_taken",
        "count",
        "group",
        "short",
        "smallest",
    )

    def __init__(self) -> None:
        self.count = 0
        self.short = 0
        """How many were less than the delay that was asked for at the time."""
        self.smallest = inf
        self.group = 1
        """Each point stands for so many requests: the one that kept least of its delay,
        so that no short gap is lost among longer ones."""
        self._points = array("d")  # time, gap and delay in turn
        self._best: Point | None = None  # of the group that is not full yet,
        self._taken = 0  # of which these are taken
        self._classes: array[int] | None = None  # None while all gaps are points

    def add(self, time: float, gap: float, delay: float) -> None:
        self.count += 1
        self.smallest = min(self.smallest, gap)
        if is_short(gap, delay):
            self.short += 1
        if self._classes is not None:
            self._classes[_class_of(gap)] += 1
        point = Point(time, gap, delay)
        if self._best is not None:
            point = _less_kept(self._best, point)
        self._best = point
        self._taken += 1
        if self._taken < self.group:
            return
        self._points.extend(point)
        self._best = None
        self._taken = 0
        if len(self._points) == 3 * MAX_POINTS:
            self._thin_out()

    def points(self) -> Iterator[Point]:
        """Return what there is to draw, in the order in which it was added."""
        values = self._points
        for at in range(0, len(values), 3):
            yield Point(*values[at : at + 3])
        if self._best is not None:
            yield self._best

    @property
    def median(self) -> float | None:
        """Exact as long as all gaps are points, else within 2 %; ``None``: no gaps."""
        if not self.count:
            return None
        if self._classes is None:
            gaps = sorted(self._points[1::3])
            half = len(gaps) // 2
            return gaps[half] if len(gaps) % 2 else (gaps[half - 1] + gaps[half]) / 2
        below = number = 0
        while 2 * (below + self._classes[number]) < self.count:
            below += self._classes[number]
            number += 1
        # As if those of the class lay evenly in it.
        share = (self.count / 2 - below) / self._classes[number]
        return max(self.smallest, MIN_GAP * exp(CLASS_STEP * (number + share)))

    @property
    def exact(self) -> bool:
        """Tell whether the median is exact."""
        return self._classes is None

    def _thin_out(self) -> None:
        points = list(self.points())
        if self._classes is None:
            self._classes = array("I", bytes(array("I").itemsize * CLASSES))
            for point in points:
                self._classes[_class_of(point.gap)] += 1
        self._points = array("d")
        for at in range(0, MAX_POINTS, 2):
            self._points.extend(_less_kept(points[at], points[at + 1]))
        self.group *= 2


def _class_of(gap: float) -> int:
    return min(int(log(max(gap, MIN_GAP) / MIN_GAP) / CLASS_STEP), CLASSES - 1)


def _less_kept(one: Point, other: Point) -> Point:
    """Return the point that kept least of its delay."""
    return other if other.gap - other.delay < one.gap - one.delay else one
