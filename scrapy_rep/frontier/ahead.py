"""robots.txt, ahead of need: it is known when a request may go, or is being asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.frontier.places import Where

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from scrapy_rep.frontier.permits import Permits
    from scrapy_rep.frontier.places import Place
    from scrapy_rep.frontier.schedule import Schedule


class Ahead:
    """Has policies asked for on behalf of what waits."""

    def __init__(
        self,
        permits: Permits,
        schedule: Schedule,
        next_of: Callable[[Place], Request | None],
    ) -> None:
        """*next_of* returns the next request of a place; ``None``: none is at hand."""
        self._permits = permits
        self._schedule = schedule
        self._next_of = next_of
        self.asked = 0
        """How many policies are being asked for."""
        self._asks = 0  # those that ever were

    def look(self) -> None:
        """Ask for policies that are not known, as many at a time as may be."""
        schedule, permits = self._schedule, self._permits
        while schedule.unknown and permits.may_ask(self.asked):
            self._asks += 1
            any_of_them = bool(self._asks % 2) and permits.hosts_hang()
            queue = schedule.take_unknown(any_of_them=any_of_them)
            if queue is None:
                return
            queue.where = Where.ASKED
            for place in queue.places:
                if not place.asked and not permits.is_known(place):
                    self._ask(place)
                    if len(queue.places) > 1:
                        schedule.make_due(queue)  # another place may go meanwhile
                    break
            else:  # known by now
                schedule.make_due(queue)

    def _ask(self, place: Place) -> None:
        self.asked += 1
        place.asked = True
        asking = self._permits.ask(place, self._next_of(place))

        def answered(_: object) -> None:
            self.asked -= 1
            # If the answer must not be kept, or is forgotten before the host is due, asking
            # again would send requests for robots.txt and nothing else.
            place.asked = place.ask_ahead = False
            if place.queue.where not in {Where.GONE, Where.FULL}:
                self._schedule.make_due(place.queue)
            self._permits.wake()

        asking.addBoth(answered)
