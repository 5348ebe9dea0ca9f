"""The only code that touches Scrapy's downloader, its slots and the engine's inner parts."""

from scrapy_rep.downloader.adapter import Downloader
from scrapy_rep.downloader.answered import Answered
from scrapy_rep.downloader.departure import ROBOTS_HOP, Departure
from scrapy_rep.downloader.failures import kind_of
from scrapy_rep.downloader.handed_out import HandedOut
from scrapy_rep.downloader.http_cache import HttpCache
from scrapy_rep.downloader.prompt import at_prompt
from scrapy_rep.downloader.timers import Alarm, sleep, wait_for

__all__ = [
    "ROBOTS_HOP",
    "Alarm",
    "Answered",
    "Departure",
    "Downloader",
    "HandedOut",
    "HttpCache",
    "at_prompt",
    "kind_of",
    "sleep",
    "wait_for",
]
