"""What goes over a connection and when: what download handlers do not tell.

Twisted and aiohttp accept a body without a delimiter as whole, however its connection was
lost; and Twisted accepts as a status whatever ``int`` accepts as a number. A request leaves
only when its connection is made, and both clients send it a second time by themselves if a
kept connection turns out to be closed. So these HTTP clients, and httpx, are watched here.
Only one thing about them changes: a request may have to wait before it is written
(``Departure``).
"""

from __future__ import annotations

import re
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from scrapy.utils.defer import deferred_from_coro
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IHandshakeListener, ISSLTransport
from twisted.python.failure import Failure
from zope.interface import classImplements  # type: ignore[import-untyped]

from scrapy_rep.downloader.departure import current_departure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import ModuleType

    from scrapy.http.headers import Headers

    from scrapy_rep.downloader.departure import Departure

    Trace = Callable[[str, dict[str, Any]], Awaitable[None]]


STATUS_LINE = re.compile(rb"[^ ]+ [0-9]{3}( |$)")
"""RFC 9112 4: a status has three digits."""

DELIMITERS = frozenset({b"Content-Length", b"Transfer-Encoding"})
"""What tells where a body ends (RFC 9112 6.3); else that is where its connection does."""


class Wire:
    """What was seen of one answer."""

    __slots__ = ("broken", "status_line")

    def __init__(self, status_line: bytes = b"") -> None:
        self.status_line = status_line
        """As it was sent; empty if the HTTP client itself checks it strictly."""
        self.broken = False
        """Whether the connection was lost rather than closed."""

    def fault(self, headers: Headers, *, stopped: bool) -> str:
        """Return why this is no whole answer; empty: it is one.

        *stopped*: we stopped the download, and closed the connection ourselves.
        """
        if self.status_line and not STATUS_LINE.match(self.status_line):
            return "no HTTP status"
        # If a delimiter tells where the body ends, it may have broken after that.
        if self.broken and not stopped and headers.keys().isdisjoint(DELIMITERS):
            return "cut short"
        return ""


_reading: ContextVar[Wire | None] = ContextVar("rep_wire", default=None)
_watched: set[str] = set()


def current_wire() -> Wire | None:
    """Return the wire of the answer whose headers have just come; ``None``: not watched.

    For receivers of Scrapy's signal ``headers_received``.
    """
    return _reading.get()


def watch() -> None:
    """Watch the HTTP clients that are imported by now."""
    for name, watchers in CLIENTS.items():
        if name in sys.modules and name not in _watched:
            _watched.add(name)
            for begin in watchers:
                begin(sys.modules[name])


def _watch_twisted_answers(module: ModuleType) -> None:
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


def _watch_twisted_requests(module: ModuleType) -> None:
    protocol = module.HTTP11ClientProtocol
    send = protocol.request

    def request(self: Any, asked: Any) -> Any:
        sent = send(self, asked)
        # Over TLS what is written waits for the handshake, which comes once.
        self.rep_written = True
        if self.rep_greeted or not ISSLTransport.providedBy(self.transport):
            leave(self)
        return sent

    def handshake_completed(self: Any) -> None:
        self.rep_greeted = True
        if self.rep_written:
            leave(self)

    def leave(self: Any) -> None:
        departure, self.rep_departure = self.rep_departure, None
        if departure is not None:
            departure.note_written()

    protocol.rep_departure = None
    protocol.rep_written = protocol.rep_greeted = False
    protocol.request = request
    protocol.handshakeCompleted = handshake_completed
    classImplements(protocol, IHandshakeListener)


def _watch_twisted_pools(module: ModuleType) -> None:
    pool = module.HTTPConnectionPool
    get_connection = pool.getConnection

    def get(self: Any, key: Any, endpoint: Any) -> Any:
        departure = current_departure()
        connecting = get_connection(self, key, endpoint)
        if departure is None:
            return connecting
        departure.is_watched = True
        return connecting.addCallback(_use, departure)

    pool.getConnection = get


# Functions of the module rather than closures: as those know of each other, only the garbage
# collector would free them, and with them the request.


