"""How is a robots.txt reached, and what does an answer mean? RFC 9309 2.3.

One exchange, from the first request to what came of it, without I/O:

::

    exchange = Exchange("https://example.com/robots.txt")
    while exchange.outcome is None:
        try:
            answer = send(exchange.request)  # as you like, and with a clock of your own
        except OSError as error:
            exchange.fail(error)
        else:
            exchange.receive(answer)
"""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from scrapy_rep.protocol import RFC9309
from scrapy_rep.protocol.answers import (
    NO_FIELDS,
    REDIRECT_STATUSES,
    Access,
    HeaderFields,
    access_of,
    all_values,
    decode_body,
    first_value,
    policy_after,
)
from scrapy_rep.protocol.decoding import MAX_SIZE
from scrapy_rep.protocol.origins import (
    DEFAULT_PORTS,
    HOST_NAME,
    MAX_NAME_CHARACTERS,
    normal_origin,
    origin_of,
    split_port,
)
from scrapy_rep.protocol.printable import mask_uri, without_user

if TYPE_CHECKING:
    from scrapy_rep.protocol import Dialect, Policy

MAX_PORT = 65535
URI_CHARACTERS = "%/?:@!$&'()*+,;=~"
"""What stays in a path and a query besides letters, digits and ``-._``."""
IPV6_LITERAL = re.compile(r"\[([0-9A-Fa-f:.]+)\]")
IPV4_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
LOCAL_NAME_ENDS = (".localhost", ".localdomain", ".local", ".internal", ".home.arpa")
"""That no public DNS has: RFC 6761 6.3, RFC 6762 3, RFC 8375, and others in use."""
GLOBAL_UNICAST = IPv6Network("2000::/3")
"""All of that that IANA has given out so far (RFC 4291 2.4)."""
ENDING_IN_IPV4 = (
    IPv6Network("::ffff:0:0/96"),  # IPv4-mapped: RFC 4291 2.5.5.2
    IPv6Network("::/96"),  # IPv4-compatible: RFC 4291 2.5.5.1
    IPv6Network("::ffff:0:0:0/96"),  # IPv4-translated: RFC 2765 2.1
    IPv6Network("64:ff9b::/96"),  # NAT64: RFC 6052 2.1
)
"""Networks whose addresses reach the IPv4 address that they end with."""


def some_origin_of(url: str, name: str = "url") -> str:
    """As ``origin_of``. Raises ``ValueError``, in which the URL has this *name*, where there is none."""
    if (origin := origin_of(url)) is None:
        expected = "expected an absolute http or https URL"
        raise ValueError(f"{name} is {mask_uri(url)!r}, {expected}")
    return origin


def redirect_target(base: str, location: str) -> str:
    """The absolute URL that a redirect from *base* to *location* leads to.

    *location* is the value of the header, its octets as ISO-8859-1. The URL is ASCII, without user
    info or fragment, and its host is the one that will be connected to, whoever reads it.

    Raises ``ValueError``, saying why, where a robots.txt may not be asked for there. Beyond RFC
    9309: only http and https are followed, and a public host never leads into a private
    network, around which no stranger's file must send a crawler.
    """
    with suppress(UnicodeError):
        location = location.encode("latin-1").decode()
    shown = without_user(location)
    told = repr(shown[:MAX_NAME_CHARACTERS])
    try:
        parts = urlsplit(urljoin(base, location.strip()))
        host, port = _host_and_port(parts.scheme, parts.netloc)
        rest = path_sent(parts)
    except ValueError as error:
        why = error if shown == location else "it has a user"
        raise ValueError(f"redirect to {told}: {why}") from None
    if is_private(host) and not is_private(urlsplit(base).hostname or ""):
        raise ValueError(f"redirect from a public host to the private {told}")
    return f"{normal_origin(parts.scheme, f'{host}:{port}')}{rest}"


def path_sent(parts: SplitResult) -> str:
    """Path and query of a URL in ASCII, as a client sends them."""
    query = f"?{parts.query}" if parts.query else ""
    return quote((parts.path or "/") + query, safe=URI_CHARACTERS)


