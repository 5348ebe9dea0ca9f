"""The other parsers, asked the same question: Protego, urllib.robotparser and robotspy."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.robotparser import RobotFileParser

from protego import Protego

from scrapy_rep.protocol import Policy, parse

if TYPE_CHECKING:
    from collections.abc import Callable

# robotspy, of the extra "differential".
robots: Any = import_module("robots") if find_spec("robots") else None


class Case(NamedTuple):
    """A question about a robots.txt."""

    text: str
    """Octets that are not UTF-8 are lone surrogates, as ``surrogateescape`` makes them."""
    url: str
    agent: str


RAISED = -1.0
"""The answer of a parser that raises, which no other equals."""


class Other(NamedTuple):
    name: str
    allowed: Callable[[Case], bool | float]


@lru_cache(maxsize=64)
def ours(text: str) -> Policy:
    return parse(text.encode("utf-8", "surrogateescape"))


def legible(text: str) -> str:
    """What of a text is UTF-8, which is how Scrapy gives it to other parsers."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "ignore")


@lru_cache(maxsize=64)
def protego(text: str) -> Protego:
    return Protego.parse(legible(text))


@lru_cache(maxsize=64)
def standard_library(text: str) -> RobotFileParser:
    parser = RobotFileParser()
    parser.parse(legible(text).splitlines())
    return parser


def answer(call: Callable[[Case], Any]) -> Callable[[Case], Any]:
    """`call`, but RAISED where it raises."""

    def answered(case: Case) -> Any:
        try:
            return call(case)
        except Exception:  # noqa: BLE001 - whatever it does not know how to handle
            return RAISED

    return answered


PROTEGO = Other(
    "Protego",
    answer(lambda case: protego(case.text).can_fetch(case.url, case.agent)),
)
URLLIB = Other(
    "urllib.robotparser",
    answer(lambda case: standard_library(case.text).can_fetch(case.agent, case.url)),
)
OTHERS = [PROTEGO, URLLIB]
if robots is not None:

    @lru_cache(maxsize=64)
    def robotspy(text: str) -> Any:
        return robots.RobotsParser.from_string(legible(text))

    ROBOTSPY = Other(
        "robotspy",
        answer(lambda case: bool(robotspy(case.text).can_fetch(case.agent, case.url))),
    )
    OTHERS.append(ROBOTSPY)
