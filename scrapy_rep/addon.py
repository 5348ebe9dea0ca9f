"""One line in the settings enables everything: ``ADDONS = {"scrapy_rep.Addon": 500}``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.pqueues import DownloaderAwarePriorityQueue, ScrapyPriorityQueue
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.misc import load_object

from scrapy_rep.crawl import Crawl
from scrapy_rep.holding import NO_MIDDLEWARE
from scrapy_rep.log.plain import tell_plainly
from scrapy_rep.middleware import RepMiddleware
from scrapy_rep.pages import RepSpiderMiddleware
from scrapy_rep.robots import equip
from scrapy_rep.settings import Settings

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

BUILT_IN = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
ORDER = 100  # the built-in's
# The page is read before HttpErrorMiddleware (50) refuses it, and what leaves the other
# spider middlewares is looked at last.
SPIDER_ORDER = 40
EVIDENCE_ORDER = 45
DOWNLOADER = "scrapy.core.downloader.Downloader"
SCHEDULER = "scrapy.core.scheduler.Scheduler"
FLEET_QUEUE = "scrapy_rep.redis.PoliteQueue"
DURABLE_QUEUES = {
    "SCHEDULER_DISK_QUEUE": "scrapy_rep.job.LifoQueue",
    "SCHEDULER_START_DISK_QUEUE": "scrapy_rep.job.FifoQueue",
}
"""In the place of Scrapy's defaults, and of the same order."""
logger = logging.getLogger(__name__)


class Addon:
    """Puts ``RepMiddleware`` in the place of Scrapy's own; the user's settings win."""

    def __init__(self, crawler: Crawler | None = None) -> None:
        tell_plainly()
        self._crawler = crawler
        self._crawl: Crawl | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        addon = cls(crawler)
        equip(crawler)  # here already, where it was made before its crawl begins
        crawler.signals.connect(addon._spider_opened, signals.spider_opened)
        return addon

    def _spider_opened(self, spider: Spider) -> None:
        assert self._crawler is not None
        equip(self._crawler)
        # Now, as its parts follow the engine from its start on.
        self._crawl = Crawl.of(self._crawler)
        # What does not obey at all has been told so by RepMiddleware.
        obeys = self._crawler.settings.getbool("ROBOTSTXT_OBEY")
        if obeys and self._crawler.get_downloader_middleware(RepMiddleware) is None:
            logger.warning(NO_MIDDLEWARE, extra={"spider": spider})

    def update_settings(self, settings: BaseSettings) -> None:
        """Set what is not the user's choice. Raises ``SettingError`` if that is wrong.

        The crawl would say so, too, but here nothing else has begun.
        """
        values = Settings.read(settings)
        settings.set("ROBOTSTXT_OBEY", True, "addon")
        settings.setdefault_in_component_priority_dict(
            "DOWNLOADER_MIDDLEWARES", RepMiddleware, ORDER
        )
        settings.setdefault_in_component_priority_dict(
            "SPIDER_MIDDLEWARES", RepSpiderMiddleware, SPIDER_ORDER
        )
        if values.evidence_field is not None:
            from scrapy_rep.evidence import EvidenceSpiderMiddleware  # noqa: PLC0415 - few need it

            settings.setdefault_in_component_priority_dict(
                "SPIDER_MIDDLEWARES", EvidenceSpiderMiddleware, EVIDENCE_ORDER
            )
        # By its path: before Scrapy 2.15 the class as a key left it enabled.
        settings["DOWNLOADER_MIDDLEWARES"].set(BUILT_IN, None, "addon")
        if settings["DOWNLOADER"] == DOWNLOADER:  # else the gate does its work
            settings.set("DOWNLOADER", "scrapy_rep.Downloader", "addon")
        if settings["SCHEDULER"] == SCHEDULER:  # other schedulers have other queues
            settings.set("SCHEDULER_PRIORITY_QUEUE", "scrapy_rep.PoliteQueue", "addon")
            if settings.get("JOBDIR"):
                _make_durable(settings, values)
        if settings["SCHEDULER_QUEUE_CLASS"] == FLEET_QUEUE:  # scrapy-redis'
            settings.set("DUPEFILTER_CLASS", "scrapy_rep.redis.DupeFilter", "addon")
        if self._crawler is not None and settings.get("PLAYWRIGHT_ABORT_REQUEST"):
            from scrapy_rep.browser import bind  # noqa: PLC0415 - few need it

            bind(settings, self._crawler)


def _make_durable(settings: BaseSettings, values: Settings) -> None:
    """Have the job in JOBDIR outlive a kill, unless the user has chosen other parts."""
    from scrapy_rep.job import FILE_NAME, DupeFilter, JobQueue  # noqa: PLC0415 - few need it

    if not values.durable_job:
        path = Path(settings["JOBDIR"], FILE_NAME)
        if path.exists():
            logger.warning(
                "REP_DURABLE_JOB is off: what waits in %s, and what was seen, is not used",
                path,
            )
        return
    kind = load_object(settings["SCHEDULER_PRIORITY_QUEUE"])
    known = DownloaderAwarePriorityQueue, ScrapyPriorityQueue
    if not (isinstance(kind, type) and issubclass(kind, known)):
        _say_what_it_costs("SCHEDULER_PRIORITY_QUEUE", settings)
        return
    for name in DURABLE_QUEUES:
        # Without a queue of their own, start requests share the other one.
        if settings[name] and not _may_be(JobQueue, name, settings):
            _say_what_it_costs(name, settings)
            return
    for name, queue in DURABLE_QUEUES.items():
        settings.set(name, queue, "addon")
    if not _may_be(DupeFilter, "DUPEFILTER_CLASS", settings):
        logger.info(
            "DUPEFILTER_CLASS is %s: after a kill it may remember URLs that had not come"
            " to the queue yet, and those are lost; scrapy_rep.job.DupeFilter does not",
            settings["DUPEFILTER_CLASS"],
        )
    settings.set("DUPEFILTER_CLASS", "scrapy_rep.job.DupeFilter", "addon")


def _may_be(ours: type, name: str, settings: BaseSettings) -> bool:
    """Tell whether the user has left Scrapy's default, or has chosen *ours*."""
    if (settings.getpriority(name) or 0) <= SETTINGS_PRIORITIES["default"]:
        return True
    chosen = load_object(settings[name])
    return isinstance(chosen, type) and issubclass(chosen, ours)


def _say_what_it_costs(name: str, settings: BaseSettings) -> None:
    logger.info(
        "%s is %s: where the process is killed, requests of the job are lost. Without it,"
        " or with the queues of scrapy_rep.job, none is",
        name,
        settings[name],
    )
