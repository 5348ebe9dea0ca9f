"""Drop-in faces of the protocol core, for code written against other parsers.

None of them needs Scrapy. Each name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_rep.compat.robotexclusionrulesparser import (
        GYM2008,
        MK1996,
        RobotExclusionRulesParser,
        RobotFileParserLookalike,
    )
    from scrapy_rep.compat.robotstxt import get, get_allowed, parse
    from scrapy_rep.compat.urllib_robotparser import RobotFileParser

__all__ = [
    "GYM2008",
    "MK1996",
    "RobotExclusionRulesParser",
    "RobotFileParser",
    "RobotFileParserLookalike",
    "get",
    "get_allowed",
    "parse",
]

_HOMES = {
    "GYM2008": "robotexclusionrulesparser",
    "MK1996": "robotexclusionrulesparser",
    "RobotExclusionRulesParser": "robotexclusionrulesparser",
    "RobotFileParser": "urllib_robotparser",
    "RobotFileParserLookalike": "robotexclusionrulesparser",
    "get": "robotstxt",
    "get_allowed": "robotstxt",
    "parse": "robotstxt",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
