"""Drop-in faces of the protocol core, for code written against other parsers.

None of them needs Scrapy.
"""

from scrapy_rep.compat.robotexclusionrulesparser import (
    RobotExclusionRulesParser,
    RobotFileParserLookalike,
)
from scrapy_rep.compat.robotstxt import get, get_allowed, parse
from scrapy_rep.compat.urllib_robotparser import RobotFileParser
from scrapy_rep.protocol import GYM2008, MK1996

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
