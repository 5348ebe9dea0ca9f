"""Every setting of this package, declared once: name, default, unit, check, meaning."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.downloader import OneForEachCrawler, at_prompt
from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol import GYM2008, MK1996, RFC9309, Dialect
from scrapy_rep.protocol.decoding import MAX_SIZE
from scrapy_rep.protocol.preferences import PURPOSES
from scrapy_rep.setting_checks import (
    WrongError,
    flag,
    hosts,
    many_seconds,
    meta_or_function,
    number,
    one_of,
    pace_by,
    path_or_uri,
    seconds,
    server_url,
    some_of,
    statuses,
    text,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

    from scrapy_rep.setting_checks import Check

DIALECTS = {"rfc9309": RFC9309, "gym2008": GYM2008, "mk1996": MK1996}
DIRECTIVES = (
    "disallow",
    "crawl-delay",
    "request-rate",
    "visit-time",
    "retry-after",
    "back-off",
)
PACE_DIRECTIVES = frozenset({"crawl-delay", "request-rate", "visit-time"})
"""The directives of a robots.txt that concern our speed."""
PAGE_RULES = ("nofollow", "noindex")
DAY = 86400.0
MiB = 2**20
LEAST_AND_MOST = (
    ("min_age", "max_age"),
    ("back_off_first", "back_off_max"),
    ("latency_delay_min", "latency_delay_max"),
)
LONGEST_AT_PROMPT = 5.0
"""Seconds that a request may wait for its host even if REP_WAIT is off."""


class Declaration(NamedTuple):
    """One setting."""

    name: str
    default: Any
    """``None``: it depends on other settings, or there is none."""
    check: Check
    unit: str
    """"s", "octets" or ""."""
    meaning: str
    """A line of help."""
    otherwise: str
    """The default in words, if the value does not tell it."""


def setting(
    default: Any, check: Check, meaning: str, *, unit: str = "", otherwise: str = ""
) -> Any:
    """Declare a field of Settings; the setting has its name after ``REP_``, in capitals."""
    return field(metadata={"setting": (default, check, unit, meaning, otherwise)})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Settings(OneForEachCrawler):
    """The settings of one crawl, read and checked once."""

    obey: frozenset[str] = setting(
        list(DIRECTIVES),
        some_of(DIRECTIVES),
        "what is enforced; the rest is only counted",
        otherwise="everything",
    )
    dialect: Dialect = setting(
        "rfc9309", one_of(DIALECTS), "how robots.txt is read: or gym2008, mk1996"
    )
    crawl_delay_max: float = setting(
        300.0, seconds(), "the longest delay that is kept", unit="s"
    )
    crawl_delay_over_max: str = setting(
        "drop",
        one_of(("drop", "clamp")),
        "if a site asks for more: drop its requests, or clamp",
    )
    visit_time_max: float = setting(
        3600.0, seconds(), "the longest wait for a visit time; else refused", unit="s"
    )
    pace_by: str | Callable[[Any], str] = setting(
        "host", pace_by, "what keeps one pace: host, domain, or a function"
    )
    max_age: float = setting(
        None,
        seconds(above=0),
        "for how long a robots.txt is used at most",
        unit="s",
        otherwise="1 day; mk1996: 7 days",
    )
    min_age: float = setting(
        60.0,
        seconds(),
        "for how long it is used at least, whatever its headers say",
        unit="s",
    )
    unreachable: str = setting(
        "disallow",
        one_of(("disallow", "allow")),
        "what holds where a robots.txt cannot be fetched",
    )
    unreachable_retry_delays: tuple[float, ...] = setting(
        [10.0, 60.0],
        many_seconds,
        "when it is asked for again while requests wait",
        unit="s",
    )
    unreachable_ttl: float = setting(
        3600.0, seconds(above=0), "how often it is asked for after that", unit="s"
    )
    unreachable_max: float = setting(
        30 * DAY,
        seconds(),
        "after so long no copy counts, and all is allowed",
        unit="s",
    )
    retry_after_max: float = setting(
        3600.0, seconds(), "the longest Retry-After that is kept", unit="s"
    )
    back_off_first: float = setting(
        5.0,
        seconds(above=0),
        "how long a host in trouble is parked at first",
        unit="s",
    )
    back_off_max: float = setting(
        300.0, seconds(above=0), "the longest that it is parked at a time", unit="s"
    )
    back_off_give_up: float = setting(
        600.0, seconds(), "after so long without a success it is given up", unit="s"
    )
    latency_factor: float = setting(
        0.0, number, "how many of its response times lie between two requests; 0: none"
    )
    latency_delay_min: float = setting(
        0.0, seconds(), "the shortest delay for that reason", unit="s"
    )
    latency_delay_max: float = setting(
        30.0, seconds(above=0), "the longest delay for that reason", unit="s"
    )
    host_budget: int | None = setting(
        None,
        whole(least=0),
        "how many requests a host gets; more are refused",
        otherwise="no limit",
    )
    hosts: dict[str, dict[str, Any]] = setting(
        {}, hosts, 'exceptions for hosts: {"example.com": {"budget": 100}}'
    )
    all_parked_max: float | None = setting(
        None,
        seconds(),
        "the crawl ends if nothing may be sent for longer",
        unit="s",
        otherwise="no limit",
    )
    wait: bool = setting(
        None,
        flag,
        "whether requests wait for more than a few seconds",
        otherwise="True; False in a shell",
    )
    deny_statuses: frozenset[int] = setting(
        None,
        statuses,
        "4xx statuses of a robots.txt that disallow everything",
        otherwise="none; mk1996: 401, 403",
    )
    max_redirects: int = setting(
        5, whole(least=0), "how many redirects of a robots.txt are followed"
    )
    max_size: int = setting(
        MAX_SIZE,
        whole(least=1, most=MAX_SIZE),
        "how much of a robots.txt is used",
        unit="octets",
    )
    timeout: float = setting(
        30.0,
        seconds(above=0),
        "how long one request for a robots.txt may take",
        unit="s",
    )
    robots_meta: Any = setting(
        None,
        meta_or_function,
        "meta of requests for robots.txt files: a dict, a function",
        otherwise="none",
    )
    fetch_concurrency: int = setting(
        None,
        whole(least=1),
        "how many robots.txt files are fetched at a time",
        otherwise="CONCURRENT_REQUESTS / 2",
    )
    slow_fetches: int = setting(
        700, whole(least=1), "how many more may be under way that take long"
    )
    cache_bytes: int = setting(
        64 * MiB, whole(least=0), "memory for parsed robots.txt files", unit="octets"
    )
    store: str | type = setting(
        None,
        lambda value: value,  # it is checked when it is made
        "where answers are kept: memory, sqlite, a class",
        otherwise="memory; JOBDIR: sqlite; a fleet: with its requests",
    )
    store_path: str | None = setting(
        None, text, "the file of the SQLite store", otherwise="robots.sqlite in JOBDIR"
    )
    fleet: str | None = setting(
        None,
        server_url,
        "the Redis server or cluster by which workers share a crawl",
        otherwise="none: one process",
    )
    fleet_lease: float = setting(
        8.0,
        seconds(above=0),
        "a worker that is silent for so long is taken for dead",
        unit="s",
    )
    fleet_shards: int | None = setting(
        None,
        whole(least=1, most=1024),
        "into how many shards the hosts of a fleet are cut",
        otherwise="32",
    )
    fleet_persist: bool = setting(
        True, flag, "whether what is left, and seen, outlives the last worker"
    )
    fleet_flush: bool = setting(
        False, flag, "whether the first worker begins with an empty queue"
    )
    page_obey: frozenset[str] = setting(
        [], some_of(PAGE_RULES), "which rules of pages are enforced: nofollow, noindex"
    )
    purpose: tuple[str, ...] = setting(
        [], some_of(PURPOSES), "what the crawl is for; sites may say no to that"
    )
    purpose_unstated: str = setting(
        "allow",
        one_of(("allow", "refuse")),
        "where a site says nothing of it: allow, refuse",
    )
    approved: str | None = setting(
        None,
        path_or_uri,
        "the file of what was approved (scrapy robots approve)",
        otherwise="none",
    )
    approved_strict: bool = setting(
        False, flag, "whether what is not as approved is refused, not only warned of"
    )
    evidence: bool = setting(False, flag, 'whether requests carry meta["rep_evidence"]')
    evidence_field: str | None = setting(
        None,
        text,
        "the field of items for the digest of the robots.txt",
        otherwise="none",
    )
    audit_uri: str | None = setting(
        None, path_or_uri, "where the audit is written", otherwise="nowhere"
    )
    user_agent: str | tuple[str, ...] | None = None
    """ROBOTSTXT_USER_AGENT, which is Scrapy's."""
    retried: frozenset[int] = frozenset()
    """RETRY_HTTP_CODES, which is Scrapy's."""

    @classmethod
    def made_for(cls, crawler: Crawler) -> Self:
        return cls.read(crawler.settings)

    @classmethod
    def read(cls, settings: BaseSettings) -> Self:
        """Return the values in *settings*, with the defaults of this package.

        Raises ``SettingError``, which names the setting, the value and what was
        expected.
        """
        found: dict[str, Any] = {}
        for name, declared in zip(FIELDS, DECLARATIONS, strict=True):
            value = settings.get(declared.name)
            if value is None:
                value = declared.default
            try:
                found[name] = None if value is None else declared.check(value)
            except WrongError as error:
                raise SettingError(declared.name, value, str(error)) from None
        dialect = found["dialect"] = DIALECTS[found["dialect"]]
        if found["max_age"] is None:
            found["max_age"] = dialect.default_lifetime or DAY
        for least, most in LEAST_AND_MOST:
            if found[least] > found[most]:
                name = f"REP_{least.upper()}"
                raise SettingError(
                    name,
                    settings.get(name, found[least]),
                    f"at most REP_{most.upper()}, which is {found[most]}",
                )
        if found["wait"] is None:
            found["wait"] = not at_prompt()
        if found["deny_statuses"] is None:
            found["deny_statuses"] = frozenset(dialect.deny_statuses)
        if found["fetch_concurrency"] is None:
            concurrent = settings.getint("CONCURRENT_REQUESTS") or 16  # 0: no limit
            found["fetch_concurrency"] = max(1, concurrent // 2)
        if found["store"] is None and found["fleet"] is None:
            # What was learned outlives the crawl where requests or pages do.
            outlives = settings.get("JOBDIR") or settings.getbool("HTTPCACHE_ENABLED")
            found["store"] = "sqlite" if outlives else "memory"
        found["purpose"] = tuple(sorted({PURPOSES[name] for name in found["purpose"]}))
        found["evidence_field"] = found["evidence_field"] or None
        found["evidence"] = found["evidence"] or found["evidence_field"] is not None
        user_agent = settings.get("ROBOTSTXT_USER_AGENT")
        return cls(
            **found,
            user_agent=check_agent("ROBOTSTXT_USER_AGENT", user_agent),
            retried=frozenset(map(int, settings.getlist("RETRY_HTTP_CODES"))),
        )


FIELDS = [each.name for each in fields(Settings) if each.metadata]
DECLARATIONS = [
    Declaration(f"REP_{each.name.upper()}", *each.metadata["setting"])
    for each in fields(Settings)
    if each.metadata
]
DEFAULTS = {each.name: each.default for each in DECLARATIONS}


def unknown_names(settings: BaseSettings) -> list[str]:
    """Return a sentence for each ``REP_`` name in *settings* that is no setting of ours."""
    sentences = []
    for name in settings:
        if not str(name).startswith("REP_") or name in DEFAULTS:
            continue
        from difflib import get_close_matches  # noqa: PLC0415 - few need it

        near = get_close_matches(name, DEFAULTS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        sentences.append(f"{name} is not a setting of scrapy_rep{hint}")
    return sentences


def check_agent(name: str, value: object) -> str | tuple[str, ...] | None:
    """Return *value*, one agent, or several in order of preference as a tuple.

    ``None``: no agent was chosen, which "" and an empty list mean, too. Raises
    ``SettingError`` for other types; *name* says where the value stands.
    """
    if not value:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and all(
        isinstance(token, str) and token for token in value
    ):
        return tuple(value)
    raise SettingError(
        name, value, "a product token or a User-Agent, as a str, or a list of tokens"
    )
