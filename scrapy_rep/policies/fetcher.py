"""Fetching a robots.txt through the crawler's own engine (RFC 9309 2.3).

Requests for it pass middlewares and signal handlers as pages do. What these raise says nothing of the
site: users are told whose code it was, and no other crawl or run gets to know of it.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from time import monotonic
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http.request import NO_CALLBACK
from twisted.internet.defer import CancelledError

from scrapy_rep.engine.inner import (
    CUT_SHORT,
    LOST,
    NO_FILE_LEFT,
    ROBOTS_HOP,
    TIMEOUT,
    hop_of,
    kind_of,
    on_any_way,
    on_the_way,
)
from scrapy_rep.engine.tools import sleep
from scrapy_rep.events.stream import Stream
from scrapy_rep.exceptions import HostRefused, NotNow, SettingError, StillParked
from scrapy_rep.policies.agreed import receivers_of
from scrapy_rep.policies.lifecycle import fields_of
from scrapy_rep.policies.sharing import FetchBound, proxy_of, validators_of
from scrapy_rep.protocol import access
from scrapy_rep.protocol.access import in_one_line
from scrapy_rep.protocol.origins import origin_of, robots_url
from scrapy_rep.protocol.printable import counted
from scrapy_rep.settings import WrongError, meta_of_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.engine.inner import Departure, Engine
    from scrapy_rep.pacing.hosts import Asking
    from scrapy_rep.pacing.keeper import Keeper
    from scrapy_rep.settings import Settings
    from scrapy_rep.store import KeptAnswer

CLOSING_SECONDS = 0.01
"""After a download was stopped. If a page is sent on the connection before that, Twisted sends it again:
without asyncio, the site saw it twice."""
DELIMITERS = frozenset({b"Content-Length", b"Transfer-Encoding"})
NO_BODY = frozenset({204, 304})
"""RFC 9112 6.3."""
SUCCESSES = range(200, 300)
PRIVATE_HEADERS = (b"Cookie", b"Authorization")
META: dict[str, Any] = {
    "dont_obey_robotstxt": True,
    "dont_redirect": True,
    "dont_retry": True,
    "dont_cache": True,
    "dont_merge_cookies": True,
    "handle_httpstatus_all": True,
    "allow_offsite": True,
    "autothrottle_dont_adjust_delay": True,
    "download_maxsize": 0,  # the fetcher stops it, and keeps what came
    "download_warnsize": 0,
    "download_fail_on_dataloss": True,
}

BUGS = (
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    TypeError,
)
"""No site makes a download handler raise these."""
METHODS = frozenset({"process_request", "process_response", "process_exception"})
SCRAPYS_CALLER = "scrapy.core.downloader.middleware"
"""It calls these, before Scrapy 2.16 in functions of the same names."""
UNKNOWN = "so nobody knows what is allowed there"
ADVICE = (
    f'{UNKNOWN}: let requests through that have "{ROBOTS_HOP}" in their meta, or whose URL '
    "ends with /robots.txt"
)
BROWSERS_PAGE = (
    rb"(?is)<html.{0,300}?"
    rb'(?:<pre style="word-wrap: break-word; white-space: pre-wrap;"'
    rb"|resource://(?:content-accessible|gre-resources)/plaintext\.css)"
)
"""Of plain text: Chromium and WebKit, or Firefox."""


@dataclass(slots=True, eq=False)
class _Hop:
    """One request of a fetch, as it goes through the downloader."""

    origin: str
    first_origin: str
    page: Request
    user_agent: str
    asking: Asking
    started: float = 0.0
    received: int = 0
    is_late: bool = False
    codings: dict[bytes, str] = field(default_factory=dict)
    """The Content-Encoding of each body that came: a middleware may send more with its meta."""
    content_encoding: str = ""
    """The last one; of a body that a middleware has changed."""
    error: Exception | None = None
    """Raised by its download handler."""

    def note_start(self, departure: Departure) -> None:
        """Perhaps once more for a middleware."""
        self.started, self.received, self.is_late = departure.started_at, 0, False
        self.error = None
        # At the last moment, as a middleware may have put them on.
        foreign = PRIVATE_HEADERS if self.origin != self.first_origin else ()
        for name in (b"Referer", *foreign):
            departure.request.headers.pop(name, None)

    def note_over(self, outcome: Response | Exception) -> None:
        if isinstance(outcome, Exception):
            self.error = outcome
            return
        # Scrapy, which is not to see it, would refuse a body that is too long or cut.
        codings = outcome.headers.getlist(b"Content-Encoding")
        coding = b",".join(codings).decode("latin-1")
        self.codings[outcome.body] = coding
        self.content_encoding = coding or self.content_encoding
        outcome.headers.pop(b"Content-Encoding", None)

    def has_all_of(self, response: Response) -> bool:
        lengths = set(response.headers.getlist(b"Content-Length"))
        is_chunked = b"Transfer-Encoding" in response.headers
        return lengths == {b"%d" % self.received} and not is_chunked


class Fetcher:
    """Fetches the robots.txt of an origin; never raises for what a site does.

    Redirects, retries, timeouts, size limits, caches and allowed domains of pages do not hold
    for a robots.txt. Downloader middlewares do see the requests, so that proxies work; one that
    refuses it makes the robots.txt unreachable, and so does a signal handler that stops its
    download: Scrapy has no way to leave a handler out.
    """

    def __init__(
        self, crawler: Crawler, settings: Settings, engine: Engine, keeper: Keeper
    ) -> None:
        assert crawler.stats is not None
        self._crawler = crawler
        self._stats = crawler.stats
        self._settings = settings
        self._engine = engine
        self._keeper = keeper
        self.bound = FetchBound(
            engine, settings.fetch_concurrency, settings.slow_fetches
        )
        self._limits = access.Limits(
            settings.max_redirects, settings.max_size, settings.deny_statuses
        )
        self._downloading = 0
        self._own_code = OwnCode(crawler)

    async def fetch(
        self,
        origin: str,
        page: Request,
        user_agent: str,
        kept: KeptAnswer | None,
        asking: Asking,
    ) -> access.Outcome:
        """Ask for the robots.txt of *origin*, on behalf of *page*.

        The caller ends *asking* when it knows what the file asks for. The validators of what is
        *kept* make the request conditional.
        """
        self._count("request_count")
        exchange = access.Exchange(
            robots_url(origin), self._limits, validators_of(kept)
        )
        while exchange.outcome is None:
            hop_origin = origin_of(exchange.request.url)
            assert hop_origin is not None
            hop = _Hop(hop_origin, origin, page, user_agent, asking)
            await self._advance(exchange, hop)
        if (status := exchange.outcome.status) is not None:
            # Scrapy's own names, for the last answer.
            self._count("response_count")
            self._count(f"response_status_count/{status}")
        return exchange.outcome

    def _count(self, name: str) -> None:
        self._stats.inc_value(f"robotstxt/{name}")

    async def _advance(self, exchange: access.Exchange, hop: _Hop) -> None:
        try:
            exchange.receive(await self._send(exchange.request, hop))
        except StillParked as parked:
            raise CancelledError from parked
        except CancelledError:  # this fetch is broken off, which says nothing
            raise
        except Exception as error:  # noqa: BLE001 - whatever a download may raise
            self._count(f"exception_count/{type(error)}")
            if isinstance(error, (NotNow, BrokenAnswerError)):
                exchange.fail(error, getattr(error, "reason", ""))
            elif is_of_own_code(error, hop.error, exchange.request.url):
                reason = self._own_code.note_raised(error, hop.origin)
                error.__traceback__ = None  # kept, it would hold all these frames
                exchange.fail(error, reason, by_own_code=True)
            else:
                exchange.fail(error, said := described(error))
                if said == NO_FILE_LEFT:
                    self._own_code.note_limit()

    async def _send(self, asked: access.Request, hop: _Hop) -> access.Answer:
        """Raises if there is no answer, or no whole one."""
        request = request_for(
            asked, hop.origin, hop.page, hop.user_agent, self._settings
        )
        request.meta[ROBOTS_HOP] = hop
        try:
            response = await self._download(request, hop)
        except StopDownload as stop:  # of a user's, for the errback of a page
            if (came := getattr(stop, "response", None)) is None:
                raise
            response = came
        stopped = "download_stopped" in response.flags
        if stopped:
            await sleep(CLOSING_SECONDS)
        if hop.is_late:
            raise BrokenAnswerError(TIMEOUT)
        if "dataloss" in response.flags:  # which a middleware may have permitted
            raise BrokenAnswerError(CUT_SHORT)
        fields = fields_of(response.headers)
        if coding := hop.codings.get(response.body, hop.content_encoding):
            fields["content-encoding"] = [coding]
        cut = hop.received > self._settings.max_size
        spoiled = ""
        if stopped and not (cut or hop.has_all_of(response)):
            stopper = self._own_code.note_stopped(hop.origin, hop.received)
            spoiled = f"{stopper} stopped its download"
        elif response.status in SUCCESSES and is_rendered(response.body):
            spoiled = self._own_code.note_rendered(hop.origin)
        delimited = self._is_delimited(response)
        return access.Answer(
            response.status, fields, response.body, cut, spoiled, delimited
        )

    def _is_delimited(self, response: Response) -> bool:
        """Whether the end of its body was told, and not by its connection alone."""
        return "partial" not in response.flags and (
            not response.headers.keys().isdisjoint(DELIMITERS)
            or response.status in NO_BODY
            or self._engine.flags_partial(response.url)
            or not (response.protocol or "").startswith("HTTP/1")
        )

    async def _download(self, request: Request, hop: _Hop) -> Response:
        host = self._keeper.host_of(request)
        is_led = (
            hop.origin != hop.first_origin
            and host != self._keeper.host_of(hop.page)
            # What a middleware sends for another robots.txt must not wait for that one.
            and not on_any_way()
        )
        async with self.bound.at_host(host if is_led else ""):
            if parked := self._keeper.parked_left(host):
                self._keeper.check_wait(request, parked)
                with self.bound.idling():  # perhaps for an hour: without a place
                    await self._keeper.until_not_parked(request, host)
            fetch = await self.bound.enter()
            hop.asking.make_way = fetch.make_way
            try:
                response = await self._hand_over(request, hop)
                fetch.note_answer()
            finally:
                # The process may keep the host, and the fetch with it.
                hop.asking.make_way = None
                fetch.leave()
        return response

    async def _hand_over(self, request: Request, hop: _Hop) -> Response:
        engine = self._crawler.engine
        assert engine is not None
        if self._engine.is_ending() and hop.page not in self._engine.active():
            raise CancelledError
        self._count_download(1)
        is_over = 1
        try:
            with on_the_way(self._crawler, hop.first_origin):
                return await engine.download_async(request)
        except (asyncio.CancelledError, CancelledError):
            is_over = 0  # its request may be on its way all the same
            raise
        finally:
            self._count_download(-is_over)

    def _count_download(self, change: int) -> None:
        """Receive a signal only meanwhile: each receiver costs time with pages."""
        self._downloading += change
        if not self._downloading:
            disconnect = self._crawler.signals.disconnect
            disconnect(self._bytes_received, signals.bytes_received)
        elif self._downloading == change:
            self._crawler.signals.connect(self._bytes_received, signals.bytes_received)

    def _bytes_received(self, data: bytes, request: Request) -> None:
        if (hop := hop_of(request)) is None:
            return
        hop.received += len(data)
        if hop.received > self._settings.max_size:
            raise StopDownload(fail=False)
        # The downloader's own may only bound the silence between two octets.
        if monotonic() - hop.started > self._settings.timeout:
            hop.is_late = True
            raise StopDownload(fail=False)


class BrokenAnswerError(Exception):
    """It is not a whole one."""


def request_for(
    asked: access.Request,
    origin: str,
    page: Request,
    user_agent: str,
    settings: Settings,
) -> Request:
    """It goes the way of *page*: through its proxy, and in its slot if the origin is the same.

    Raises ``SettingError`` if what REP_ROBOTS_META adds is no meta.
    """
    # As they were sent to us: str would go out in UTF-8.
    headers: dict[str, Any] = {
        name: value.encode("latin-1", "ignore") for name, value in asked.headers.items()
    }
    if user_agent:
        headers["User-Agent"] = user_agent
    meta = {**META, "download_timeout": settings.timeout}
    if (proxy := proxy_of(page)) is not None:
        keys, authorization = proxy
        meta |= keys
        if authorization is not None:
            headers["Proxy-Authorization"] = authorization
    if page.meta.get("download_slot") and origin_of(page.url) == origin:
        meta["download_slot"] = page.meta["download_slot"]
    request = Request(
        asked.url,
        headers=headers,
        meta=meta,
        callback=NO_CALLBACK,
        dont_filter=True,
        priority=1000,
    )
    for name, value in _meta_of_user(request, page, settings).items():
        request.meta.setdefault(name, value)
    return request


def _meta_of_user(
    request: Request, page: Request, settings: Settings
) -> Mapping[str, Any]:
    wanted = settings.robots_meta or {}
    if not callable(wanted):
        return wanted
    meta = wanted(request, page)
    try:
        return meta_of_text({} if meta is None else meta, "a dict, or None")
    except WrongError as error:
        name = (
            f"What {getattr(wanted, '__qualname__', wanted)} (REP_ROBOTS_META) returns"
        )
        raise SettingError(name, meta, str(error)) from None


# Who on this machine keeps a robots.txt from us


class OwnCode:
    """Tells users which code of theirs keeps robots.txt files from us; each kind once."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._events = Stream.of(crawler)
        self._told: set[tuple[str, ...]] = set()

    def note_raised(self, error: Exception, origin: str) -> str:
        """The result says so in words."""
        who, said = _raiser(error), described(error)
        if self._is_news(who, type(error).__name__):
            asked = f"the request for robots.txt of {origin}"
            if isinstance(error, IgnoreRequest):
                self._events.warn_user(f"{who} refuses {asked} ({said}), {ADVICE}")
            else:
                then = "The errbacks of its pages get this exception"
                words = f"{who} fails at {asked}, {UNKNOWN}. {then}"
                self._events.tell_failure(words, error)
        return f"{said}, raised by {who}"

    def note_stopped(self, origin: str, octets: int) -> str:
        """The result is who stopped it, in words."""
        # The signal of the headers comes first.
        name = "bytes_received" if octets else "headers_received"
        receivers = receivers_of(self._crawler, getattr(signals, name))
        names = map(_name_of, receivers)
        others = (each for each in names if not each.startswith("scrapy_rep."))
        who = " or ".join(others) or "a download handler or middleware"
        if self._is_news(who, name):
            self._events.warn_user(
                f"{who}, which handles the signal {name}, stopped the download of "
                f"robots.txt of {origin} after {counted(octets, 'octet')}. A rule may be "
                f"missing, {ADVICE}"
            )
        return who

    def note_rendered(self, origin: str) -> str:
        words = "a browser made HTML of it"
        if self._is_news(words):
            self._events.warn_user(
                f"robots.txt of {origin} came as a page of a browser, in which there are no "
                f"rules, {UNKNOWN}: have such requests fetched "
                "without a browser, by REP_ROBOTS_META or in the middleware that sends them "
                f'there, which can tell them by "{ROBOTS_HOP}" in their meta'
            )
        return words

    def note_limit(self) -> None:
        if self._is_news(NO_FILE_LEFT):
            self._events.warn_user(
                "This process has as many files and connections open as its system allows "
                f"({NO_FILE_LEFT}), so it can ask for no robots.txt and no page: raise that limit "
                "(ulimit -n) or lower CONCURRENT_REQUESTS. A host's connection stays open for "
                "some minutes after its last page"
            )

    def _is_news(self, *kind: str) -> bool:
        is_news = kind not in self._told
        self._told.add(kind)
        return is_news


