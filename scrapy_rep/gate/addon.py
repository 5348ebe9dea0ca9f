"""Enables everything, by one line: ``ADDONS = {"scrapy_rep.Addon": 500}``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.misc import load_object

from scrapy_rep.crawl import Crawl
from scrapy_rep.events.kinds import Told, Warned
from scrapy_rep.events.log import tell_plainly
from scrapy_rep.gate.holding import BUILT_IN, SCRAPYS_DOWNLOADER, GateCheck, is_ours
from scrapy_rep.gate.middleware import RepMiddleware
from scrapy_rep.gate.pages import RepSpiderMiddleware
from scrapy_rep.gate.robots import equip
from scrapy_rep.gate.tdm_files import TdmMiddleware
from scrapy_rep.protocol.preferences import TDM
from scrapy_rep.settings import Settings

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

ORDER = 100  # the built-in's
# The page is read before HttpErrorMiddleware (50) refuses it, and what leaves the other
# spider middlewares is looked at last.
SPIDER_ORDER = 40
TDM_ORDER = 99  # a page waits for a tdmrep.json before it is judged and has its turn
EVIDENCE_ORDER = 45
OUR_SCHEDULER = "scrapy_rep.Scheduler"
QUEUES = (
    "SCHEDULER_MEMORY_QUEUE",
    "SCHEDULER_START_MEMORY_QUEUE",
    "SCHEDULER_DISK_QUEUE",
    "SCHEDULER_START_DISK_QUEUE",
)
SCRAPYS = "scrapy.squeues"


class Addon:
    """For ADDONS: enables all of this package, in the place of Scrapy's own parts.

    It sets ROBOTSTXT_OBEY, middlewares, SCHEDULER and DOWNLOADER. What the user has set wins.
    """

    def __init__(self, crawler: Crawler | None = None) -> None:
        tell_plainly()
        self._crawler = crawler
        self._crawl: Crawl | None = None
        self._gate_check: GateCheck | None = None
        self._of_scheduler: Told | None = None
        """Told once there is a crawl, which has a log."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        addon = cls(crawler)
        addon._gate_check = GateCheck.of(crawler)
        equip(crawler)  # here already, where it was made before its crawl begins
        crawler.signals.connect(addon._spider_opened, signals.spider_opened)
        return addon

    def _spider_opened(self) -> None:
        assert self._crawler is not None
        equip(self._crawler)
        # Now, as its parts follow the engine from its start on.
        self._crawl = Crawl.of(self._crawler)
        if self._of_scheduler is not None:
            self._crawl.events.tell(self._of_scheduler)

    def update_settings(self, settings: BaseSettings) -> None:
        """Set what is not the user's choice. Raises ``SettingError`` before anything else has begun."""
        values = Settings.read(settings)
        settings.set("ROBOTSTXT_OBEY", True, "addon")
        enable = settings.setdefault_in_component_priority_dict
        enable("DOWNLOADER_MIDDLEWARES", RepMiddleware, ORDER)
        enable("SPIDER_MIDDLEWARES", RepSpiderMiddleware, SPIDER_ORDER)
        if values.evidence_field is not None:
            from scrapy_rep.gate.evidence import EvidenceSpiderMiddleware  # noqa: PLC0415 - few need it

            enable("SPIDER_MIDDLEWARES", EvidenceSpiderMiddleware, EVIDENCE_ORDER)
        if TDM in values.purpose:
            enable("DOWNLOADER_MIDDLEWARES", TdmMiddleware, TDM_ORDER)
        # By its path: before Scrapy 2.15 the class as a key left it enabled.
        settings["DOWNLOADER_MIDDLEWARES"].set(BUILT_IN, None, "addon")
        if settings["DOWNLOADER"] == SCRAPYS_DOWNLOADER:  # else the gate does its work
            settings.set("DOWNLOADER", "scrapy_rep.Downloader", "addon")
        self._of_scheduler = _choose_scheduler(settings)
        if self._crawler is not None and settings.get("PLAYWRIGHT_ABORT_REQUEST"):
            from scrapy_rep.gate.browser import bind  # noqa: PLC0415 - few need it

            bind(settings, self._crawler)


def _choose_scheduler(settings: BaseSettings) -> Told | None:
    """Have the frontier hold what waits, unless the user chose other parts; return what to tell of it."""
    name, job = _chosen_part(settings), _our_job(settings.get("JOBDIR"))
    if name is not None:
        if job and job.exists() and not is_ours(settings["SCHEDULER"]):
            return Warned(
                f"{job} is not used, as {name} is set: what waits there, and what was seen, is "
                "for a run with scrapy_rep.Scheduler"
            )
    elif job and not job.exists() and _is_scrapys_job(job.parent):
        return Told(
            f"The job in {settings['JOBDIR']} was begun by Scrapy's own scheduler, and goes on "
            "with that: requests that must wait for their host may do so in the downloader, and "
            "where the process is killed, some may be lost. A new JOBDIR has neither"
        )
    else:
        settings.set("SCHEDULER", OUR_SCHEDULER, "addon")
    return None


def _chosen_part(settings: BaseSettings) -> str | None:
    for name in ("SCHEDULER", "SCHEDULER_PRIORITY_QUEUE", *QUEUES):
        if (settings.getpriority(name) or 0) <= SETTINGS_PRIORITIES["default"]:
            continue
        # A queue of Scrapy's says in which order requests go, and that is what they do.
        kind = name in QUEUES and settings[name]
        if name not in QUEUES or (kind and load_object(kind).__module__ != SCRAPYS):
            return name
    return None


def _our_job(folder: str | None) -> Path | None:
    from scrapy_rep.frontier.job_file import FILE_NAME  # noqa: PLC0415 - few need it

    return Path(folder) / FILE_NAME if folder else None


def _is_scrapys_job(folder: Path) -> bool:
    queues = folder / "requests.queue"
    return (folder / "requests.seen").exists() or (
        queues.is_dir() and any(queues.iterdir())
    )
