"""From what was typed to an exit status."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError
from scrapy.spiderloader import get_spider_loader

from scrapy_rep.commands.forms import fail, read
from scrapy_rep.commands.terminal import Screen
from scrapy_rep.exceptions import SettingError

if TYPE_CHECKING:
    import argparse

    from scrapy import Spider
    from scrapy.crawler import CrawlerProcessBase
    from scrapy.settings import Settings

MODULES = {"": "answers", "lint": "answers", "approve": "approve"}
"""Of what asks sites: word -> module."""
EXTRAS = {"report": "report", "fleet": "redis"}
"""Word -> the extra of this project that brings what it needs."""


def prepare(opts: argparse.Namespace, others: list[str], settings: Settings) -> bool:
    """Make *settings* and *opts* ready; return whether something is to be fetched.

    *others* are what is typed and not in *opts*. Ends with 2 where something is wrong.
    """
    read(opts, others)
    opts.kind = spider_of(opts, settings)
    if opts.word == "approve":
        from scrapy_rep.commands import approve  # noqa: PLC0415 - costs more

        approve.prepare(opts, settings)
    if opts.word not in MODULES or opts.file is not None or not opts.url:
        return False
    from scrapy_rep.commands import asking  # noqa: PLC0415 - costs more

    asking.prepare(settings)
    return True


def spider_of(opts: argparse.Namespace, settings: Settings) -> type[Spider] | None:
    """Return the spider that is named, and give *settings* those of its own."""
    if opts.spider is None:
        return None
    try:
        kind: type[Spider] = get_spider_loader(settings).load(opts.spider)
    except KeyError:
        if opts.word == "fleet":  # its project may be elsewhere
            return None
        fail(
            f"There is no spider {opts.spider!r} here. Type one that scrapy list names."
        )
    kind.update_settings(settings)
    return kind


def run(
    opts: argparse.Namespace, settings: Settings, process: CrawlerProcessBase | None
) -> int:
    """Do what *opts* ask for; *process* runs the crawl where one is needed.

    Ends with 2 for files that cannot be read and for wrong settings.
    """
    screen = Screen(as_json=opts.json)
    opts.process = process
    try:
        module = MODULES.get(opts.word, opts.word)
        tell = import_module(f"scrapy_rep.commands.{module}").tell
        return int(tell(opts, settings, screen))
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if opts.word not in EXTRAS or missing in {"", "scrapy_rep"}:
            raise
        extra = f'"scrapy_rep[{EXTRAS[opts.word]}]"'
        fail(f"{opts.word} needs {missing}. Type pip install {extra}.")
    except (SettingError, UsageError) as error:
        fail(str(error))
    except BrokenPipeError:
        # The reader of our output has seen enough ("| head"). Python would complain when it
        # flushes standard output at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
