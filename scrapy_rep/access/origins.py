"""Origins, and where a robots.txt may be looked for (RFC 9309 2.3, RFC 6454)."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from urllib.parse import quote, unquote, urljoin, urlsplit

from scrapy_rep.protocol.printable import without_user
from scrapy_rep.protocol.urls import (
    DEFAULT_PORTS,
    MAX_NAME_CHARACTERS,
    normal_origin,
    origin_from,
    origin_of,
    split_port,
)

__all__ = [
    "host_in",
    "is_private",
    "normal_origin",
    "origin_from",
    "origin_of",
    "redirect_target",
    "robots_url",
]

MAX_PORT = 65535
URI_CHARACTERS = "%/?:@!$&'()*+,;=~"
"""What stays in a path and a query besides letters, digits, ``-``, ``.`` and ``_``."""
HOST_NAME = re.compile(r"[a-z0-9_.-]+")
"""Names and IPv4 addresses that every reader takes for the same."""
IPV6_LITERAL = re.compile(r"\[([0-9A-Fa-f:.]+)\]")
IPV4_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
LOCAL_NAME_ENDS = (".localhost", ".localdomain", ".local", ".internal", ".home.arpa")
"""Ends of names that no public DNS has: RFC 6761 6.3, RFC 6762 3, RFC 8375, and others in use."""
GLOBAL_UNICAST = IPv6Network("2000::/3")
"""All of that that IANA has given out so far (RFC 4291 2.4)."""
ENDING_IN_IPV4 = (
    IPv6Network("::ffff:0:0/96"),  # IPv4-mapped: RFC 4291 2.5.5.2
    IPv6Network("::/96"),  # IPv4-compatible: RFC 4291 2.5.5.1
    IPv6Network("::ffff:0:0:0/96"),  # IPv4-translated: RFC 2765 2.1
    IPv6Network("64:ff9b::/96"),  # NAT64: RFC 6052 2.1
)
"""Networks whose addresses reach the IPv4 address that they end with."""


def robots_url(origin: str) -> str:
    """Return the one place where the robots.txt of *origin* is (RFC 9309 2.3)."""
    return f"{origin}/robots.txt"


def redirect_target(base: str, location: str) -> str:
    """Return the absolute URL that a redirect from *base* to *location* leads to.

    *location* is the value of the header, its octets as ISO-8859-1. What is returned is
    ASCII, without user info or fragment, and its host has a form that all readers take
    for the same: the host that was judged is the one that will be connected to.

    Raises ``ValueError``, saying why, where a robots.txt may not be asked for there.
    Beyond RFC 9309: only http and https are followed, and a public host never leads
    into a private network; a crawler that runs inside a network must not be sent
    around in it by a stranger's file.
    """
    with suppress(UnicodeError):
        location = location.encode("latin-1").decode()
    shown = without_user(location)
    told = repr(shown[:MAX_NAME_CHARACTERS])
    try:
        parts = urlsplit(urljoin(base, location.strip()))
        host, port = _host_and_port(parts.scheme, parts.netloc)
        query = f"?{parts.query}" if parts.query else ""
        rest = quote((parts.path or "/") + query, safe=URI_CHARACTERS)
    except ValueError as error:
        why = error if shown == location else "it has a user"
        raise ValueError(f"redirect to {told}: {why}") from None
    if is_private(host) and not is_private(urlsplit(base).hostname or ""):
        raise ValueError(f"redirect from a public host to the private {told}")
    return f"{normal_origin(parts.scheme, f'{host}:{port}')}{rest}"


def _host_and_port(scheme: str, authority: str) -> tuple[str, str]:
    """Return the host that will be connected to, and the port, which may be empty.

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


@lru_cache(maxsize=4096)
def host_in(origin: str) -> str:
    """Return the host of *origin* as paces know it; "": it has none, or none that can be read."""
    with suppress(ValueError):
        return (urlsplit(origin).hostname or "").rstrip(".")
    return ""


def is_private(host: str) -> bool:
    """Tell whether *host* is an address or a name without global reach.

    Of addresses, all that are not global unicast, and so are those that hold such an IPv4
    address. Of names, those that no public DNS has, and all without a dot. Other names
    are not resolved.
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
    # 6to4 (RFC 3056 2), and Teredo, its server and its client (RFC 4380 4), have IPv4 addresses in them.
    inner = [each for each in (address.sixtofour, *(address.teredo or ())) if each]
    if any(address in network for network in ENDING_IN_IPV4):
        inner = [IPv4Address(address.packed[-4:])]
    if inner:
        return all(map(_is_global, inner))
    return address.is_global and address in GLOBAL_UNICAST
