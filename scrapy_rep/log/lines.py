"""The lines of the log as a crawl goes on, and the stats."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING

from scrapy_rep.exceptions import HostRefused, explain
from scrapy_rep.log.telling import Telling
from scrapy_rep.log.waits import PARKED, WHY, Waits
from scrapy_rep.protocol.printable import counted, duration, without_user

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.statscollectors import StatsCollector

    from scrapy_rep.exceptions import NotNow, RobotsRefused, StillParked
    from scrapy_rep.pacing import Pace
    from scrapy_rep.protocol import Verdict

MAX_PUT_OFF = 100
"""Hosts of which it is kept why they waited last; then all begin anew."""
GOES_ON = {PARKED: "is no longer parked", "visit_time": "may be visited now"}
NEWS_SECONDS = 0.5
"""Seconds: a host that is parked for so much longer than before is news. Requests that were in
flight together are answered with a pause at nearly the same time."""


class CrawlLog(Telling):
    """Writes the log lines of one crawl, and counts.

    DEBUG: a line per refusal, and where a host waits for another reason than before. INFO: a
    line per origin that denies everything, cannot be fetched, asks for a delay or waits. WARNING:
    what the user must change.
    """

    def __init__(
        self,
        crawler: Crawler,
        waits: Waits | None = None,
        is_ending: Callable[[], bool] = lambda: False,
        *,
        warns_of_refusals: bool = False,
    ) -> None:
        """*warns_of_refusals*: each is a WARNING, for a person at a prompt."""
        super().__init__(crawler, is_ending)
        self._waits = waits or Waits()
        self._put_off: dict[str, str] = {}
        """Host -> why it waited when it was put off last."""
        self._since: dict[str, float] = {}
        """Origin -> since when it is unreachable, if the log has said so."""
        self._warns_of_refusals = warns_of_refusals
        self.warned_of = 0
        """How many refusals were told at WARNING."""
        self.first_refusal: RobotsRefused | None = None
        """The first that only a DEBUG line has told of."""

    @property
    def _stats(self) -> StatsCollector:
        assert self._crawler.stats is not None
        return self._crawler.stats

    def count(self, name: str, number: int = 1) -> None:
        self._stats.inc_value(f"rep/{name}", number)

    def count_waiting(self, requests: int, hosts: int) -> None:
        """Set the stats of how many requests wait now, and for how many hosts."""
        if requests or self._stats.get_value("rep/waiting") is not None:
            self._stats.set_value("rep/waiting", requests)
            self._stats.set_value("rep/waiting/hosts", hosts)

    def _add(self, name: str, seconds: float) -> None:
        name = f"rep/{name}"
        self._stats.set_value(name, self._stats.get_value(name, 0.0) + seconds)

    def note_refusal(
        self, refusal: RobotsRefused, cause: str, instead: str = ""
    ) -> None:
        """Note that a request is not sent; *instead*, for a prompt, is what a crawl would do."""
        if not isinstance(refusal, HostRefused):
            self._stats.inc_value("robotstxt/forbidden")
        self.count(f"forbidden/{cause}")
        if instead:
            self.warned_of += 1
            message = "Not fetched. %(refusal)s. %(instead)s"
            self._log(logging.WARNING, message, refusal=refusal, instead=instead)
        else:
            self.first_refusal = self.first_refusal or refusal
            self._log(logging.DEBUG, "%(refusal)s", refusal=refusal)

    def note_dry_run(self, refusal: RobotsRefused, cause: str) -> None:
        """Note that a request is sent against its robots.txt: REP_OBEY leaves that out."""
        self.count("would_forbid")
        self.count(f"would_forbid/{cause}")
        self._log(
            logging.DEBUG, "Sent all the same (REP_OBEY): %(refusal)s", refusal=refusal
        )

    def note_cached_page(self, url: str, origin: str) -> None:
        """Note that a page comes from the HTTP cache, as its robots.txt cannot be fetched."""
        self.count("from_http_cache")
        self._log(
            logging.DEBUG,
            "From the HTTP cache, as robots.txt of %(origin)s is unreachable: %(url)s",
            origin=origin,
            url=url,
        )

    def note_on_the_way(self, url: str, origin: str) -> None:
        """Note that a request is exempt, as a middleware holds up its robots.txt for it."""
        self.count("on_the_way")
        self.tell(
            "requests that hold up their own robots.txt",
            "%(url)s is not judged: a middleware sends it before it lets the request for "
            "robots.txt of %(origin)s go",
            url=url,
            origin=origin,
        )

    def note_drop(self, what: str, page: str, cause: str, why: str) -> None:
        """Note that *what*, found on *page*, goes no further, as the page says (*why*)."""
        self.count(f"page/dropped/{cause}")
        self._log(
            logging.DEBUG,
            "Dropped %(what)s, found on %(page)s, which says %(why)s",
            what=what,
            page=page,
            why=why,
        )

    def note_unreachable(
        self,
        origin: str,
        failure: str,
        meanwhile: str,
        retry_in: float,
        *,
        again: bool,
        waits: bool,
    ) -> None:
        """Note that a robots.txt cannot be fetched, and is asked for again in *retry_in* seconds.

        *again*: it could not be fetched before either. *waits*: requests wait for the retry.
        """
        self.count("unreachable")
        since = self._since.get(origin)
        if again and since is None:
            return  # the first failure was not logged, or that the origin was given up
        values = {"origin": origin, "failure": failure, "retry": duration(retry_in)}
        if again and not waits:
            del self._since[origin]
            self.tell(
                "origins given up",
                "robots.txt of %(origin)s is still unreachable (%(failure)s) after "
                "%(passed)s: its requests are refused%(waited)s; asked again in %(retry)s",
                passed=duration(monotonic() - (since or 0.0)),
                waited=lambda: self._requests(
                    " ({})", "request has waited", "requests have waited", origin=origin
                ),
                **values,
            )
            return
        told = self.tell(
            "unreachable origins",
            "robots.txt of %(origin)s is %(still)sunreachable (%(failure)s): "
            "%(meanwhile)s, in %(retry)s%(requests)s",
            still="still " if again else "",
            meanwhile=meanwhile,
            requests=lambda: self._that_wait(origin=origin) if waits else "",
            **values,
        )
        if told and waits:
            self._since.setdefault(origin, monotonic())

    def note_reachable(self, origin: str) -> None:
        """Note that a robots.txt for which requests have waited is there."""
        since = self._since.pop(origin, None)
        if since is None:
            return
        self.tell(
            "origins that are back",
            "robots.txt of %(origin)s is there after %(passed)s%(requests)s",
            origin=origin,
            passed=duration(monotonic() - since),
            requests=lambda: self._requests(
                "; {}", "request goes on", "requests go on", origin=origin
            ),
        )

    def note_denial_of_all(self, origin: str, verdict: Verdict) -> None:
        if self._warns_of_refusals:
            return  # they say the same
        self.tell(
            "origins that allow us nothing",
            "robots.txt of %(origin)s allows us nothing: %(reason)s",
            origin=origin,
            reason=explain(verdict),
        )

    def note_pace(
        self, origin: str, pace: Pace, now: float, visit_time_max: float
    ) -> None:
        """Note that an origin asks for a delay, or for visits during a part of the day only."""
        visit = pace.visit
        if visit is not None:
            opens_in = pace.opens_in(now)
            waits = opens_in > 0
            wait = f", which begins in {duration(opens_in)}" if opens_in else ""
            if opens_in > visit_time_max:
                wait += (
                    f", more than REP_VISIT_TIME_MAX ({duration(visit_time_max)}), so "
                    "nothing is fetched"
                )
                waits = False
            self.tell(
                "origins with a visit time",
                "robots.txt of %(origin)s wants visits from %(start)s to %(end)s UTC "
                "only%(wait)s%(requests)s",
                origin=origin,
                start=visit.start.isoformat("minutes"),
                end=visit.end.isoformat("minutes"),
                wait=wait,
                requests=lambda: self._that_wait(origin=origin) if waits else "",
            )
        asked = pace.asked(now)
        if not asked:
            return
        self.count("crawl_delay/origins")
        self._stats.max_value("rep/crawl_delay/longest", asked)
        how = "kept"
        if asked > pace.most:
            self.count("crawl_delay/over_max")
            done = "nothing is fetched" if pace.drop else "that is kept instead"
            how = f"over REP_CRAWL_DELAY_MAX ({duration(pace.most)}), so {done}"
        self.tell(
            "origins that ask for a delay",
            "robots.txt of %(origin)s asks for %(asked)s between requests: %(how)s",
            origin=origin,
            asked=duration(asked),
            how=how,
        )

    def note_put_off(self, host: str, wait: float, cause: str) -> None:
        """Note that the requests of a host wait for *wait* seconds."""
        self.count("put_off")
        if self._put_off.get(host) == cause:
            return
        if len(self._put_off) >= MAX_PUT_OFF:
            self._put_off.clear()
        self._put_off[host] = cause
        self._log(
            logging.DEBUG,
            "%(host)s waits for %(wait)s, as %(why)s",
            host=host,
            wait=duration(wait),
            why=WHY.get(cause, cause),
        )

    def note_goes_on(self, host: str, cause: str, waited: float, requests: int) -> None:
        """Note that a host is asked again after *waited* seconds."""
        self.tell(
            f"hosts that go on ({cause})",
            "%(host)s %(how)s, after %(waited)s; %(requests)s",
            host=host,
            how=GOES_ON.get(cause, "is asked again"),
            waited=duration(waited),
            requests=counted(requests, "request goes on", "requests go on"),
        )

    def note_back_off(
        self, host: str, response: Response, asked: float, most: float, longer: float
    ) -> None:
        """Note that an answer asks for a pause: its host is parked for *longer* seconds more."""
        self._count_back_off(asked, longer)
        how = "that"
        if asked > most:
            self.count("backoff/over_max")
            how = f"{duration(asked)}, more than REP_RETRY_AFTER_MAX"
        if longer < NEWS_SECONDS:
            return  # one line for all that were answered at the same time
        self.tell(
            "parked hosts (Retry-After)",
            "%(host)s is parked for %(pause)s (%(status)d for %(url)s): it asks for "
            "%(how)s%(requests)s",
            host=host,
            pause=duration(min(asked, most)),
            status=response.status,
            url=without_user(response.url),
            how=how,
            requests=lambda: self._others_that_wait(host),
        )

    def note_trouble(
        self, host: str, what: str, url: str, pause: float, longer: float
    ) -> None:
        """Note that a host in trouble is parked for *pause* seconds: *longer* more than before."""
        self._count_back_off(pause, longer)
        if longer > 0:  # one line for all that failed at the same time
            self.tell(
                "parked hosts",
                "%(host)s is parked for %(pause)s (%(what)s for %(url)s)%(requests)s",
                host=host,
                pause=duration(pause),
                what=what,
                url=without_user(url),
                requests=lambda: self._others_that_wait(host),
            )

    def _count_back_off(self, seconds: float, longer: float) -> None:
        self.count("backoff/count")
        self._add("backoff/time", longer)
        self._stats.max_value("rep/backoff/longest", seconds)

    def note_down(self, host: str, seconds: float) -> None:
        """Note that a host is down: no request waits for it any more."""
        self.count("backoff/down")
        self.tell(
            "hosts that are down",
            "%(host)s has done nothing but fail for %(seconds)s "
            "(REP_BACK_OFF_GIVE_UP): while it is parked, its requests are refused",
            host=host,
            seconds=duration(seconds),
        )

    def note_budget_spent(self, host: str, budget: int) -> None:
        """Note that a host gets no more requests from this crawl: the first one is refused."""
        self.tell(
            "hosts with a spent budget",
            "%(host)s has had the %(requests)s that this crawl may send it "
            "(REP_HOST_BUDGET): all others are refused%(waiting)s",
            host=host,
            requests=counted(budget, "request"),
            waiting=lambda: self._requests(
                ", {} among them",
                "request that waits",
                "requests that wait",
                host=host,
            ),
        )

    def note_unsent(self, why: NotNow | StillParked) -> None:
        """Note that a request was not sent: it must not wait, or the crawl ended meanwhile."""
        self.count("backoff/unsent")
        self._log(logging.DEBUG, "%(why)s", why=why)

    def note_store_failure(self, doing: str, origin: str, error: Exception) -> None:
        """Note that the store failed; what it cannot tell is fetched again."""
        self.count("store/errors")
        if self._stats.get_value("rep/store/errors") == 1:
            self._log(
                logging.WARNING,
                "The store (REP_STORE) could not %(doing)s %(origin)s: %(error)r. The "
                "crawl goes on; what is not kept is fetched again. Later failures are "
                "only counted, in rep/store/errors",
                doing=doing,
                origin=origin,
                error=error,
            )

    def note_evictions(self, number: int) -> None:
        if number:
            self._stats.set_value("rep/cache/evictions", number)

    def _that_wait(self, *, host: str = "", origin: str = "") -> str:
        """Return the end of a line that tells how many requests wait, if any."""
        wait = "request waits", "requests wait"
        return self._requests("; {}", *wait, host=host, origin=origin)

    def _others_that_wait(self, host: str) -> str:
        """As ``_that_wait``, where a request of *host* is told of that may wait again, too."""
        wait = "more request waits", "more requests wait"
        return self._requests("; {}", *wait, host=host)

    def _requests(
        self, form: str, one: str, many: str, *, host: str = "", origin: str = ""
    ) -> str:
        requests = self._waits.requests_of(host=host, origin=origin)
        return form.format(counted(requests, one, many)) if requests else ""
