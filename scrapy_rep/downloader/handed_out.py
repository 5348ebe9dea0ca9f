"""What the frontier has handed out, and the crawl has not answered yet."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet, ref

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from scrapy import Request

NOWHERE: frozenset[Request] = frozenset()


class HandedOut:
    """Requests by download slot and by host, for as long as the downloader has them."""

    def __init__(self, active: Callable[[], AbstractSet[Request]]) -> None:
        """*active* returns the requests in the downloader, in whatever slot."""
        self._active = active
        self._by_slot: dict[str, set[Request]] = {}
        self._by_host: dict[str, set[Request]] = {}
        """Hosts whose requests go through slots of other names."""
        self.arrived: WeakSet[Request] = WeakSet()
        """Requests whose answers have begun, of hosts with a pace."""
        self.sent_back: WeakKeyDictionary[Request, ref[Request]] = WeakKeyDictionary()
        """Requests on their way back to the queue, which handed them out too early: what goes
        back, and as what it was handed out."""

    def add(self, slot: str, host: str, request: Request) -> None:
        """Note that *request* is on its way to *host*, by *slot*."""
        self._by_slot.setdefault(slot, set()).add(request)
        if host != slot:
            self._by_host.setdefault(host, set()).add(request)

    def note_sent_back(self, request: Request, again: Request) -> None:
        """Note that *request* is on its way back to the queue, as *again*."""
        self.sent_back[again] = ref(request)

    def sweep(self) -> None:
        """Forget requests that were answered since we last looked at their slot."""
        for slot in list(self._by_slot):
            self.count_on_the_way(slot, NOWHERE)
        for host in list(self._by_host):
            self.has_any_to(host)

    def has(self, slot: str, request: Request) -> bool:
        """Tell whether *request* was handed out for *slot*, and has no answer yet."""
        return request in self._by_slot.get(slot, ())

    def count_on_the_way(self, slot: str, there: AbstractSet[Request]) -> int:
        """Return how many requests are not in *slot* yet; *there* are those that are."""
        requests = self._current(self._by_slot, slot)
        return len(requests - there) if there else len(requests)

    def has_any_to(self, host: str) -> bool:
        """Tell whether any request is on its way to *host*, by whatever slot, unanswered."""
        by_others = self._current(self._by_host, host)
        return any(
            request not in self.arrived
            for requests in (by_others, self._current(self._by_slot, host))
            for request in requests
        )

    def _current(
        self, by_name: dict[str, set[Request]], name: str
    ) -> AbstractSet[Request]:
        requests = by_name.get(name)
        if requests is None:
            return NOWHERE
        requests &= self._active()  # the others were answered, or refused
        if not requests:
            del by_name[name]
        return requests