def is_rendered(body: bytes) -> bool:
    start = body.lstrip()
    return start[:1] == b"<" and re.match(BROWSERS_PAGE, start) is not None


def is_of_own_code(
    error: Exception, download_error: Exception | None, url: str
) -> bool:
    """Whether a user's code raised *error*, and not a download, which raised *download_error*."""
    if isinstance(error, HostRefused) and error.url == url:
        return False  # the gate did, as its host is down
    if error is download_error:
        return isinstance(error, BUGS)
    # Else a network has failed there, too.
    return kind_of(error) == type(error).__name__


OF_TWISTED = re.compile(
    r"\[?<twisted\.python\.failure\.Failure (twisted\.internet\.error\.)?|>\]?(?=$|, )"
)
"""What its lists of errors have around the words."""


def described(error: Exception) -> str:
    """Its kind, or its name and what it says."""
    name, kind = type(error).__name__, kind_of(error)
    if kind not in {name, LOST}:
        return kind
    words = OF_TWISTED.sub("", in_one_line(error))
    return words if words == name else f"{name}: {words}"


def _raiser(error: Exception) -> str:
    """The middleware's method that let *error* pass, or what raised it."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    if not frames:
        return "something"
    # The first one: what it has sent itself may have passed others.
    methods = (
        each
        for each in frames
        if each.f_code.co_name in METHODS
        and each.f_globals.get("__name__") != SCRAPYS_CALLER
    )
    frame = next(methods, frames[-1])
    function, own = frame.f_code.co_name, frame.f_locals.get("self")
    if own is None:
        return f"{frame.f_globals.get('__name__')}.{function}"
    return f"{type(own).__module__}.{type(own).__qualname__}.{function}"


def _name_of(receiver: Any) -> str:
    named = receiver if hasattr(receiver, "__qualname__") else type(receiver)
    return f"{named.__module__}.{named.__qualname__}"
