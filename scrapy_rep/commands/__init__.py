"""``scrapy robots``: ask from the command line.

Scrapy loads every command each time that any is run, so this module imports what is
loaded by then anyhow; what does the work is imported once the command runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

if TYPE_CHECKING:
    import argparse


class RobotsCommand(ScrapyCommand):
    """Says what robots.txt files say, and why; its first word may ask for something else."""

    def syntax(self) -> str:
        return "[options] URL...  (or a word in place of URLs: scrapy robots -h)"

    def short_desc(self) -> str:
        return "Tell what robots.txt allows, and why"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        from scrapy_rep.commands.forms import add_options  # noqa: PLC0415

        add_options(parser)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        from scrapy_rep.commands.run import prepare  # noqa: PLC0415

        assert self.settings is not None
        self.requires_crawler_process = prepare(opts, args, self.settings)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from scrapy_rep.commands.run import run  # noqa: PLC0415

        assert self.settings is not None
        self.exitcode = run(opts, self.settings, self.crawler_process)
