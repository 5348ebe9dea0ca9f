"""One line in the settings enables everything: ``ADDONS = {"scrapy_rep.Addon": 500}``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.evidence import EvidenceSpiderMiddleware
from scrapy_rep.middleware import RepMiddleware
from scrapy_rep.pages import RepSpiderMiddleware

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

BUILT_IN = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
ORDER = 100  # the built-in's
# The page is read before HttpErrorMiddleware (50) refuses it, and what leaves the other
# spider middlewares is looked at last.
SPIDER_ORDER = 40
EVIDENCE_ORDER = 45
SCHEDULER = "scrapy.core.scheduler.Scheduler"
FLEET_QUEUE = "scrapy_rep.redis.PoliteQueue"


class Addon:
    """Puts ``RepMiddleware`` in the place of Scrapy's own; the user's settings win."""

    def update_settings(self, settings: BaseSettings) -> None:
        settings.set("ROBOTSTXT_OBEY", True, "addon")
        settings.setdefault_in_component_priority_dict(
            "DOWNLOADER_MIDDLEWARES", RepMiddleware, ORDER
        )
        settings.setdefault_in_component_priority_dict(
            "SPIDER_MIDDLEWARES", RepSpiderMiddleware, SPIDER_ORDER
        )
        settings.setdefault_in_component_priority_dict(
            "SPIDER_MIDDLEWARES", EvidenceSpiderMiddleware, EVIDENCE_ORDER
        )
        # By its path: before Scrapy 2.15 the class as a key left it enabled.
        settings["DOWNLOADER_MIDDLEWARES"].set(BUILT_IN, None, "addon")
        if settings["SCHEDULER"] == SCHEDULER:  # other schedulers have other queues
            settings.set("SCHEDULER_PRIORITY_QUEUE", "scrapy_rep.PoliteQueue", "addon")
        if settings["SCHEDULER_QUEUE_CLASS"] == FLEET_QUEUE:  # scrapy-redis'
            settings.set("DUPEFILTER_CLASS", "scrapy_rep.redis.DupeFilter", "addon")
