"""Origins, and where a robots.txt may be looked for (RFC 9309 2.3, RFC 6454)."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from socket import inet_aton
from urllib.parse import urljoin, urlsplit

DEFAULT_PORTS = {"http": "80", "https": "443"}


def origin_of(url: str) -> str | None:
    """Return the origin of *url* in its normal form, such as ``https://example.com``.

    Scheme and host are in lower case, an international host is in punycode, user and
    password are dropped, and so is the port where it is the scheme's own (RFC 6454 4).
    ``None`` where *url* is not an absolute http or https URL: robots.txt says nothing
    about it.
    """
    scheme, colon, rest = url.partition("://")
    if not colon:
        return None
    end = min((at for mark in "/?#\\" if (at := rest.find(mark)) >= 0), default=None)
    return origin_from(scheme, rest[:end])


def normal_origin(scheme: str, netloc: str) -> str | None:
    """Return the origin of a URL with this scheme and netloc, as ``origin_of`` does."""
    scheme = scheme.strip().lower()
    if scheme not in DEFAULT_PORTS:
        return None
    host, port = _split_port(netloc.rpartition("@")[2])
    host = _normal_host(host)
    if not host:
        return None
    if port in {"", DEFAULT_PORTS[scheme]}:
        return f"{scheme}://{host}"
    return f"{scheme}://{host}:{port}"


origin_from = lru_cache(maxsize=4096)(normal_origin)


def _split_port(authority: str) -> tuple[str, str]:
    host, colon, port = authority.rpartition(":")
    if not colon or "]" in port:  # no port; or a colon of an IPv6 address
        return authority, ""
    if port.isascii() and port.isdigit():
        port = port.lstrip("0") or "0"
    return host, port


def _normal_host(host: str) -> str:
    host = host.lower()
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return host  # nobody can be asked there; it stays an origin of its own


def robots_url(origin: str) -> str:
    """Return the one place where the robots.txt of *origin* is (RFC 9309 2.3)."""
    return f"{origin}/robots.txt"


def redirect_target(base: str, location: str) -> str:
    """Return the absolute URL that a redirect from *base* to *location* leads to.

    Raises ``ValueError``, saying why, where a robots.txt may not be asked for there.
    Beyond RFC 9309: only http and https are followed, and a public host never leads
    into a private network; a crawler that runs inside a network must not be sent
    around in it by a stranger's file.
    """
    target = urljoin(base, location.strip())
    if origin_of(target) is None:
        raise ValueError(f"redirect to {target!r}, which is not an http or https URL")
    if is_private(_hostname(target)) and not is_private(_hostname(base)):
        raise ValueError(f"redirect from a public host to the private {target!r}")
    return target


def _hostname(url: str) -> str:
    return urlsplit(url).hostname or ""


def is_private(host: str) -> bool:
    """Tell whether *host* is literally an address without global reach.

    Loopback, link-local and private addresses are, in every spelling that resolvers
    take (``127.1``, ``0x7f000001``), and ``localhost``. Other names are not resolved.
    """
    host = host.rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and not address.is_global


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        try:
            return IPv4Address(inet_aton(host))
        except (OSError, ValueError):
            return None
    return getattr(address, "ipv4_mapped", None) or address
