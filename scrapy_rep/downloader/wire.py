"""How an answer came over its connection, as far as download handlers do not tell.

Twisted and aiohttp take a body that nothing delimits for whole, however its connection was
lost; and Twisted takes for a status whatever ``int`` takes for a number. Their parsers are
watched here. Nothing is changed, and pages go on as they did.
"""

from __future__ import annotations

import re
import sys
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from types import ModuleType

    from scrapy.http.headers import Headers


STATUS_LINE = re.compile(rb"[^ ]+ [0-9]{3}( |$)")
"""RFC 9112 4: a status has three digits."""

DELIMITERS = frozenset({b"Content-Length", b"Transfer-Encoding"})
"""What tells where a body ends (RFC 9112 6.3); else that is where its connection does."""


@dataclass(slots=True)
class Wire:
    """What was seen of one answer."""

    status_line: bytes = b""
    """As it was sent; empty where the HTTP client itself is strict about it."""
    broken: bool = False
    """Whether the connection was lost in another way than by being closed."""

    def fault(self, headers: Headers, *, stopped: bool) -> str:
        """Return why what came is no whole answer; empty: it is one.

        *stopped* tells that the download was, and its connection closed from this side.
        """
        if self.status_line and not STATUS_LINE.match(self.status_line):
            return "no HTTP status"
        # Where the end of the body is known it may have been broken after that.
        if self.broken and not stopped and headers.keys().isdisjoint(DELIMITERS):
            return "cut short"
        return ""


_reading: ContextVar[Wire | None] = ContextVar("rep_wire", default=None)
_watched: set[str] = set()


def at_hand() -> Wire | None:
    """Return that of the answer whose headers have just come; ``None``: nobody watched.

    For receivers of Scrapy's signal ``headers_received``.
    """
    return _reading.get()


def watch() -> None:
    """See to it that the HTTP clients that are in use are watched."""
    for name, begin in CLIENTS.items():
        if name in sys.modules and name not in _watched:
            _watched.add(name)
            begin(sys.modules[name])


def _watch_twisted(module: ModuleType) -> None:
    parser = module.HTTPClientParser
    status_received = parser.statusReceived
    all_headers_received = parser.allHeadersReceived
    connection_lost = parser.connectionLost

    def take_status(self: Any, status: bytes) -> None:
        self.rep_wire = Wire(status)
        status_received(self, status)

    def hand_over(self: Any) -> None:
        token = _reading.set(getattr(self, "rep_wire", None))
        try:
            all_headers_received(self)
        finally:
            _reading.reset(token)

    def lose(self: Any, reason: Any) -> None:
        # Where the end of a body is known, what comes after it is told as ConnectionDone.
        # RFC 9112 9.8: with TLS, only a closure alert makes it that.
        wire = getattr(self, "rep_wire", None)
        if wire and isinstance(reason, Failure) and not reason.check(ConnectionDone):
            wire.broken = True
        connection_lost(self, reason)

    parser.statusReceived = take_status
    parser.allHeadersReceived = hand_over
    parser.connectionLost = lose


def _watch_aiohttp(module: ModuleType) -> None:
    handler = module.ResponseHandler
    set_response_params = handler.set_response_params
    connection_lost = handler.connection_lost

    def expect(self: Any, **options: Any) -> None:
        # In the task of the request, which is where the headers will be told of.
        self.rep_wire = Wire()
        _reading.set(self.rep_wire)
        set_response_params(self, **options)

    def lose(self: Any, error: BaseException | None) -> None:
        wire = getattr(self, "rep_wire", None)
        if wire and error is not None:
            wire.broken = True
        connection_lost(self, error)

    handler.set_response_params = expect
    handler.connection_lost = lose


CLIENTS = {
    "twisted.web._newclient": _watch_twisted,
    "aiohttp.client_proto": _watch_aiohttp,
}
