"""How many requests a host has had of a crawl, and how many it may have (REP_HOST_BUDGET)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest

if TYPE_CHECKING:
    from scrapy_rep.pacing.bookings import Bookings
    from scrapy_rep.settings import Settings


class OverBudgetError(IgnoreRequest):
    """The host has had all the requests that it may have; the gate refuses the next one."""


class Budget:
    """How many requests one crawl, or with ``share`` a fleet, has left for each host."""

    def __init__(self, settings: Settings) -> None:
        self._usual = settings.host_budget
        self._own = {
            host: own["budget"]
            for host, own in settings.hosts.items()
            if "budget" in own
        }
        self.is_set = self._usual is not None or bool(self._own)
        self._spent: dict[str, int] = {}
        self._refused: set[str] = set()
        self._bookings: Bookings | None = None

    def share(self, bookings: Bookings) -> None:
        self._bookings = bookings

    def of(self, host: str) -> int | None:
        """Return how many requests *host* may have; ``None``: any."""
        return self._own.get(host, self._usual) if host else None

    def is_used_up(self, host: str) -> bool:
        most = self.of(host)
        return most is not None and self._spent.get(host, 0) >= most

    def is_first_refusal(self, host: str) -> bool:
        """Note that a request to *host* is refused; tell whether it is the first one."""
        before = len(self._refused)
        self._refused.add(host)
        return len(self._refused) > before

    def spend(self, host: str) -> None:
        """Count a request to *host*; raises ``OverBudgetError`` if it may have no more."""
        if self.of(host) is None:
            return
        if self.is_used_up(host):
            raise OverBudgetError
        self._spent[host] = self._spent.get(host, 0) + 1

    def give_back(self, host: str) -> None:
        """Note that a request that was counted does not start."""
        if host in self._spent:
            self._spent[host] -= 1

    async def spend_shared(self, host: str) -> None:
        """Count a request to *host*, which is counted here already, for the whole fleet.

        Raises ``OverBudgetError`` if the fleet has sent as many as it may.
        """
        most = self.of(host)
        if most is None or self._bookings is None:
            return
        if not await self._bookings.spend(host, most):
            self._spent[host] = most
            raise OverBudgetError
