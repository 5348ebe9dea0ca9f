"""A scriptable web site in a thread of the test process."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise, repeat
from socket import SO_LINGER, SOL_SOCKET
from struct import pack
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.wire import SENT

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Iterator
    from email.message import Message
    from types import TracebackType

    from typing_extensions import Self


AT_ONCE: Iterator[float] = repeat(0.0)


class Hit(NamedTuple):
    """One request that the site saw."""

    seconds: float  # time.monotonic() when the site saw it, at arrival or later
    path: str
    headers: Message

    @property
    def sent(self) -> float:
        """``time.monotonic()`` when a crawl of the tests handed it to be downloaded."""
        return float(self.headers[SENT])


@dataclass
class Reply:
    """What the site answers; ``after`` and ``cut`` make it slow and false."""

    body: bytes | str = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    after: float = 0.0  # seconds before the status line is written
    hang: bool = False  # no answer until the site is closed
    reset: bool = False  # the connection is closed without an answer
    cut: int = 0  # octets that Content-Length promises and that never come
    drip: float = 0.0  # seconds between two octets of the body
    raw: bytes = b""  # in place of all of the above but ``drip``, headers included
    broken: bool = False  # after ``raw`` the connection is reset rather than closed
    alert: bool = False  # after ``raw`` TLS is closed with an alert


def gaps_between(hits: Iterable[Hit]) -> list[float]:
    """Return the seconds between two arrivals.

    However late the machine lets a site note one, it answers later than that, and the next
    request waits for the answer.
    """
    times = sorted(hit.seconds for hit in hits)
    return [later - earlier for earlier, later in pairwise(times)]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    accepts_after = AT_ONCE

    def get_request(self) -> Any:
        time.sleep(next(self.accepts_after))  # what is sent meanwhile waits to be read
        return super().get_request()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that went away is part of the tests


class Site:
    """Serves replies by path, and records every hit. One origin.

    A reply may also be a function of the hit, or a list of replies: one for each time
    that the path is asked for, the last one from then on.
    """

    def __init__(
        self,
        replies: dict[str, Any] | None = None,
        *,
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
        accepts_after: Iterator[float] = AT_ONCE,
    ) -> None:
        """*accepts_after*: for how many seconds each connection waits to be accepted."""
        self.replies = replies or {}
        self.hits: list[Hit] = []
        self.closing = Event()
        self._server = _Server((host, 0), _handler_for(self))
        self._server.accepts_after = accepts_after
        scheme = "http"
        if tls:
            scheme = "https"
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self.host = host
        self.port = self._server.server_port
        self.origin = f"{scheme}://{host}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def url(self, path: str) -> str:
        return self.origin + path

    @property
    def paths(self) -> list[str]:
        return [hit.path for hit in self.hits]

    def count(self, path: str) -> int:
        return self.paths.count(path)

    def gaps(self, *, robots: bool = False) -> list[float]:
        """Return the seconds between requests, robots.txt left out unless asked for."""
        return gaps_between(
            hit for hit in self.hits if robots or hit.path != "/robots.txt"
        )

    def reply_to(self, hit: Hit) -> Reply:
        reply = self.replies.get(hit.path)
        if reply is None:
            missing = hit.path == "/robots.txt"
            return Reply(status=404) if missing else Reply("<html>page</html>")
        if isinstance(reply, list):
            reply = reply.pop(0) if len(reply) > 1 else reply[0]
        if isinstance(reply, (str, bytes)):
            reply = Reply(reply)
        if callable(reply):
            reply = reply(hit)
        assert isinstance(reply, Reply)
        return reply


class Silence:
    """A reply that does not come until that is wanted."""

    def __init__(self) -> None:
        self.over = Event()

    def __call__(self, _: object) -> Reply:
        self.over.wait(20)
        return Reply("# fine")


def hosts_of(site: Site, number: int, first: int = 2) -> list[str]:
    """Return the origins of so many hosts, which *site* is on its own."""
    return [
        f"http://127.0.0.{host}:{site.port}" for host in range(first, first + number)
    ]


def _handler_for(site: Site) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            hit = Hit(time.monotonic(), self.path, self.headers)
            site.hits.append(hit)
            self.answer(site.reply_to(hit))

        def answer(self, reply: Reply) -> None:
            if reply.hang:
                site.closing.wait()
            if reply.hang or reply.reset:
                self.close_connection = True
                return
            site.closing.wait(reply.after)
            if reply.raw:
                self.close_connection = True
                self.drip(reply.raw, reply.drip)
                if reply.alert:
                    self.connection.unwrap()
                if reply.broken:
                    site.closing.wait(0.1)  # what came before has been read by then
                    self.connection.setsockopt(SOL_SOCKET, SO_LINGER, pack("ii", 1, 0))
                    os.close(self.connection.detach())
                return
            body = reply.body.encode() if isinstance(reply.body, str) else reply.body
            self.send_response(reply.status)
            headers = {"Content-Type": "text/html", **reply.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            if reply.status not in {204, 304}:
                self.send_header("Content-Length", str(len(body) + reply.cut))
            self.end_headers()
            if reply.status not in {204, 304}:
                self.drip(body, reply.drip)
            if reply.cut:
                self.close_connection = True

        def drip(self, octets: bytes, pause: float) -> None:
            if not pause:
                self.wfile.write(octets)
                return
            for octet in octets:
                self.wfile.write(bytes([octet]))
                if site.closing.wait(pause):
                    break

        def log_message(self, *args: Any) -> None:
            pass

    return Handler


def pages(site: Site, number: int, start: int = 0) -> list[str]:
    return [site.url(f"/{n}") for n in range(start, start + number)]


@contextmanager
def some_sites(number: int, robots: Any, first: int = 2) -> Iterator[list[Site]]:
    """Open *number* sites, each on a host of its own."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                Site({"/robots.txt": robots} if robots else {}, host=f"127.0.0.{host}")
            )
            for host in range(first, first + number)
        ]
