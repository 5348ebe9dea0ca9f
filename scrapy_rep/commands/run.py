"""From what was typed to an exit status."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError
from scrapy.spiderloader import get_spider_loader

from scrapy_rep.access.origins import origin_of
from scrapy_rep.commands import inputs
from scrapy_rep.commands.answers import COULD_NOT_TELL, Answers, agents_of, copy_of
from scrapy_rep.commands.forms import faults
from scrapy_rep.commands.terminal import Screen
from scrapy_rep.exceptions import SettingError
from scrapy_rep.policies import Known
from scrapy_rep.policies.lifecycle import Standing, State
from scrapy_rep.protocol import parse
from scrapy_rep.settings import Settings

if TYPE_CHECKING:
    import argparse

    from scrapy import Spider
    from scrapy.crawler import CrawlerProcessBase
    from scrapy.settings import Settings as ScrapySettings

    from scrapy_rep.commands.forms import Parser

EXTRAS = {"report": "report", "fleet": "redis"}
"""Word -> the extra of this project that brings what it needs."""


def prepare(
    opts: argparse.Namespace, unknown: list[str], settings: ScrapySettings
) -> bool:
    """Make *settings* and *opts* ready; return whether something is to be fetched.

    Ends with 2 where something is wrong, such as options that are *unknown*.
    """
    for option in unknown:
        opts.form.fail(f"There is no {option}. scrapy robots -h tells what there is.")
    for fault in faults(opts):
        opts.form.fail(fault)
    more: dict[str, Any] = {"kind": spider_of(opts, settings)}
    more["files"] = [] if opts.file is None else [opts.file]
    if opts.word == "lint":
        more["url"] = [name for name in opts.what if "://" in name]
        more["files"] = [name for name in opts.what if "://" not in name]
    elif not opts.word:
        more |= {"ignore": [], "strict": False}
    vars(opts).update(more, lint=opts.lint or opts.word == "lint")
    fetches = bool(opts.word in {"", "lint"} and opts.url and opts.file is None)
    if fetches:
        from scrapy_rep.commands import asking  # noqa: PLC0415 - costs more

        asking.prepare(settings)
    return fetches


def spider_of(
    opts: argparse.Namespace, settings: ScrapySettings
) -> type[Spider] | None:
    """Return the spider that is named, and give *settings* those of its own."""
    if opts.spider is None:
        return None
    try:
        kind: type[Spider] = get_spider_loader(settings).load(opts.spider)
    except KeyError:
        if opts.word == "fleet":  # its project may be elsewhere
            return None
        opts.form.fail(
            f"There is no spider {opts.spider!r} here. Type one that scrapy list names, in "
            "the folder of its project."
        )
    kind.update_settings(settings)
    return kind


def run(
    opts: argparse.Namespace,
    settings: ScrapySettings,
    process: CrawlerProcessBase | None,
) -> int:
    """Do what *opts* ask for; *process* runs the crawl where one is needed.

    Ends with 2 for files that cannot be read and for wrong settings.
    """
    screen = Screen(as_json=opts.json)
    form: Parser = opts.form
    try:
        if opts.word in {"", "lint"}:
            return answer(opts, settings, screen, process)
        module = import_module(f"scrapy_rep.commands.{opts.word}")
        return int(module.tell(opts, settings, screen))
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if opts.word not in EXTRAS or missing in {"", "scrapy_rep"}:
            raise
        form.fail(
            f"{opts.word} needs {missing}, which is not installed. Type "
            f'pip install "scrapy_rep[{EXTRAS[opts.word]}]".'
        )
    except (SettingError, UsageError) as error:
        form.fail(str(error))
    except BrokenPipeError:
        # The reader of our output has seen enough ("| head"). Python would complain when it
        # flushes standard output at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return COULD_NOT_TELL
    finally:
        screen.progress.close()


def answer(
    opts: argparse.Namespace,
    scrapy_settings: ScrapySettings,
    screen: Screen,
    process: CrawlerProcessBase | None,
) -> int:
    """Tell of URLs, or of robots.txt files; return the exit status."""
    settings = Settings.read(scrapy_settings)
    agents = agents_of(opts, scrapy_settings, settings)
    # What a crawl would do, which may wait as this command does not.
    answers = Answers(screen, opts, agents, replace(settings, wait=True))
    for name in opts.files:
        policy = parse(inputs.robots_txt(name), dialect=settings.dialect)
        known = Known("", policy, Standing(State.FRESH, inf, inf), None)
        shown = "(standard input)" if name == inputs.STDIN_NAME else name
        progress = screen.track(None, "URLs")
        for url in ("",) if answers.once else inputs.all_urls(opts.url):
            answers.take(url, known, copy_of(shown, "file"))
            progress.add(1)
    if process is not None:
        # It must not be imported before there is a reactor.
        from scrapy_rep.commands.asking import ask  # noqa: PLC0415

        # All at once: to wait for standard input would hold up the event loop.
        urls = list(inputs.all_urls(opts.url))
        if answers.once:
            urls = list({origin_of(url) or url: url for url in urls}.values())
        screen.track(len(urls), "URLs")
        answers.is_whole = False
        ask(process, urls, answers, opts.kind)
    return answers.status if answers.is_whole else COULD_NOT_TELL
