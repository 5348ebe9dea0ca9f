"""Fetches a robots.txt with the standard library, by http and https alone, for programs without Scrapy.

Proxies are those of the environment, as with ``urllib.request``.
"""

from __future__ import annotations

import re
from functools import partial
from http.client import (
    BadStatusLine,
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    RemoteDisconnected,
)
from io import BufferedReader, RawIOBase
from ssl import PROTOCOL_TLS_CLIENT, SSLContext, SSLSocket, create_default_context
from time import monotonic
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from scrapy_rep.protocol import access
from scrapy_rep.protocol.access import Outcome, path_sent, some_origin_of
from scrapy_rep.protocol.answers import Access, access_of, header_fields
from scrapy_rep.protocol.decoding import MAX_SIZE

TIMEOUT_SECONDS = 30.0
"""For one request, to the last octet; each redirect is another request."""
LIMITS = access.Limits(deny_statuses=frozenset({401, 403}))
"""RFC 9309 2.3.1.3 allows all after 401 and 403. The libraries whose interfaces we offer allow nothing,
and code written for them relies on it."""
STATUS_LINE = re.compile(rb"(HTTP/[0-9.]+) ([0-9]{3})(?: (.*?))?\r?\n")
MAX_LINE_BYTES = 65_536


def fetch(
    url: str,
    user_agent: str | None = None,
    timeout: float | None = None,
    max_redirects: int = LIMITS.max_redirects,
) -> Outcome:
    """Ask for the robots.txt at *url*. Whatever a site does is told, not raised.

    *timeout* is in seconds, for each request; ``None``: 30. Raises ``ValueError`` where *url* is
    not an absolute http or https URL.
    """
    asked = some_origin_of(url) + path_sent(urlsplit(url))
    limits = LIMITS._replace(max_redirects=max_redirects)
    exchange = access.Exchange(asked, limits)
    while exchange.outcome is None:
        try:
            answer = _ask(exchange.request, user_agent, timeout or TIMEOUT_SECONDS)
        except Exception as error:  # noqa: BLE001, PERF203 - whatever a site may make raise
            reason = error.reason if isinstance(error, URLError) else error
            exchange.fail(reason if isinstance(reason, Exception) else error)
        else:
            exchange.receive(answer)
    return exchange.outcome


def _ask(
    asked: access.Request, user_agent: str | None, timeout: float
) -> access.Answer:
    """One answer, with the body of a 2xx."""
    headers = dict(asked.headers)
    if user_agent:
        headers["User-Agent"] = user_agent
    request = Request(asked.url, headers=headers)  # noqa: S310 - it has an origin
    opener = OpenerDirector()
    for handler in (ProxyHandler(), _Handler()):
        opener.add_handler(handler)
    with opener.open(request, timeout=timeout) as response:
        fields = response.headers
        if fields.get_payload():  # what stands after a line that is no header field
            raise HTTPException("its header fields cannot be read")
        # RFC 9112 6.3: what does not say where it ends may have been cut by the end of the connection,
        # but for TLS, which tells (see _Context).
        told = response.chunked or response.length is not None
        delimited = told or asked.url.startswith("https:")
        if len({value.strip() for value in fields.get_all("content-length", ())}) > 1:
            raise HTTPException("its lengths differ")
        if "transfer-encoding" in fields and not response.chunked:
            raise HTTPException("its transfer coding is not decoded")
        body, cut = b"", False
        if access_of(response.status) is Access.SUCCESSFUL:
            body = response.read(MAX_SIZE + 1)
            cut = len(body) > MAX_SIZE
            if response.length and not cut:
                raise HTTPException(f"cut short: {response.length} octets are missing")
        items = header_fields(fields.raw_items())
        return access.Answer(response.status, items, body, cut, delimited=delimited)


class _Handler(HTTPHandler, HTTPSHandler):
    """It follows no redirect."""

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_Http, req)

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_Https, req, context=_Context(PROTOCOL_TLS_CLIENT))


class _Http(HTTPConnection):
    def __init__(
        self, host: str, *, timeout: float = TIMEOUT_SECONDS, **options: Any
    ) -> None:
        super().__init__(host, timeout=timeout, **options)
        deadline = monotonic() + timeout
        self.response_class = partial(_Response, deadline=deadline)  # type: ignore[assignment]


class _Https(_Http, HTTPSConnection):
    pass


class _Context(SSLContext):
    """RFC 9112 9.8: what nothing delimits is whole only after a closure alert."""

    def __init__(self, _protocol: int) -> None:
        self.verify_flags = create_default_context().verify_flags
        self.load_default_certs()
        self.set_alpn_protocols(["http/1.1"])

    def wrap_socket(self, sock: Any, *_: Any, **options: Any) -> SSLSocket:
        return super().wrap_socket(sock, suppress_ragged_eofs=False, **options)


class _Response(HTTPResponse):
    """An answer that must be whole, and there by its deadline.

    A timeout of a socket only limits each silence: an octet now and then would hold us for ever.
    """

    def __init__(self, sock: Any, *args: Any, deadline: float, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = BufferedReader(_InTime(self.fp.detach(), sock, deadline))

    def _read_status(self) -> tuple[str, int, str]:
        # RFC 9112 4: three digits. int() would take "4_04", too.
        line = self.fp.readline(MAX_LINE_BYTES + 1)
        if not line:
            raise RemoteDisconnected("closed without an answer")
        found = STATUS_LINE.fullmatch(line)
        if found is None:
            raise BadStatusLine(repr(line[:80]))
        version, status, reason = (part.decode("latin-1") for part in found.groups(b""))
        return version, int(status), reason


class _InTime(RawIOBase):
    def __init__(self, raw: Any, sock: Any, deadline: float) -> None:
        self._raw = raw
        self._socket = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)
        return self._raw.readinto(buffer)  # type: ignore[no-any-return]

    def close(self) -> None:
        self._raw.close()
        super().close()
