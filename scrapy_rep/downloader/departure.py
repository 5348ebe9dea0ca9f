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

ROBOTS_HOP = "rep_hop"
"""The meta key that marks a robots.txt request."""


class Departure:
    """Made when a request is about to be handed to its download handler.

    An HTTP client may send it more than once: each time it is granted, and told.
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
        """*grant* is asked before it is sent once more, *tell* called when it leaves.

        *confirm* is asked when one that is booked has a connection; what it returns is awaited
        before that is used.
        """
        self.request = request
        self.slot = slot
        self.robots_hop: Any = request.meta.get(ROBOTS_HOP)
        """What marks the request as that of a robots.txt; ``None``: it is for a page."""
        self.host = ""
        """Whose pace it keeps; empty: nobody's."""
        self.started_at = 0.0
        """When it was granted last, by ``time.monotonic()``."""
        self.left_at: float | None = None
        """When it left last; ``None``: that was not seen."""
        self.booking: tuple[int, float] | None = None
        """The start that others know of, and when that is by ``time.monotonic()``."""
        self.needs_telling = False
        """Whether somebody wants to know when it leaves."""
        self.keeps_pace = False
        """Whether that is so as its host may have a pace to keep."""
        self.is_watched = False
        """Whether its HTTP client is one that is watched, and so is seen to send it."""
        self.is_over = False
        """Whether it was answered, or never will be."""
        self.places = 0
        """How many requests may be on their way just now; 0: any number."""
        self._grant = grant
        self._tell = tell
        self._confirm = confirm
        self._give_back: Callable[[], None] | None = None
        self._noting: CallLaterResult | None = None

    # For those who watch the HTTP clients

    async def again(self) -> None:
        """Have it granted once more, as its client is about to send it once more."""
        self._note()
        self.left_at = self.booking = None
        if (granted := self._grant(self)) is not None:
            await granted

    def ready(self) -> Awaitable[None] | None:
        """Note that it has a connection; return what is to be awaited before it is used."""
        return None if self.booking is None else self._confirm(self)

    def written(self) -> None:
        """Note that it is written: it leaves in this turn of the event loop, or the next."""
        self.left_at = monotonic()
        if self.needs_telling and self._noting is None:
            self._noting = call_later(0, self._left)

    def _left(self) -> None:
        self.left_at = monotonic()
        self._note()

    def _note(self) -> None:
        """Tell of it if that is still to be done."""
        if self._noting is None:
            return
        self._noting.cancel()
        self._noting = None
        assert self.left_at is not None
        self._tell(self, self.left_at)

    def over(self) -> None:
        """Note that it was answered, or never will be.

        What a client that is not watched has sent may have left as late as now. Where one
        that is watched was not seen to send it, it counts as sent when it was granted.
        """
        self.is_over = True
        if not self.needs_telling:
            return
        if self.left_at is None:
            self._tell(self, self.started_at if self.is_watched else monotonic())
        elif self._noting is not None:
            self._note()

    # What it holds on to

    @property
    def holds(self) -> bool:
        return self._give_back is not None

    def hold(self, give_back: Callable[[], None]) -> None:
        """Have *give_back* called once, at the latest when all were told what came of it."""
        self._give_back = give_back

    def let_go(self) -> None:
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()


_leaving: ContextVar[list[Departure]] = ContextVar("rep_leaving")


def leaving() -> Departure | None:
    """Return the one for which a download handler does what is being done; or ``None``."""
    departures = _leaving.get(None)
    return departures[0] if departures else None


class handed_over:
    """Has ``leaving`` return *departure* in what is begun in the block, until that is over.

    Event loops keep what was set in a context for as long as a connection is open.
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
