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

if TYPE_CHECKING:
    from scrapy_rep.addon import Addon
    from scrapy_rep.browser import abort_disallowed
    from scrapy_rep.downloader.downloader import Downloader
    from scrapy_rep.exceptions import (
        HostRefused,
        RobotsForbidden,
        RobotsRefused,
        RobotsUnreachable,
        SettingError,
    )
    from scrapy_rep.middleware import RepMiddleware
    from scrapy_rep.pages import RepSpiderMiddleware
    from scrapy_rep.parser import RepRobotParser
    from scrapy_rep.robots import Robots, RobotsSitemapSpider
    from scrapy_rep.scheduler import Scheduler

__version__ = "0.1.0"

__all__ = [
    "GYM2008",
    "MK1996",
    "RFC9309",
    "Addon",
    "Dialect",
    "Downloader",
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
    "Verdict",
    "abort_disallowed",
    "parse",
]

_HOMES = {
    "Addon": "addon",
    "Downloader": "downloader.downloader",
    "RepMiddleware": "middleware",
    "RepRobotParser": "parser",
    "RepSpiderMiddleware": "pages",
    "Robots": "robots",
    "RobotsSitemapSpider": "robots",
    "Scheduler": "scheduler",
    "abort_disallowed": "browser",
}
"""The modules of names; the others are exceptions."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'exceptions')}"), name)
