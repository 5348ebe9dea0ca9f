"""Origins of URLs in their normal form (RFC 6454 4)."""

from __future__ import annotations

from functools import lru_cache

DEFAULT_PORTS = {"http": "80", "https": "443"}
MAX_NAME_CHARACTERS = 253  # characters of a host name (RFC 1035 2.3.4)


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
    host, port = split_port(netloc.rpartition("@")[2])
    host = normal_host(host)
    if not host:
        return None
    if port in {"", DEFAULT_PORTS[scheme]}:
        return f"{scheme}://{host}"
    return f"{scheme}://{host}:{port}"


origin_from = lru_cache(maxsize=4096)(normal_origin)


def split_port(authority: str) -> tuple[str, str]:
    host, colon, port = authority.rpartition(":")
    if not colon or "]" in port:  # no port; or a colon of an IPv6 address
        return authority, ""
    if port.isascii() and port.isdigit():
        port = port.lstrip("0") or "0"
    return host, port


def normal_host(host: str) -> str:
    host = host.lower()
    if (
        host.isascii() or len(host) > MAX_NAME_CHARACTERS
    ):  # longer ones keep the codec busy
        return host
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return host  # nobody can be asked there; it stays an origin of its own