def _host_and_port(scheme: str, authority: str) -> tuple[str, str]:
    """The host that will be connected to, and the port, which may be empty.

    Raises ``ValueError``, saying why, where not everybody would agree on them.
    """
    if scheme not in DEFAULT_PORTS or not authority:
        raise ValueError("not an http or https URL")
    host, port = split_port(authority)
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) <= MAX_PORT):
        raise ValueError("its port is none")
    literal = IPV6_LITERAL.fullmatch(host)
    if literal is not None:
        return f"[{IPv6Address(literal[1])}]", port
    name = unquote(host)
    if len(name) <= MAX_NAME_CHARACTERS:  # longer ones take the codec quadratic time
        name = name.encode("idna").decode("ascii").lower()
    # So there is no user info either, and no backslash, which some take for a slash.
    if len(name) > MAX_NAME_CHARACTERS or not HOST_NAME.fullmatch(name):
        raise ValueError("its host is none")
    return name, port


def is_private(host: str) -> bool:
    """Whether *host* is an address or a name without global reach.

    Addresses that are not global unicast, or hold such an IPv4 address; names that no public DNS
    has, and those without a dot. Other names are not resolved.
    """
    host = host.strip("[]").rstrip(".").lower()
    if ":" in host:
        return not _is_global(IPv6Address(host.partition("%")[0]))
    last_label = host.rpartition(".")[2]
    if IPV4_NUMBER.fullmatch(last_label):  # an IPv4 address or nothing (WHATWG URL 3.5)
        try:
            return not _is_global(IPv4Address(host))
        except ValueError:  # "127.1", "0x7f.1": no public one is written so
            return True
    return host == last_label or host.endswith(LOCAL_NAME_ENDS)


