"""What of a request counts: whom it answers to, what of it is judged, whose pace it keeps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.http import Headers
from scrapy.utils.httpobj import urlparse_cached

from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol import product_tokens
from scrapy_rep.protocol.origins import host_in, normal_origin, origin_from, origin_of
from scrapy_rep.protocol.printable import without_user
from scrapy_rep.settings import check_agent

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scrapy_rep.protocol import Agent
    from scrapy_rep.settings import Settings

    Namer = Callable[[Request], str]

USER_AGENT = b"User-Agent"
HTTP_PREFIXES = ("https://", "http://")
HOST_START = len("https://")
"""No slash before this one ends a host."""
UNKNOWN = ""
"""In the place of an origin that the start of a URL does not tell."""
INSTEAD_KEY, EXEMPT_KEY = "robotstxt_url", "dont_obey_robotstxt"
SLOT_KEY = "download_slot"
LINE_ENDS_AND_TABS = re.compile("[\\t\\n\\r]")
NOTE_KEY = "rep_said_of"
"""The meta key of the URL of which that was said, with what INSTEAD and EXEMPT were, if either was
there. Why the gate has let it go unjudged, if for another reason, stands in the place of EXEMPT.
"""
NO_ORIGIN, PASSED_BY = "no_origin", "passed_by"
"""Why a request was not judged, beside EXEMPT_KEY and what the gate gives."""


class Chooser(NamedTuple):
    """In the place of a crawler; the spider may be a class."""

    settings: BaseSettings
    spider: Any = None


@dataclass(eq=False, repr=False)
class Agents:
    """Finds the agent of a request: one token, a whole header, or tokens by preference.

    The most specific of: ``request.meta["robotstxt_user_agent"]``,
    ``spider.robotstxt_user_agent``, ROBOTSTXT_USER_AGENT, and the User-Agent that the
    request will carry: its own header, DEFAULT_REQUEST_HEADERS, ``spider.user_agent``,
    USER_AGENT.
    """

    _crawler: Crawler | Chooser
    _settings: Settings
    _warn: Callable[[str], object] = str

    def __post_init__(self) -> None:
        self._chosen = self._settings.user_agent
        self._default_header: str | bytes | None = None
        defaults = self._crawler.settings.get("DEFAULT_REQUEST_HEADERS") or {}
        for name, value in defaults.items():
            if str(name).lower() == "user-agent":
                self._default_header = value
        self._setting: str | None = self._crawler.settings.get("USER_AGENT")
        self._warned = False
        self._last_checked: tuple[Agent, str] | None = None

    def of(self, request: Request | None = None, header: str | None = None) -> Agent:
        """Return the agent whose group decides for *request*; ``None``: one as any other.

        *header*: what ``header`` returns for it, where that is known.
        """
        if request is not None and "robotstxt_user_agent" in request.meta:
            own = request.meta["robotstxt_user_agent"]
            agent = check_agent('meta["robotstxt_user_agent"]', own)
            if agent is not None:
                self._check_sent(agent, self.header(request))
                return agent
        chosen = self._chosen
        if own := getattr(self._crawler.spider, "robotstxt_user_agent", None):
            chosen = check_agent("spider.robotstxt_user_agent", own)
        return chosen or (self.header(request) if header is None else header)

    def header(self, request: Request | None = None) -> str:
        """Return the User-Agent that *request*, as for ``of``, will carry; "": none."""
        # Its keys are in normal form, as is this one: nothing to be normalised first.
        if request is not None and dict.__contains__(request.headers, USER_AGENT):
            own = request.headers.get(USER_AGENT)
            if own is not None:
                return _decode_header(own)
        header = self._default_header
        if header is None:
            header = getattr(self._crawler.spider, "user_agent", self._setting) or ""
        if isinstance(header, str):
            return header
        if not isinstance(header, bytes):  # a number or a list, which Scrapy sends, too
            header = Headers({USER_AGENT: header}).get(USER_AGENT, b"")
        return _decode_header(header)

    def unsent_tokens(self) -> tuple[str, ...]:
        return tokens_not_in(self.header(), self.of())

    def warn_if_unsent(self) -> None:
        """Warn, once, of a chosen token that no site sees in the User-Agent.

        Raises ``SettingError`` where ``spider.robotstxt_user_agent`` is no agent.
        """
        self._check_sent(self.of(), self.header())

    def _check_sent(self, chosen: Agent, sent: str) -> None:
        # RFC 9309 2.2.1: the token should be a part of the identification that is sent.
        if self._warned or (chosen, sent) == self._last_checked:
            return
        self._last_checked = chosen, sent
        missing = tokens_not_in(sent, chosen)
        if missing:
            self._warned = True
            spider = self._crawler.spider
            who = f"spider {spider.name}" if spider is not None else "the crawl"
            self._warn(
                f"The product token {', '.join(missing)}, whose rules {who} obeys, is not "
                f"part of the User-Agent that is sent, {sent!r}: sites cannot tell whom "
                "their rules reach. Put the token into USER_AGENT."
            )


def tokens_not_in(sent: str, chosen: Agent) -> tuple[str, ...]:
    """Return the product tokens of *chosen* that are no part of the User-Agent *sent*."""
    if chosen == sent:
        return ()
    tokens = chosen if isinstance(chosen, tuple) else product_tokens(chosen)
    return tuple(token for token in tokens if token.lower() not in sent.lower())


def decoded(octets: bytes) -> str:
    """Decode what is UTF-8, as Scrapy makes headers of a str; else as Latin-1, which all is."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets.decode("latin-1")


