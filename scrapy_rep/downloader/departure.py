"""How one request leaves: from its hand-over to the octets on the wire."""

from __future__ import annotations

from contextvars import ContextVar
from time import monotonic
from typing import TYPE_CHECKING

from scrapy.utils.asyncio import call_later

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from scrapy import Request
    from scrapy.utils.asyncio import CallLaterResult

    Granter = Callable[["Departure"], Awaitable[None] | None]

ROBOTS_HOP = "rep_robotstxt"
"""The meta key that marks a request for a robots.txt, for users' middlewares, too."""


class Departure:
    """One request on its way out, from just before its download handler gets it.

    An HTTP client may send a request more than once: each time a start is granted, and
    listeners are told when it leaves.
    """

    __slots__ = (
        "__weakref__",
        "_confirm",
        "_give_back",
        "_grant",
        "_noting",
        "_tell",
        "booking",
        "host",
        "is_over",
        "is_watched",
        "keeps_pace",
        "left_at",
        "needs_telling",
        "places",
        "request",
        "robots_hop",
        "slot",
        "started_at",
    )

    def __init__(
        self,
        request: Request,
        slot: str | None,
        grant: Granter,
        tell: Callable[[Departure, float], None],
        *,
        confirm: Granter = lambda _: None,
    ) -> None:
        """*grant* is called before the request is sent once more, *tell* when it leaves.

        *confirm* is called when a request with a booking has a connection; what it returns
        is awaited before the connection is used.
        """
        self.request = request
        self.slot = slot
        self.robots_hop: Any = request.meta.get(ROBOTS_HOP)
        """What marks the request as that of a robots.txt; ``None``: it is for a page."""
        self.host = ""
        """Whose pace it keeps; empty: nobody's."""
        self.started_at = 0.0
        """When a start was last granted, by ``time.monotonic()``."""
        self.left_at: float | None = None
        """When it left last; ``None``: that was not seen."""
        self.booking: tuple[int, float] | None = None
        """The start that other processes know of: by the shared clock in microseconds, and by
        ``time.monotonic()``; ``None``: no start is booked."""
        self.needs_telling = False
        """Whether a listener wants to know when it leaves."""
        self.keeps_pace = False
        """Whether its host may have a pace to keep."""
        self.is_watched = False
        """Whether its HTTP client is watched, so that we see when it is sent."""
        self.is_over = False
        """Whether it was answered, or will not be any more."""
        self.places = 0
        """How many requests may be on their way just now; 0: any number."""
        self._grant = grant
        self._tell = tell
        self._confirm = confirm
        self._give_back: Callable[[], None] | None = None
        self._noting: CallLaterResult | None = None

    # Called by what watches the HTTP clients (wire.py)

    async def grant_again(self) -> None:
        """Wait until another start is granted: the client is about to send it once more."""
        self._note()
        self.left_at = self.booking = None
        if (granted := self._grant(self)) is not None:
            await granted

    def confirm(self) -> Awaitable[None] | None:
        """Return what to await before its connection is used; ``None``: use it at once."""
        return None if self.booking is None else self._confirm(self)

    async def until_confirmed(self) -> None:
        """Wait until its connection may be used."""
        if (confirmed := self.confirm()) is not None:
            await confirmed

    def note_written(self) -> None:
        """Note that it was written: it leaves in this turn of the event loop or the next."""
        self.left_at = monotonic()
        if self.needs_telling and self._noting is None:
            self._noting = call_later(0, self._left)

    def _left(self) -> None:
        self.left_at = monotonic()
        self._note()

    def _note(self) -> None:
        """Tell listeners that it has left, if they were not told yet."""
        if self._noting is None:
            return
        self._noting.cancel()
        self._noting = None
        assert self.left_at is not None
        self._tell(self, self.left_at)

    def note_over(self) -> None:
        """Note that it was answered, or will not be any more.

        If its client is not watched, the request may have left as late as now. If the client
        is watched but was not seen to send it, it counts as sent when its start was granted.
        """
        self.is_over = True
        if not self.needs_telling:
            return
        if self.left_at is None:
            self._tell(self, self.started_at if self.is_watched else monotonic())
        elif self._noting is not None:
            self._note()

    # A claim that it holds

    @property
    def is_holding(self) -> bool:
        return self._give_back is not None

    def hold(self, give_back: Callable[[], None]) -> None:
        """Hold something until ``let_go``, which calls *give_back* once."""
        self._give_back = give_back

    def let_go(self) -> None:
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()


_leaving: ContextVar[list[Departure]] = ContextVar("rep_leaving")


def current_departure() -> Departure | None:
    """Return the departure that the running download handler serves; or ``None``."""
    departures = _leaving.get(None)
    return departures[0] if departures else None


class as_current:
    """Makes *departure* the current one within the block, and in tasks that begin there.

    A list is set and emptied, as a connection keeps the context that it was opened in.
    """

    __slots__ = ("_departures", "_token")

    def __init__(self, departure: Departure) -> None:
        self._departures = [departure]

    def __enter__(self) -> None:
        self._token = _leaving.set(self._departures)

    def __exit__(self, *raised: object) -> None:
        self._departures.clear()
        try:  # noqa: SIM105 - of each request, for which ``suppress`` takes long
            _leaving.reset(self._token)
        except ValueError:  # Twisted 21.7 may go on in another context
            pass
