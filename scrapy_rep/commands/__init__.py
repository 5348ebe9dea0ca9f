"""``scrapy robots``: ask from the command line; from what was typed to an exit status.

Scrapy loads every command each time that any is run, so this module imports what is
loaded by then anyhow; what does the work is imported once the command runs.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from scrapy.spiderloader import get_spider_loader

if TYPE_CHECKING:
    import argparse

TELLERS = {
    "": "answers.tell",
    "lint": "answers.tell",
    "approve": "approve.tell",
    "compare": "files.compare",
    "report": "files.report",
    "job": "waits.tell_job",
    "fleet": "waits.tell_fleet",
    "doctor": "project.doctor",
    "card": "project.card",
}
"""Which function of this room does what a word is for."""
ASKING = ("", "lint", "approve")
"""Of that, what may ask sites."""
EXTRAS = {"report": "report", "fleet": "redis"}
"""Word -> the extra of this project that brings what it needs."""


class RobotsCommand(ScrapyCommand):
    """Says what robots.txt files say, and why; its first word may ask for something else."""

    def syntax(self) -> str:
        return "[options] URL...  (or a word in place of URLs: scrapy robots -h)"

    def short_desc(self) -> str:
        return "Tell what robots.txt allows, and why"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        from scrapy_rep.commands.typed import add_options  # noqa: PLC0415

        add_options(parser)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Make settings and *opts* ready; end with 2 where something is wrong."""
        super().process_options(args, opts)
        from scrapy_rep.commands.typed import read  # noqa: PLC0415

        assert self.settings is not None
        read(opts, args)
        self._take_spider(opts)
        if opts.word == "approve":
            from scrapy_rep.commands import approve  # noqa: PLC0415

            approve.prepare(opts, self.settings)
        may_ask = opts.word in ASKING and opts.file is None
        self.requires_crawler_process = bool(may_ask and opts.url)
        if self.requires_crawler_process:
            from scrapy_rep.commands import asking  # noqa: PLC0415

            asking.prepare(self.settings)

    def _take_spider(self, opts: argparse.Namespace) -> None:
        """Give *opts* the spider that is named, and the settings those of its own."""
        opts.kind = None
        if opts.spider is None or self.settings is None:
            return
        try:
            opts.kind = get_spider_loader(self.settings).load(opts.spider)
        except KeyError:
            if opts.word == "fleet":  # its project may be elsewhere
                return
            from scrapy_rep.commands.typed import fail  # noqa: PLC0415

            fail(
                f"There is no spider {opts.spider!r} here. Type one that scrapy list names."
            )
        opts.kind.update_settings(self.settings)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Do what *opts* ask for; end with 2 for files that cannot be read, wrong settings."""
        from scrapy_rep.commands.terminal import Screen  # noqa: PLC0415
        from scrapy_rep.commands.typed import fail  # noqa: PLC0415
        from scrapy_rep.exceptions import SettingError  # noqa: PLC0415

        screen = Screen(as_json=opts.json)
        opts.process = self.crawler_process
        module, tell = TELLERS[opts.word].split(".")
        try:
            found = import_module(f"scrapy_rep.commands.{module}")
            self.exitcode = int(getattr(found, tell)(opts, self.settings, screen))
        except ImportError as error:
            missing = (error.name or "").partition(".")[0]
            if opts.word not in EXTRAS or missing in {"", "scrapy_rep"}:
                raise
            extra = f'"scrapy_rep[{EXTRAS[opts.word]}]"'
            fail(f"{opts.word} needs {missing}. Type pip install {extra}.")
        except (SettingError, UsageError) as error:
            fail(str(error))
        except BrokenPipeError:
            # The reader of our output has seen enough ("| head"). Python would complain when
            # it flushes standard output at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.exitcode = 2
