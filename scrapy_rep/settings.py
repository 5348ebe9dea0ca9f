"""Every setting of this package: its name, default, unit and check."""

from __future__ import annotations

import math
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol import GYM2008, MK1996, RFC9309, Dialect
from scrapy_rep.protocol.decoding import MAX_SIZE
from scrapy_rep.protocol.preferences import PURPOSES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from scrapy.settings import BaseSettings
    from typing_extensions import Self

N = TypeVar("N", int, float)

DIALECTS = {"rfc9309": RFC9309, "gym2008": GYM2008, "mk1996": MK1996}
DIRECTIVES = ("disallow", "crawl-delay", "request-rate", "visit-time", "retry-after")
PAGE_RULES = ("nofollow", "noindex")
UNSTATED = ("allow", "refuse")
FLAGS = {"true": True, "1": True, "false": False, "0": False}
DAY = 86400.0
MiB = 2**20

DEFAULTS: dict[str, Any] = {
    "REP_OBEY": list(DIRECTIVES),
    "REP_DIALECT": "rfc9309",
    "REP_CRAWL_DELAY_MAX": 300.0,
    "REP_CRAWL_DELAY_OVER_MAX": "drop",
    "REP_MAX_AGE": None,  # a day, or the dialect's own
    "REP_MIN_AGE": 60.0,
    "REP_UNREACHABLE": "disallow",
    "REP_UNREACHABLE_RETRY_DELAYS": [10.0, 60.0],
    "REP_UNREACHABLE_TTL": 3600.0,
    "REP_UNREACHABLE_MAX": 30 * DAY,
    "REP_RETRY_AFTER_MAX": 3600.0,
    "REP_DENY_STATUSES": None,  # [], or the dialect's own
    "REP_MAX_REDIRECTS": 5,
    "REP_MAX_SIZE": MAX_SIZE,
    "REP_TIMEOUT": 30.0,
    "REP_FETCH_CONCURRENCY": None,  # half of CONCURRENT_REQUESTS
    "REP_CACHE_BYTES": 64 * MiB,
    "REP_STORE": None,  # "sqlite" with JOBDIR, else "memory"
    "REP_STORE_PATH": None,
    "REP_REDIS_DOWN": "degrade",
    "REP_REDIS_LEASE": 15.0,
    "REP_PAGE_OBEY": [],
    "REP_PURPOSE": [],
    "REP_PURPOSE_UNSTATED": "allow",
    "REP_EVIDENCE": False,
    "REP_EVIDENCE_FIELD": None,
    "REP_AUDIT_URI": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one crawl, read and checked once. Times are in seconds."""

    obey: frozenset[str]
    dialect: Dialect
    crawl_delay_max: float
    crawl_delay_over_max: str  # "drop" or "clamp"
    max_age: float
    min_age: float
    unreachable: str  # "disallow" or "allow"
    unreachable_retry_delays: tuple[float, ...]
    unreachable_ttl: float
    unreachable_max: float
    retry_after_max: float
    deny_statuses: frozenset[int]
    max_redirects: int
    max_size: int  # octets
    timeout: float
    fetch_concurrency: int
    cache_bytes: int  # octets
    store: str | type
    store_path: str | None
    redis_down: str  # "degrade" or "pause"
    redis_lease: float
    page_obey: frozenset[str]
    purpose: tuple[str, ...]  # sorted, by the names of `protocol.preferences`
    purpose_unstated: str  # "allow" or "refuse"
    evidence: bool
    evidence_field: str | None  # of items
    audit_uri: str | None
    user_agent: str | tuple[str, ...] | None  # ROBOTSTXT_USER_AGENT

    @classmethod
    def read(cls, settings: BaseSettings) -> Self:
        """Return the values in *settings*, with the defaults of this package.

        Raises ``SettingError``, which names the setting, the value and what was
        expected.
        """
        read = _Reader(settings)
        dialect = DIALECTS[read.choice("REP_DIALECT", DIALECTS)]
        max_age = read.number(
            "REP_MAX_AGE", above=0, default=dialect.default_lifetime or DAY
        )
        min_age = read.number("REP_MIN_AGE")
        if min_age > max_age:
            raise SettingError(
                "REP_MIN_AGE",
                read.value("REP_MIN_AGE"),
                f"at most REP_MAX_AGE, which is {max_age}",
            )
        concurrent = settings.getint("CONCURRENT_REQUESTS") or 16  # 0: no limit
        store = read.value("REP_STORE")
        if store is None:
            store = "sqlite" if settings.get("JOBDIR") else "memory"
        evidence_field = read.text("REP_EVIDENCE_FIELD") or None
        return cls(
            obey=read.choices("REP_OBEY", DIRECTIVES),
            dialect=dialect,
            crawl_delay_max=read.number("REP_CRAWL_DELAY_MAX"),
            crawl_delay_over_max=read.choice(
                "REP_CRAWL_DELAY_OVER_MAX", ("drop", "clamp")
            ),
            max_age=max_age,
            min_age=min_age,
            unreachable=read.choice("REP_UNREACHABLE", ("disallow", "allow")),
            unreachable_retry_delays=read.numbers("REP_UNREACHABLE_RETRY_DELAYS"),
            unreachable_ttl=read.number("REP_UNREACHABLE_TTL", above=0),
            unreachable_max=read.number("REP_UNREACHABLE_MAX"),
            retry_after_max=read.number("REP_RETRY_AFTER_MAX"),
            deny_statuses=read.statuses("REP_DENY_STATUSES", dialect.deny_statuses),
            max_redirects=read.whole("REP_MAX_REDIRECTS", least=0),
            max_size=read.whole("REP_MAX_SIZE", least=1, most=MAX_SIZE),
            timeout=read.number("REP_TIMEOUT", above=0),
            fetch_concurrency=read.whole(
                "REP_FETCH_CONCURRENCY", least=1, default=max(1, concurrent // 2)
            ),
            cache_bytes=read.whole("REP_CACHE_BYTES", least=0),
            store=store,
            store_path=read.text("REP_STORE_PATH"),
            redis_down=read.choice("REP_REDIS_DOWN", ("degrade", "pause")),
            redis_lease=read.number("REP_REDIS_LEASE", above=0),
            page_obey=read.choices("REP_PAGE_OBEY", PAGE_RULES),
            purpose=tuple(
                sorted(
                    {PURPOSES[name] for name in read.choices("REP_PURPOSE", PURPOSES)}
                )
            ),
            purpose_unstated=read.choice("REP_PURPOSE_UNSTATED", UNSTATED),
            evidence=read.flag("REP_EVIDENCE") or evidence_field is not None,
            evidence_field=evidence_field,
            audit_uri=read.uri("REP_AUDIT_URI"),
            user_agent=check_agent(
                "ROBOTSTXT_USER_AGENT", settings.get("ROBOTSTXT_USER_AGENT")
            ),
        )


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


class _Reader:
    """Reads one setting at a time; raises SettingError for what is wrong."""

    def __init__(self, settings: BaseSettings) -> None:
        self._settings = settings

    def value(self, name: str) -> Any:
        value = self._settings.get(name)
        return DEFAULTS[name] if value is None else value

    def text(self, name: str) -> str | None:
        value = self.value(name)
        if value is None or isinstance(value, str):
            return value
        raise SettingError(name, value, "a str")

    def uri(self, name: str) -> str | None:
        value = self.value(name)
        if isinstance(value, Path):
            return str(value.absolute())
        if value is None or isinstance(value, str):
            return value or None
        raise SettingError(name, value, "a path or a URI")

    def flag(self, name: str) -> bool:
        value = self.value(name)
        if isinstance(value, int) and value in {0, 1}:  # a bool is one
            return bool(value)
        if isinstance(value, str) and value.lower() in FLAGS:
            return FLAGS[value.lower()]
        raise SettingError(name, value, "True or False")

    def choice(self, name: str, choices: Collection[str]) -> str:
        value = self.value(name)
        if isinstance(value, str) and value.lower() in choices:
            return value.lower()
        raise SettingError(name, value, _one_of(choices))

    def choices(self, name: str, choices: Collection[str]) -> frozenset[str]:
        value = self.value(name)
        items = self._items(name, value, str, "a list of words")
        for item in items:
            if item not in choices:
                raise SettingError(
                    name, value, f"a list whose items are {_one_of(choices)}"
                )
        return frozenset(items)

    def number(
        self, name: str, *, above: float | None = None, default: float = 0.0
    ) -> float:
        value = self.value(name)
        if value is None:
            return default
        number = _number(name, value, float, "a number of seconds")
        if number < 0 or (above is not None and number <= above):
            raise SettingError(
                name, value, f"a number of seconds, {'> 0' if above == 0 else '>= 0'}"
            )
        return number

    def numbers(self, name: str) -> tuple[float, ...]:
        value = self.value(name)
        return tuple(
            self._items(name, value, _seconds, "a list of numbers of seconds, >= 0")
        )

    def whole(
        self,
        name: str,
        *,
        least: int,
        most: int | None = None,
        default: int | None = None,
    ) -> int:
        value = self.value(name)
        if value is None:
            assert default is not None
            return default
        number = _number(name, value, int, "a whole number")
        if number < least:
            raise SettingError(name, value, f"a whole number, at least {least}")
        if most is not None and number > most:
            raise SettingError(name, value, f"a whole number, at most {most}")
        return number

    def statuses(self, name: str, default: Collection[int]) -> frozenset[int]:
        value = self.value(name)
        if value is None:
            return frozenset(default)
        expected = "a list of 4xx statuses such as [401, 403]"
        statuses = self._items(name, value, int, expected)
        if any(not 400 <= status < 500 for status in statuses):
            raise SettingError(name, value, expected)
        return frozenset(statuses)

    def _items(
        self, name: str, value: object, convert: Callable[[Any], Any], expected: str
    ) -> list[Any]:
        if isinstance(value, str):  # from the command line: a,b
            value = [item.strip() for item in value.split(",") if item.strip()]
        try:
            if isinstance(value, (list, tuple, set, frozenset)):
                return [convert(item) for item in value]
        except (TypeError, ValueError, OverflowError):
            pass
        raise SettingError(name, value, expected)


def _number(name: str, value: Any, convert: Callable[[Any], N], expected: str) -> N:
    try:
        if not isinstance(value, bool):
            number = convert(value)
            if math.isfinite(number) and number == float(value):
                return number
    except (TypeError, ValueError, OverflowError):
        pass
    raise SettingError(name, value, expected)


def _seconds(value: Any) -> float:
    seconds = float(value)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(value)
    return seconds


def _one_of(choices: Collection[str]) -> str:
    return " or ".join(f'"{choice}"' for choice in choices)
