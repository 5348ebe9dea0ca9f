"""Asking as this project would; what holds in its crawls; who crawls (the Signature Agent Card).

The card is that of draft-meunier-webbotauth-registry-04 (2026-10). It has a format for neither
``purpose`` nor ``rate-control``: both are in words here.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.asyncio import create_looping_call
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep.commands.terminal import URL_WANTED, Answer, Screen, complain
from scrapy_rep.crawl import Crawl
from scrapy_rep.engine.inner import hop_of
from scrapy_rep.events.sink import storage_kind
from scrapy_rep.exceptions import SettingError
from scrapy_rep.gate.addon import Addon
from scrapy_rep.gate.holding import NOT_JUDGED, hints_on_refetching, what_holds
from scrapy_rep.policies.agreed import read_approved
from scrapy_rep.protocol import RFC9309, product_tokens
from scrapy_rep.protocol.lint import notes_on_header
from scrapy_rep.protocol.origins import origin_of, robots_url
from scrapy_rep.protocol.preferences import TDM, WELL_KNOWN
from scrapy_rep.settings import PACE_DIRECTIVES, Settings
from scrapy_rep.store import Snapshot, store_kind
from scrapy_rep.store.sqlite import FILE_NAME

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from scrapy.http import Response
    from scrapy.settings import Settings as ScrapySettings

    from scrapy_rep.commands.answers import Answers
    from scrapy_rep.commands.terminal import Answer, Typed
    from scrapy_rep.gate.holding import Holding
    from scrapy_rep.policies.lifecycle import Known

URLS_AHEAD = 100
"""URLs whose origins are asked at once, as far as REP_FETCH_CONCURRENCY lets."""
LOOK_SECONDS = 0.5
NAMES = ("robotstxt_user_agent", "user_agent")
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
    # A spider that cannot be imported is asked about by nobody here.
    "SPIDER_LOADER_WARN_ONLY": True,
}


def prepare(settings: ScrapySettings) -> None:
    """Change *settings* for a crawl that only asks; how it asks stays the project's way."""
    folder = settings.get("JOBDIR")
    if folder and settings.get("REP_STORE") in {None, "sqlite"}:
        # What the job knows is ours to use.
        path = settings.get("REP_STORE_PATH") or str(Path(folder, FILE_NAME))
        settings.setdict({"REP_STORE": "sqlite", "REP_STORE_PATH": path}, "cmdline")
    settings.setdict(SETTINGS_OF_A_QUESTION, "cmdline")
    if settings.getpriority("LOG_LEVEL") != SETTINGS_PRIORITIES["cmdline"]:
        settings.set("LOG_LEVEL", "WARNING", "cmdline")  # unless -L says otherwise
    settings.setdefault_in_component_priority_dict("ADDONS", Addon, 500)


def ask(urls: Sequence[str], answers: Answers) -> None:
    """Give *answers* each of *urls* with its policy, in their order, as the spider would ask.

    ``answers.is_whole`` tells whether all were given: the crawl may be broken off, or never begin.
    """
    answers.is_whole = False
    answers.screen.track(len(urls), "URLs")
    process, kind = answers.typed.process, answers.typed.kind
    own = {name: getattr(kind, name) for name in NAMES if hasattr(kind, name)}
    process.crawl(process.create_crawler(Asker), urls=urls, answers=answers, **own)
    process.start()
    if answers.error is not None:
        raise answers.error


class Asker(Spider):
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

    def closed(self, reason: str) -> None:
        if reason == "shutdown" and not self.answers.is_whole:  # Scrapy has caught it
            self.answers.error = KeyboardInterrupt()

    def _downloaded(self, response: Response, request: Request) -> None:
        if (hop := hop_of(request)) is not None:
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


NOT_ENABLED = (
    'The add-on is not enabled. Put ADDONS = {"scrapy_rep.Addon": 500} into the settings of '
    "the project, and run this in its folder"
)
WAITS_ELSEWHERE = (
    "Requests that may not be sent yet wait in the downloader, where they hold up other "
    "hosts. Leave SCHEDULER and SCHEDULER_PRIORITY_QUEUE to the add-on"
)
WHO_WE_ARE = (
    'Say in USER_AGENT who you are: "ExampleBot/1.0 (+https://example.com/bot)"'
)
PAGE = re.compile(r"https?://[^\s)>;,\"]+")
ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")


def doctor(typed: Typed, settings: ScrapySettings, screen: Screen) -> int:
    crawler, holding = what_would_hold(typed, settings)
    is_enabled = any(isinstance(addon, Addon) for addon in crawler.addons.addons)
    answer = asdict(holding) | {"is_enabled": is_enabled, "says": holding.in_words()}
    del answer["warnings"]
    off = list(what_is_off(holding, is_enabled=is_enabled))
    hints = list(hints_on_refetching(crawler.settings))
    screen.say(words, {**answer, "off": off, "hints": hints})
    return int(bool(off))


