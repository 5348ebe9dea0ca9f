"""Fetching a robots.txt through the crawler's own engine (RFC 9309 2.3)."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import StopDownload
from scrapy.http.request import NO_CALLBACK
from twisted.internet.defer import CancelledError

from scrapy_rep import access
from scrapy_rep.access.exchange import describe_error
from scrapy_rep.access.origins import origin_of, robots_url
from scrapy_rep.downloader import ROBOTS_HOP, kind_of, sleep, wire
from scrapy_rep.downloader.failures import LOST, TIMEOUT
from scrapy_rep.exceptions import NotNow, StillParked
from scrapy_rep.policies.concurrency import Lanes
from scrapy_rep.policies.freshness import fields_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.downloader import Departure, Downloader
    from scrapy_rep.downloader.wire import Wire
    from scrapy_rep.pacing import Asking, Keeper
    from scrapy_rep.settings import Settings
    from scrapy_rep.store import KeptAnswer

logger = logging.getLogger(__name__)

CLOSING_SECONDS = 0.01
"""Seconds that closing a connection takes after a download was stopped. If a page is sent on it
before that, Twisted sends the page again: without asyncio, the site saw it twice."""

PRIVATE_HEADERS = (b"Cookie", b"Authorization")


class _Hop:
    """One request of a fetch, as it goes through the downloader."""

    __slots__ = (
        "asking",
        "content_encoding",
        "first_origin",
        "origin",
        "received",
        "started",
        "wire",
    )

    def __init__(self, origin: str, first_origin: str, asking: Asking) -> None:
        self.origin = origin
        self.first_origin = first_origin
        self.asking = asking
        self.started = 0.0
        self.received = 0
        self.content_encoding = ""
        self.wire: Wire | None = None


class Fetcher:
    """Fetches the robots.txt of an origin; never raises for what a site does.

    The crawl's settings for pages do not change the outcome: redirects, retries, timeouts,
    size limits, caches and allowed domains of pages do not hold for a robots.txt. Downloader
    middlewares do see the requests, so that proxies and the like work; a middleware that
    refuses one makes the robots.txt unreachable.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings,
        downloader: Downloader,
        keeper: Keeper,
    ) -> None:
        self._crawler = crawler
        self._settings = settings
        self._downloader = downloader
        self._keeper = keeper
        self.lanes = Lanes(
            downloader, settings.fetch_concurrency, settings.slow_fetches
        )
        self._limits = access.Limits(
            settings.max_redirects, settings.max_size, settings.deny_statuses
        )
        self._downloading = 0
        self._jumps_queues = False
        downloader.on_robots_start(self._note_start)
        downloader.on_answer(self._keep_coding)
        self._receivers = (
            (self._headers_received, signals.headers_received),
            (self._bytes_received, signals.bytes_received),
        )

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
        try:
            hop_origin = origin_of(exchange.request.url)
            assert hop_origin is not None
            hop = _Hop(hop_origin, origin, asking)
            answer = await self._send(exchange.request, hop, page, user_agent)
        except StillParked as parked:
            raise CancelledError from parked
        except CancelledError:  # this fetch is broken off, which says nothing
            raise
        except Exception as error:  # noqa: BLE001 - whatever a download may raise
            assert self._crawler.stats is not None
            self._crawler.stats.inc_value(f"robotstxt/exception_count/{type(error)}")
            exchange.fail(error, _describe_failure(error))
        else:
            exchange.receive(answer)

    async def _send(
        self, asked: access.Request, hop: _Hop, page: Request, user_agent: str
    ) -> access.Answer:
        """Return the answer to the request *asked*. Raises if there is none, or no whole one."""
        request = self._request(asked, hop, page, user_agent)
        response = await self._download(request, hop, page)
        cut = "download_stopped" in response.flags
        if hop.wire and (fault := hop.wire.fault(response.headers, stopped=cut)):
            raise BrokenAnswerError(fault)
        fields = fields_of(response.headers)
        if hop.content_encoding:
            fields["content-encoding"] = [hop.content_encoding]
        return access.Answer(response.status, fields, response.body, cut)

    def _request(
        self, asked: access.Request, hop: _Hop, page: Request, user_agent: str
    ) -> Request:
        # As they were sent to us: str would go out in UTF-8.
        headers: dict[str, Any] = {
            name: value.encode("latin-1", "ignore")
            for name, value in asked.headers.items()
        }
        if user_agent:
            headers["User-Agent"] = user_agent
        meta: dict[str, object] = {
            ROBOTS_HOP: hop,
            "dont_obey_robotstxt": True,
            "dont_redirect": True,
            "dont_retry": True,
            "dont_cache": True,
            "dont_merge_cookies": True,
            "handle_httpstatus_all": True,
            "allow_offsite": True,
            "autothrottle_dont_adjust_delay": True,
            "download_timeout": self._settings.timeout,
            "download_maxsize": 0,  # _bytes_received stops it, and keeps what came
            "download_warnsize": 0,
            "download_fail_on_dataloss": True,
        }
        self._travel_like(page, hop.origin, headers, meta)
        return Request(
            asked.url,
            headers=headers,
            meta=meta,
            callback=NO_CALLBACK,
            dont_filter=True,
            priority=1000,
        )

    def _travel_like(
        self,
        page: Request,
        hop_origin: str,
        headers: dict[str, Any],
        meta: dict[str, object],
    ) -> None:
        """Go the way of *page*: through its proxy, and in its slot if the origin is the same."""
        if (proxy := proxy_of(page)) is not None:
            keys, authorization = proxy
            meta |= keys
            if authorization is not None:
                headers["Proxy-Authorization"] = authorization
        if page.meta.get("download_slot") and origin_of(page.url) == hop_origin:
            meta["download_slot"] = page.meta["download_slot"]

    async def _download(self, request: Request, hop: _Hop, page: Request) -> Response:
        engine = self._crawler.engine
        assert engine is not None
        host = self._keeper.host_of(request)
        parked = self._keeper.back_off.left(host)
        self._keeper.check_wait(request, parked)
        if parked:  # perhaps for an hour, and so without a place
            with self.lanes.waiting_aside():
                await self._keeper.back_off.wait(request, host)
        hop.asking.lane = lane = await self.lanes.enter()
        try:
            if self._downloader.is_ending_without(page):
                raise CancelledError
            self._begin(request)
            over = True
            try:
                response = await engine.download_async(request)
            except (asyncio.CancelledError, CancelledError):
                over = False  # its request may be on its way all the same
                raise
            finally:
                self._end(over)
            lane.note_answer()
        finally:
            hop.asking.lane = (
                None  # the process may keep the host, and the fetch with it
            )
            lane.leave()
        if "download_stopped" in response.flags:
            await sleep(CLOSING_SECONDS)
        return response

    def _begin(self, request: Request) -> None:
        """Receive signals for as long as a robots.txt is downloaded.

        Scrapy sends them for every page, too, and each receiver costs time.
        """
        connect = self._crawler.signals.connect
        self._downloading += 1
        if self._downloading == 1:
            wire.watch()
            for receiver, signal in self._receivers:
                connect(receiver, signal)
        if not self._jumps_queues and self._downloader.has_slot(
            self._downloader.slot_of(request)
        ):  # as of few crawls: others may wait there
            self._jumps_queues = True
            connect(self._reached_downloader, signals.request_reached_downloader)

    def _end(self, over: bool) -> None:
        self._downloading -= over
        if not self._downloading:
            for receiver, signal in self._receivers:
                self._crawler.signals.disconnect(receiver, signal)

    def _note_start(self, departure: Departure) -> None:
        hop = departure.robots_hop
        # Its time runs from now, not while it waits.
        hop.started = departure.started_at
        if hop.asking.lane is not None:
            hop.asking.lane.come_back()
        # At the last moment, as a middleware may have put them on.
        headers = departure.request.headers
        headers.pop(b"Referer", None)
        if hop.origin != hop.first_origin:
            for name in PRIVATE_HEADERS:
                headers.pop(name, None)

    def _reached_downloader(self, request: Request) -> None:
        """Let *request*, for a robots.txt, wait for nothing but its turn, and hold no place."""
        hop = request.meta.get(ROBOTS_HOP)
        if hop is None:
            return
        self._downloader.go_first(request)
        if hop.asking.lane is not None and self._must_wait(request):
            hop.asking.lane.step_aside()

    def _must_wait(self, request: Request) -> bool:
        """Tell whether *request*, which is in its slot now, must wait there."""
        slot = request.meta.get("download_slot")
        host = self._keeper.host_of(request)
        return bool(
            self._keeper.due_in(host) or (slot and self._downloader.due_in(slot))
        )

    def _headers_received(self, request: Request) -> None:
        hop = request.meta.get(ROBOTS_HOP)
        if hop is not None:
            hop.wire = wire.current_wire()

    def _bytes_received(self, data: bytes, request: Request) -> None:
        hop = request.meta.get(ROBOTS_HOP)
        if hop is None:
            return
        hop.received += len(data)
        if hop.received > self._settings.max_size:
            raise StopDownload(fail=False)
        # The downloader's own timeout may only bound the silence between two octets.
        if monotonic() - hop.started > self._settings.timeout:
            raise StopDownload(fail=True)

    def _keep_coding(self, departure: Departure, response: Response) -> None:
        """Hide the coding from Scrapy, which would refuse a body that is too long or cut."""
        hop = departure.robots_hop
        if hop is not None:
            codings = response.headers.getlist(b"Content-Encoding")
            hop.content_encoding = b",".join(codings).decode("latin-1")
            response.headers.pop(b"Content-Encoding", None)


def proxy_of(page: Request) -> tuple[dict[str, Any], bytes | None] | None:
    """Return the meta and the Proxy-Authorization of the proxy that *page* names, if any."""
    if "proxy" not in page.meta or "_scheme_proxy" in page.meta:
        return None
    names = ("proxy", "_auth_proxy")
    keys = {name: page.meta[name] for name in names if name in page.meta}
    return keys, page.headers.get(b"Proxy-Authorization")


def validators_of(kept: KeptAnswer) -> access.Validators:
    return access.Validators(kept.url, kept.etag, kept.last_modified)


class BrokenAnswerError(Exception):
    """What a download handler took for an answer is not a whole one."""


def _describe_failure(error: Exception) -> str:
    """Return what went wrong with a download, for the user."""
    if isinstance(error, NotNow):
        return error.reason
    if isinstance(error, BrokenAnswerError):
        return str(error)
    if isinstance(error, StopDownload):  # ours, for a body that drips
        return TIMEOUT
    name, kind = type(error).__name__, kind_of(error)
    if kind not in {name, LOST}:
        return kind
    words = describe_error(error)
    return words if words == name else f"{name}: {words}"
