"""Fetching a robots.txt through the crawler's own engine (RFC 9309 2.3)."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import StopDownload
from twisted.internet.defer import CancelledError

from scrapy_rep import access
from scrapy_rep.access.origins import origin_of, robots_url
from scrapy_rep.downloader import ROBOTS_HOP, sleep
from scrapy_rep.downloader.failures import CUT_SHORT, TIMEOUT
from scrapy_rep.downloader.on_the_way import on_the_way
from scrapy_rep.exceptions import NotNow, StillParked
from scrapy_rep.policies.concurrency import FetchBound
from scrapy_rep.policies.freshness import fields_of
from scrapy_rep.policies.own_code import (
    OwnCode,
    described,
    is_of_own_code,
    is_rendered,
)
from scrapy_rep.policies.travel import request_for

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.downloader import Departure
    from scrapy_rep.engine import Engine
    from scrapy_rep.pacing import Asking, Keeper
    from scrapy_rep.settings import Settings
    from scrapy_rep.store import KeptAnswer

logger = logging.getLogger(__name__)

CLOSING_SECONDS = 0.01
"""Seconds that closing a connection takes after a download was stopped. If a page is sent on it
before that, Twisted sends the page again: without asyncio, the site saw it twice."""

DELIMITERS = frozenset({b"Content-Length", b"Transfer-Encoding"})
NO_BODY = frozenset({204, 304})
"""What tells where a body ends, and the statuses that have none (RFC 9112 6.3)."""
SUCCESSES = range(200, 300)
PRIVATE_HEADERS = (b"Cookie", b"Authorization")


class _Hop:
    """One request of a fetch, as it goes through the downloader."""

    __slots__ = (
        "asking",
        "content_encoding",
        "error",
        "first_origin",
        "is_late",
        "origin",
        "received",
        "started",
    )

    def __init__(self, origin: str, first_origin: str, asking: Asking) -> None:
        self.origin = origin
        self.first_origin = first_origin
        self.asking = asking
        self._start(0.0)

    def _start(self, at: float) -> None:
        """Note that it is sent *at* that time, perhaps once more for a middleware."""
        self.started = at
        self.received = 0
        self.is_late = False
        self.content_encoding = ""
        self.error: Exception | None = None
        """What its download handler has raised."""

    # What its departure tells

    def note_start(self, departure: Departure) -> None:
        # Its time runs from now, not while it waits.
        self._start(departure.started_at)
        # At the last moment, as a middleware may have put them on.
        headers = departure.request.headers
        headers.pop(b"Referer", None)
        if self.origin != self.first_origin:
            for name in PRIVATE_HEADERS:
                headers.pop(name, None)

    def note_answer(self, response: Response) -> None:
        """Hide the coding from Scrapy, which would refuse a body that is too long or cut."""
        codings = response.headers.getlist(b"Content-Encoding")
        self.content_encoding = b",".join(codings).decode("latin-1")
        response.headers.pop(b"Content-Encoding", None)

    def note_failure(self, error: Exception) -> None:
        self.error = error

    def has_all_of(self, response: Response) -> bool:
        """Tell whether all of the body of *response* came before somebody stopped it."""
        lengths = set(response.headers.getlist(b"Content-Length"))
        is_chunked = b"Transfer-Encoding" in response.headers
        return lengths == {b"%d" % self.received} and not is_chunked


class Fetcher:
    """Fetches the robots.txt of an origin; never raises for what a site does.

    The crawl's settings for pages do not change the outcome: redirects, retries, timeouts,
    size limits, caches and allowed domains of pages do not hold for a robots.txt. Downloader
    middlewares do see the requests, so that proxies and the like work; a middleware that
    refuses one makes the robots.txt unreachable, and so does a signal handler that stops its
    download before the body is whole: Scrapy has no way to leave a handler out.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings,
        engine: Engine,
        keeper: Keeper,
    ) -> None:
        self._crawler = crawler
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
        *,
        page: Request,
        user_agent: str,
        kept: KeptAnswer | None,
        asking: Asking,
    ) -> access.Outcome:
        """Ask for the robots.txt of *origin*, on behalf of *page*.

        The caller ends *asking* when it knows what the file asks for. *user_agent* is the
        header that the page carries. If an answer is *kept*, its validators make the request
        conditional.
        """
        stats = self._crawler.stats
        assert stats is not None
        stats.inc_value("robotstxt/request_count")
        validators = None if kept is None else validators_of(kept)
        exchange = access.Exchange(robots_url(origin), self._limits, validators)
        while exchange.outcome is None:
            await self._advance(exchange, asking, origin, page, user_agent)
        if (status := exchange.outcome.status) is not None:
            # The answer that a fetch ends with, under Scrapy's own names.
            stats.inc_value("robotstxt/response_count")
            stats.inc_value(f"robotstxt/response_status_count/{status}")
        return exchange.outcome

    async def _advance(
        self,
        exchange: access.Exchange,
        asking: Asking,
        origin: str,
        page: Request,
        user_agent: str,
    ) -> None:
        """Send the request of *exchange*, and give it the answer or the failure."""
        hop_origin = origin_of(exchange.request.url)
        assert hop_origin is not None
        hop = _Hop(hop_origin, origin, asking)
        try:
            answer = await self._send(exchange.request, hop, page, user_agent)
        except StillParked as parked:
            raise CancelledError from parked
        except CancelledError:  # this fetch is broken off, which says nothing
            raise
        except Exception as error:  # noqa: BLE001 - whatever a download may raise
            assert self._crawler.stats is not None
            self._crawler.stats.inc_value(f"robotstxt/exception_count/{type(error)}")
            self._fail(exchange, hop, error)
        else:
            exchange.receive(answer)

    def _fail(self, exchange: access.Exchange, hop: _Hop, error: Exception) -> None:
        if isinstance(error, NotNow):
            exchange.fail(error, error.reason)
        elif isinstance(error, BrokenAnswerError):
            exchange.fail(error)
        elif is_of_own_code(error, hop.error, exchange.request.url):
            reason = self._own_code.note_raised(error, hop.origin)
            error.__traceback__ = None  # kept, it would hold all these frames
            exchange.fail(error, reason, by_own_code=True)
        else:
            exchange.fail(error, described(error))

    async def _send(
        self, asked: access.Request, hop: _Hop, page: Request, user_agent: str
    ) -> access.Answer:
        """Return the answer to the request *asked*. Raises if there is none, or no whole one."""
        request = request_for(asked, hop.origin, page, user_agent, self._settings)
        request.meta[ROBOTS_HOP] = hop
        try:
            response = await self._download(request, hop, page)
        except StopDownload as stop:  # of a user's, for the errback of a page
            stopped_response = getattr(stop, "response", None)
            if stopped_response is None:
                raise
            response = stopped_response
        stopped = "download_stopped" in response.flags
        if stopped:
            await sleep(CLOSING_SECONDS)
        if hop.is_late:
            raise BrokenAnswerError(TIMEOUT)
        if "dataloss" in response.flags:  # which a middleware may have permitted
            raise BrokenAnswerError(CUT_SHORT)
        fields = fields_of(response.headers)
        if hop.content_encoding:
            fields["content-encoding"] = [hop.content_encoding]
        cut = hop.received > self._settings.max_size
        spoiled = ""
        if stopped and not (cut or hop.has_all_of(response)):
            spoiled = f"{self._stopper(hop)} stopped its download"
        elif response.status in SUCCESSES and is_rendered(response.body):
            spoiled = self._own_code.note_rendered(hop.origin)
        delimited = self._is_delimited(response)
        return access.Answer(
            response.status, fields, response.body, cut, spoiled, delimited
        )

    def _is_delimited(self, response: Response) -> bool:
        """Tell whether the end of its body was told, and not by its connection alone."""
        if "partial" in response.flags:
            return False
        told = not response.headers.keys().isdisjoint(DELIMITERS)
        return (
            told
            or response.status in NO_BODY
            or self._engine.flags_partial(response.url)
            or not (response.protocol or "").startswith("HTTP/1")
        )

    def _stopper(self, hop: _Hop) -> str:
        """Return who else has stopped the download of *hop*, and tell the user."""
        # The signal of the headers comes first.
        name = "bytes_received" if hop.received else "headers_received"
        signal = getattr(signals, name)
        return self._own_code.note_stopped(signal, name, hop.origin, hop.received)

    async def _download(self, request: Request, hop: _Hop, page: Request) -> Response:
        engine = self._crawler.engine
        assert engine is not None
        host = self._keeper.host_of(request)
        parked = self._keeper.parked_left(host)
        self._keeper.check_wait(request, parked)
        if parked:  # perhaps for an hour, and so without a place
            with self.bound.waiting_aside():
                await self._keeper.until_not_parked(request, host)
        fetch = await self.bound.enter()
        hop.asking.make_way = fetch.make_way
        try:
            if self._engine.is_ending_without(page):
                raise CancelledError
            self._begin()
            over = True
            try:
                with on_the_way(self._crawler, hop.first_origin):
                    response = await engine.download_async(request)
            except (asyncio.CancelledError, CancelledError):
                over = False  # its request may be on its way all the same
                raise
            finally:
                self._end(over)
            fetch.note_answer()
        finally:
            # The process may keep the host, and the fetch with it.
            hop.asking.make_way = None
            fetch.leave()
        return response

    def _begin(self) -> None:
        """Receive signals for as long as a robots.txt is downloaded.

        Scrapy sends them for every page, too, and each receiver costs time.
        """
        self._downloading += 1
        if self._downloading == 1:
            self._crawler.signals.connect(self._bytes_received, signals.bytes_received)

    def _end(self, over: bool) -> None:
        self._downloading -= over
        if not self._downloading:
            disconnect = self._crawler.signals.disconnect
            disconnect(self._bytes_received, signals.bytes_received)

    def _bytes_received(self, data: bytes, request: Request) -> None:
        hop = request.meta.get(ROBOTS_HOP)
        if hop is None:
            return
        hop.received += len(data)
        if hop.received > self._settings.max_size:
            raise StopDownload(fail=False)
        # The downloader's own timeout may only bound the silence between two octets.
        if monotonic() - hop.started > self._settings.timeout:
            hop.is_late = True
            raise StopDownload(fail=False)


def validators_of(kept: KeptAnswer) -> access.Validators:
    return access.Validators(kept.url, kept.etag, kept.last_modified)


class BrokenAnswerError(Exception):
    """What a download handler took for an answer is not a whole one."""