def _use(connection: Any, departure: Departure) -> Any:
    own = getattr(connection, "_clientProtocol", connection)
    if own is not connection:  # it was kept, and is replaced if it was closed
        connect = connection._newConnection
        connection._newConnection = lambda: _connect_again(connect, departure)
    confirmed = departure.confirm()
    if confirmed is None:
        return _mark(connection, own, departure)
    waiting = deferred_from_coro(confirmed)
    return waiting.addCallback(lambda _: _mark(connection, own, departure))


def _mark(connection: Any, own: Any, departure: Departure) -> Any:
    if own is connection and own.state != "QUIESCENT":
        raise ConnectionLost("while the request waited for its turn")
    own.rep_departure = departure
    own.rep_written = False
    return connection


def _connect_again(connect: Callable[[], Any], departure: Departure) -> Any:
    granted = deferred_from_coro(departure.grant_again())
    return granted.addCallback(lambda _: connect()).addCallback(_use, departure)


def _watch_aiohttp_answers(module: ModuleType) -> None:
    handler = module.ResponseHandler
    set_response_params = handler.set_response_params
    connection_lost = handler.connection_lost

    def expect(self: Any, **options: Any) -> None:
        # In the task of the request, which is where the headers will be told of.
        self.rep_wire = Wire()
        _reading.set(self.rep_wire)
        set_response_params(self, **options)
        if (departure := current_departure()) is not None:
            departure.note_written()  # which comes next

    def lose(self: Any, error: BaseException | None) -> None:
        wire = getattr(self, "rep_wire", None)
        if wire and error is not None:
            wire.broken = True
        connection_lost(self, error)

    handler.set_response_params = expect
    handler.connection_lost = lose


def _watch_aiohttp_connections(module: ModuleType) -> None:
    connector = module.BaseConnector
    connect = connector.connect

    async def connect_for(self: Any, *args: Any, **options: Any) -> Any:
        departure = current_departure()
        _make_room(self, "_limit", departure)
        if departure is not None:
            departure.is_watched = True
            if departure.left_at is not None:
                await departure.grant_again()
        connection = await connect(self, *args, **options)
        if departure is not None:
            try:
                await departure.until_confirmed()
            except BaseException:
                connection.release()
                raise
        return connection

    connector.connect = connect_for


def _watch_httpcore_pools(module: ModuleType) -> None:
    pool = module.AsyncConnectionPool
    handle = pool.handle_async_request

    async def handle_async_request(self: Any, request: Any) -> Any:
        departure = current_departure()
        _make_room(self, "_max_connections", departure)
        if departure is not None:
            departure.is_watched = True
            trace = _trace_for(departure, request.extensions.get("trace"))
            request.extensions = {**request.extensions, "trace": trace}
        return await handle(self, request)

    pool.handle_async_request = handle_async_request


def _trace_for(departure: Departure, others: Trace | None) -> Trace:
    """Return a function for httpcore to call at each step; it calls *others* as well."""

    async def trace(step: str, info: dict[str, Any]) -> None:
        if others is not None:
            await others(step, info)
        if not step.endswith(".send_request_headers.started"):
            return
        if info["request"].method == b"CONNECT":  # to a proxy, before it
            return
        if departure.left_at is not None:
            await departure.grant_again()
        await departure.until_confirmed()
        departure.note_written()

    return trace


def _make_room(pool: Any, name: str, departure: Departure | None) -> None:
    """Let *pool* open as many connections as there may be requests on their way.

    Scrapy limits it to CONCURRENT_REQUESTS, and does not know of places that were lent
    since. *name* is the attribute with the limit.
    """
    if departure is not None and 0 < getattr(pool, name, 0) < departure.places:
        setattr(pool, name, departure.places)


CLIENTS = {
    "twisted.web._newclient": (_watch_twisted_answers, _watch_twisted_requests),
    "twisted.web.client": (_watch_twisted_pools,),
    "aiohttp.client_proto": (_watch_aiohttp_answers,),
    "aiohttp.connector": (_watch_aiohttp_connections,),
    "httpcore._async.connection_pool": (_watch_httpcore_pools,),
    "httpcore2._async.connection_pool": (_watch_httpcore_pools,),
}
"""Module -> the functions that begin to watch it, once it is imported."""
