"""Requests that the engine has, until all that came of them is filed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.utils.asyncio import call_later

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Request
    from scrapy.utils.asyncio import CallLaterResult

    from scrapy_rep.frontier.ledger import Entry
    from scrapy_rep.frontier.places import Place

    Taken = tuple[Place, Entry]

SWEEP_SECONDS = 0.03
"""Seconds after which we look again which requests are done."""


class InHand:
    """Knows by what it was taken each request that the engine has."""

    def __init__(
        self,
        done_with: Callable[[Iterable[Request]], Iterable[Request]],
        done: Callable[[list[tuple[Place, object]]], None],
    ) -> None:
        """*done_with* returns those that the engine is done with; *done* is told of them."""
        self.taken: dict[Request, Taken] = {}
        self._done_with = done_with
        self._done = done
        self._timer: CallLaterResult | None = None
        self._is_closed = False

    def add(self, request: Request, place: Place, entry: Entry) -> None:
        self.taken[request] = place, entry
        if self._timer is None and not self._is_closed:
            self._timer = call_later(SWEEP_SECONDS, self._sweep)

    def take_back(self, request: Request) -> Taken | None:
        """Return how *request* was taken, which is on its way back; ``None``: it was not."""
        return self.taken.pop(request, None)

    def _sweep(self) -> None:
        self._timer = None
        self.sweep()
        if self.taken:
            self._timer = call_later(SWEEP_SECONDS, self._sweep)

    def sweep(self) -> None:
        """Tell of the requests that are done since we last looked."""
        gone = [self.taken.pop(request) for request in self._done_with(self.taken)]
        kept = [(place, entry[2]) for place, entry in gone if entry[2] is not None]
        if kept:
            self._done(kept)

    def close(self) -> None:
        """Look for the last time; what is not done by now is not done."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.sweep()
