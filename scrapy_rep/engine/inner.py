"""Scrapy's inner parts: slots, places, the engine, its HTTP clients.

Each is looked at when it is first met. Where a Scrapy has others, there is one warning, and what
needs them is left out. What of them is private or set, and why:

- ``engine._slot``: its ``nextcall`` wakes the engine when a host is due, else up to five seconds
  late; its ``closing`` tells that the crawl ends, so that nothing waits for a delay then;
- ``engine._start``: a crawl that only waits may end (``REP_ALL_PARKED_MAX``), but not before
  ``start()`` is through;
- ``handlers._get_handler``, and of the handlers ``_pool``, ``_session`` and ``_limits``: no client sends
  twice without a turn, and hosts that hang do not fill its places;
- ``slot.lastseen``: the user's own delay counts from the hand-over.

``Downloader`` calls Scrapy's ``_process_queue``: what waits for its turn takes no place of its slot.
"""

from __future__ import annotations

from contextvars import copy_context
from functools import cached_property, lru_cache
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy import signals
from scrapy.core import downloader as scrapys
from scrapy.utils.defer import deferred_from_coro

from scrapy_rep.engine.downloader import NOWHERE, SLOT, Downloader, HandedOut, Starts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.engine.downloader import Departure

UNLIMITED = 100
"""Requests at a time, where there is no limit."""
# What Slot.lastseen is told by: the wall clock before Scrapy 2.16.
slot_clock = vars(scrapys).get("monotonic") or vars(scrapys).get("time") or monotonic
SCRAPYS_SLOT_KEY: Any = getattr(scrapys.Downloader, "get_slot_key", None)
HOST_START = len("https://")
"""No slash before this one ends a host."""


