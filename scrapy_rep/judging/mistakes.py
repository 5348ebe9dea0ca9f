"""Mistakes that can be seen when a crawl starts or as it goes: each is named once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.extensions.httpcache import DummyPolicy
from scrapy.utils.misc import load_object

from scrapy_rep.downloader.starts import ROBOTS_HOP
from scrapy_rep.judging.target import EXEMPT_KEY, INSTEAD_KEY
from scrapy_rep.protocol.lint import notes_on_header
from scrapy_rep.protocol.printable import counted
from scrapy_rep.settings import unknown_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy.crawler import Crawler
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


def mistakes_of(settings: BaseSettings, middlewares: Iterable[Any]) -> Iterator[str]:
    """Yield a sentence for each mistake in *settings*.

    *middlewares*: the classes of the downloader middlewares that are enabled.
    """
    yield from unknown_names(settings)
    yield from told(MISTAKES, settings, middlewares)


def told(table: Table, *seen: Any) -> Iterator[str]:
    """Yield the words of each row of *table* that finds something in what is *seen*."""
    for finds, words in table.items():
        found = finds(*seen)
        if found is not None:
            yield words.format(*found)


# What each finds: what its words need, or None.


def _judged_twice(
    settings: BaseSettings, middlewares: Iterable[Any]
) -> tuple[()] | None:
    kinds = [kind for kind in middlewares if isinstance(kind, type)]
    twice = any(issubclass(kind, RobotsTxtMiddleware) for kind in kinds)
    return () if settings.getbool("ROBOTSTXT_OBEY") and twice else None


def _other_parser(settings: BaseSettings, _: object) -> tuple[str] | None:
    parser = settings["ROBOTSTXT_PARSER"]
    is_chosen = settings.getpriority("ROBOTSTXT_PARSER")
    return (parser,) if is_chosen and parser != OUR_PARSER else None


def _cached_for_ever(settings: BaseSettings, _: object) -> tuple[list[int]] | None:
    """Find what to leave out where answers are kept by which a site asks to be left alone."""
    left_out = {int(each) for each in settings.getlist("HTTPCACHE_IGNORE_HTTP_CODES")}
    # Another policy, RFC2616Policy among them, asks again for what is not fresh.
    if not _never_asks_again(settings) or left_out >= LEAVE_ALONE:
        return None
    retried = {int(each) for each in settings.getlist("RETRY_HTTP_CODES")}
    return (sorted(left_out | LEAVE_ALONE | retried),)


def _never_asks_again(settings: BaseSettings) -> bool:
    """Tell whether Scrapy's HTTP cache is enabled, and takes whatever it has for fresh."""
    if not settings.getbool("HTTPCACHE_ENABLED"):
        return False
    policy = load_object(settings["HTTPCACHE_POLICY"])
    return isinstance(policy, type) and issubclass(policy, DummyPolicy)


def _cached_whatever_its_age(settings: BaseSettings) -> tuple[()] | None:
    return () if _never_asks_again(settings) else None


def _repeated(settings: BaseSettings) -> tuple[()] | None:
    """Find that what is kept, or the names of what is written, speak for further crawls."""
    written = [settings.get("REP_AUDIT_URI"), *(settings.getdict("FEEDS") or ())]
    keeps = settings.get("REP_STORE") not in {None, "memory"}
    again = (keeps and not settings.get("JOBDIR")) or "%(time)s" in str(written)
    return () if again and not settings.getbool("HTTPCACHE_ENABLED") else None


def _no_contact(user_agent: str) -> tuple[str] | None:
    codes = {note.code for note in notes_on_header(user_agent)}
    return (user_agent,) if "no-contact" in codes else None


def _no_delay(crawler: Crawler) -> tuple[str, str] | None:
    """Find that sites were asked many times without any delay, as none asked for one."""
    assert crawler.stats is not None
    settings, count = crawler.settings, crawler.stats.get_value
    if settings.getfloat("DOWNLOAD_DELAY") or settings.getbool("AUTOTHROTTLE_ENABLED"):
        return None
    requests, origins = count("downloader/request_count", 0), count("rep/origins", 0)
    many = requests >= max(MANY_REQUESTS, MANY_PER_ORIGIN * origins)
    if not many or count("rep/crawl_delay/origins", 0):
        return None
    return counted(requests, "request"), counted(origins, "origin")


REFETCHES = (
    f'HTTPCACHE_POLICY = "{ASKS_AGAIN}" asks for a page only if it is no longer fresh, and '
    "then for what has changed (ETag, Last-Modified): less load for the sites, less to "
    "download for you"
)
Table = dict[Callable[..., "tuple[Any, ...] | None"], str]
"""What finds something, and what is told of it."""
MISTAKES: Table = {
    _judged_twice: (
        "Scrapy's RobotsTxtMiddleware is enabled as well: each robots.txt is fetched "
        "and each request judged twice. Set it to None in DOWNLOADER_MIDDLEWARES, or "
        "enable scrapy_rep by ADDONS"
    ),
    _other_parser: (
        "ROBOTSTXT_PARSER is {!r}, which is for Scrapy's RobotsTxtMiddleware; "
        "scrapy_rep reads robots.txt by itself. Remove the setting"
    ),
    _cached_for_ever: (
        "HTTPCACHE keeps answers with 429 and 503, so that each retry gets the same answer "
        "from the cache. Set HTTPCACHE_IGNORE_HTTP_CODES = {}, and, if the cache was "
        'used before, HTTPCACHE_DIR = "httpcache-2", as the old one may have such answers'
    ),
}
"""Of settings and enabled middlewares."""
HINTS_ON_REFETCHING: Table = {
    _cached_whatever_its_age: f"With HTTPCACHE_ENABLED no page is asked for a second time, however old. {REFETCHES}",
    _repeated: f"This crawl seems to be repeated. HTTPCACHE_ENABLED = True with {REFETCHES}",
}
"""Of settings."""
HINTS_AT_START: Table = {
    _no_contact: (
        "The User-Agent, {!r}, does not say how to reach you: put a URL or "
        "an e-mail address into USER_AGENT, so that a site can write to you before "
        "it blocks you"
    ),
}
"""Of the User-Agent that is sent."""
HINTS_AT_END: Table = {
    _no_delay: (
        "{} went to {} without a delay, as no robots.txt asks for one: think of "
        "DOWNLOAD_DELAY, or of AUTOTHROTTLE_ENABLED"
    ),
}
"""Of the crawler."""


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