def _is_global(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast
    # 6to4 (RFC 3056 2) and Teredo (RFC 4380 4: its server and its client) have IPv4 addresses in them.
    inner = [each for each in (address.sixtofour, *(address.teredo or ())) if each]
    if any(address in network for network in ENDING_IN_IPV4):
        inner = [IPv4Address(address.packed[-4:])]
    if inner:
        return all(map(_is_global, inner))
    return address.is_global and address in GLOBAL_UNICAST


CHARSET_PARAMETER = re.compile(
    r"""charset\s*=\s*["']?([\w.:+-]+)""", re.ASCII | re.IGNORECASE
)
MAX_REASON_LENGTH = 200


MAX_REDIRECTS = 5
"""RFC 9309 2.3.1.2: at least five."""


class Limits(NamedTuple):
    max_redirects: int = MAX_REDIRECTS
    max_size: int = MAX_SIZE
    """Octets, once decoded."""
    deny_statuses: frozenset[int] = frozenset()
    """4xx that mean disallow-all."""


class Validators(NamedTuple):
    """Of the answer at hand; they make the request to its *url* conditional."""

    url: str
    etag: str = ""
    last_modified: str = ""

    def headers(self, url: str) -> dict[str, str]:
        found = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {n: value for n, value in found.items() if value and url == self.url}


class Request(NamedTuple):
    """A GET. The sender adds a User-Agent, and what else its requests have.

    It needs no ``Accept``: there is no choice of media types, and all content codings are decoded that
    Scrapy asks for.
    """

    url: str
    headers: dict[str, str]


class Answer(NamedTuple):
    """A whole answer, or one that was cut off at the limit."""

    status: int
    fields: HeaderFields
    body: bytes = b""
    """As it came, content codings and all."""
    cut: bool = False
    """More than ``Limits.max_size`` octets came, and not all are here."""
    spoiled: str = ""
    """Why the body is not what the site has sent: somebody on this machine has stopped its
    download, or made a page of it; "": it is that."""
    delimited: bool = True
    """It was told where the body ends (RFC 9112 6.3); else only the end of the connection tells,
    which may have come early."""


class Outcome(NamedTuple):
    """What asking for a robots.txt has brought."""

    access: Access
    status: int | None = None
    """The last one; ``None``: the last request had no whole answer."""
    fault: Exception | None = None
    """Where the status is not what makes it unreachable."""
    reason: str = ""
    """Why it is unreachable."""
    body: bytes = b""
    """Decoded, where access is SUCCESSFUL; whole lines within the limit."""
    encoding: str | None = None
    """The charset of its Content-Type, in lower case."""
    url: str = ""
    """Redirects followed."""
    fields: HeaderFields = NO_FIELDS
    """Of the last answer."""
    by_own_code: bool = False
    """Code on this machine has failed, or wants none of it: nothing was learned of the site."""
    varies: bool = False
    """An answer on the way says that it depends on the User-Agent (RFC 9111 4.1)."""

    def policy(self, dialect: Dialect = RFC9309) -> Policy:
        file = self.body, self.encoding
        return policy_after(
            self.access, self.status, *file, self.reason, dialect=dialect
        )


class Exchange:
    """Asks for the robots.txt at *url*, which is absolute; with *validators* if it has changed."""

    def __init__(
        self,
        url: str,
        limits: Limits = Limits(),  # noqa: B008 - it is immutable
        validators: Validators | None = None,
    ) -> None:
        self._limits = limits
        self._validators = validators
        self._redirects = 0
        self._varies = False
        self._undelimited: Answer | None = None
        """An answer that only a second one like it shows to be whole."""
        self.outcome: Outcome | None = None
        """``None``: ``request`` is to be sent."""
        self.request = Request(url, validators.headers(url) if validators else {})

    def receive(self, answer: Answer) -> None:
        """Take the *answer* to ``request``: there is another one, or an outcome.

        A file whose end was not told is asked for once more: two that end alike are whole.
        """
        try:
            self._take(answer)
        except Exception as error:  # noqa: BLE001 - whatever an answer can make raise
            self._end(
                answer, Access.UNREACHABLE, fault=error, reason=in_one_line(error)
            )

    def fail(
        self, error: Exception | None, reason: str = "", *, by_own_code: bool = False
    ) -> None:
        """Note that ``request`` had no whole answer, for this *reason* (that of *error*).

        *by_own_code*: that is no fault of the site or the network.
        """
        self.outcome = Outcome(
            access=Access.UNREACHABLE,
            fault=error,
            reason=reason or in_one_line(error),
            url=self.request.url,
            by_own_code=by_own_code,
        )

    def _take(self, answer: Answer) -> None:
        status, fields = answer.status, answer.fields
        self._varies = self._varies or _depends_on_agent(fields)
        location = first_value(fields, "location")
        if status in REDIRECT_STATUSES and location:
            if self._redirects < self._limits.max_redirects:
                self._redirects += 1
                url = redirect_target(self.request.url, location)
                kept = self._validators
                self.request = Request(url, kept.headers(url) if kept else {})
            else:
                # RFC 9309 2.3.1.2: beyond that it may be taken for unavailable.
                self._end(answer, Access.UNAVAILABLE)
            return
        access = access_of(
            status,
            conditional=bool(self.request.headers),
            deny_statuses=self._limits.deny_statuses,
        )
        if access is not Access.SUCCESSFUL:
            unreachable = access is Access.UNREACHABLE
            self._end(answer, access, reason=str(status) if unreachable else "")
        elif answer.spoiled:
            self.fail(None, answer.spoiled, by_own_code=True)
        elif self._needs_another(answer):
            self._undelimited = answer
        else:
            codings = all_values(fields, "content-encoding")
            limit, cut = self._limits.max_size, answer.cut
            charset = CHARSET_PARAMETER.search(first_value(fields, "content-type"))
            self._end(
                answer,
                access,
                body=decode_body(answer.body, codings, limit=limit, cut=cut),
                encoding=charset and charset[1].lower(),
            )

    def _needs_another(self, answer: Answer) -> bool:
        """Whether it counts only if the next one is the same.

        Raises ``ValueError`` if it is not the same as the one before.
        """
        before, self._undelimited = self._undelimited, None
        if answer.delimited or answer.cut:
            return False
        if before is not None and before.body != answer.body:
            raise ValueError("it has no length, and did not come twice the same")
        return before is None

    def _end(self, answer: Answer, access: Access, **found: object) -> None:
        self.outcome = Outcome(
            access=access,
            status=answer.status,
            url=self.request.url,
            fields=answer.fields,
            varies=self._varies,
            **found,  # type: ignore[arg-type]
        )


def _depends_on_agent(fields: HeaderFields) -> bool:
    """Whether it serves only requests with the same User-Agent (RFC 9111 4.1): all else that Vary
    may name is the same in one crawl's requests; with ``*`` this is taken to differ.
    """
    named = all_values(fields, "vary").lower().split(",")
    return any(name.strip() in {"user-agent", "*"} for name in named)


def in_one_line(error: Exception | None) -> str:
    """In one line."""
    words = str(error).strip().partition("\n")[0] or type(error).__name__
    # A header may have what is no Unicode, which no store can keep.
    return words[:MAX_REASON_LENGTH].encode("utf-8", "replace").decode()
