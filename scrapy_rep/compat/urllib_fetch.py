"""Fetching a robots.txt with the standard library, for programs that are no crawl.

Proxies are those of the environment, as ``urllib.request`` has them. Nothing but http and
https is spoken: no handler for anything else is there.
"""

from __future__ import annotations

from email.message import Message
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import URLError
from urllib.parse import quote, urlsplit
from urllib.request import (
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from scrapy_rep.access.content_coding import decoded
from scrapy_rep.access.origins import origin_of, redirect_target
from scrapy_rep.access.results import REDIRECTS, Access, access_of
from scrapy_rep.protocol import RFC9309, Policy, parse
from scrapy_rep.protocol.decoding import MAX_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.protocol import Dialect

TIMEOUT = 30.0
"""Seconds for one request, to the last octet; each redirect is another request."""
MAX_REDIRECTS = 5
"""RFC 9309 2.3.1.2: at least five should be followed."""
DENY_STATUSES = frozenset({401, 403})
"""RFC 9309 2.3.1.3 lets a crawler go on here. The libraries whose interfaces these are
all stay away, and who comes from them relies on it."""
URI_CHARACTERS = "%/?:@!$&'()*+,;=[]~"


class Answer(NamedTuple):
    """What asking for a robots.txt brought."""

    access: Access
    status: int | None
    """The last status; ``None``: there was no whole answer."""
    headers: Message
    body: bytes = b""
    """Decoded, where access is SUCCESSFUL; whole lines within 512 KiB."""
    fault: Exception | None = None
    """Why there was no whole answer, or where a redirect may not be followed to."""


def fetch(
    url: str,
    *,
    user_agent: str | None = None,
    timeout: float | None = None,
    max_redirects: int = MAX_REDIRECTS,
) -> Answer:
    """Ask for the robots.txt at *url*. Whatever a site does is told, not raised.

    *timeout* is in seconds, for each request; ``None``: 30. Raises ``ValueError`` where
    *url* is not an absolute http or https URL.
    """
    if origin_of(url) is None:
        raise ValueError(f"url is {url!r}, expected an absolute http or https URL")
    status, headers = None, Message()
    try:
        for _ in range(max_redirects + 1):
            status, headers, body = _ask(url, user_agent, timeout or TIMEOUT)
            location = headers.get("Location")
            if status not in REDIRECTS or not location:
                access = access_of(status, deny_statuses=DENY_STATUSES)
                return Answer(access, status, headers, body)
            url = redirect_target(url, location)
    # What the network does, what is no HTTP, and what no robots.txt may be or lead to.
    except (OSError, HTTPException, ValueError) as error:
        fault: Exception = error
        if isinstance(error, URLError) and isinstance(error.reason, Exception):
            fault = error.reason
        return Answer(Access.UNREACHABLE, None, headers, fault=fault)
    # RFC 9309 2.3.1.2: beyond five redirects it may be taken for unavailable.
    return Answer(Access.UNAVAILABLE, status, headers)


def policy_of(answer: Answer, dialect: Dialect = RFC9309) -> Policy:
    """Return the policy that holds after *answer* (RFC 9309 2.3.1)."""
    if answer.access is Access.SUCCESSFUL:
        charset = answer.headers.get_content_charset()
        return parse(answer.body, dialect=dialect, encoding=charset)
    if answer.access is Access.UNAVAILABLE:
        reason = f"no robots.txt ({answer.status})"
        return Policy.allow_all(reason, dialect=dialect)
    if answer.access is Access.DENIED:
        return Policy.disallow_all(f"status {answer.status}", dialect=dialect)
    reason = f"robots.txt unreachable ({answer.fault or answer.status})"
    return Policy.disallow_all(reason, dialect=dialect)


def _ask(
    url: str, user_agent: str | None, timeout: float
) -> tuple[int, Message, bytes]:
    """Return status, headers and, of a 2xx, the body of one answer."""
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    target = quote((parts.path or "/") + query, safe=URI_CHARACTERS)
    request = Request(f"{origin_of(url)}{target}")  # noqa: S310 - it has an origin
    request.add_header("Accept", "text/plain, */*;q=0.5")
    request.add_header("Accept-Encoding", "identity")
    if user_agent:
        request.add_header("User-Agent", user_agent)
    opener = _opener(monotonic() + timeout)
    with opener.open(request, timeout=timeout) as response:
        headers = response.headers
        body = b""
        if access_of(response.status) is Access.SUCCESSFUL:
            body = response.read(MAX_SIZE + 1)
            cut = len(body) > MAX_SIZE
            if response.length and not cut:
                raise HTTPException(f"cut short: {response.length} octets are missing")
            codings = ",".join(headers.get_all("Content-Encoding", []))
            body = decoded(body, codings, limit=MAX_SIZE, cut=cut)
        return response.status, headers, body


def _opener(deadline: float) -> OpenerDirector:
    """Return what opens http and https, and nothing else; no redirect is followed."""
    opener = OpenerDirector()
    for handler in (ProxyHandler(), _Http(deadline), _Https(deadline)):
        opener.add_handler(handler)
    return opener


class _Http(HTTPHandler):
    def __init__(self, deadline: float) -> None:
        super().__init__()
        self._connection = _connecting(HTTPConnection, deadline)

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(self._connection, req)


class _Https(HTTPSHandler):
    def __init__(self, deadline: float) -> None:
        super().__init__()
        self._connection = _connecting(HTTPSConnection, deadline)

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(self._connection, req)


def _connecting(
    connection_class: type[HTTPConnection], deadline: float
) -> Callable[..., Any]:
    def connection(host: str, **options: Any) -> HTTPConnection:
        made = connection_class(host, **options)
        made.response_class = partial(_Response, deadline=deadline)  # type: ignore[assignment]
        return made

    return connection


class _Response(HTTPResponse):
    """An answer that must be there by a time.

    The timeout of a socket bounds each silence only: a server that sends an octet now and
    then would hold us for ever.
    """

    def __init__(self, sock: Any, *args: Any, deadline: float, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = BufferedReader(_InTime(self.fp.detach(), sock, deadline))


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
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()
