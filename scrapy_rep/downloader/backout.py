"""When Scrapy's engine is to ask for no more requests, although places are free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Promising(Protocol):
    """A queue that has robots.txt files fetched before it hands out a request."""

    def promised(self) -> int:
        """Return how many of the free places are promised to its requests, and their fetches."""

    def has_none_due(self) -> bool:
        """Tell whether it has nothing to hand out now; if so, it wakes the engine in time."""


class Backout:
    """Lets the engine back out while all free places are promised, and nothing else may go.

    Scrapy's own middleware fetches a robots.txt while its page holds a place. Here the page
    waits in a queue, and the fetch has a place of its own, so the downloader seems to be free;
    the engine would then take one request at a time from ``start()``, and wait for three turns
    of the event loop after each.
    """

    def __init__(self, free_places: Callable[[], int]) -> None:
        self.queues: list[Promising] = []
        self._free_places = free_places

    def is_all_promised(self) -> bool:
        promised = sum(queue.promised() for queue in self.queues)
        return 0 < self._free_places() <= promised and all(
            queue.has_none_due() for queue in self.queues
        )
