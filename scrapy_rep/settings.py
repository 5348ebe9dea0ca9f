"""Every setting of this package, declared once: name, default, unit, check, meaning."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from scrapy.utils.misc import load_object

from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol import GYM2008, MK1996, RFC9309, Dialect
from scrapy_rep.protocol.decoding import MAX_SIZE
from scrapy_rep.protocol.preferences import PURPOSES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from scrapy.settings import BaseSettings
    from typing_extensions import Self

    Check = Callable[[Any], Any]

DIALECTS = {"rfc9309": RFC9309, "gym2008": GYM2008, "mk1996": MK1996}
DIRECTIVES = ("disallow", "crawl-delay", "request-rate", "visit-time", "retry-after")
PAGE_RULES = ("nofollow", "noindex")
FLAGS = {"true": True, "1": True, "false": False, "0": False}
DAY = 86400.0
MiB = 2**20

# The checks: each makes a function from a value to the one that is used. What it raises
# says in words what was expected.


class WrongError(ValueError):
    """A value is not what was *expected*."""


def flag(value: Any) -> bool:
    if isinstance(value, int) and value in {0, 1}:  # a bool is one
        return bool(value)
    if isinstance(value, str) and value.lower() in FLAGS:
        return FLAGS[value.lower()]
    raise WrongError("True or False")


def text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise WrongError("a str")


def path_or_uri(value: Any) -> str | None:
    if isinstance(value, Path):
        return str(value.absolute())
    if isinstance(value, str):
        return value or None
    raise WrongError("a path or a URI")


def one_of(choices: Collection[str]) -> Check:
    def check(value: Any) -> str:
        if isinstance(value, str) and value.lower() in choices:
            return value.lower()
        raise WrongError(_listed(choices))

    return check


def some_of(choices: Collection[str]) -> Check:
    def check(value: Any) -> frozenset[str]:
        items = _items(value, str, "a list of words")
        for item in items:
            if item not in choices:
                listed = _listed(choices)
                raise WrongError(f"a list whose items are {listed}; {item!r} is not")
        return frozenset(items)

    return check


def seconds(*, above: float | None = None) -> Check:
    def check(value: Any) -> float:
        number: float = _number(value, float, "a number of seconds")
        if number < 0 or (above is not None and number <= above):
            raise WrongError(
                f"a number of seconds, {'>= 0' if above is None else '> 0'}"
            )
        return number

    return check


def many_seconds(value: Any) -> tuple[float, ...]:
    return tuple(_items(value, seconds(), "a list of numbers of seconds, >= 0"))


def whole(*, least: int, most: int | None = None) -> Check:
    def check(value: Any) -> int:
        number: int = _number(value, int, "a whole number")
        if number < least:
            raise WrongError(f"a whole number, at least {least}")
        if most is not None and number > most:
            raise WrongError(f"a whole number, at most {most}")
        return number

    return check


def pace_by(value: Any) -> str | Callable[[Any], str]:
    expected = (
        '"host", "domain", or a function from a request to a name, or its import path'
    )
    if isinstance(value, str):
        if value.lower() in {"host", "domain"}:
            return value.lower()
        try:
            value = load_object(value)
        except (ImportError, NameError, ValueError, TypeError) as error:
            raise WrongError(f"{expected} ({error})") from None
    if callable(value):
        return cast("Callable[[Any], str]", value)
    raise WrongError(expected)


def statuses(value: Any) -> frozenset[int]:
    expected = "a list of 4xx statuses such as [401, 403]"
    numbers = _items(value, int, expected)
    for number in numbers:
        if not 400 <= number < 500:
            raise WrongError(f"{expected}; {number} is none")
    return frozenset(numbers)


def _items(value: Any, convert: Check, expected: str) -> list[Any]:
    if isinstance(value, str):
        value = _items_in(value, expected)
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise WrongError(expected)
    converted = []
    for item in value:
        try:
            converted.append(convert(item))
        except (TypeError, ValueError, OverflowError):  # noqa: PERF203 - it names it
            raise WrongError(f"{expected}; {item!r} is none") from None
    return converted


def _items_in(value: str, expected: str) -> Any:
    """Return the items of a list from the command line: ``a,b`` or ``["a", "b"]``."""
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            raise WrongError(f"{expected}, as a,b or in JSON") from None
    return [item.strip() for item in value.split(",") if item.strip()]


def _number(value: Any, convert: Check, expected: str) -> Any:
    try:
        if not isinstance(value, bool):
            number = convert(value)
            if math.isfinite(number) and number == float(value):
                return number
    except (TypeError, ValueError, OverflowError):
        pass
    raise WrongError(expected)


def _listed(choices: Collection[str]) -> str:
    return " or ".join(f'"{choice}"' for choice in choices)


# The settings


class Declaration(NamedTuple):
    """One setting."""

    name: str
    default: Any
    """``None``: it depends, see ``otherwise``."""
    check: Check
    unit: str
    """"s", "octets" or ""."""
    meaning: str
    """In a line."""
    otherwise: str
    """What holds where the default is ``None``, in words."""


def setting(
    default: Any, check: Check, meaning: str, *, unit: str = "", otherwise: str = ""
) -> Any:
    """Declare a field of Settings: the setting is called ``REP_`` and its name."""
    return field(metadata={"setting": (default, check, unit, meaning, otherwise)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one crawl, read and checked once."""

    obey: frozenset[str] = setting(
        list(DIRECTIVES),
        some_of(DIRECTIVES),
        "what is enforced; the rest is only counted",
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
        "hosts that ask for more: drop refuses their requests, clamp keeps the longest",
    )
    pace_by: str | Callable[[Any], str] = setting(
        "host",
        pace_by,
        "what keeps one pace: host, domain, or a function from a request to a name",
    )
    max_age: float = setting(
        None,
        seconds(above=0),
        "the longest that a robots.txt is used before it is asked for again",
        unit="s",
        otherwise="86400 s; 7 days with mk1996",
    )
    min_age: float = setting(
        60.0, seconds(), "the shortest, whatever its headers say", unit="s"
    )
    unreachable: str = setting(
        "disallow",
        one_of(("disallow", "allow")),
        "what holds where a robots.txt cannot be had",
    )
    unreachable_retry_delays: tuple[float, ...] = setting(
        [10.0, 60.0],
        many_seconds,
        "when it is asked for again, while its requests wait",
        unit="s",
    )
    unreachable_ttl: float = setting(
        3600.0, seconds(above=0), "when it is asked for again after that", unit="s"
    )
    unreachable_max: float = setting(
        30 * DAY,
        seconds(),
        "how long an earlier copy serves; without one, all is allowed after it",
        unit="s",
    )
    retry_after_max: float = setting(
        3600.0, seconds(), "the longest Retry-After that is kept", unit="s"
    )
    deny_statuses: frozenset[int] = setting(
        None,
        statuses,
        "4xx statuses of a robots.txt that disallow everything",
        otherwise="none; [401, 403] with mk1996",
    )
    max_redirects: int = setting(
        5, whole(least=0), "redirects that are followed from one robots.txt"
    )
    max_size: int = setting(
        MAX_SIZE,
        whole(least=1, most=MAX_SIZE),
        "how much of a robots.txt is used",
        unit="octets",
    )
    timeout: float = setting(
        30.0, seconds(above=0), "for one request of a robots.txt", unit="s"
    )
    fetch_concurrency: int = setting(
        None,
        whole(least=1),
        "robots.txt files that are fetched at a time",
        otherwise="half of CONCURRENT_REQUESTS",
    )
    cache_bytes: int = setting(
        64 * MiB, whole(least=0), "memory for parsed robots.txt files", unit="octets"
    )
    store: str | type = setting(
        None,
        lambda value: value,  # it is checked when it is made
        "where answers are kept: memory, sqlite, redis, a class or its import path",
        otherwise="sqlite with JOBDIR or HTTPCACHE_ENABLED, else memory",
    )
    store_path: str | None = setting(
        None,
        text,
        "the file of the SQLite store",
        otherwise="robots.sqlite in JOBDIR, else in .scrapy",
    )
    redis_down: str = setting(
        "degrade",
        one_of(("degrade", "pause")),
        "what workers do while the Redis server is away",
    )
    redis_lease: float = setting(
        15.0,
        seconds(above=0),
        "after so long a silent worker is taken for dead",
        unit="s",
    )
    durable_job: bool = setting(
        True, flag, "whether a job in JOBDIR outlives a kill of its process"
    )
    page_obey: frozenset[str] = setting(
        [], some_of(PAGE_RULES), "which rules of pages are enforced: nofollow, noindex"
    )
    purpose: tuple[str, ...] = setting(
        [],
        some_of(PURPOSES),
        "what the crawl is for; what sites say no to is refused",
    )
    purpose_unstated: str = setting(
        "allow", one_of(("allow", "refuse")), "where a site says nothing of a purpose"
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
        if found["min_age"] > found["max_age"]:
            raise SettingError(
                "REP_MIN_AGE",
                settings.get("REP_MIN_AGE", found["min_age"]),
                f"at most REP_MAX_AGE, which is {found['max_age']}",
            )
        if found["deny_statuses"] is None:
            found["deny_statuses"] = frozenset(dialect.deny_statuses)
        if found["fetch_concurrency"] is None:
            concurrent = settings.getint("CONCURRENT_REQUESTS") or 16  # 0: no limit
            found["fetch_concurrency"] = max(1, concurrent // 2)
        if found["store"] is None:
            # What was learned outlives the crawl where requests or pages do.
            outlives = settings.get("JOBDIR") or settings.getbool("HTTPCACHE_ENABLED")
            found["store"] = "sqlite" if outlives else "memory"
        found["purpose"] = tuple(sorted({PURPOSES[name] for name in found["purpose"]}))
        found["evidence_field"] = found["evidence_field"] or None
        found["evidence"] = found["evidence"] or found["evidence_field"] is not None
        user_agent = settings.get("ROBOTSTXT_USER_AGENT")
        return cls(**found, user_agent=check_agent("ROBOTSTXT_USER_AGENT", user_agent))


FIELDS = [each.name for each in fields(Settings) if each.metadata]
DECLARATIONS = [
    Declaration(f"REP_{each.name.upper()}", *each.metadata["setting"])
    for each in fields(Settings)
    if each.metadata
]
DEFAULTS = {each.name: each.default for each in DECLARATIONS}


def unknown_names(settings: BaseSettings) -> list[str]:
    """Return a sentence for each ``REP_`` setting that this package does not have."""
    sentences = []
    for name in settings:
        if not str(name).startswith("REP_") or name in DEFAULTS:
            continue
        near = get_close_matches(name, DEFAULTS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        sentences.append(f"{name} is not a setting of scrapy_rep{hint}")
    return sentences


def check_agent(name: str, value: object) -> str | tuple[str, ...] | None:
    """Return *value*, one agent or several in order of preference; lists as a tuple.

    ``None``, "" and an empty list mean that no agent was chosen. Raises
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
