"""Every setting of this package, declared once: its default, its check, its meaning.

A check returns the value to use for a user's, or raises ``WrongError``. Times are in seconds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import load_object

from scrapy_rep.engine.tools import OneForEachCrawler, at_prompt
from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol import GYM2008, MK1996, RFC9309, Dialect
from scrapy_rep.protocol.decoding import MAX_SIZE
from scrapy_rep.protocol.language import DAY, PACE_VALUES
from scrapy_rep.protocol.origins import HOST_NAME, host_in, origin_of
from scrapy_rep.protocol.preferences import PURPOSES
from scrapy_rep.protocol.printable import printable, shown

if TYPE_CHECKING:
    from collections.abc import Collection

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

Check = Callable[[Any], Any]

DIALECTS = {"rfc9309": RFC9309, "gym2008": GYM2008, "mk1996": MK1996}
PACE_DIRECTIVES = frozenset(PACE_VALUES)
"""What in a robots.txt concerns our speed."""
DIRECTIVES = ("disallow", *PACE_VALUES, "retry-after", "back-off")
PAGE_RULES = ("nofollow", "noindex")
FLAGS = {"true": True, "1": True, "false": False, "0": False}
NO_TEXT = {*FLAGS, "none"}
FOREVER = 1e12
"""More seconds than anybody waits, and not too many for the whole milliseconds of Redis."""
MiB = 2**20
LEAST_AND_MOST = (
    ("min_age", "max_age"),
    ("back_off_first", "back_off_max"),
    ("latency_delay_min", "latency_delay_max"),
)


class WrongError(ValueError):
    """A value is not what was expected, which its message says in words."""


def number(expected: str, fits: Callable[[Any], bool], kind: Check = float) -> Check:
    def check(value: Any) -> Any:
        with suppress(TypeError, ValueError, OverflowError):
            found = kind(value)
            is_exact = not isinstance(value, bool) and found == float(value)
            if is_exact and math.isfinite(found) and fits(found):
                return found
        raise WrongError(expected)

    return check


def whole(least: int, most: float = math.inf) -> Check:
    expected = f"a whole number, at least {least}"
    if most < math.inf:
        expected += f", at most {most}"
    return number(expected, lambda found: least <= found <= most, int)


def seconds(expected: str, fits: Callable[[Any], bool]) -> Check:
    """Return a check of a time; what is longer than FOREVER is as long as that."""
    check = number(f"a number of seconds, {expected}", fits)
    return lambda value: min(check(value), FOREVER)


SECONDS = seconds(">= 0", lambda found: found >= 0)
SOME_SECONDS = seconds("> 0", lambda found: found > 0)
POSITIVE = number("a number, >= 0", lambda found: found >= 0)
STATUS = number("a 4xx status", lambda found: 400 <= found < 500, int)


def flag(value: Any) -> bool:
    with suppress(ValueError):  # of an int that cannot be shown
        if str(value).lower() in FLAGS:
            return FLAGS[str(value).lower()]
    raise WrongError("True or False")


def text(expected: str = "a str", *starts: str) -> Check:
    """Return a check of a str, which begins with one of *starts*; "" is none.

    Words that a command line has for none, as in ``-s REP_APPROVED=None``, are no str.
    """

    def check(value: Any) -> str | None:
        if isinstance(value, str) and (not value or value.startswith(starts or "")):
            if value.lower() in NO_TEXT:
                raise WrongError(f'{expected}, or "" for none')
            return value or None
        raise WrongError(expected)

    return check


def path_or_uri(value: Any) -> Any:
    is_path = isinstance(value, Path)
    return str(value.absolute()) if is_path else text("a path or a URI")(value)


def server(value: Any) -> str | None:
    expected = 'a URL such as "redis://localhost:6379", or rediss:// with TLS'
    url: str | None = text(expected, "redis://", "rediss://", "unix://")(value)
    if url is not None and find_spec("redis") is None:
        raise WrongError(
            'to be used where scrapy_rep is installed with its extra "redis"'
        )
    return url


def one_of(choices: Collection[str]) -> Check:
    def check(value: Any) -> str:
        if isinstance(value, str) and value.lower() in choices:
            return value.lower()
        raise WrongError(" or ".join(f'"{choice}"' for choice in choices))

    return check


def list_of(check_item: Check, expected: str, kind: Check = frozenset) -> Check:
    """Return a check of a list, also as the command line has it: ``a,b`` or ``["a", "b"]``."""

    def check(value: Any) -> Any:
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                raise WrongError(f"{expected}, as a,b or in JSON") from None
        elif isinstance(value, str):
            value = filter(None, map(str.strip, value.split(",")))
        elif not isinstance(value, (list, tuple, set, frozenset)):
            raise WrongError(expected)
        found = []
        for item in value:
            try:
                found.append(check_item(item))
            except WrongError:  # noqa: PERF203 - it names the item
                raise WrongError(f"{expected}; {shown(item)} is none") from None
        return kind(found)

    return check


LIST_OF_SECONDS = list_of(SECONDS, "a list of numbers of seconds, >= 0", tuple)
LIST_OF_STATUSES = list_of(STATUS, "a list of 4xx statuses such as [401, 403]")


def some_of(choices: Collection[str]) -> Check:
    listed = " or ".join(f'"{choice}"' for choice in choices)
    return list_of(one_of(choices), f"a list whose items are {listed}")


def obeyed(value: Any) -> Any:
    """Return the directives. None of them has to be meant: a text may be empty by mistake."""
    found = some_of(DIRECTIVES)(value)
    if not found and isinstance(value, str) and "[" not in value:
        raise WrongError('what is enforced, such as "disallow"; "[]" for nothing')
    return found


def loaded(value: Any, expected: str) -> Any:
    """Return what *value* names, in JSON or by an import path."""
    if not isinstance(value, str):
        return value
    try:
        is_json = value.lstrip().startswith("{")
        return json.loads(value) if is_json else load_object(value)
    except (ImportError, NameError, ValueError, TypeError, RecursionError) as error:
        raise WrongError(f"{expected} ({printable(str(error))})") from None


def pace_by(value: Any) -> str | Callable[[Any], str]:
    expected = (
        '"host", "domain", or a function from a request to a name, or its import path'
    )
    if isinstance(value, str) and value.lower() in {"host", "domain"}:
        return value.lower()
    found: Callable[[Any], str] = loaded(value, expected)
    if callable(found):
        return found
    raise WrongError(expected)


def meta_or_function(value: Any) -> Mapping[str, Any] | Callable[..., Any]:
    expected = (
        "a dict, or a function of two requests that returns one, or its import path"
    )
    found: Callable[..., Any] = loaded(value, expected)
    return found if callable(found) else meta_of_text(found, expected)


def meta_of_text(value: Any, expected: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise WrongError(expected)
    zyte = [value.get(name) for name in ("zyte_api", "zyte_api_automap")]
    if value.get("playwright") or any(
        isinstance(each, Mapping) and each.get("browserHtml") for each in zyte
    ):
        why = "it makes HTML of a robots.txt, in which there are no rules"
        raise WrongError(f"a meta that asks for no browser: {why}")
    return value


def reason(value: Any) -> str:
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise WrongError("a reason: who has allowed it, when, and where that stands")


def day(value: Any) -> date:
    with suppress(ValueError):
        if isinstance(value, str):
            return date.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise WrongError('a day such as "2027-01-01"')


OF_A_HOST: dict[str, Check] = {
    "budget": whole(0),
    "wide": whole(1),
    "allow": reason,
    "until": day,
    "delay": SECONDS,
}
OF_A_PERMISSION = {"until", "delay"}
"""What of that needs ``"allow"``."""


def hosts(value: Any) -> dict[str, dict[str, Any]]:
    expected = 'a dict such as {"example.com": {"budget": 100}}'
    value = loaded(value, f"{expected}, or the same in JSON")
    if not isinstance(value, Mapping):
        raise WrongError(expected)
    found: dict[str, dict[str, Any]] = {}
    for host, own in value.items():
        if not isinstance(host, str) or not isinstance(own, Mapping):
            raise WrongError(expected)
        allows = "allow" in own
        if "/" in host and not allows:
            raise WrongError(f"{expected}; {shown(host)} is a URL, and no host")
        for name, its in own.items():
            if name not in OF_A_HOST:
                strange = f"{shown(name)} is nothing that a host has"
                raise WrongError(f"{expected}; {strange}")
            if name in OF_A_PERMISSION and not allows:
                raise WrongError(f'{expected}; {name} needs an "allow" beside it')
            try:
                is_none = its is None and name != "allow"
                checked = None if is_none else OF_A_HOST[name](its)
            except WrongError as error:
                raise WrongError(f"{expected}; the {name} is {error}") from None
            key = exact_host(host) if allows else host.lower()
            found.setdefault(key, {})[name] = checked
    return found


def exact_host(name: str) -> str:
    """Return *name* as URLs have it; raises ``WrongError`` where it is not the name of one host."""
    is_plain = "[" in name or not set(name) & set("/?#@:\\")
    origin = origin_of(f"https://{name}") if is_plain else None
    host = host_in(origin or "")
    if HOST_NAME.fullmatch(host) or ":" in host:
        return host
    expected = 'the exact name of a host, as in "www.example.com", beside "allow"'
    raise WrongError(f"{expected}; {shown(name)} is none")


def check_agent(name: str, value: Any) -> str | tuple[str, ...] | None:
    """Return *value*, one agent, or several in order of preference as a tuple.

    ``None``: none was chosen. Raises ``SettingError``; *name* says where the value stands.
    """
    if not value or isinstance(value, str):
        return value or None
    is_list = isinstance(value, (list, tuple))
    if is_list and all(isinstance(token, str) and token for token in value):
        return tuple(value)
    expected = "a product token or a User-Agent, as a str, or a list of tokens"
    raise SettingError(name, value, expected)


def whole_of(name: str, value: Any) -> int:
    """Return *value* as Scrapy reads it, in one of its own settings."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise SettingError(name, value, "a whole number") from None


