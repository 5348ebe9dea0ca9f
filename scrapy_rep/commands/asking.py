"""Asking sites for their robots.txt as this project would, in a crawl of nothing else."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.asyncio import create_looping_call
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.job import job_dir

from scrapy_rep.access import origin_of, robots_url
from scrapy_rep.commands.typed import URL_WANTED
from scrapy_rep.crawl import Crawl
from scrapy_rep.engine.starts import ROBOTS_HOP
from scrapy_rep.gate.addon import Addon
from scrapy_rep.store import Snapshot
from scrapy_rep.store.sqlite import FILE_NAME

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from scrapy.http import Response
    from scrapy.settings import Settings

    from scrapy_rep.commands.answers import Answers
    from scrapy_rep.commands.terminal import Answer
    from scrapy_rep.policies.cache import Known

URLS_AHEAD = 100
"""URLs whose origins are asked at once, as far as REP_FETCH_CONCURRENCY lets."""
LOOK_SECONDS = 0.5
"""Seconds between two looks whether it is time to show progress."""
NAMES = ("robotstxt_user_agent", "user_agent")
"""Attributes of a spider that say for which agent it asks."""
SETTINGS_OF_A_QUESTION: dict[str, Any] = {
    # A question must leave the work of the project alone: its queue, what it has seen,
    # what it has scraped, and the ports of a crawl that may be running.
    "JOBDIR": None,
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
    "FEEDS": {},
    "ITEM_PIPELINES": {},
    "SPIDER_MIDDLEWARES": {},
    "REP_AUDIT_URI": None,
    "REP_APPROVED": None,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "STATS_DUMP": False,
    "LOG_STDOUT": False,
    "ROBOTSTXT_OBEY": True,
}


def prepare(settings: Settings) -> None:
    """Change *settings* for a crawl that only asks; how it asks stays the project's way."""
    folder = job_dir(settings)
    if folder and settings.get("REP_STORE") in {None, "sqlite"}:
        # What the job knows is ours to use.
        path = settings.get("REP_STORE_PATH") or str(Path(folder, FILE_NAME))
        settings.setdict({"REP_STORE": "sqlite", "REP_STORE_PATH": path}, "cmdline")
    settings.setdict(SETTINGS_OF_A_QUESTION, "cmdline")
    if settings.getpriority("LOG_LEVEL") != SETTINGS_PRIORITIES["cmdline"]:
        settings.set("LOG_LEVEL", "WARNING", "cmdline")  # unless -L says otherwise
    settings.setdefault_in_component_priority_dict("ADDONS", Addon, 500)


def ask(urls: Sequence[str], answers: Answers) -> None:
    """Give *answers* each of *urls* with its policy, in their order.

    It is asked as the spider that is named would ask. ``answers.is_whole`` tells whether all of
    them were given: the crawl may be broken off, or never begin.
    """
    answers.is_whole = False
    answers.screen.track(len(urls), "URLs")
    process, kind = answers.typed.process, answers.typed.kind
    own = {name: getattr(kind, name) for name in NAMES if hasattr(kind, name)}
    process.crawl(process.create_crawler(Asking), urls=urls, answers=answers, **own)
    process.start()
    if answers.error is not None:
        raise answers.error


class Asking(Spider):
    """Sends no request of its own: it awaits the policies, which are asked for."""

    name = "robots"
    urls: Sequence[str]
    answers: Answers

    async def start(self) -> AsyncIterator[Any]:
        self.hops: dict[str, list[Answer]] = {}  # by origin, the answers had
        self.crawler.signals.connect(self._downloaded, signals.response_downloaded)
        self.policies = Crawl.of(self.crawler).policies
        looks = create_looping_call(self.answers.screen.progress.tick)
        looks.start(LOOK_SECONDS)
        try:
            await self._ask()
            self.answers.is_whole = True
        except OSError as error:
            self.answers.error = error
        finally:
            looks.stop()
        return
        yield  # makes this a generator, as Scrapy wants it

    def _downloaded(self, response: Response, request: Request) -> None:
        hop = request.meta.get(ROBOTS_HOP)
        if hop is not None:
            hops = self.hops.setdefault(hop.first_origin, [])
            hops.append({"status": response.status, "url": response.url})

    async def _ask(self) -> None:
        for start in range(0, len(self.urls), URLS_AHEAD):
            urls = self.urls[start : start + URLS_AHEAD]
            asked = [deferred_from_coro(self._policy_of(url)) for url in urls]
            for url, coming in zip(urls, asked, strict=True):
                self.answers.screen.progress.waits_for = origin_of(url) or ""
                found = await maybe_deferred_to_future(coming)
                if found is None:
                    self.answers.fail(url, f"not {URL_WANTED}")
                else:
                    self.answers.take(url, *found)

    async def _policy_of(self, url: str) -> tuple[Known, Answer] | None:
        """Return what is known of the origin of *url*, and where its policy comes from."""
        try:
            page = Request(f"{origin_of(url)}/")
        except ValueError:  # where no host can be called that
            return None
        origin = origin_of(page.url) or ""
        known = await self.policies.get(origin, page)
        return known, await self._copy(origin, known)

    async def _copy(self, origin: str, known: Known) -> Answer:
        snapshot = await self.policies.snapshot(known.key) or Snapshot()
        answer = None if known.answer_id is None else snapshot.answer
        failures, hops = snapshot.failures, self.hops.get(origin, [])
        came_by = "store" if answer else "none"
        if answer and hops and failures is None:
            came_by = "confirmed" if hops[-1]["status"] == 304 else "network"
        return {
            "asked": robots_url(origin),
            "came_by": came_by,
            "status": answer and answer.status,
            "url": (answer and answer.url) or None,
            "state": known.standing.state.value,
            "hops": hops,
            "failure": (failures and failures.reason) or None,
            "checked": answer and _moment(answer.checked),
            "age": answer and self.policies.now() - answer.checked,
            "ask_in": known.standing.ask_at - self.policies.now(),
        }


def _moment(time: float) -> str:
    return datetime.fromtimestamp(time, timezone.utc).isoformat("T", "seconds")
