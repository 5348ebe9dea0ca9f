"""What there is of each place: some requests at hand, the others behind them in the ledger; and
those that the engine has.
"""

from __future__ import annotations

import logging
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from scrapy.utils.asyncio import call_later

from scrapy_rep.frontier.ledger import unpacked
from scrapy_rep.frontier.places import FIRST, LAST

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.utils.asyncio import CallLaterResult

    from scrapy_rep.engine import Engine
    from scrapy_rep.frontier.ledger import Entry, Ledger
    from scrapy_rep.frontier.permits import Permits
    from scrapy_rep.frontier.places import Place, Places

    Taken = tuple[Place, Entry]

logger = logging.getLogger(__name__)

MOST_OCTETS_AT_HAND = 16 * 2**20
"""Octets of requests at hand that the ledger has, too."""
FEW_AT_HAND = 4
"""Requests of a place that are read at a time while there are many octets at hand."""
SWEEP_SECONDS = 0.03
"""Seconds after which we look again which of the requests that the engine has are done."""


class Stock:
    """All changes of what is at hand and behind, so that what is at hand stays bounded.

    That holds for what ``Ledger.fill`` can bring again; other requests are nowhere else.
    """

    def __init__(
        self, places: Places, ledger: Ledger, permits: Permits, spider: Spider
    ) -> None:
        self._places = places
        self._ledger = ledger
        self._permits = permits
        self._spider = spider
        self.count = 0
        """How many requests wait in all places."""
        self.octets = 0
        """Of those at hand that are in the form in which they are kept."""

    # What comes

    def push(self, place: Place, entry: Entry) -> None:
        """Take a request to hand that is nowhere else."""
        heappush(place.hand, entry)
        self.count += 1

    def add(self, place: Place, entry: Entry) -> None:
        """Take a request to hand that the ledger has, too, if it is one of the first."""
        self.count += 1
        if place.behind and entry[:2] >= place.edge:
            place.behind += 1
            return
        heappush(place.hand, entry)
        self.octets += _size(entry)
        self._shed_if_need_be(place)

    def add_behind(self, place: Place, number: int) -> None:
        """Note that *number* more requests of any urgency wait in the ledger."""
        place.behind += number
        place.edge = FIRST
        self.count += number

    def fill(self, place: Place) -> bool:
        """Have requests of *place* come; tell whether any is at hand now."""
        if place.behind and not place.filling:
            place.filling = True
            many = self.octets < MOST_OCTETS_AT_HAND // 2
            self._ledger.fill(place, self._ledger.at_hand if many else FEW_AT_HAND)
        return bool(place.hand)

    def came(self, place: Place, entries: list[Entry], left: int | None) -> None:
        """Take what ``fill`` has asked for to hand, see ``Frontier.came``."""
        behind = max(0, place.behind - len(entries)) if left is None else left
        if not entries:
            behind = 0
        self.count += behind + len(entries) - place.behind
        place.behind = behind
        for entry in entries:
            heappush(place.hand, entry)
            self.octets += _size(entry)
        place.edge = entries[-1][:2] if behind else LAST
        self._shed_if_need_be(place)

    # What goes

    def next_of(self, place: Place) -> Request | None:
        """Return the next request at hand, read now if need be; ``None``: there is none.

        Those that cannot be read stay in the ledger, as if they were taken for good.
        """
        while place.hand:
            rank, order, id_, body = place.hand[0]
            if not isinstance(body, bytes):
                return body
            self.octets -= len(body)
            try:
                request = unpacked(body, self._spider)
            except Exception:  # whatever comes of what was stored
                logger.exception(
                    "A request of %s cannot be read", place.host or "no host"
                )
                self.take(place)
                self._ledger.note_unreadable(place, id_)
                self._permits.events.count("unreadable")
                continue
            place.hand[0] = rank, order, id_, request
            return request
        return None

    def take(self, place: Place) -> Entry:
        """Remove the next one at hand, which ``next_of`` has read."""
        entry = heappop(place.hand)
        self.count -= 1
        return entry

    def clear(self, place: Place) -> list[Entry]:
        """Remove all of *place*; return those at hand."""
        self.count -= place.count
        entries, place.hand, place.behind = place.hand, [], 0
        self.octets -= sum(map(_size, entries))
        return entries

    def leave(self, place: Place, keep: int = 0) -> None:
        """Leave all but the first *keep* of those at hand to the ledger, which has them, too."""
        if len(place.hand) <= keep:
            return
        hand = sorted(place.hand, key=_urgency)
        gone = [entry for entry in hand[keep:] if entry[2] is not None]
        place.hand = hand[:keep] + [entry for entry in hand[keep:] if entry[2] is None]
        if gone:
            self.octets -= sum(map(_size, gone))
            place.behind += len(gone)
            place.edge = gone[0][:2]

    def _shed_if_need_be(self, kept: Place) -> None:
        """Where that is too much, leave to the ledger what is at hand, but that of *kept*."""
        if self.octets <= MOST_OCTETS_AT_HAND or not self._ledger.sheds:
            return
        for keep in (self._ledger.at_hand, 0):
            for place in self._places:
                if not place.filling:
                    self.leave(place, keep or self._ledger.at_hand * (place is kept))
            if self.octets <= MOST_OCTETS_AT_HAND // 2:
                return


def _urgency(entry: Entry) -> tuple[float, float]:
    return entry[:2]


def _size(entry: Entry) -> int:
    """Return the octets of a request that is at hand in the form in which it is kept."""
    return len(entry[3]) if isinstance(entry[3], bytes) else 0


class InHand:
    """Knows how each request was taken that the engine has, until all that came of it is filed."""

    def __init__(self, engine: Engine, ledger: Ledger) -> None:
        self.taken: dict[Request, Taken] = {}
        self._engine = engine
        self._ledger = ledger
        self._timer: CallLaterResult | None = None
        self._is_closed = False

    def add(self, request: Request, place: Place, entry: Entry) -> None:
        self.taken[request] = place, entry
        self._engine.handed_out.add(place.queue.slot, place.queue.host, request)
        if self._timer is None and not self._is_closed:
            self._timer = call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        self.sweep()
        if self.taken:
            self._timer = call_later(SWEEP_SECONDS, self._sweep)

    def sweep(self) -> None:
        """Tell the ledger of the requests that are done since we last looked."""
        done = self._engine.done_with(self.taken)
        gone = [self.taken.pop(request) for request in done]
        self._engine.handed_out.sweep()
        kept = [(place, entry[2]) for place, entry in gone if entry[2] is not None]
        if kept:
            self._ledger.done(kept)

    def close(self) -> None:
        """Look for the last time; what is not done by now is not done."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.sweep()
