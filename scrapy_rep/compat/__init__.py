"""Drop-in faces of the protocol core, for code written against other parsers. None needs Scrapy.

``get``, ``get_allowed`` and ``parse`` are after Ruby's Robotstxt, with the decisions of RFC 9309. A
*urlish* is a URL as ``str``, or what ``urllib.parse`` splits one into; where a host is known already
also a path: ``/index.html``.
"""

from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import ParseResult, SplitResult

from scrapy_rep import protocol
from scrapy_rep.compat.robotexclusionrulesparser import (
    RobotExclusionRulesParser,
    RobotFileParserLookalike,
)
from scrapy_rep.compat.urllib_fetch import fetch
from scrapy_rep.compat.urllib_robotparser import Face, RobotFileParser
from scrapy_rep.protocol import GYM2008, MK1996, Policy
from scrapy_rep.protocol.access import MAX_REDIRECTS, some_origin_of
from scrapy_rep.protocol.origins import robots_url

__all__ = [
    "GYM2008",
    "MK1996",
    "RobotExclusionRulesParser",
    "RobotFileParser",
    "RobotFileParserLookalike",
    "get",
    "get_allowed",
    "parse",
]

Urlish = str | SplitResult | ParseResult

TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Parser(Face):
    """The robots.txt of one site, read by one agent."""

    policy: Policy
    user_agent: str

    def allowed(self, urlish: Urlish) -> bool:
        """Only the path and query of *urlish* count."""
        return self.policy.allowed(_text(urlish), self.user_agent)


def get(
    source: Urlish | HTTPConnection,
    user_agent: str,
    redirects: int = MAX_REDIRECTS,
    timeout: float = TIMEOUT_SECONDS,
) -> Parser:
    """Fetch the robots.txt of the site of *source*.

    *source* is any URL of the site, or a connection to it, whose host and port are used.
    *timeout* is in seconds, for each request. Nothing that the site does is raised: a file that
    cannot be fetched allows nothing (RFC 9309 2.3.1.4). Raises ``ValueError`` where *source* names
    no http or https site.
    """
    url = _url_of(source) if isinstance(source, HTTPConnection) else _text(source)
    origin = some_origin_of(url, "source")
    answer = fetch(robots_url(origin), user_agent, timeout, redirects)
    return Parser(answer.policy(), user_agent)


def parse(robots_txt: str | bytes, user_agent: str) -> Parser:
    """No content makes it raise."""
    return Parser(protocol.parse(robots_txt), user_agent)


def get_allowed(
    urlish: Urlish,
    user_agent: str,
    redirects: int = MAX_REDIRECTS,
    timeout: float = TIMEOUT_SECONDS,
) -> bool:
    """By its site's robots.txt; see ``get``."""
    return get(urlish, user_agent, redirects, timeout).allowed(urlish)


def _text(urlish: Urlish) -> str:
    return urlish if isinstance(urlish, str) else urlish.geturl()


def _url_of(connection: HTTPConnection) -> str:
    scheme = "https" if isinstance(connection, HTTPSConnection) else "http"
    host = f"[{connection.host}]" if ":" in connection.host else connection.host
    return f"{scheme}://{host}:{connection.port}"