class Engine:
    """What we need of Scrapy's downloader and engine. Names are those of download slots."""

    def __init__(self, crawler: Crawler, warn: Callable[[str], object]) -> None:
        self._crawler = crawler
        self._found: Any = None
        self._warn = warn
        self._context = copy_context()
        settings = crawler.settings
        delay = settings.getfloat("DOWNLOAD_DELAY")
        most = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
        self._limits: dict[str | None, tuple[float, int]] = {
            name: (own.get("delay", delay), own.get("concurrency", most))
            for name, own in settings.getdict("DOWNLOAD_SLOTS").items()
        }
        """Delay and places of slots, by the user's settings; of ``None``: of all others."""
        self._limits[None] = delay, most
        self._slots_are_usable: bool | None = None  # None: there was none yet
        self._clients: dict[str, bool] = {}
        """Scheme -> whether its client, which was looked at, is Twisted's."""
        self.starts = Starts.of(crawler)
        self.starts.on_start.append(self._note_start)
        self.handed_out = HandedOut(self.active)
        crawler.signals.connect(self._begin, signals.engine_started)

    @property
    def _engine(self) -> Any:
        # A crawler looks for a deprecated use each time that it is asked.
        if self._found is None:
            self._found = self._crawler.engine
        return self._found

    @cached_property
    def _downloader(self) -> Any:
        return self._engine.downloader

    @cached_property
    def polite(self) -> Downloader | None:
        """The downloader, if it is ours."""
        return self._downloader if isinstance(self._downloader, Downloader) else None

    @cached_property
    def _slots(self) -> Mapping[str | None, Any]:
        return getattr(self._downloader, "slots", {})

    def _slot(self, name: str | None) -> Any:
        """``None``: not used yet, dropped while idle, or not usable."""
        slot = self._slots.get(name)
        if self._slots_are_usable is None and slot is not None:
            self._look_at(slot)
        return slot if self._slots_are_usable else None

    def _look_at(self, slot: Any) -> None:
        """Note once whether we know how slots work; ``None``: there is none, though one is in use."""
        self._slots_are_usable = slot is not None and is_usable(slot)
        if not self._slots_are_usable:
            self._warn(
                "The download slots of this Scrapy are not known to scrapy_rep, and are "
                "left alone: each host's pace is kept, but requests that wait for it may "
                "do so in the downloader, and DOWNLOAD_DELAY is as exact as Scrapy keeps it"
            )

    def slot_of(self, request: Request) -> str:
        name: str | None = request.meta.get("download_slot")
        if name is not None:  # the downloader would come to the same, but slower
            return name
        if not self.names_slots_by_host:
            return str(self._downloader.get_slot_key(request))
        url = request.url
        end = url.find("/", HOST_START)
        return _hostname_of(url[:end] if end > 0 else url)

    @cached_property
    def names_slots_by_host(self) -> bool:
        name_of = getattr(type(self._downloader), "get_slot_key", None)
        by_address = getattr(self._downloader, "ip_concurrency", 0)
        return name_of in {None, SCRAPYS_SLOT_KEY} and not by_address

    def _begin(self) -> None:
        if self.polite is not None:
            self.polite.is_ending = self.is_ending
        elif self._crawler.settings.get("JOBDIR"):
            self._warn(
                "DOWNLOADER is not derived from scrapy_rep.Downloader: requests that Scrapy "
                "drops in order to stop sooner may be lost to the job"
            )

    def _note_start(self, departure: Departure) -> None:
        """Have the delay count from the hand-over; Scrapy counts from the end of the slot's queue."""
        slot = self._slot(departure.slot)
        if slot is not None:
            slot.lastseen = slot_clock()
        elif self._slots_are_usable is None:
            self._look_at(next(iter(self._slots.values()), None))
        scheme = departure.request.url.partition(":")[0]
        if scheme not in self._clients:
            self._look_at_client(scheme)

    # HTTP clients

    def _look_at_client(self, scheme: str) -> None:
        """Have the client of *scheme* send nothing a second time, and wait for no place.

        Twisted's and aiohttp's send again what a kept connection has not answered. aiohttp's
        and httpx' have CONCURRENT_REQUESTS places, all of which hosts that hang would take.
        """
        handlers = getattr(self._downloader, "handlers", None)
        handler: Any = getattr(handlers, "_get_handler", lambda scheme: None)(scheme)
        kinds = {kind.__name__ for kind in type(handler).__mro__}
        self._clients[scheme] = "HTTP11DownloadHandler" in kinds
        try:
            if self._clients[scheme]:
                handler._pool.retryAutomatically = False
            elif "AiohttpDownloadHandler" in kinds:
                session = handler._session
                _set(session, "_retry_connection", False)
                _set(session.connector, "_limit", 0)
            elif "HttpxDownloadHandler" in kinds:
                kept = handler._limits.max_keepalive_connections
                handler._limits = type(handler._limits)(
                    max_connections=None, max_keepalive_connections=kept
                )
                handler._default_client = handler._make_client()
        except AttributeError as lack:
            self._warn(
                f"The HTTP client of {scheme} is not known to scrapy_rep ({lack}): hosts that "
                "hang may hold up others, and a request may be sent twice where a connection "
                "is closed"
            )

    def flags_partial(self, url: str) -> bool:
        """Tell whether a body without a told end is flagged "partial", as by Twisted's client."""
        return self._clients.get(url.partition(":")[0], False)

    # The delay of slots

    def due_in(self, name: str) -> float:
        """Return the seconds until a slot may start one, by the user's own delay."""
        delay = self.least_delay(name)
        # 0: it has none, was not used yet, or is idle for longer than its delay.
        return delay and max(0.0, self._slot(name).lastseen + delay - slot_clock())

    def least_delay(self, name: str | None) -> float:
        """Return the user's or AutoThrottle's delay, as short as jitter makes it."""
        slot = self._slot(name)
        if slot is None or not slot.delay:
            return 0.0
        return float(slot.delay) * max(0.0, 1 - jitter_of(slot))

    def free_in(self, name: str) -> float:
        """Return the seconds until a slot starts another request; ``inf``: it has no free place."""
        slot, handed_out = self._slot(name), self.handed_out.by(SLOT, name)
        if slot is None:
            delay, concurrency = self._limits.get(name) or self._limits[None]
            return 0.0 if len(handed_out) < (1 if delay else concurrency) else inf
        active = slot.active
        on_the_way = len(handed_out - active) if active else len(handed_out)
        is_full = on_the_way + len(active) >= slot.concurrency
        if is_full or slot.queue or (on_the_way and slot.delay):
            return inf
        return self.due_in(name) if slot.delay else 0.0

    # Places among CONCURRENT_REQUESTS

    def free_places(self) -> int:
        most: int = getattr(self._downloader, "total_concurrency", 0)
        return most - len(self.active()) if most else UNLIMITED

    @property
    def most_of_a_slot(self) -> int:
        """How many requests at a time each slot takes by the user's settings."""
        return max(1, min(places for _, places in self._limits.values()))

    def back_out_while(self, is_all_promised: Callable[[], bool]) -> None:
        """Have Scrapy's engine ask for no more while *is_all_promised*, although places are free.

        With Scrapy's middleware a page holds a place while its robots.txt is fetched. Here the
        downloader seems to be free, and the engine would take one request at a time from
        ``start()``, and wait for three turns of the event loop after each.
        """
        if self.polite is not None:
            self.polite.holds_back = is_all_promised

    def lend(self, places: int) -> None:
        """Add places: a wait or a fetch of robots.txt takes none from the pages."""
        if self.polite is not None:
            self.polite.lent += places

    def step_out(self, departure: Departure) -> Callable[[], None]:
        """Have *departure*, which waits, take no place of its slot until the result is called."""
        slot, request = self._slot(departure.slot), departure.request
        if not (self.polite and slot and request in slot.transferring):
            return lambda: None
        # The others are not sent on behalf of this one.
        self._context.copy().run(self.polite.step_out, slot, request)
        return lambda: slot.transferring.add(request)

    def has_room(self, name: str | None) -> bool:
        """Tell whether one that has stepped out of this slot may go on."""
        slot = self._slot(name)
        return slot is None or slot.free_transfer_slots() > 0

    # The engine

    @property
    def _engine_slot(self) -> Any:
        return getattr(self._engine, "_slot", None)

    def wake(self) -> None:
        """Make the engine ask the scheduler again; before it has begun, it will do so anyway.

        In the crawl's context: what is sent next is not sent on behalf of who wakes the engine.
        """
        slot = self._engine_slot
        if slot is not None and self._engine.scraper.slot is not None:
            self._context.run(slot.nextcall.schedule)

    def is_ending(self) -> bool:
        slot = self._engine_slot
        return slot is None or slot.closing is not None

    def active(self) -> AbstractSet[Request]:
        """Return what the downloader has, also what waits there."""
        active: AbstractSet[Request] = self._downloader.active
        return active

    def only_queue_is_left(self) -> bool:
        """Tell whether the crawl is idle, but for what a queue may hold."""
        slot = self._engine.scraper.slot
        may_start = getattr(self._engine, "_start", None) is not None
        is_busy = self.active() or self.is_ending() or may_start
        return not is_busy and (slot is None or slot.is_idle())

    def close(self, reason: str) -> None:
        deferred_from_coro(self._engine.close_spider_async(reason=reason))

    def done_with(self, requests: Iterable[Request]) -> list[Request]:
        """Return those of *requests*, which were handed out, that are done with all they yield.

        One is in the downloader, and from its answer on in the scraper, with no turn of the event
        loop between, until its items and requests are processed or queued. What Scrapy drops in
        order to stop sooner is not done; a downloader of the user's does not tell of that.
        """
        scraped = self._engine.scraper.slot
        busy = self.active() | (scraped.active if scraped else NOWHERE)
        cut_off = self.polite.cut_off if self.polite else NOWHERE
        return [each for each in requests if each not in busy and each not in cut_off]


@lru_cache(maxsize=4096)
def _hostname_of(start: str) -> str:
    """As Scrapy has it."""
    return urlsplit(start).hostname or ""


def _set(owner: Any, name: str, value: object) -> None:
    """Raises ``AttributeError`` if *owner* has none."""
    getattr(owner, name)
    setattr(owner, name, value)


def is_usable(slot: Any) -> bool:
    try:
        for name in ("lastseen", "delay", "concurrency"):
            setattr(slot, name, getattr(slot, name))
        jitter_of(slot)
        slot.free_transfer_slots()
        return bool({slot.queue.__len__, slot.active.__len__, slot.transferring.add})
    except (AttributeError, TypeError):
        return False


def jitter_of(slot: Any) -> float:
    """Return by which part of its delay it varies that, from 0 to 1."""
    if hasattr(slot, "jitter"):  # Scrapy >= 2.19
        return float(slot.jitter)
    return 0.5 if slot.randomize_delay else 0.0
