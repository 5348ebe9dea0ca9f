"""Who on this machine keeps a robots.txt from us: a user's middleware or signal handler.

Requests for robots.txt files pass them as pages do. What they raise says nothing of the site:
it is told to the user as what it is, and no other crawl or run gets to know of it.
"""

from __future__ import annotations

import logging
import re
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from pydispatch.dispatcher import (  # type: ignore[import-untyped]
    getAllReceivers,
    liveReceivers,
)
from scrapy.exceptions import IgnoreRequest

from scrapy_rep.access import describe_error
from scrapy_rep.downloader.starts import LOST, ROBOTS_HOP, kind_of
from scrapy_rep.events.stream import Stream
from scrapy_rep.exceptions import HostRefused
from scrapy_rep.protocol.printable import counted

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger("scrapy_rep")

BUGS = (
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    TypeError,
)
"""What no site and no network makes a download handler raise."""
METHODS = frozenset({"process_request", "process_response", "process_exception"})
"""Of downloader middlewares."""
ADVICE = (
    f'let requests through that have "{ROBOTS_HOP}" in their meta, or whose URL ends '
    "with /robots.txt"
)


BROWSERS_PAGE = re.compile(
    rb"\s*<html.{0,300}?"
    rb'(?:<pre style="word-wrap: break-word; white-space: pre-wrap;"'
    rb"|resource://(?:content-accessible|gre-resources)/plaintext\.css)",
    re.IGNORECASE | re.DOTALL,
)
"""How the page begins that a browser makes of plain text: Chromium and WebKit, or Firefox."""


class OwnCode:
    """Tells a user which code of theirs keeps robots.txt files from us; each kind once."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._events = Stream.of(crawler)
        self._told: set[tuple[str, ...]] = set()

    def note_raised(self, error: Exception, origin: str) -> str:
        """Tell that the user's code raised *error* for *origin*; return that in words."""
        who = _raiser(error)
        words = f"{described(error)}, raised by {who}"
        if not self._is_news(who, type(error).__name__):
            return words
        if isinstance(error, IgnoreRequest):
            self._events.warn_user(
                f"{who} refuses the request for robots.txt of {origin} "
                f"({described(error)}), so nobody knows what is allowed there: {ADVICE}"
            )
        else:
            logger.error(
                "%s fails at the request for robots.txt of %s, so nobody knows what is "
                "allowed there. The errbacks of its pages get this exception",
                who,
                origin,
                exc_info=error,
                extra={"spider": self._crawler.spider},
            )
        return words

    def note_stopped(
        self,
        signal: object,
        name: str,
        origin: str,
        octets: int,
    ) -> str:
        """Tell that a handler of *signal* stopped a download; return who that was, in words.

        *name* is that of the signal. So many *octets* of the body have come.
        """
        receivers = liveReceivers(getAllReceivers(self._crawler, signal))
        names = [_name_of(each) for each in receivers if not _is_ours(each)]
        who = " or ".join(names) or "a download handler or middleware"
        if self._is_news(who, name):
            self._events.warn_user(
                f"{who}, which handles the signal {name}, stopped the download of "
                f"robots.txt of {origin} after {counted(octets, 'octet')}. A rule may be "
                f"missing, so nobody knows what is allowed there: {ADVICE}"
            )
        return who

    def note_rendered(self, origin: str) -> str:
        """Tell that a browser has made a page of a robots.txt; return that in words."""
        words = "a browser made HTML of it"
        if self._is_news(words):
            self._events.warn_user(
                f"robots.txt of {origin} came as a page of a browser, in which there are no "
                "rules, so nobody knows what is allowed there: have such requests fetched "
                "without a browser, by REP_ROBOTS_META or in the middleware that sends them "
                f'there, which can tell them by "{ROBOTS_HOP}" in their meta'
            )
        return words

    def _is_news(self, *kind: str) -> bool:
        is_news = kind not in self._told
        self._told.add(kind)
        return is_news


def is_rendered(body: bytes) -> bool:
    """Tell whether *body* is the page that a browser makes of plain text."""
    return BROWSERS_PAGE.match(body) is not None


def is_of_own_code(
    error: Exception, download_error: Exception | None, url: str
) -> bool:
    """Tell whether a user's code raised *error*, rather than a download of *url*.

    *download_error* is what the download handler has raised; ``None``: nothing.
    """
    if isinstance(error, HostRefused) and error.url == url:
        return False  # the gate did, as its host is down
    if error is download_error:
        return isinstance(error, BUGS)
    return (
        kind_of(error) == type(error).__name__
    )  # else a network has failed there, too


def described(error: Exception) -> str:
    """Return the kind of *error*, or its name and what it says."""
    name, kind = type(error).__name__, kind_of(error)
    if kind not in {name, LOST}:
        return kind
    words = describe_error(error)
    return words if words == name else f"{name}: {words}"


def _is_ours(receiver: object) -> bool:
    return str(getattr(receiver, "__module__", "")).startswith("scrapy_rep.")


def _raiser(error: Exception) -> str:
    """Return the name of the middleware's method that let *error* pass, or of what raised it."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    if not frames:
        return "something"
    # The first one: what it has sent itself may have passed others.
    methods = (each for each in frames if each.f_code.co_name in METHODS)
    frame = next(methods, frames[-1])
    function, own = frame.f_code.co_name, frame.f_locals.get("self")
    if own is None:
        return f"{frame.f_globals.get('__name__')}.{function}"
    return f"{type(own).__module__}.{type(own).__qualname__}.{function}"


def _name_of(receiver: Any) -> str:
    """Return the name of a handler of a signal: a function, a method or another callable."""
    named = receiver if hasattr(receiver, "__qualname__") else type(receiver)
    return f"{named.__module__}.{named.__qualname__}"
