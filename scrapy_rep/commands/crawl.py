"""Asking sites for their robots.txt as this project would, in a crawl of nothing else."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.job import job_dir

from scrapy_rep import Addon
from scrapy_rep.access.origins import origin_of, robots_url
from scrapy_rep.commands.findings import Copy, Hop
from scrapy_rep.commands.terminal import TICK_SECONDS
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

    from scrapy_rep.commands.answers import Task
    from scrapy_rep.commands.terminal import Progress
    from scrapy_rep.policies.cache import Known
    from scrapy_rep.policies.service import Policies

URLS_AHEAD = (
    100  # URLs whose origins are asked at once, as far as REP_FETCH_CONCURRENCY lets
)

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
    task: Task,
    progress: Progress,
    *,
    not_a_url: str,
) -> bool:
    """Give *task* each of *urls* with its policy, in their order.

    Returns whether all of them were given: the crawl may be broken off, or never begin.
    """
    crawler = process.create_crawler(Asking)
    errand = Errand(urls, task, progress, not_a_url)
    process.crawl(crawler, errand=errand)
    process.start()
    if errand.error is not None:
        raise errand.error
    return errand.done


@dataclass(slots=True)
class Errand:
    """What the spider is sent for, and what came of it."""

    urls: Iterable[str]
    task: Task
    progress: Progress
    not_a_url: str
    done: bool = False
    error: OSError | None = None
    """What writing to standard output raised."""


class Asking(Spider):
    """Sends no request of its own: it awaits the policies, which are asked for."""

    name = "robots"

    def __init__(self, errand: Errand, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._errand = errand
        self._hops: dict[str, list[Hop]] = {}  # by origin, the answers had

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider._downloaded, signals.response_downloaded)
        return spider

    def _downloaded(self, response: Response, request: Request) -> None:
        hop = request.meta.get(ROBOTS_HOP)
        if hop is not None:
            hops = self._hops.setdefault(hop.first_origin, [])
            hops.append(Hop(status=response.status, url=response.url))

    async def start(self) -> AsyncIterator[Any]:
        self._tick()
        try:
            await self._ask()
        except OSError as error:
            self._errand.error = error
        else:
            self._errand.done = True
        finally:
            self._errand.progress.close()
        nothing: tuple[Request, ...] = ()
        for request in nothing:  # makes this a generator, as Scrapy wants it
            yield request

    def _tick(self) -> None:
        """Let the progress be seen while nothing comes."""
        self._errand.progress.tick()
        if not self._errand.progress.closed:
            call_later(TICK_SECONDS, self._tick)

    async def _ask(self) -> None:
        policies = Crawl.of(self.crawler).policies
        seen: set[str] = set()
        pending: deque[tuple[str, str | None, Deferred[Known] | None]] = deque()
        for url in self._errand.urls:
            page = page_of(url)
            origin = None if page is None else origin_of(page.url)
            if self._errand.task.once and origin is not None:
                if origin in seen:
                    self._errand.progress.add(1)
                    continue
                seen.add(origin)
            answer = None
            if page is not None and origin is not None:
                answer = deferred_from_coro(policies.get(origin, page))
            pending.append((url, origin, answer))
            if len(pending) >= URLS_AHEAD:
                await self._take(policies, *pending.popleft())
        while pending:
            await self._take(policies, *pending.popleft())

    async def _take(
        self,
        policies: Policies,
        url: str,
        origin: str | None,
        answer: Deferred[Known] | None,
    ) -> None:
        task = self._errand.task
        if origin is None or answer is None:
            task.fail(url, self._errand.not_a_url)
        else:
            known = await maybe_deferred_to_future(answer)
            copy = await self._copy(policies, origin, known)
            task.take(url, known, copy)
        self._errand.progress.add(1)

    async def _copy(self, policies: Policies, origin: str, known: Known) -> Copy:
        snapshot = await policies.snapshot(known.key) or Snapshot()
        answer, failures = snapshot.answer, snapshot.failures
        hops = tuple(self._hops.get(origin, ()))
        now = policies.now()
        copy = Copy(
            asked=robots_url(origin),
            came_by="none",
            state=known.standing.state.value,
            hops=hops,
            failure="" if failures is None else failures.reason,
            ask_in=known.standing.ask_at - now,
        )
        if answer is None or known.answer_id is None:
            return copy
        came_by = "store"
        if hops and failures is None:
            came_by = "confirmed" if hops[-1].status == 304 else "network"
        return replace(
            copy,
            came_by=came_by,
            status=answer.status,
            url=answer.url,
            checked=answer.checked,
            age=now - answer.checked,
        )


def page_of(url: str) -> Request | None:
    """Return a request for the origin of *url*, on whose behalf its robots.txt is asked.

    ``None`` where there is no such origin.
    """
    origin = origin_of(url)
    if origin is None:
        return None
    try:
        return Request(origin + "/")
    except ValueError:  # no host can be called that
        return None
