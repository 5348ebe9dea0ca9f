"""The adapter to Scrapy's downloader and engine: slots, places, and each hand-over."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.httpobj import urlparse_cached

from scrapy_rep.downloader import wire
from scrapy_rep.downloader.backout import Backout
from scrapy_rep.downloader.departure import Departure, as_current
from scrapy_rep.downloader.found_once import found_once
from scrapy_rep.downloader.handed_out import NOWHERE, HandedOut
from scrapy_rep.downloader.versions import (
    is_usable,
    jitter_of,
    limit_jitter,
    slot_clock,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from collections.abc import Set as AbstractSet

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.downloader.departure import Granter

    AnswerListener = Callable[[Departure, Response], None]
    FailureListener = Callable[[Departure, Exception], None]

logger = logging.getLogger("scrapy_rep")

UNLIMITED = 100
"""Requests at a time that are enough where there is no limit."""
NO_SLOTS: dict[str | None, Any] = {}


class Downloader:
    """The few things that this package needs of Scrapy's downloader and engine.

    Names are those of download slots. A request starts when the downloader hands it to its
    download handler, and leaves when the handler writes it. Any number of listeners can
    subscribe to both. Slots that differ from those of Scrapy 2.14 to 2.19 are left alone.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        settings = crawler.settings
        self._own_slots: dict[str, dict[str, Any]] = settings.getdict("DOWNLOAD_SLOTS")
        self._own_delay = settings.getfloat("DOWNLOAD_DELAY")
        self._own_concurrency = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
        self._raised: dict[str, float] = {}  # slot -> the delay that we gave it
        self._slots_are_usable: bool | None = None  # None: there was none yet
        self._granter: Granter = _grant_at_once
        self._confirm: Granter = _grant_at_once
        self._robots_listeners: list[Callable[[Departure], None]] = []
        self._leave_listeners: list[Callable[[Departure, float], None]] = []
        self._answer_listeners: list[AnswerListener] = []
        self._failure_listeners: list[FailureListener] = []
        self._loaded: set[str] = set()  # schemes whose download handler is
        self.pages = 0
        """How many requests for pages have started, without those for robots.txt files."""
        self.tells_all = False
        """Whether a listener wants to know when each request leaves."""
        self.handed_out = HandedOut(lambda: self._downloader.active)
        self.backout = Backout(self.free_places)
        crawler.signals.connect(self._follow_hand_overs, signals.engine_started)

    @found_once
    def _downloader(self) -> Any:
        assert self._crawler.engine is not None
        return self._crawler.engine.downloader

    @found_once
    def _slots(self) -> dict[str | None, Any]:
        return getattr(self._downloader, "slots", NO_SLOTS)

    def _slot(self, name: str | None) -> Any:
        """Return Scrapy's slot; ``None``: not used yet, dropped while idle, or not usable."""
        if self._slots_are_usable is False:
            return None
        slot = self._slots.get(name)
        if self._slots_are_usable is None and slot is not None:
            self._look_at(slot)
        return slot if self._slots_are_usable else None

    def _look_at(self, slot: Any) -> None:
        """Note once, by the first slot that is in use, whether we know how slots work.

        *slot* is ``None`` if there is no slot although a request is being handed over.
        """
        self._slots_are_usable = slot is not None and is_usable(slot)
        if not self._slots_are_usable:
            logger.warning(
                "The download slots of this Scrapy are not known to scrapy_rep, and are "
                "left alone: each host's pace is kept, but requests that wait for it may "
                "do so in the downloader, and DOWNLOAD_DELAY is as exact as Scrapy keeps it",
                extra={"spider": self._crawler.spider},
            )

    def slot_of(self, request: Request) -> str:
        """Return the name of the download slot that *request* goes through."""
        key: str | None = request.meta.get("download_slot")
        if key is None:  # else the downloader would come to the same, but slower
            get_key = getattr(self._downloader, "get_slot_key", None)
            if get_key is None:
                return urlparse_cached(request).hostname or ""
            key = get_key(request)
        return key

    # The start of a request

    def grant_starts(self, granter: Granter, confirm: Granter) -> None:
        """Call *granter* before each start, and await what it returns.

        *confirm* is called the same way when a request with a booking has a connection.
        """
        self._granter, self._confirm = granter, confirm

    def on_robots_start(self, listener: Callable[[Departure], None]) -> None:
        """Call *listener* at each start of a request for a robots.txt."""
        self._robots_listeners.append(listener)

    def on_leave(
        self, listener: Callable[[Departure, float], None], *, of_all: bool = False
    ) -> None:
        """Call *listener* when a request leaves, with the time by ``time.monotonic()``.

        Without *of_all*, only requests whose ``needs_telling`` was set at their start count.
        """
        self._leave_listeners.append(listener)
        self.tells_all |= of_all

    def on_answer(self, listener: AnswerListener) -> None:
        """Call *listener* with each request that was answered, and the response."""
        self._answer_listeners.append(listener)

    def on_failure(self, listener: FailureListener) -> None:
        """Call *listener* with each request that was not answered, and the exception."""
        self._failure_listeners.append(listener)

    def _follow_hand_overs(self) -> None:
        """Ask for a grant when a request is handed to its handler, and follow the request.

        The delay of its slot counts from here, too. Scrapy counts it from when it takes the
        request off the slot's queue; in a busy event loop the request leaves later than
        that, and the next one would leave too early.
        """
        handlers = self._downloader.handlers
        hand_over = handlers.download_request_async

        async def follow(request: Request) -> Any:
            slot_name = request.meta.get("download_slot")
            departure = Departure(
                request, slot_name, self._start, self._note_leave, confirm=self._confirm
            )
            departure.needs_telling = self.tells_all
            departure.places = getattr(self._downloader, "total_concurrency", 0)
            try:
                if (granted := self._start(departure)) is not None:
                    await granted
                slot = self._slot(departure.slot)
                if slot is not None:
                    slot.lastseen = slot_clock()
                elif self._slots_are_usable is None:
                    self._look_at(next(iter(self._slots.values()), None))
                self._watch(request)
                return await self._hand_over(departure, hand_over)
            finally:
                departure.let_go()

        handlers.download_request_async = follow
        self.backout.begin(self._downloader)

    async def _hand_over(
        self, departure: Departure, to: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Return the response of *to*, and tell listeners of it, or of the exception."""
        try:
            with as_current(departure):
                response = await to(departure.request)
        except Exception as error:
            for failed in self._failure_listeners:
                failed(departure, error)
            raise
        finally:
            departure.note_over()
        for answered in self._answer_listeners:
            answered(departure, response)
        return response

    def _start(self, departure: Departure) -> Awaitable[None] | None:
        granted = self._granter(departure)
        if granted is not None:
            return self._start_when(granted, departure)
        self._note_start(departure)
        return None

    async def _start_when(self, granted: Awaitable[None], departure: Departure) -> None:
        await granted
        self._note_start(departure)

    def _note_start(self, departure: Departure) -> None:
        departure.started_at = monotonic()
        if departure.robots_hop is None:
            self.pages += 1
            return
        for listener in self._robots_listeners:
            listener(departure)

    def _note_leave(self, departure: Departure, at: float) -> None:
        for left in self._leave_listeners:
            left(departure, at)

    def _watch(self, request: Request) -> None:
        """Watch the HTTP client that *request* is going to use."""
        scheme = request.url.partition(":")[0]
        if scheme in self._loaded:
            return
        self._loaded.add(scheme)
        load = getattr(self._downloader.handlers, "_get_handler", None)
        if load is not None:
            load(scheme)  # Scrapy does so when it is first used, and imports the client
        wire.watch()

    # The delay of slots

    def users_delay(self, name: str | None) -> float:
        """Return the shortest delay, jitter included, that the user sets for a slot."""
        delay, _ = self._users_limits(name)
        slot = self._slot(name)
        if delay and slot is not None:
            delay *= max(0.0, 1 - jitter_of(slot))
        return delay

    def _users_limits(self, name: str | None) -> tuple[float, int]:
        own = self._own_slots.get(name or "", {})
        return (
            own.get("delay", self._own_delay),
            own.get("concurrency", self._own_concurrency),
        )

    def hold(self, name: str, delay: float) -> bool:
        """Make a slot keep at least *delay* seconds between two starts; 0: the user's own.

        Call it again whenever something else (AutoThrottle, another plugin) has set the
        delay. Returns ``False`` if there is no such slot.
        """
        slot = self._slot(name)
        if slot is None:
            return False
        raised = self._raised.get(name)
        if raised is not None and delay < raised == slot.delay:
            # The origin asks for less than before: back to the user's own.
            slot.delay, slot.concurrency = self._users_limits(name)
        if not delay:
            self._raised.pop(name, None)
            return True
        slot.concurrency = 1
        if slot.delay < delay:
            slot.delay = self._raised[name] = delay
            if len(self._raised) > 2 * len(self._slots):
                self._raised = {
                    name: delay
                    for name, delay in self._raised.items()
                    if self.has_slot(name)
                }
        # Jitter may lengthen and shorten a delay, but not below the interval.
        limit_jitter(slot, 1 - delay / slot.delay)
        return True

    def has_slot(self, name: str) -> bool:
        return self._slot(name) is not None

    def due_in(self, name: str) -> float:
        """Return the seconds until a slot may start a request, by the user's own delay."""
        slot = self._slot(name)
        # ``None``: it was not used yet, or is idle for longer than its delay.
        if slot is None or not slot.delay:
            return 0.0
        delay = slot.delay * max(0.0, 1 - jitter_of(slot))
        return max(0.0, slot.lastseen + delay - slot_clock()) if delay else 0.0

    def has_place(self, name: str, host: str, *, paced: bool) -> bool:
        """Tell whether a slot can take another request to *host* that need not wait there.

        *paced*: one request at a time, as the host has an interval to keep.
        """
        if paced:
            if self.handed_out.has_any_to(host):
                return False
            paced = name == host  # else its slot may have others, too
        slot = self._slot(name)
        there = NOWHERE if slot is None else slot.active
        on_the_way = self.handed_out.count_on_the_way(name, there)
        if slot is None:
            delay, concurrency = self._users_limits(name)
            return on_the_way < concurrency if not (delay or paced) else not on_the_way
        if slot.queue or (on_the_way and (paced or slot.delay)):
            return False
        return on_the_way + len(slot.active) < (1 if paced else slot.concurrency)

    def go_first(self, request: Request) -> None:
        """Move *request*, which is just being put into its slot, to the front."""
        call_later(0, self._go_first, request)

    def _go_first(self, request: Request) -> None:
        slot = self._slot(request.meta.get("download_slot"))
        if slot is None:
            return
        for place, waiting in enumerate(slot.queue):
            if waiting[0] is request:
                del slot.queue[place]
                slot.queue.appendleft(waiting)
                return

    # Places among CONCURRENT_REQUESTS

    def free_places(self) -> int:
        """Return how many more requests the downloader takes at once."""
        most: int = getattr(self._downloader, "total_concurrency", 0)
        return most - len(self._downloader.active) if most else UNLIMITED

    @property
    def most_of_a_slot(self) -> int:
        """Return how many requests at a time each slot takes by the user's settings."""
        own = (self._users_limits(name)[1] for name in self._own_slots)
        return max(1, min([self._own_concurrency, *own]))

    def lend_place(self) -> None:
        """Add a place, so that a wait or a fetch of robots.txt takes none from the pages."""
        if getattr(self._downloader, "total_concurrency", 0):  # 0: there is no limit
            self._downloader.total_concurrency += 1

    def take_place_back(self) -> None:
        if getattr(self._downloader, "total_concurrency", 0):
            self._downloader.total_concurrency -= 1

    # The engine

    @property
    def _engine_slot(self) -> Any:
        return getattr(self._crawler.engine, "_slot", None)

    def wake(self) -> None:
        """Make the engine ask the scheduler again."""
        if (slot := self._engine_slot) is not None:
            slot.nextcall.schedule()

    def is_ending(self) -> bool:
        """Tell whether the crawl is ending."""
        slot = self._engine_slot
        return slot is None or slot.closing is not None

    def is_ending_without(self, page: Request) -> bool:
        """Tell whether the crawl is ending, and no longer waits for *page*."""
        return self.is_ending() and page not in self._downloader.active

    def active(self) -> AbstractSet[Request]:
        """Return the requests in the downloader, also those that wait there."""
        active: AbstractSet[Request] = self._downloader.active
        return active

    def is_busy(self) -> bool:
        """Tell whether there are requests in the downloader."""
        return bool(self._downloader.active)

    def only_queue_is_left(self) -> bool:
        """Tell whether the crawl is idle, except for requests that a queue may hold."""
        engine: Any = self._crawler.engine
        slot = engine.scraper.slot
        return (
            not self.is_busy()
            and not self.is_ending()
            and getattr(engine, "_start", None) is None
            and (slot is None or slot.is_idle())
        )

    def close(self, reason: str) -> None:
        """End the crawl."""
        engine = self._crawler.engine
        assert engine is not None
        deferred_from_coro(engine.close_spider_async(reason=reason))

    def in_progress(self) -> AbstractSet[Request] | None:
        """Return the requests that the engine still works on; ``None``: it does not run."""
        slot = self._engine_slot
        return None if slot is None else slot.inprogress


def _grant_at_once(departure: Departure) -> None:
    """Let each request go: nobody keeps a pace."""
