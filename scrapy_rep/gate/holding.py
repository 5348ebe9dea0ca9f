"""What holds in a crawl, as its settings say, and the mistakes that can be seen in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.misc import load_object

from scrapy_rep.crawl import Crawl
from scrapy_rep.engine.inner import ROBOTS_HOP
from scrapy_rep.engine.tools import OneForEachCrawler
from scrapy_rep.gate.robots import has_robots_of_its_own
from scrapy_rep.judging.target import EXEMPT_KEY, INSTEAD_KEY, Agents, Chooser
from scrapy_rep.protocol import __version__, product_tokens
from scrapy_rep.protocol.lint import notes_on_header
from scrapy_rep.protocol.printable import counted, duration, mask_uri
from scrapy_rep.settings import Settings, unknown_names, whole_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scrapy_rep.events.stream import Stream
    from scrapy_rep.protocol import Agent

OURS = "scrapy_rep"
OUR_JUDGE = "scrapy_rep.gate.middleware.RepMiddleware"
BUILT_IN = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
SCRAPYS_SCHEDULER = "scrapy.core.scheduler.Scheduler"
SCRAPYS_DOWNLOADER = "scrapy.core.downloader.Downloader"
NOT_JUDGED = (
    "ROBOTSTXT_OBEY is False, so no request is judged by a robots.txt. If that is meant, "
    'disable scrapy_rep as well, by ADDONS = {"scrapy_rep.Addon": None}, and this WARNING '
    "goes; to be told what would be refused, leave ROBOTSTXT_OBEY alone and set REP_OBEY = []"
)
NO_MIDDLEWARE = (
    "No request is judged by {}, as RepMiddleware is not enabled in "
    "DOWNLOADER_MIDDLEWARES"
)
OWN_ROBOTS = (
    "The spider has an attribute of its own that is called robots, which is left alone: "
    "rename it to ask scrapy_rep by spider.robots"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What holds in a crawl. Paths are import paths; "" is none. The guide tells of each (``doctor``)."""

    version: str
    spider: str
    judge: str
    agent: Agent
    user_agent: str
    unsent_tokens: tuple[str, ...]
    scheduler: str
    queue: str
    """That the scheduler asks for a request, where the project chose it."""
    downloader: str
    has_own_downloader: bool
    """Whether that is neither Scrapy's nor ours."""
    waits_in_scheduler: bool
    requests_kept: str
    """"memory", "JOBDIR", "Redis"; "": another's scheduler does, which alone knows."""
    policies_kept: str
    is_dry_run: bool
    """Whether what a robots.txt disallows is sent all the same (REP_OBEY)."""
    longest_delay: float | None
    """``None``: no delays of sites are kept (REP_OBEY)."""
    over_longest: str
    """"drop" or "clamp": what is done where a site asks for more."""
    warnings: tuple[str, ...]
    """Sentences: what the user should change."""

    def in_words(self) -> str:
        """Return all but the warnings in a line."""
        opening = f"scrapy_rep {self.version}: "
        if not self.judge:
            return f"{opening}no request is judged"
        parts = [
            opening + self._what_is_obeyed(),
            self._where_requests_wait(),
            f"robots.txt files are kept in {self.policies_kept}",
            self._which_delays(),
        ]
        if self.has_own_downloader:
            parts.append(f"DOWNLOADER is {self.downloader}")
        return "; ".join(parts)

    def _what_is_obeyed(self) -> str:
        agent = self.agent
        tokens = agent if isinstance(agent, tuple) else product_tokens(agent)
        rules = f"the rules for {' or '.join(tokens) or 'any agent (*)'}"
        who = f"spider {self.spider}" if self.spider else "a spider"
        if self.is_dry_run:
            return (
                f"{who} is on a dry run (REP_OBEY): what {rules} disallow is sent all the "
                "same, and counted in rep/would_forbid"
            )
        return f"{who} obeys {rules}"

    def _where_requests_wait(self) -> str:
        if self.waits_in_scheduler:
            return f"requests wait in the scheduler, which keeps them in {self.requests_kept}"
        chosen = f"SCHEDULER is {self.scheduler}"
        if self.queue:
            chosen = f"SCHEDULER_PRIORITY_QUEUE is {self.queue}"
        return (
            f"as {chosen}, requests wait in the downloader, where they take places of "
            "CONCURRENT_REQUESTS"
        )

    def _which_delays(self) -> str:
        if self.longest_delay is None:
            return "delays that sites ask for are not kept (REP_OBEY)"
        longer = "that is kept, too, where a site asks for more"
        if self.over_longest == "drop":
            longer = "where a site asks for more, nothing is fetched"
        return f"delays of up to {duration(self.longest_delay)} are kept; {longer}"


