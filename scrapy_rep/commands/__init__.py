"""``scrapy robots``: ask from the command line; from what was typed to an exit status.

Scrapy loads every command each time that any is run, so what does the work is imported late.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from traceback import print_exc
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

if TYPE_CHECKING:
    import argparse

TELLERS = {
    "": "answers.tell",
    "lint": "answers.tell",
    "approve": "files.approve",
    "compare": "files.compare",
    "report": "files.report",
    "job": "waits.tell_job",
    "fleet": "waits.tell_fleet",
    "doctor": "project.doctor",
    "card": "project.card",
}
"""By the first word that was typed."""
EXTRAS = {"report": "report", "fleet": "redis"}
"""Word -> the extra that brings what it needs."""


class RobotsCommand(ScrapyCommand):
    def syntax(self) -> str:
        return "[options] URL...  (or a word in place of URLs: scrapy robots -h)"

    def short_desc(self) -> str:
        return "Tell what robots.txt allows, and why"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        from scrapy_rep.commands.terminal import add_options  # noqa: PLC0415

        add_options(parser)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        from scrapy_rep.commands.terminal import read  # noqa: PLC0415

        assert self.settings is not None
        try:
            self._typed = read(opts, args, self.settings)
            self.requires_crawler_process = self._typed.asks
            if self._typed.asks:
                from scrapy_rep.commands.project import ask, prepare  # noqa: PLC0415

                prepare(self.settings)
                self._typed.ask = ask
        except Exception:  # noqa: BLE001 - of the project's spiders and add-ons, see run
            print_exc()
            sys.exit(2)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from scrapy_rep.commands.terminal import Screen, complain, fail  # noqa: PLC0415
        from scrapy_rep.exceptions import SettingError  # noqa: PLC0415

        typed = self._typed
        typed.process = self.crawler_process
        module, name = TELLERS[typed.word].split(".")
        try:
            tell = getattr(import_module(f"scrapy_rep.commands.{module}"), name)
            self.exitcode = int(tell(typed, self.settings, Screen(as_json=typed.json)))
        except ImportError as error:
            missing = (error.name or "").partition(".")[0]
            if typed.word not in EXTRAS or missing in {"", "scrapy_rep"}:
                raise
            extra = f'"scrapy_rep[{EXTRAS[typed.word]}]"'
            fail(f"{typed.word} needs {missing}. Type pip install {extra}.")
        except (SettingError, UsageError) as error:
            fail(str(error))
        except OSError as error:
            self.exitcode = 2
            if error.filename is not None:
                fail(f"{error.filename}: {error.strerror}.")
            if not isinstance(error, BrokenPipeError):
                complain(f"Standard output cannot be written ({error.strerror}).")
            # Else its reader has seen enough ("| head"). Python would complain when it flushes
            # standard output at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt:
            self.exitcode = 130  # as a shell has it for what SIGINT has ended
        except Exception:  # noqa: BLE001 - Python would end with 1: "some are refused"
            print_exc()
            self.exitcode = 2
