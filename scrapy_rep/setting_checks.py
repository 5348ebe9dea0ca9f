"""Checks of settings: each takes a user's value, and returns the value to use.

A check raises ``WrongError``, which says in words what was expected.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from scrapy.utils.misc import load_object

from scrapy_rep.access.origins import HOST_NAME, origin_of
from scrapy_rep.protocol.printable import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    Check = Callable[[Any], Any]

FLAGS = {"true": True, "1": True, "false": False, "0": False}


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


def number(value: Any) -> float:
    found: float = _number(value, float, "a number, >= 0")
    if found < 0:
        raise WrongError("a number, >= 0")
    return found


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


def meta_or_function(value: Any) -> Mapping[str, Any] | Callable[..., Any]:
    expected = (
        "a dict, or a function of two requests that returns one, or its import path"
    )
    if isinstance(value, str):
        try:
            is_json = value.lstrip().startswith("{")
            value = json.loads(value) if is_json else load_object(value)
        except (ImportError, NameError, ValueError, TypeError) as error:
            raise WrongError(f"{expected} ({error})") from None
    if callable(value):
        return cast("Callable[..., Any]", value)
    return meta_of_text(value, expected)


def meta_of_text(value: Any, expected: str) -> Mapping[str, Any]:
    """Return *value*, the meta of a request for a text file. Raises ``WrongError``."""
    if not isinstance(value, Mapping):
        raise WrongError(expected)
    zyte = [value.get(name) for name in ("zyte_api", "zyte_api_automap")]
    if value.get("playwright") or any(
        isinstance(each, Mapping) and each.get("browserHtml") for each in zyte
    ):
        raise WrongError(
            "a meta that asks for no browser: it makes HTML of a robots.txt, in which "
            "there are no rules"
        )
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
    "budget": whole(least=0),
    "wide": whole(least=1),
    "allow": reason,
    "until": day,
    "delay": seconds(),
}
"""What REP_HOSTS may say of a host."""
OF_A_PERMISSION = {"until", "delay"}
"""What of that needs ``"allow"``."""


def hosts(value: Any) -> dict[str, dict[str, Any]]:
    expected = 'a dict such as {"example.com": {"budget": 100}}'
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise WrongError(f"{expected}, or the same in JSON") from None
    if not isinstance(value, Mapping):
        raise WrongError(expected)
    found: dict[str, dict[str, Any]] = {}
    for host, own in value.items():
        if not isinstance(host, str) or not isinstance(own, Mapping):
            raise WrongError(expected)
        for name, its in own.items():
            check = OF_A_HOST.get(name)
            if check is None:
                raise WrongError(
                    f"{expected}; {shown(name)} is nothing that a host has"
                )
            try:
                checked = None if its is None and name != "allow" else check(its)
            except WrongError as error:
                raise WrongError(f"{expected}; the {name} is {error}") from None
            key = exact_host(host) if "allow" in own else host.lower()
            found.setdefault(key, {})[name] = checked
        if (lone := OF_A_PERMISSION.intersection(own)) and "allow" not in own:
            raise WrongError(f'{expected}; {min(lone)} needs an "allow" beside it')
    return found


def exact_host(name: str) -> str:
    """Return *name* as URLs have it; raises ``WrongError`` where it is not the name of one host."""
    is_plain = "[" in name or not set(name) & set("/?#@:\\")
    origin = origin_of(f"https://{name}") if is_plain else None
    host = (urlsplit(origin or "").hostname or "").rstrip(".")
    if not (HOST_NAME.fullmatch(host) or ":" in host):
        raise WrongError(
            f'the exact name of a host, as in "www.example.com", beside "allow"; {shown(name)} '
            "is none"
        )
    return host


def server_url(value: Any) -> str | None:
    """Check the URL of a Redis server; "" is none."""
    if not isinstance(value, str):
        raise WrongError('a URL such as "redis://localhost:6379"')
    if value and not value.startswith(("redis://", "rediss://", "unix://")):
        raise WrongError(
            'a URL such as "redis://localhost:6379", or rediss:// with TLS'
        )
    return value or None


def statuses(value: Any) -> frozenset[int]:
    expected = "a list of 4xx statuses such as [401, 403]"
    numbers = _items(value, int, expected)
    for number in numbers:
        if not 400 <= number < 500:
            raise WrongError(f"{expected}; {shown(number)} is none")
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
            raise WrongError(f"{expected}; {shown(item)} is none") from None
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
