"""What a policy asks of our speed, and the download slots that keep it."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import signals

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.agents import Agent
    from scrapy_rep.protocol import Policy
    from scrapy_rep.settings import Settings


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast an origin may be asked."""

    interval: float
    """Seconds between the starts of two requests; 0: as fast as the user likes."""
    asked: float
    """The same as the file has it, before REP_CRAWL_DELAY_MAX."""
    refused: bool
    """The file asks for more than the maximum, and the user rather goes without."""


UNPACED = Pace(0.0, 0.0, refused=False)


def pace_of(policy: Policy, agent: Agent, settings: Settings) -> Pace:
    """Return the pace that *policy* asks of *agent*, as far as REP_OBEY has it.

    Beyond RFC 9309, which knows no such records: the slower of Crawl-delay and
    Request-rate holds.
    """
    asked = 0.0
    if "crawl-delay" in settings.obey:
        asked = policy.crawl_delay(agent) or 0.0
    if not asked:
        return UNPACED
    if asked <= settings.crawl_delay_max:
        return Pace(asked, asked, refused=False)
    refused = settings.crawl_delay_over_max == "drop"
    return Pace(settings.crawl_delay_max, asked, refused=refused)


GUARD_PART, GUARD_MOST = 0.04, 0.02
"""The part of an interval, and at most the seconds, by which slots keep more of it.

The site measures arrivals, and the way there is not always equally long.
"""


class DownloadSlots:
    """Keeps the delay of download slots at or above what their origins ask for.

    The only code that touches Scrapy's download slots. Whatever else sets a slot's delay
    (the user's settings, AutoThrottle, another plugin), it is raised to the interval
    again before each request and after each response; the user's own delay stays where
    it is longer. A slot that Scrapy has dropped for being idle has outlived its delay;
    the next request sets it anew.

    An interval is measured from start to start, where a request starts when it is handed
    to its download handler. A timer that comes late does not shorten the next interval.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._intervals: dict[str, dict[str, float]] = {}  # slot -> origin -> seconds
        self._raised: dict[str, float] = {}  # slot -> the delay that we gave it
        self._watching = False
        connect = crawler.signals.connect
        connect(self._request_reached_downloader, signals.request_reached_downloader)
        connect(self._response_downloaded, signals.response_downloaded)

    def keep(self, request: Request, origin: str, interval: float) -> None:
        """Have the slot of *request* keep *interval* seconds for *origin* from now on."""
        if not interval and not self._intervals:
            return  # nearly always
        key = self._downloader.get_slot_key(request)
        intervals = self._intervals.get(key)
        if interval:
            if intervals is None:
                self._watch_starts()
                self._forget_dropped_slots()
                intervals = self._intervals[key] = {}
            intervals[origin] = interval
        elif intervals:
            intervals.pop(origin, None)

    @property
    def _downloader(self) -> Any:
        assert self._crawler.engine is not None
        return self._crawler.engine.downloader

    def _request_reached_downloader(self, request: Request) -> None:
        # Scrapy sends this when the slot exists, and before it looks at its delay.
        self._hold(request.meta["download_slot"])

    def _response_downloaded(self, request: Request) -> None:
        # AutoThrottle lowers the delay at this signal; it was connected before us.
        self._hold(request.meta["download_slot"])

    def _hold(self, key: str) -> None:
        intervals = self._intervals.get(key)
        slot = self._downloader.slots.get(key)
        if intervals is None or slot is None:
            return
        delay = max(intervals.values(), default=0.0)
        delay += min(GUARD_PART * delay, GUARD_MOST)
        raised = self._raised.get(key)
        if raised is not None and delay < raised == slot.delay:
            # The origin asks for less than before: back to the user's own.
            slot.delay, slot.concurrency = self._users_own(key)
        if not delay:
            self._forget(key)
            return
        slot.concurrency = 1
        if slot.delay < delay:
            slot.delay = self._raised[key] = delay
        # Jitter may lengthen and shorten a delay, but not below the interval.
        _limit_jitter(slot, 1 - delay / slot.delay)

    def _users_own(self, key: str) -> tuple[float, int]:
        settings = self._crawler.settings
        own = settings.getdict("DOWNLOAD_SLOTS").get(key, {})
        delay = own.get("delay", settings.getfloat("DOWNLOAD_DELAY"))
        concurrency = own.get(
            "concurrency", settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
        )
        return delay, concurrency

    def _watch_starts(self) -> None:
        """Have each request book its slot's time when it is handed to its handler.

        Scrapy books when it takes the request off the slot's queue; where the event loop
        is busy the request leaves later than that, and the next one too early.
        """
        if self._watching:
            return
        self._watching = True
        handlers = self._downloader.handlers
        hand_over = handlers.download_request_async

        def book_and_hand_over(request: Request) -> Any:
            key = request.meta.get("download_slot")
            slot = self._downloader.slots.get(key)
            if slot is not None and key in self._intervals:
                slot.lastseen = monotonic()
            return hand_over(request)

        handlers.download_request_async = book_and_hand_over

    def _forget_dropped_slots(self) -> None:
        slots = self._downloader.slots
        if len(self._intervals) > 2 * len(slots) + 16:
            for key in [key for key in self._intervals if key not in slots]:
                self._forget(key)

    def _forget(self, key: str) -> None:
        self._intervals.pop(key, None)
        self._raised.pop(key, None)


def _limit_jitter(slot: Any, most: float) -> None:
    if hasattr(slot, "jitter"):  # Scrapy >= 2.19
        slot.jitter = min(slot.jitter, most)
    elif most < 0.5:  # where the random part is half of the delay, or none
        slot.randomize_delay = False
