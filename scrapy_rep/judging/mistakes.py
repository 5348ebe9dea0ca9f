"""Mistakes that can be seen when a crawl starts or as it goes: each is named once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.extensions.httpcache import DummyPolicy
from scrapy.utils.misc import load_object

from scrapy_rep.engine.starts import ROBOTS_HOP
from scrapy_rep.judging.target import EXEMPT_KEY, INSTEAD_KEY
from scrapy_rep.protocol.lint import notes_on_header
from scrapy_rep.protocol.printable import counted
from scrapy_rep.settings import unknown_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy.settings import BaseSettings

    from scrapy_rep.events.stream import Stream

META_KEYS = (EXEMPT_KEY, INSTEAD_KEY, "robotstxt_user_agent")
"""What a user may say on ``request.meta``."""
USUAL_KEYS = frozenset(
    {
        "allow_offsite", "autothrottle_dont_adjust_delay", "cookiejar", "depth", "dont_cache",
        "dont_merge_cookies", "dont_redirect", "dont_retry", "download_fail_on_dataloss",
        "download_latency", "download_maxsize", "download_slot", "download_timeout",
        "download_warnsize", "handle_httpstatus_all", "is_start_request", "link_text", "proxy",
        "redirect_reasons", "redirect_times", "redirect_ttl", "redirect_urls", "retry_times", "rule",
        ROBOTS_HOP,
    }
)  # fmt: skip
"""What Scrapy has there, and requests for robots.txt: none is a slip."""
ALIKE = 0.8
"""How near a name must come to one of those, by difflib, to be taken for a slip."""
MAX_META_KEYS = 1000
"""Names that are looked at; a crawl with more makes them up as it goes."""
OUR_PARSER = "scrapy_rep.RepRobotParser"
ASKS_AGAIN = "scrapy.extensions.httpcache.RFC2616Policy"
LEAVE_ALONE = frozenset({429, 503})
"""Statuses by which a site asks to be left alone."""
MANY_REQUESTS, MANY_PER_ORIGIN = 1000, 100
REFETCHES = (
    f'HTTPCACHE_POLICY = "{ASKS_AGAIN}" asks for a page only if it is no longer fresh, and '
    "then for what has changed (ETag, Last-Modified): less load for the sites, less to "
    "download for you"
)


def mistakes_of(settings: BaseSettings, middlewares: Iterable[Any]) -> list[str]:
    """Return a sentence for each mistake in *settings*.

    *middlewares*: the classes of the downloader middlewares that are enabled.
    """
    parser = settings["ROBOTSTXT_PARSER"]
    left_out = {int(each) for each in settings.getlist("HTTPCACHE_IGNORE_HTTP_CODES")}
    retried = {int(each) for each in settings.getlist("RETRY_HTTP_CODES")}
    table = {
        "Scrapy's RobotsTxtMiddleware is enabled as well: each robots.txt is fetched and "
        "each request judged twice. Set it to None in DOWNLOADER_MIDDLEWARES, or enable "
        "scrapy_rep by ADDONS": settings.getbool("ROBOTSTXT_OBEY")
        and any(
            isinstance(kind, type) and issubclass(kind, RobotsTxtMiddleware)
            for kind in middlewares
        ),
        f"ROBOTSTXT_PARSER is {parser!r}, which is for Scrapy's RobotsTxtMiddleware; "
        "scrapy_rep reads robots.txt by itself. Remove the setting": parser
        != OUR_PARSER
        and settings.getpriority("ROBOTSTXT_PARSER"),
        # Another policy, RFC2616Policy among them, asks again for what is not fresh.
        "HTTPCACHE keeps answers with 429 and 503, so that each retry gets the same answer "
        "from the cache. Set HTTPCACHE_IGNORE_HTTP_CODES = "
        f"{sorted(left_out | LEAVE_ALONE | retried)}, and, if the cache was used before, "
        'HTTPCACHE_DIR = "httpcache-2", as the old one may have such answers': (
            _never_asks_again(settings) and not left_out >= LEAVE_ALONE
        ),
    }
    return [*unknown_names(settings), *_that_hold(table)]


def hints_on_refetching(settings: BaseSettings) -> list[str]:
    """Return how pages that have not changed need not be fetched again."""
    # What is kept, or the names of what is written, speak for further crawls.
    written = [settings.get("REP_AUDIT_URI"), *(settings.getdict("FEEDS") or ())]
    keeps = settings.get("REP_STORE") not in {None, "memory"}
    again = (keeps and not settings.get("JOBDIR")) or "%(time)s" in str(written)
    table = {
        "With HTTPCACHE_ENABLED no page is asked for a second time, however old. "
        f"{REFETCHES}": _never_asks_again(settings),
        f"This crawl seems to be repeated. HTTPCACHE_ENABLED = True with {REFETCHES}": (
            again and not settings.getbool("HTTPCACHE_ENABLED")
        ),
    }
    return _that_hold(table)


def hints_at_start(user_agent: str) -> list[str]:
    """Return what to change in the User-Agent that is sent."""
    hint = (
        f"The User-Agent, {user_agent!r}, does not say how to reach you: put a URL or an "
        "e-mail address into USER_AGENT, so that a site can write to you before it blocks you"
    )
    return (
        [hint] if "no-contact" in {n.code for n in notes_on_header(user_agent)} else []
    )


def hints_at_end(settings: BaseSettings, count: Callable[[str, int], Any]) -> list[str]:
    """Return that sites were asked many times without any delay, as none asked for one.

    *count* returns a stat, or what it has where there is none.
    """
    requests, origins = count("downloader/request_count", 0), count("rep/origins", 0)
    is_delayed = settings.getfloat("DOWNLOAD_DELAY") or count(
        "rep/crawl_delay/origins", 0
    )
    few = requests < max(MANY_REQUESTS, MANY_PER_ORIGIN * origins)
    if few or is_delayed or settings.getbool("AUTOTHROTTLE_ENABLED"):
        return []
    went = f"{counted(requests, 'request')} went to {counted(origins, 'origin')}"
    why = "as no robots.txt asks for one: think of DOWNLOAD_DELAY, or of AUTOTHROTTLE_ENABLED"
    return [f"{went} without a delay, {why}"]


def _that_hold(table: dict[str, Any]) -> list[str]:
    """Return the sentences of *table* beside which something true stands."""
    return [sentence for sentence, holds in table.items() if holds]


def _never_asks_again(settings: BaseSettings) -> bool:
    """Tell whether Scrapy's HTTP cache is enabled, and takes whatever it has for fresh."""
    if not settings.getbool("HTTPCACHE_ENABLED"):
        return False
    policy = load_object(settings["HTTPCACHE_POLICY"])
    return isinstance(policy, type) and issubclass(policy, DummyPolicy)


class MetaKeys:
    """Looks at the names on the meta of requests for slips of those that count."""

    def __init__(self, events: Stream) -> None:
        self._events = events
        self.seen = {*META_KEYS, *USUAL_KEYS}

    def look(self, meta: dict[str, Any]) -> None:
        """Warn of names on *meta* that nobody reads, once each."""
        names = meta.keys() - self.seen
        if len(self.seen) > MAX_META_KEYS:
            return
        self.seen |= names
        from difflib import get_close_matches  # noqa: PLC0415 - few crawls need it

        for name in names:
            near = get_close_matches(str(name), META_KEYS, n=1, cutoff=ALIKE)
            if near:
                self._events.warn_user(
                    f"meta has {name!r}, which nobody reads; did you mean {near[0]!r}?"
                )