_decode_header = lru_cache(maxsize=256)(decoded)


def judged(url: str, meta: dict[str, Any]) -> tuple[str, str] | None:
    """Return the URL to judge and its origin; ``None``: the request is exempt.

    That is ``meta["robotstxt_url"]`` where it is given, else *url*, without user and password, which
    nobody is to be told. Raises ``SettingError`` where it is given and has no origin.
    """
    if meta:
        if meta.get(EXEMPT_KEY):
            return None
        if INSTEAD_KEY in meta:
            return _judged_instead(meta[INSTEAD_KEY])
    # A crawl has far fewer origins than pages. What is before the first slash that can end
    # a host parses to the same origin as the whole, and is looked up instead.
    end = url.find("/", HOST_START)
    origin = _of_start(url[:end])[0] if end > 0 else UNKNOWN
    if origin is UNKNOWN:
        parts = urlsplit(url)
        origin = origin_from(parts.scheme, parts.netloc)
    if origin is None:
        return None
    return without_user(url) if "@" in url else url, origin


@lru_cache(maxsize=4096)
def _of_start(url: str) -> tuple[str | None, str]:
    """Return origin and host of all URLs that begin with *url*.

    An origin that is ``UNKNOWN`` may differ; then the host is that of *url* itself.
    """
    origin: str | None = UNKNOWN
    if url.startswith(HTTP_PREFIXES):
        try:
            parts = urlsplit(url)
        except ValueError:
            return UNKNOWN, host_in(origin_of(url) or url)
        origin = normal_origin(parts.scheme, parts.netloc)
    if url == origin:
        return url, host_in(url)  # one str to keep rather than two
    return origin, host_in(origin_of(url) or url)


def _judged_instead(url: Any) -> tuple[str, str]:
    if isinstance(url, str):  # as Request cleans its own, and whoever fetches this one
        url = LINE_ENDS_AND_TABS.sub("", url.strip())
    origin = origin_of(url) if isinstance(url, str) else None
    if origin is None:
        raise SettingError(
            'meta["robotstxt_url"]', url, "an absolute http or https URL"
        )
    return without_user(url), origin


def host_of(request: Request) -> str:
    """Return the host of which a request asks something; "": of none.

    Behind a rendering service that is the target's: that of ``meta["robotstxt_url"]``.
    """
    url = request.url
    instead = request.meta.get(INSTEAD_KEY)
    if instead is not None and isinstance(instead, str):
        url = instead
    if url.startswith(HTTP_PREFIXES):
        end = url.find("/", HOST_START)
        return _of_start(url[:end] if end > 0 else url)[1]
    return host_in(url) if url is instead else urlparse_cached(request).hostname or ""


