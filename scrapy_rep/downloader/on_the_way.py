"""What a robots.txt waits for itself: requests that a middleware sends while it has its request.

A middleware may need a token of the same site before it lets any request go. Such a request must
not wait for the robots.txt, which waits for it.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler


class Way:
    """The way of one request through the middlewares of *crawler*, for a robots.txt of *origin*.

    Tasks and connections that begin there keep its context, so when it is over it lets its
    crawler go, or that would live for as long as they do.
    """

    __slots__ = ("crawler", "origin")

    def __init__(self, crawler: Crawler, origin: str) -> None:
        self.crawler: Crawler | None = crawler
        """``None``: it is over."""
        self.origin = origin


_ways: ContextVar[tuple[Way, ...]] = ContextVar("rep_ways", default=())


@contextmanager
def on_the_way(crawler: Crawler, origin: str) -> Iterator[None]:
    """Send the request for the robots.txt of *origin* within the block."""
    way = Way(crawler, origin)
    token = _ways.set((*_ways.get(), way))
    try:
        yield
    finally:
        way.crawler = None
        try:  # noqa: SIM105
            _ways.reset(token)
        except ValueError:  # Twisted 21.7 may go on in another context
            pass


def is_on_the_way(crawler: Crawler, origin: str) -> bool:
    """Tell whether the robots.txt of *origin* may wait for what is sent now."""
    return any(way.origin == origin and way.crawler is crawler for way in _ways.get())


def leave_the_way() -> None:
    """Note that what is sent from now on is on nobody's way.

    Whoever ends a request has the engine ask its scheduler for the next one in the same context.
    Such a request is a page, which its middleware does not wait for.
    """
    if _ways.get():
        _ways.set(())
