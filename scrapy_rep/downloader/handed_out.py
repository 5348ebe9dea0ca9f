"""What a polite queue has handed out, and the crawl has not answered yet."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from scrapy import Request

NOWHERE: frozenset[Request] = frozenset()


class HandedOut:
    """Requests by download slot, as long as the downloader is at them."""

    def __init__(self, active: Callable[[], AbstractSet[Request]]) -> None:
        """*active* returns the requests that the downloader is at, in whatever slot."""
        self._active = active
        self._by_slot: dict[str, set[Request]] = {}
        self.sent_back: WeakSet[Request] = WeakSet()
        """Requests on their way back to the queue, which has handed them out too early."""

    def add(self, slot: str, request: Request) -> None:
        """Note that *request* is on its way to *slot*."""
        if len(self._by_slot) > 2 * len(self._active()) + 16:
            self.sweep()
        self._by_slot.setdefault(slot, set()).add(request)

    def sweep(self) -> None:
        """Forget what was answered since its slot was asked about."""
        for slot in list(self._by_slot):
            self.on_the_way(slot, NOWHERE)

    def has(self, slot: str, request: Request) -> bool:
        """Tell whether *request* comes from the queue, and is not answered yet."""
        return request in self._by_slot.get(slot, ())

    def on_the_way(self, slot: str, there: AbstractSet[Request]) -> int:
        """Return how many are not in *slot* yet, *there* being those that are."""
        requests = self._by_slot.get(slot)
        if requests is None:
            return 0
        requests &= self._active()  # the others were answered, or refused
        if not requests:
            del self._by_slot[slot]
            return 0
        return len(requests - there) if there else len(requests)
