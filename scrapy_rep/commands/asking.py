"""Asking sites for their robots.txt as this project would, in a crawl of nothing else."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.job import job_dir

from scrapy_rep import Addon
from scrapy_rep.access.origins import origin_of, robots_url
from scrapy_rep.commands.answers import copy_of
from scrapy_rep.commands.inputs import URL_WANTED
from scrapy_rep.commands.terminal import TICK_SECONDS, round_off
from scrapy_rep.crawl import Crawl
from scrapy_rep.downloader import ROBOTS_HOP
from scrapy_rep.store import Snapshot
from scrapy_rep.store.sqlite import FILE_NAME

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from scrapy.crawler import Crawler, CrawlerProcessBase
    from scrapy.http import Response
    from scrapy.settings import Settings
    from twisted.internet.defer import Deferred
    from typing_extensions import Self

    from scrapy_rep.commands.answers import Answers
    from scrapy_rep.commands.terminal import Answer
    from scrapy_rep.policies.cache import Known
    from scrapy_rep.policies.service import Policies

URLS_AHEAD = 100
"""URLs whose origins are asked at once, as far as REP_FETCH_CONCURRENCY lets."""
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
        settings.set("REP_STORE", "sqlite", "cmdline")
        if not settings.get("REP_STORE_PATH"):
            settings.set("REP_STORE_PATH", str(Path(folder, FILE_NAME)), "cmdline")
    for name, value in SETTINGS_OF_A_QUESTION.items():
        settings.set(name, value, "cmdline")
    if settings.getpriority("LOG_LEVEL") != SETTINGS_PRIORITIES["cmdline"]:
        settings.set("LOG_LEVEL", "WARNING", "cmdline")  # unless -L says otherwise
    settings.setdefault_in_component_priority_dict("ADDONS", Addon, 500)


def ask(
    process: CrawlerProcessBase,
    urls: Iterable[str],
    answers: Answers,
    kind: type[Spider] | None,
) -> None:
    """Give *answers* each of *urls* with its policy, in their order.

    It is asked as a spider of *kind* would ask. ``answers.is_whole`` tells whether all of
    them were given: the crawl may be broken off, or never begin.
    """
    own = {name: getattr(kind, name) for name in NAMES if hasattr(kind, name)}
    crawler = process.create_crawler(Asking)
    process.crawl(crawler, urls=urls, answers=answers, **own)
    process.start()
    if answers.error is not None:
        raise answers.error


class Asking(Spider):
    """Sends no request of its own: it awaits the policies, which are asked for."""

    name = "robots"

    def __init__(self, urls: Iterable[str], answers: Answers, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._urls = urls
        self._answers = answers
        self._progress = answers.screen.progress
        self._hops: dict[str, list[Answer]] = {}  # by origin, the answers had

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider._downloaded, signals.response_downloaded)
        return spider

    def _downloaded(self, response: Response, request: Request) -> None:
        hop = request.meta.get(ROBOTS_HOP)
        if hop is not None:
            hops = self._hops.setdefault(hop.first_origin, [])
            hops.append({"status": response.status, "url": response.url})

    async def start(self) -> AsyncIterator[Any]:
        self._tick()
        try:
            await self._ask()
            self._answers.is_whole = True
        except OSError as error:
            self._answers.error = error
        finally:
            self._progress.close()
        nothing: tuple[Request, ...] = ()
        for request in nothing:  # makes this a generator, as Scrapy wants it
            yield request

    def _tick(self) -> None:
        """Let the progress be seen while nothing comes."""
        self._progress.tick()
        if not self._progress.closed:
            call_later(TICK_SECONDS, self._tick)

    async def _ask(self) -> None:
        policies = Crawl.of(self.crawler).policies
        pending: deque[tuple[str, str, Deferred[Known] | None]] = deque()
        for url in self._urls:
            origin, answer = origin_of(url) or "", None
            with suppress(ValueError):  # where no host can be called that
                page = Request(f"{origin}/")
                origin = origin_of(page.url) or ""
                answer = deferred_from_coro(policies.get(origin, page))
            pending.append((url, origin, answer))
            if len(pending) >= URLS_AHEAD:
                await self._take(policies, *pending.popleft())
        while pending:
            await self._take(policies, *pending.popleft())

    async def _take(
        self, policies: Policies, url: str, origin: str, answer: Deferred[Known] | None
    ) -> None:
        if answer is None:
            self._answers.fail(url, f"not {URL_WANTED}")
        else:
            self._progress.waits_for = robots_url(origin)
            known = await maybe_deferred_to_future(answer)
            copy = await self._copy(policies, origin, known)
            self._answers.take(url, known, copy)
        self._progress.add(1)

    async def _copy(self, policies: Policies, origin: str, known: Known) -> Answer:
        snapshot = await policies.snapshot(known.key) or Snapshot()
        answer, failures = snapshot.answer, snapshot.failures
        now = policies.now()
        hops = self._hops.get(origin, [])
        copy = copy_of(
            robots_url(origin),
            "none",
            state=known.standing.state.value,
            hops=hops,
            failure=(failures and failures.reason) or None,
            ask_in=round_off(known.standing.ask_at - now),
        )
        if answer is None or known.answer_id is None:
            return copy
        came_by = "store"
        if hops and failures is None:
            came_by = "confirmed" if hops[-1]["status"] == 304 else "network"
        checked = datetime.fromtimestamp(answer.checked, timezone.utc)
        return {
            **copy,
            "came_by": came_by,
            "status": answer.status,
            "url": answer.url or None,
            "checked": checked.isoformat("T", "seconds"),
            "age": round_off(now - answer.checked),
        }
