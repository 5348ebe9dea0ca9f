"""Whose rules are a URL's? Those of its origin (RFC 6454), which has one robots.txt (RFC 9309 2.3)."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from urllib.parse import urlsplit

DEFAULT_PORTS = {"http": "80", "https": "443"}
MAX_NAME_CHARACTERS = 253  # characters of a host name (RFC 1035 2.3.4)
HOST_NAME = re.compile(r"[a-z0-9_.-]+")
"""Names and IPv4 addresses that every reader takes for the same."""


def origin_of(url: str) -> str | None:
    """The origin of *url*, such as ``https://example.com``: in lower case and punycode, without
    user, password and the scheme's own port (RFC 6454 4).

    ``None``: *url* is not an absolute http or https URL, so robots.txt says nothing about it.
    """
    scheme, colon, rest = url.partition("://")
    if not colon:
        return None
    end = min((at for mark in "/?#\\" if (at := rest.find(mark)) >= 0), default=None)
    return origin_from(scheme, rest[:end])


def normal_origin(scheme: str, netloc: str) -> str | None:
    """As ``origin_of``."""
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
    if not host.isascii() and len(host) <= MAX_NAME_CHARACTERS:  # or the codec is busy
        with suppress(UnicodeError):  # nobody can be asked there; an origin of its own
            return host.encode("idna").decode("ascii")
    return host


@lru_cache(maxsize=4096)
def host_in(origin: str) -> str:
    """As paces know it; "": it has none, or none that can be read."""
    with suppress(ValueError):
        return (urlsplit(origin).hostname or "").rstrip(".")
    return ""


def robots_url(origin: str) -> str:
    """RFC 9309 2.3: there is one place."""
    return f"{origin}/robots.txt"
