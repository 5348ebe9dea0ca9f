"""The ledger of a crawl of which nothing outlives the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_rep.frontier.ledger import Ledger
from scrapy_rep.frontier.requests import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request

    from scrapy_rep.frontier.places import Place


class MemoryLedger(Ledger):
    """Has all requests at hand."""

    where = "memory"
    outlives = False

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._orders = 0

    def file(
        self,
        place: Place,
        rank: int,
        request: Request,
        fingerprint: bytes | None,
        *,
        last_first: bool,
    ) -> str:
        if fingerprint is not None:
            fingerprint = shortened(fingerprint)
            if fingerprint in self._seen:
                return ""
            self._seen.add(fingerprint)
        self._orders += 1
        order = -self._orders if last_first else self._orders
        self.frontier.arrive(place, (rank, order, None, request))
        return self.where

    def fill(self, place: Place, number: int) -> None:
        """Never called: nothing is behind."""

    def done(self, gone: Iterable[tuple[Place, Any]]) -> None:
        """Never called: nothing has an id."""
