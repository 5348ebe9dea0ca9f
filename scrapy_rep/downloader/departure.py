"""One request on its way: from its hand-over until its site has it for certain."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from scrapy import Request

    Granter = Callable[["Departure"], Awaitable[None] | None]

ROBOTS_HOP = "rep_robotstxt"
"""The meta key that marks a request for a robots.txt, for users' middlewares, too."""


class Departure:
    """One request on its way out, from just before its download handler gets it."""

    __slots__ = (
        "__weakref__",
        "_give_back",
        "arrived_at",
        "booking",
        "host",
        "is_over",
        "is_sent",
        "keeps_pace",
        "request",
        "robots_hop",
        "slot",
        "started_at",
    )

    def __init__(self, request: Request, slot: str | None = None) -> None:
        self.request = request
        self.slot = slot
        self.robots_hop: Any = request.meta.get(ROBOTS_HOP)
        """What marks the request as that of a robots.txt; ``None``: it is for a page."""
        self.host = ""
        """Whose pace it keeps; empty: nobody's."""
        self.started_at = 0.0
        """When a start was last granted, by ``time.monotonic()``."""
        self.arrived_at: float | None = None
        """When its site had it at the latest; ``None``: it may still be on its way there."""
        self.booking: int | None = None
        """What other processes know its start by; ``None``: no start is booked."""
        self.keeps_pace = False
        """Whether its host may have a pace to keep."""
        self.is_over = False
        """Whether it was answered, or will not be any more."""
        self.is_sent = False
        """Whether it was handed over, for all that is known."""
