"""``scrapy robots``: ask from the command line.

Scrapy loads every command each time that any is run, so this module imports what is
loaded by then anyhow; what does the work is imported once the command runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand

if TYPE_CHECKING:
    import argparse

    from scrapy_rep.commands.options import Options


class RobotsCommand(ScrapyCommand):
    """Says what robots.txt files say, and why. Exits with 0, 1 or 2; see ``long_desc``."""

    options: Options

    def syntax(self) -> str:
        return "[options] [URL...]"

    def short_desc(self) -> str:
        return "Tell what robots.txt allows, and why"

    def long_desc(self) -> str:
        return (
            "Tells of each URL whether robots.txt allows it, and which rule says so. "
            "The robots.txt is fetched as this project would fetch it, or read from a "
            "file. Give - in place of a URL to read URLs from standard input, one a "
            "line. The exit status is 0 if all URLs are allowed, 1 if some are refused, "
            "and 2 if some could not be judged."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        from scrapy_rep.commands.options import add_options  # noqa: PLC0415

        add_options(parser)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        from scrapy_rep.commands.options import Options  # noqa: PLC0415

        assert self.settings is not None
        self.options = Options.read(args, opts)
        if self.options.offline:
            self.requires_crawler_process = False  # nor a reactor
        else:
            from scrapy_rep.commands.crawl import prepare  # noqa: PLC0415

            prepare(self.settings)

    def run(self, args: list[str], opts: Any) -> None:
        from scrapy_rep.commands.run import run  # noqa: PLC0415

        assert self.settings is not None
        self.exitcode = run(self.options, self.settings, self.crawler_process)