def what_holds(
    settings: BaseSettings, spider: Spider | type[Spider] | None = None
) -> Holding:
    """Return what holds in a crawl with these *settings*, by *spider* or one of its class.

    No crawl need run, but *settings* must be a crawl's: with those of the spider and of the
    add-ons. ``crawler = Crawler(spider_class, settings)``, and then
    ``crawler.addons.load_settings(crawler.settings)``, make ``crawler.settings`` such.

    Raises ``SettingError`` if a setting is wrong, or ``spider.robotstxt_user_agent``; and what
    ``load_object`` raises where there is no such class.
    """
    values = Settings.read(settings)
    middlewares = middlewares_of(settings)
    judge = _judge_of(middlewares)
    obeys = settings.getbool("ROBOTSTXT_OBEY")
    agents = Agents(Chooser(settings, spider), values)
    warnings = mistakes_of(settings, middlewares.values())
    if not obeys:
        warnings.append(NOT_JUDGED)
    elif not judge:
        warnings.append(_without_middleware(settings, middlewares))
    if has_robots_of_its_own(spider):
        warnings.append(OWN_ROBOTS)
    scheduler, queue = settings["SCHEDULER"], _queue_of(settings)
    downloader = settings["DOWNLOADER"]
    is_others = not is_ours(downloader) and path_of(downloader) != SCRAPYS_DOWNLOADER
    return Holding(
        version=__version__,
        spider=getattr(spider, "name", None) or "",
        judge=judge if obeys else "",
        agent=agents.of(),
        user_agent=agents.header(),
        unsent_tokens=agents.unsent_tokens(),
        scheduler=path_of(scheduler),
        queue=path_of(queue),
        downloader=path_of(downloader),
        has_own_downloader=is_others,
        waits_in_scheduler=is_ours(queue or scheduler),
        requests_kept=_where_requests_are_kept(settings, queue or scheduler),
        policies_kept=mask_uri(path_of(values.store)) or "Redis",
        is_dry_run="disallow" not in values.obey,
        longest_delay=values.crawl_delay_max if "crawl-delay" in values.obey else None,
        over_longest=values.crawl_delay_over_max,
        warnings=tuple(warnings),
    )