def note_origin(url: str, meta: dict[str, Any], unjudged: str | None = None) -> None:
    """Note on *meta*, that of a request for *url*, whose it is, as others may copy it.

    *unjudged* tells why it is not judged, where that does not stand in its meta.
    """
    instead, exempt = meta.get(INSTEAD_KEY), unjudged or meta.get(EXEMPT_KEY)
    is_plain = instead is None and exempt is None
    meta[NOTE_KEY] = url if is_plain else (url, instead, exempt)


def _noted_on(meta: dict[str, Any]) -> tuple[str | None, Any, Any]:
    noted: Any = meta.get(NOTE_KEY)
    is_plain = noted is None or isinstance(noted, str)
    found: tuple[str | None, Any, Any] = (noted, None, None) if is_plain else noted
    return found


def how_judged(url: str, meta: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return why a request that is sent was not judged, and by which URL it was.

    Both are ``None`` for most: judged by their own.
    """
    noted, instead, exempt = _noted_on(meta)
    if noted != url:  # or it is another's, whose meta was copied
        return PASSED_BY, None
    if exempt:
        return exempt if isinstance(exempt, str) else EXEMPT_KEY, None
    if instead is not None:
        return None, without_user(instead)
    if url.startswith(HTTP_PREFIXES) or origin_of(url) is not None:
        return None, None
    return NO_ORIGIN, None


def leave_behind(
    request: Request, meta: dict[str, Any], slot_of: Callable[[Request], str]
) -> None:
    """Drop what was said of the origin from which *meta*, that of *request*, was copied.

    That is for a request to another origin, by a redirect or with ``meta=response.meta``: a leave to
    ignore one site's robots.txt, another URL to judge, or the slot of a host, means nothing
    elsewhere. What the spider has set since is meant for this request.
    """
    url, instead, exempt = _noted_on(meta)
    if url is None or url == request.url or origin_of(url) == origin_of(request.url):
        return
    for key, value in ((INSTEAD_KEY, instead), (EXEMPT_KEY, exempt)):
        if meta.get(key) == value:
            meta.pop(key, None)
    # Scrapy writes the name of the host where nothing is set; under
    # CONCURRENT_REQUESTS_PER_IP that is its address, once it is known. A slot that the
    # user has chosen stays, but for a redirect, of which the user did not know.
    scrapys = urlsplit(url).hostname, slot_of(Request(url))
    redirected = meta.get("redirect_urls", [])[-1:] == [url]
    if redirected or meta.get(SLOT_KEY) in scrapys:
        meta.pop(SLOT_KEY, None)


def make_namer(settings: Settings, tell_failure: Callable[..., object]) -> Namer:
    """Return what tells whose pace a request keeps; "": nobody's."""
    if settings.pace_by == "host":
        return host_of
    if settings.pace_by == "domain":
        return lambda request: domain_of(host_of(request))
    assert callable(settings.pace_by)
    return _safe(settings.pace_by, tell_failure)


@cache
def _extractor() -> Callable[[str], Any]:
    from tldextract import TLDExtract  # noqa: PLC0415 - few crawls need it

    # With the Public Suffix List that it brings along: nothing is fetched for it.
    return TLDExtract(suffix_list_urls=(), cache_dir=None)


@lru_cache(maxsize=4096)
def domain_of(host: str) -> str:
    found = _extractor()(host)
    return f"{found.domain}.{found.suffix}" if found.domain and found.suffix else host


def _safe(name_of: Namer, tell_failure: Callable[..., object]) -> Namer:
    """Return *name_of*, but the host where that fails: a slower pace is none too many."""
    told = False

    def name(request: Request) -> str:
        nonlocal told
        try:
            found = name_of(request)
            if isinstance(found, str) and found:
                return found
            error: Exception = TypeError(f"it returned {found!r:.100}, expected a str")
        except Exception as raised:  # noqa: BLE001 - whatever a user's function may raise
            error = raised
        if not told:
            told = True
            tell_failure(
                f"The function in REP_PACE_BY gave no name for {without_user(request.url)}, "
                "so that its host keeps a pace of its own, as all later ones do for which "
                "there is none",
                error,
            )
        return host_of(request)

    return name
