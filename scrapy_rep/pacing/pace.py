"""What a policy asks of our speed: crawl delay, request rate, visit time.

Pure: the time comes in as an argument. Beyond RFC 9309, which knows no such records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.settings import DAY

if TYPE_CHECKING:
    from datetime import time

    from scrapy_rep.protocol import Agent, Policy, RequestRate, VisitTime
    from scrapy_rep.settings import Settings


class Pace(NamedTuple):
    """How fast an origin may be asked, and when. Times are in seconds."""

    delay: float = 0.0
    """The crawl delay; 0: none asked."""
    rate: RequestRate | None = None
    """The request rate, which may hold for a part of the day only."""
    visit: VisitTime | None = None
    """The part of the day in which requests are welcome; ``None``: all of it."""
    most: float = 0.0
    """REP_CRAWL_DELAY_MAX."""
    drop: bool = True
    """If an origin asks for more: whether its requests are refused, or ``most`` is kept."""

    def asked(self, now: float) -> float:
        """Return the seconds that are to lie between the starts of two requests.

        The slower of crawl delay and request rate holds; a rate of 30 in a minute is an
        interval of two seconds, not a burst.
        """
        rate = self.rate
        if rate is None or not _within(rate.start, rate.end, now):
            return self.delay
        return max(self.delay, rate.seconds / rate.requests)

    def interval(self, now: float) -> float:
        """Return the seconds that we keep: as asked, but at most REP_CRAWL_DELAY_MAX."""
        return min(self.asked(now), self.most)

    def refuses(self, now: float) -> bool:
        """Tell whether more is asked than the user wants to wait."""
        return self.drop and self.asked(now) > self.most

    def opens_in(self, now: float) -> float:
        """Return the seconds until requests are welcome; 0: they are."""
        visit = self.visit
        if visit is None or _within(visit.start, visit.end, now):
            return 0.0
        return (_of_day(visit.start) - now) % DAY


FREE = Pace()
"""Nothing is asked of our speed."""


def pace_of(policy: Policy, agent: Agent, settings: Settings) -> Pace:
    """Return the pace that *policy* asks of *agent*, without what REP_OBEY leaves out."""
    obey = settings.obey
    delay = policy.crawl_delay(agent) if "crawl-delay" in obey else None
    rate = policy.request_rate(agent) if "request-rate" in obey else None
    visit = policy.visit_time(agent) if "visit-time" in obey else None
    if not delay and rate is None and visit is None:
        return FREE
    is_refused = settings.crawl_delay_over_max == "drop"
    return Pace(delay or 0.0, rate, visit, settings.crawl_delay_max, is_refused)


def _within(start: time | None, end: time | None, now: float) -> bool:
    """Tell whether *now* lies from *start* to *end*, times of the UTC day."""
    if start is None or end is None:
        return True
    at = now % DAY
    if start < end:
        return _of_day(start) <= at < _of_day(end)
    # Past midnight; all day, where both are the same.
    return at >= _of_day(start) or at < _of_day(end)


def _of_day(moment: time) -> float:
    return moment.hour * 3600.0 + moment.minute * 60.0