class GateCheck(OneForEachCrawler):
    """Warns whoever has a part of ours in use that no gate judges what is sent."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        crawler.signals.connect(self._spider_opened, signals.spider_opened)

    def _spider_opened(self) -> None:
        settings = self._crawler.settings
        middlewares = middlewares_of(settings)
        # One that is enabled says itself if it does not judge.
        if not _judge_of(middlewares):
            warning = _without_middleware(settings, middlewares)
            Crawl.of(self._crawler).events.warn_user(warning)


def _judge_of(middlewares: dict[str, Any]) -> str:
    """Return the import path of our gate; "": it is not enabled."""
    found = (path for path, kind in middlewares.items() if descends(kind, OUR_JUDGE))
    return next(found, "")


def _without_middleware(settings: BaseSettings, middlewares: dict[str, Any]) -> str:
    has_built_in = BUILT_IN in middlewares and settings.getbool("ROBOTSTXT_OBEY")
    judge = "scrapy_rep" if has_built_in else "a robots.txt"
    return NO_MIDDLEWARE.format(judge)


def middlewares_of(settings: BaseSettings) -> dict[str, Any]:
    """Return those that are enabled, by import path; most are classes."""
    # The user's come after the defaults.
    both = settings.getwithbase("DOWNLOADER_MIDDLEWARES")
    found = {load_object(key): order for key, order in both.items()}
    return {path_of(kind): kind for kind, order in found.items() if order is not None}


def path_of(named: Any) -> str:
    if named is None or isinstance(named, str):
        return named or ""
    name = getattr(named, "__qualname__", None)
    return f"{named.__module__}.{name}" if name else repr(named)


def descends(named: Any, path: str) -> bool:
    """Tell whether *named* is, or derives from, the class at *path*, or one in the package there."""
    kinds = getattr(load_object(named), "__mro__", ()) if named else ()
    return any(f"{path_of(each)}.".startswith(f"{path}.") for each in kinds)


def is_ours(named: Any) -> bool:
    return descends(named, OURS)


def _queue_of(settings: BaseSettings) -> Any:
    """Return what the project names as the queue of the scheduler; "": it has its own."""
    # Not by issubclass: to Scrapy, whatever has the methods of a scheduler is one.
    if is_ours(settings["SCHEDULER"]):
        return ""
    if descends(settings["SCHEDULER"], SCRAPYS_SCHEDULER):
        name = "SCHEDULER_PRIORITY_QUEUE"
        is_chosen = (settings.getpriority(name) or 0) > SETTINGS_PRIORITIES["default"]
        return settings[name] if is_chosen else ""
    return settings.get("SCHEDULER_QUEUE_CLASS") or ""


def _where_requests_are_kept(settings: BaseSettings, queue: Any) -> str:
    if not is_ours(queue):
        return ""
    if settings.get("REP_FLEET"):
        return "Redis"
    return "JOBDIR" if settings.get("JOBDIR") else "memory"


META_KEYS = (EXEMPT_KEY, INSTEAD_KEY, "robotstxt_user_agent")
ALIKE = 0.8
"""How near a name must come to one of those, by difflib, to be taken for a slip."""
MAX_META_KEYS = 1000
"""Names that are looked at; a crawl with more makes them up as it goes."""
OUR_PARSER = "scrapy_rep.RepRobotParser"
ASKS_AGAIN = "scrapy.extensions.httpcache.RFC2616Policy"
KEEPS_FOR_EVER = "scrapy.extensions.httpcache.DummyPolicy"
LEAVE_ALONE = frozenset({429, 503})
MANY_REQUESTS, MANY_PER_ORIGIN = 1000, 100
REFETCHES = (
    f'HTTPCACHE_POLICY = "{ASKS_AGAIN}" asks for a page only if it is no longer fresh, and '
    "then for what has changed (ETag, Last-Modified): less load for the sites, less to "
    "download for you"
)


def mistakes_of(settings: BaseSettings, middlewares: Iterable[Any]) -> list[str]:
    """Return a sentence for each mistake in *settings*; *middlewares* are enabled classes."""
    parser = settings["ROBOTSTXT_PARSER"]
    left_out = set(LEAVE_ALONE)
    if _never_asks_again(settings):  # else nobody reads the setting
        name = "HTTPCACHE_IGNORE_HTTP_CODES"
        left_out = {whole_of(name, each) for each in settings.getlist(name)}
    retried = {int(each) for each in settings.getlist("RETRY_HTTP_CODES")}
    table = {
        "Scrapy's RobotsTxtMiddleware is enabled as well: each robots.txt is fetched and "
        "each request judged twice. Set it to None in DOWNLOADER_MIDDLEWARES, or enable "
        "scrapy_rep by ADDONS": settings.getbool("ROBOTSTXT_OBEY")
        and any(descends(kind, BUILT_IN) for kind in middlewares),
        f"ROBOTSTXT_PARSER is {parser!r}, which is for Scrapy's RobotsTxtMiddleware; "
        "scrapy_rep reads robots.txt by itself. Remove the setting": parser
        != OUR_PARSER
        and settings.getpriority("ROBOTSTXT_PARSER"),
        "REP_STORE_PATH is not used, as policies are kept in no file: to keep them there, set "
        'REP_STORE = "sqlite"': settings.get("REP_STORE_PATH")
        and Settings.read(settings).store in {None, "memory"},
        # Another policy, RFC2616Policy among them, asks again for what is not fresh.
        "HTTPCACHE keeps answers with 429 and 503, so that each retry gets the same answer "
        "from the cache. Set HTTPCACHE_IGNORE_HTTP_CODES = "
        f"{sorted(left_out | LEAVE_ALONE | retried)}, and, if the cache was used before, "
        'HTTPCACHE_DIR = "httpcache-2", as the old one may have such answers': (
            not left_out >= LEAVE_ALONE
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
    hint = (
        f"The User-Agent, {user_agent!r}, does not say how to reach you: put a URL or an "
        "e-mail address into USER_AGENT, so that a site can write to you before it blocks you"
    )
    codes = {note.code for note in notes_on_header(user_agent)}
    return [hint] if "no-contact" in codes else []


def hints_at_end(settings: BaseSettings, count: Callable[[str, int], Any]) -> list[str]:
    """Return that sites were asked many times without a delay; *count* returns a stat."""
    requests, origins = count("downloader/request_count", 0), count("rep/origins", 0)
    few = requests < max(MANY_REQUESTS, MANY_PER_ORIGIN * origins)
    is_delayed = settings.getfloat("DOWNLOAD_DELAY") or settings.getbool(
        "AUTOTHROTTLE_ENABLED"
    )
    if few or is_delayed or count("rep/crawl_delay/origins", 0):
        return []
    went = f"{counted(requests, 'request')} went to {counted(origins, 'origin')}"
    why = "as no robots.txt asks for one: think of DOWNLOAD_DELAY, or of AUTOTHROTTLE_ENABLED"
    return [f"{went} without a delay, {why}"]


def _that_hold(table: dict[str, Any]) -> list[str]:
    """Return the sentences of *table* beside which something true stands."""
    return [sentence for sentence, holds in table.items() if holds]


def _never_asks_again(settings: BaseSettings) -> bool:
    """Tell whether Scrapy's HTTP cache takes whatever it has for fresh."""
    is_enabled = settings.getbool("HTTPCACHE_ENABLED")
    return is_enabled and descends(settings["HTTPCACHE_POLICY"], KEEPS_FOR_EVER)


class MetaKeys:
    """Warns of names on the meta of requests that are slips of those, once each."""

    def __init__(self, events: Stream) -> None:
        self._events = events
        self.seen = {*META_KEYS, ROBOTS_HOP}

    def look(self, meta: dict[str, Any]) -> None:
        names = meta.keys() - self.seen
        if len(self.seen) > MAX_META_KEYS:
            return
        self.seen |= names
        for name in map(str, names):
            if not any(_may_be_alike(name, key) for key in META_KEYS):
                continue
            from difflib import get_close_matches  # noqa: PLC0415 - few crawls need it

            if near := get_close_matches(name, META_KEYS, n=1, cutoff=ALIKE):
                self._events.warn_user(
                    f"meta has {name!r}, which nobody reads; did you mean {near[0]!r}?"
                )


def _may_be_alike(name: str, key: str) -> bool:
    """Tell by their letters alone, which is more than difflib finds and loads nothing."""
    shared = (Counter(name) & Counter(key)).total()
    return 2 * shared >= ALIKE * (len(name) + len(key))