def flag_of(name: str, settings: BaseSettings) -> bool:
    """Return one of Scrapy's own flags, as Scrapy reads it, which does not say what is wrong."""
    try:
        return settings.getbool(name)
    except ValueError:
        raise SettingError(name, settings.get(name), "True or False") from None


def setting(default: Any, check: Check) -> Any:
    """Declare a field of Settings; the setting has its name after ``REP_``, in capitals.

    *default* is as a user would give it; ``None``: it depends on other settings, or there is none.
    """
    return field(metadata={"default": default, "check": check})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Settings(OneForEachCrawler):
    """The settings of one crawl, read and checked once."""

    obey: frozenset[str] = setting([*DIRECTIVES], obeyed)
    """What is enforced; the rest is only counted."""
    dialect: Dialect = setting("rfc9309", one_of(DIALECTS))
    """How robots.txt is read: or gym2008, mk1996."""
    crawl_delay_max: float = setting(300.0, SECONDS)
    """The longest delay that is kept."""
    crawl_delay_over_max: str = setting("drop", one_of(("drop", "clamp")))
    """If a site asks for more: drop its requests, or clamp."""
    visit_time_max: float = setting(3600.0, SECONDS)
    """The longest wait for a visit time; else refused."""
    pace_by: str | Callable[[Any], str] = setting("host", pace_by)
    """What keeps one pace: host, domain, or a function."""
    max_age: float = setting(None, SOME_SECONDS)
    """For how long a robots.txt is used at most; None: 1 day, with mk1996 7 days."""
    min_age: float = setting(60.0, SECONDS)
    """For how long it is used at least, whatever its headers say."""
    unreachable: str = setting("disallow", one_of(("disallow", "allow")))
    """What holds where a robots.txt cannot be fetched."""
    unreachable_retry_delays: tuple[float, ...] = setting([10.0, 60.0], LIST_OF_SECONDS)
    """When it is asked for again while requests wait."""
    unreachable_ttl: float = setting(3600.0, SOME_SECONDS)
    """How often it is asked for after that."""
    unreachable_max: float = setting(30 * DAY, SECONDS)
    """After so long no copy counts, and all is allowed."""
    retry_after_max: float = setting(3600.0, SECONDS)
    """The longest Retry-After that is kept."""
    back_off_first: float = setting(5.0, SOME_SECONDS)
    """How long a host in trouble is parked at first."""
    back_off_max: float = setting(300.0, SOME_SECONDS)
    """The longest that it is parked at a time."""
    back_off_give_up: float = setting(600.0, SECONDS)
    """After so long without a success it is given up."""
    latency_factor: float = setting(0.0, POSITIVE)
    """How many of its response times lie between two requests; 0: none."""
    latency_delay_min: float = setting(0.0, SECONDS)
    """The shortest delay for that reason."""
    latency_delay_max: float = setting(30.0, SOME_SECONDS)
    """The longest delay for that reason."""
    host_budget: int | None = setting(None, whole(0))
    """How many requests a host gets; more are refused. None: no limit."""
    hosts: dict[str, dict[str, Any]] = setting({}, hosts)
    """Exceptions for hosts: {"example.com": {"budget": 100}}."""
    all_parked_max: float | None = setting(None, SECONDS)
    """The crawl ends if nothing may be sent for longer; None: no limit."""
    wait: bool = setting(None, flag)
    """Whether requests wait for more than a few seconds; None: True, but in a shell False."""
    deny_statuses: frozenset[int] = setting(None, LIST_OF_STATUSES)
    """4xx statuses of a robots.txt that disallow everything; None: with mk1996 401, 403."""
    max_redirects: int = setting(5, whole(0))
    """How many redirects of a robots.txt are followed."""
    max_size: int = setting(MAX_SIZE, whole(1, MAX_SIZE))
    """How many octets of a robots.txt are used."""
    timeout: float = setting(30.0, SOME_SECONDS)
    """How long one request for a robots.txt may take."""
    robots_meta: Any = setting(None, meta_or_function)
    """Meta of requests for robots.txt files: a dict, a function."""
    fetch_concurrency: int = setting(None, whole(1))
    """How many robots.txt files are fetched at a time; None: CONCURRENT_REQUESTS / 2."""
    slow_fetches: int = setting(700, whole(1))
    """How many more may be under way that take long."""
    cache_bytes: int = setting(64 * MiB, whole(0))
    """Octets of memory for parsed robots.txt files."""
    store: str | type = setting(None, lambda value: value)  # checked when it is made
    """Where answers are kept: memory, sqlite, a class; None: memory, with JOBDIR sqlite,
    in a fleet with its requests."""
    store_path: str | None = setting(None, text())
    """The file of the SQLite store; None: robots.sqlite in JOBDIR."""
    fleet: str | None = setting(None, server)
    """The Redis server or cluster by which workers share a crawl; None: one process."""
    fleet_lease: float = setting(8.0, seconds(">= 0.1", lambda found: found >= 0.1))
    """A worker that is silent for so long is taken for dead."""
    fleet_shards: int | None = setting(None, whole(1, 1024))
    """Into how many shards the hosts of a fleet are cut; None: 32."""
    fleet_persist: bool = setting(True, flag)
    """Whether what is left, and seen, outlives the last worker."""
    fleet_flush: bool = setting(False, flag)
    """Whether the first worker begins with an empty queue."""
    page_obey: frozenset[str] = setting([], some_of(PAGE_RULES))
    """Which rules of pages are enforced: nofollow, noindex."""
    purpose: tuple[str, ...] = setting([], some_of(PURPOSES))
    """What the crawl is for; sites may say no to that."""
    purpose_unstated: str = setting("allow", one_of(("allow", "refuse")))
    """Where a site says nothing of it: allow, refuse."""
    approved: str | None = setting(None, path_or_uri)
    """The file of what was approved (scrapy robots approve)."""
    approved_strict: bool = setting(False, flag)
    """Whether what is not as approved is refused, not only warned of."""
    evidence: bool = setting(False, flag)
    """Whether requests carry meta["rep_evidence"]."""
    evidence_field: str | None = setting(None, text())
    """The field of items for the digest of the robots.txt."""
    audit_uri: str | None = setting(None, path_or_uri)
    """Where the audit is written."""
    user_agent: str | tuple[str, ...] | None = None
    """ROBOTSTXT_USER_AGENT, which is Scrapy's."""
    retried: frozenset[int] = frozenset()
    """RETRY_HTTP_CODES, which is Scrapy's."""
    concurrent: int = 16
    """CONCURRENT_REQUESTS, which is Scrapy's; its default where that is no limit (0 or less)."""

    @classmethod
    def made_for(cls, crawler: Crawler) -> Self:
        return cls.read(crawler.settings)

    @classmethod
    def read(cls, settings: BaseSettings) -> Self:
        """Return the values in *settings*, with the defaults. Raises ``SettingError``."""
        found: dict[str, Any] = {}
        for setting_name, its in DECLARED.items():
            value = settings.get(setting_name)
            value = its.metadata["default"] if value is None else value
            try:
                found[its.name] = (
                    None if value is None else its.metadata["check"](value)
                )
            except WrongError as error:
                raise SettingError(setting_name, value, str(error)) from None
        dialect = found["dialect"] = DIALECTS[found["dialect"]]
        if found["max_age"] is None:
            found["max_age"] = dialect.default_lifetime or DAY
        for least, most in LEAST_AND_MOST:
            if found[least] > found[most]:
                name, given = f"REP_{least.upper()}", found[least]
                expected = f"at most REP_{most.upper()}, which is {found[most]}"
                raise SettingError(name, settings.get(name, given), expected)
        if found["wait"] is None:
            found["wait"] = not at_prompt()
        if found["deny_statuses"] is None:
            found["deny_statuses"] = frozenset(dialect.deny_statuses)
        name = "CONCURRENT_REQUESTS"
        concurrent = max(0, whole_of(name, settings.get(name, 16))) or 16
        if found["fetch_concurrency"] is None:
            found["fetch_concurrency"] = max(1, concurrent // 2)
        if found["store"] is None and found["fleet"] is None:
            # What was learned outlives the crawl where requests or pages do.
            outlives = settings.get("JOBDIR") or flag_of("HTTPCACHE_ENABLED", settings)
            found["store"] = "sqlite" if outlives else "memory"
        found["purpose"] = tuple(sorted({PURPOSES[name] for name in found["purpose"]}))
        found["evidence"] = found["evidence"] or found["evidence_field"] is not None
        flag_of("ROBOTSTXT_OBEY", settings)  # others read it
        user_agent = settings.get("ROBOTSTXT_USER_AGENT")
        return cls(
            **found,
            concurrent=concurrent,
            user_agent=check_agent("ROBOTSTXT_USER_AGENT", user_agent),
            retried=frozenset(
                whole_of("RETRY_HTTP_CODES", code)
                for code in settings.getlist("RETRY_HTTP_CODES")
            ),
        )


DECLARED = {
    f"REP_{each.name.upper()}": each for each in fields(Settings) if each.metadata
}
DEFAULTS = {name: each.metadata["default"] for name, each in DECLARED.items()}


def unknown_names(settings: BaseSettings) -> list[str]:
    sentences = []
    for name in settings:
        if not str(name).startswith("REP_") or name in DEFAULTS:
            continue
        from difflib import get_close_matches  # noqa: PLC0415 - few need it

        near = get_close_matches(name, DEFAULTS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        sentences.append(f"{name} is not a setting of scrapy_rep{hint}")
    return sentences
