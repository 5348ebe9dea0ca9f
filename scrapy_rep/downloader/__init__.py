"""The only code that touches Scrapy's downloader, its slots and the engine's inner parts."""

from scrapy_rep.downloader.downloader import NOWHERE, Downloader, HandedOut
from scrapy_rep.downloader.failures import kind_of
from scrapy_rep.downloader.for_crawler import OneForEachCrawler
from scrapy_rep.downloader.http_cache import HttpCache
from scrapy_rep.downloader.prompt import at_prompt
from scrapy_rep.downloader.starts import ROBOTS_HOP, Departure, Starts
from scrapy_rep.downloader.timers import Alarm, sleep, wait_for

__all__ = [
    "NOWHERE",
    "ROBOTS_HOP",
    "Alarm",
    "Departure",
    "Downloader",
    "HandedOut",
    "HttpCache",
    "OneForEachCrawler",
    "Starts",
    "at_prompt",
    "kind_of",
    "sleep",
    "wait_for",
]
