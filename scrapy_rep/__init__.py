"""The Robots Exclusion Protocol (RFC 9309) for Scrapy.

``scrapy_rep.protocol`` needs neither Scrapy nor Twisted; so that it can be used alone,
the names that do need them are imported when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from scrapy_rep.protocol import (
    GYM2008,
    MK1996,
    RFC9309,
    Dialect,
    Policy,
    Rule,
    Verdict,
    parse,
)
from scrapy_rep.protocol import __version__ as __version__

if TYPE_CHECKING:
    from scrapy_rep.exceptions import (
        HostRefused,
        RobotsForbidden,
        RobotsRefused,
        RobotsUnreachable,
        SettingError,
    )
    from scrapy_rep.gate.addon import Addon
    from scrapy_rep.gate.browser import abort_disallowed
    from scrapy_rep.gate.evidence import EvidenceSpiderMiddleware
    from scrapy_rep.gate.middleware import RepMiddleware
    from scrapy_rep.gate.pages import RepSpiderMiddleware
    from scrapy_rep.gate.robots import Robots, RobotsSitemapSpider
    from scrapy_rep.gate.scheduler import Downloader, Scheduler
    from scrapy_rep.gate.tdm_files import TdmMiddleware
    from scrapy_rep.policies.scrapy_parser import RepRobotParser

__all__ = [
    "GYM2008",
    "MK1996",
    "RFC9309",
    "Addon",
    "Dialect",
    "Downloader",
    "EvidenceSpiderMiddleware",
    "HostRefused",
    "Policy",
    "RepMiddleware",
    "RepRobotParser",
    "RepSpiderMiddleware",
    "Robots",
    "RobotsForbidden",
    "RobotsRefused",
    "RobotsSitemapSpider",
    "RobotsUnreachable",
    "Rule",
    "Scheduler",
    "SettingError",
    "TdmMiddleware",
    "Verdict",
    "abort_disallowed",
    "parse",
]

_HOMES = {
    "Addon": "gate.addon",
    "Downloader": "gate.scheduler",
    "EvidenceSpiderMiddleware": "gate.evidence",
    "RepMiddleware": "gate.middleware",
    "RepRobotParser": "policies.scrapy_parser",
    "RepSpiderMiddleware": "gate.pages",
    "Robots": "gate.robots",
    "RobotsSitemapSpider": "gate.robots",
    "Scheduler": "gate.scheduler",
    "TdmMiddleware": "gate.tdm_files",
    "abort_disallowed": "gate.browser",
}
"""The modules of names; the others are exceptions."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'exceptions')}"), name)