def what_would_hold(typed: Typed, settings: ScrapySettings) -> tuple[Crawler, Holding]:
    crawler = Crawler(typed.kind or Spider, settings)
    try:
        crawler.addons.load_settings(crawler.settings)
        check_what_is_named(crawler.settings)
        return crawler, what_holds(crawler.settings, typed.kind)
    except (ImportError, NameError, AttributeError) as error:
        raise UsageError(
            f"A setting names something that does not exist: {error}."
        ) from error


def check_what_is_named(settings: ScrapySettings) -> None:
    """Raise ``SettingError`` where a crawl would, when it opens what the settings name."""
    values = Settings.read(settings)
    if values.store is not None:  # in a fleet, Redis
        store_kind(values.store)
    if values.approved is not None:
        read_approved(values.approved)
    if values.audit_uri is not None:
        storage_kind(settings, values.audit_uri)
    files = {"REP_AUDIT_URI": values.audit_uri}
    if values.store == "sqlite":
        files["REP_STORE_PATH"] = values.store_path
    for name, path in files.items():
        if path is not None and Path(path).is_dir():
            raise SettingError(name, path, "a file, not a folder")


def what_is_off(holding: Holding, *, is_enabled: bool) -> Iterator[str]:
    if not holding.judge and not is_enabled:
        yield NOT_ENABLED
    yield from (each for each in holding.warnings if is_enabled or each != NOT_JUDGED)
    if holding.judge and not holding.waits_in_scheduler:
        yield WAITS_ELSEWHERE
    sent = holding.user_agent
    if holding.unsent_tokens:
        yield (
            f"The product token {', '.join(holding.unsent_tokens)}, whose rules hold, is "
            f"not in the User-Agent that is sent, {sent!r}. Put it into USER_AGENT"
        )
    for note in notes_on_header(sent):
        yield f"{note.message[0].upper()}{note.message[1:]}. {WHO_WE_ARE}"


def words(answer: Answer) -> Iterator[str]:
    yield from answer["says"].split("; ")
    yield f"User-Agent: {answer['user_agent'] or 'none'}"
    yield from (f"off: {each}." for each in answer["off"])
    yield from (f"hint: {each}." for each in answer["hints"])
    if not answer["off"]:
        yield "All is well."


def card(typed: Typed, settings: ScrapySettings, screen: Screen) -> int:
    crawler, holding = what_would_hold(typed, settings)
    values = Settings.read(crawler.settings)
    why_not = list(departures(holding, values))
    answer = card_of(holding, values, complies=not why_not)
    screen.write(*json.dumps(answer, indent=2).splitlines())
    for why in why_not:
        complain(f"rfc9309-compliance is false: {why}.")
    return int(bool(why_not))


def departures(holding: Holding, values: Settings) -> list[str]:
    whys = {
        "no request is judged": not holding.judge,
        "REP_OBEY leaves disallow out": holding.is_dry_run,
        "REP_UNREACHABLE is allow": values.unreachable == "allow",
        "REP_DIALECT is an older one": values.dialect is not RFC9309,
    }
    return [why for why, holds in whys.items() if holds]


def card_of(holding: Holding, values: Settings, *, complies: bool) -> Answer:
    sent, agent = holding.user_agent, holding.agent
    tokens = agent if isinstance(agent, tuple) else product_tokens(agent)
    page, address = PAGE.search(sent), ADDRESS.search(sent)
    as_bot = {
        "expected-user-agent": sent,
        "rfc9309-product-token": tokens[0] if tokens else None,
        "rfc9309-compliance": complies,
        "trigger": "crawler",
        "purpose": ", ".join(values.purpose),
        "rate-control": rate_control(values.obey),
        "known-urls": ["/robots.txt", *([WELL_KNOWN] if TDM in values.purpose else ())],
    }
    return _told(
        {
            "client_name": tokens[0] if tokens else None,
            "client_uri": page and page[0],
            "contacts": [f"mailto:{address[0]}"] if address else None,
            "web_bot_auth": _told(as_bot),
        }
    )


def rate_control(obey: frozenset[str]) -> str:
    named = [name.capitalize() for name in sorted(PACE_DIRECTIVES & obey)]
    ways = [f"{', '.join(named)} in robots.txt"] if named else []
    if "retry-after" in obey:
        ways.append("429 or 503 with Retry-After")
    elif "back-off" in obey:
        ways.append("429 or 503")
    return "; ".join(ways)


def _told(answer: Answer) -> Answer:
    return {name: value for name, value in answer.items() if value not in (None, "")}
