"""From options to an exit status."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError

from scrapy_rep.commands import files
from scrapy_rep.commands.answers import Judging, Linting, Listing, Task
from scrapy_rep.commands.compare import Comparing
from scrapy_rep.commands.findings import Copy
from scrapy_rep.commands.options import STDIN_NAME, URL_EXPECTED
from scrapy_rep.commands.terminal import Screen
from scrapy_rep.exceptions import SettingError
from scrapy_rep.judging.agents import Agents
from scrapy_rep.policies import Known
from scrapy_rep.policies.lifecycle import Standing, State
from scrapy_rep.protocol import parse
from scrapy_rep.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy.crawler import CrawlerProcessBase
    from scrapy.settings import Settings as ScrapySettings

    from scrapy_rep.commands.options import Options
    from scrapy_rep.protocol import Agent

EXIT_COULD_NOT_TELL = 2
EXTRAS = {
    "jinja2": "report",
    "markupsafe": "report",
    "redis": "redis",
    "scrapy_redis": "redis",
}
"""Package -> the extra of this project that brings it."""


def run(
    options: Options,
    scrapy_settings: ScrapySettings,
    process: CrawlerProcessBase | None,
) -> int:
    """Do what *options* ask for; *process* runs the crawl where one is needed.

    Raises ``UsageError`` for files that cannot be read and for wrong settings.
    """
    if options.audits is not None:
        with extra_for("--report"):
            from scrapy_rep.commands.report import report  # noqa: PLC0415

        return report(options, Screen())
    if options.job is not None:
        from scrapy_rep.commands.job import tell  # noqa: PLC0415 - needs SQLite

        return tell(options.job, Screen(), as_json=options.json)
    try:
        settings = Settings.read(scrapy_settings)
        agents = agents_of(options, scrapy_settings, settings)
    except SettingError as error:
        raise UsageError(str(error)) from error
    screen = Screen()
    try:
        if options.fleet is not None:
            with extra_for("--fleet"):
                from scrapy_rep.commands.fleet import do  # noqa: PLC0415

            lease = settings.redis_lease
            return do(options.fleet, scrapy_settings, screen, lease, options)
        if options.compare is not None:
            return compare(options, agents, settings, screen)
        task = task_of(options, agents, settings, screen)
        if options.file is not None:
            by_file(options.file, options, task, settings, screen)
            return task.status
        return online(options, task, screen, process)
    except BrokenPipeError:
        # The reader of our output has seen enough ("| head"). Python would complain when it
        # flushes standard output at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_COULD_NOT_TELL


@contextmanager
def extra_for(option: str) -> Iterator[None]:
    """Raise ``UsageError`` where what *option* needs in the block is not installed."""
    try:
        yield
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRAS:
            raise
        msg = (
            f"{option} needs {missing}, which is not installed: install scrapy_rep with "
            f'its extra "{EXTRAS[missing]}"'
        )
        raise UsageError(msg, print_help=False) from None


def agents_of(
    options: Options, scrapy_settings: ScrapySettings, settings: Settings
) -> tuple[Agent, ...]:
    """Return the agents to judge for: those asked for, else that of the project."""
    if options.agents:
        return options.agents
    return (Agents(Crawler(Spider, scrapy_settings), settings).of(),)


def task_of(
    options: Options, agents: Sequence[Agent], settings: Settings, screen: Screen
) -> Task:
    if options.lint:
        return Linting(screen, as_json=options.json)
    if options.sitemaps:
        return Listing(screen, as_json=options.json)
    # What a crawl would do, which may wait as this command does not.
    settings = replace(settings, wait=True)
    return Judging(screen, agents, settings, as_json=options.json, now=options.now)


def by_file(
    name: str, options: Options, task: Task, settings: Settings, screen: Screen
) -> None:
    body = files.robots_txt(name, "--file")
    policy = parse(body, dialect=settings.dialect)
    known = Known("", policy, Standing(State.FRESH, inf, inf), None)
    shown = "(standard input)" if name == STDIN_NAME else name
    copy = Copy(asked=shown, came_by="file")
    with screen.track(None, " URLs") as progress:
        for url in ("",) if task.once else files.all_urls(options.urls):
            task.take(url, known, copy)
            progress.add(1)


def online(
    options: Options, task: Task, screen: Screen, process: CrawlerProcessBase | None
) -> int:
    # Not needed, nor at hand, for files; and it must not be imported before there is a
    # reactor.
    from scrapy_rep.commands.crawl import ask  # noqa: PLC0415

    assert process is not None
    # All at once: to wait for standard input would hold up the event loop.
    urls = list(files.all_urls(options.urls))
    with screen.track(len(urls), " URLs"):
        whole = ask(
            process, urls, task, screen.progress, not_a_url=f"not {URL_EXPECTED}"
        )
    return task.status if whole else EXIT_COULD_NOT_TELL


def compare(
    options: Options, agents: Sequence[Agent], settings: Settings, screen: Screen
) -> int:
    assert options.compare is not None
    assert options.url_list is not None
    old, new = (
        parse(files.robots_txt(name, what), dialect=settings.dialect)
        for name, what in zip(options.compare, ("OLD", "NEW"), strict=True)
    )
    comparing = Comparing(old, new, agents, screen, as_json=options.json)
    with (
        files.open_named(options.url_list, "--urls") as file,
        screen.track(files.size(file), "B") as progress,
    ):
        comparing.run(file, progress)
    comparing.summarise()
    return comparing.status
