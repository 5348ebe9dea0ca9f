"""What can be typed, as the pages in ``help.txt`` say, and what is wrong with it."""

from __future__ import annotations

import argparse
import re
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from scrapy_rep import __version__
from scrapy_rep.access.origins import origin_of
from scrapy_rep.commands.inputs import STDIN_NAME, URL_WANTED, with_scheme
from scrapy_rep.protocol import COMPILED
from scrapy_rep.protocol.printable import printable, without_user

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OPTION = re.compile(r"(?m)^  (?:(-\w), )?(--\w+)(?: ([A-Z]+)(\.\.\.)?)?  +(\S.*)")
"""An option of a page: short name, name, its value, whether it may be repeated."""
PLACE = re.compile(r"(\[?)\b([A-Z]+)(\.\.\.)?")
"""What stands in a place of its own: whether it may be left out, or repeated."""
READ = ("url", "file", "what", "old", "new", "urls", "audit", "against")
"""What may be standard input."""
OF_ALL, OF_HOSTS = (
    ("pause", "resume", "drain", "check", "repair"),
    ("block", "unblock", "purge"),
)
FORM = "compiled" if COMPILED else "plain Python"


def pages() -> dict[str, str]:
    """Return the help of each word, and of "", which stands for URLs."""
    text = Path(__file__).with_name("help.txt").read_text(encoding="utf-8")
    return {
        page.split()[3] if page.split()[3].isalpha() else "": f"{page.rstrip()}\n"
        for page in re.split(r"(?m)^(?=usage: )", text)[1:]
    }


class Help(argparse.Action):
    """Shows a page."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Show it and end."""
        print(self.const, end="")
        parser.exit()


def add_options(parser: argparse.ArgumentParser, page: str) -> None:
    parser.add_argument("-h", "--help", action=Help, nargs=0, const=page)
    for short, name, value, more, _ in OPTION.findall(page):
        names = filter(None, (short, name))
        how: dict[str, Any] = {}
        if name == "--version":
            text = f"scrapy_rep {__version__}; the protocol is {FORM}"
            how = {"action": "version", "version": text}
        elif not value:
            how = {"action": "store_true"}
        elif more:
            how = {"action": "append", "default": []}
        elif value == "FILES":
            how = {"nargs": "+", "default": []}
        parser.add_argument(*names, **how)


def add_places(parser: argparse.ArgumentParser, page: str) -> None:
    for may_lack, name, more in PLACE.findall(page.partition("\n")[0]):
        count = {(True, True): "*", (True, False): "?", (False, True): "+"}
        nargs = count.get((bool(may_lack), bool(more)))
        how: dict[str, Any] = {"default": []} if nargs == "*" else {}
        parser.add_argument(name.lower(), metavar=name, nargs=nargs, **how)


class Parser(argparse.ArgumentParser):
    """Of one form; what is wrong is a sentence, and tells what to type."""

    def fail(self, sentence: str) -> NoReturn:
        """Write *sentence* and end with 2."""
        self.exit(2, f"{printable(sentence)}\n")

    def error(self, message: str) -> NoReturn:
        """Have *message*, of argparse, end in where to read what to type."""
        message = message.replace("unrecognized arguments:", "there is no")
        self.fail(f"{message[:1].upper()}{message[1:]}. {self.prog} -h tells more.")


class ByWord(argparse.Action):
    """Has all from the first URL, or word, on read by the form that this selects."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        opts: argparse.Namespace,
        typed: Any,
        option_string: str | None = None,
    ) -> None:
        """Read it into *opts*, which have the options before it."""
        all_pages = pages()
        word = typed[0] if typed and typed[0] in all_pages else ""
        page = all_pages[word]
        own = Parser(prog=f"scrapy robots {word}".strip(), conflict_handler="resolve")
        self.const(own)
        add_options(own, page)
        add_places(own, page)
        its = {name for _, name, *_ in OPTION.findall(page)}
        for _, name, *_ in OPTION.findall(all_pages[""]):
            if name not in its and getattr(opts, name[2:], None):
                own.fail(f"{name} is nothing for {word}. Type it without that.")
        vars(opts).update(word=word, form=own)
        own.parse_intermixed_args(typed[1:] if word else typed, opts)


def add_forms(
    parser: argparse.ArgumentParser,
    add_scrapys: Callable[[argparse.ArgumentParser], None],
) -> None:
    """Have *parser* read all forms; *add_scrapys* adds the options of every command."""
    add_options(parser, pages()[""])
    parser.add_argument(
        "typed", nargs=argparse.REMAINDER, action=ByWord, const=add_scrapys
    )


def faults(opts: argparse.Namespace) -> Iterator[str]:
    """Yield what is wrong, in sentences."""
    yield from FAULTS.get(opts.word, lambda opts: ())(opts)
    read = [getattr(opts, name, None) for name in READ]
    names = list(chain(*(each if isinstance(each, list) else [each] for each in read)))
    if names.count(STDIN_NAME) > 1:
        yield (
            "- is given twice, but standard input can be read only once. Type the name "
            "of a file in one of the places."
        )
    if not all(map(str.strip, opts.agent)):
        yield "--agent is empty. Type a product token, such as ExampleBot, or a User-Agent."
    for url in names:
        is_url = url and (url in getattr(opts, "url", ()) or "://" in url)
        if is_url and opts.file is None and not is_right(url):
            yield f"{without_user(url)!r} is no URL to judge. Type {URL_WANTED}."


def is_right(url: str) -> bool:
    return url == STDIN_NAME or origin_of(with_scheme(url)) is not None


def faults_of_urls(opts: argparse.Namespace) -> Iterator[str]:
    whole = [f"--{name}" for name in ("lint", "sitemaps") if getattr(opts, name)]
    beside = [f"--{name}" for name in ("agent", "now") if getattr(opts, name)]
    if whole and opts.file is not None and opts.url:
        beside.append("URL")
    if len(whole) > 1:
        yield "--lint and --sitemaps exclude each other. Type one of them."
    elif whole and beside:
        yield f"{whole[0]} is about the whole file. Type no {beside[0]} beside it."
    elif not opts.url and not (whole and opts.file is not None):
        yield (
            "No URL is given. Type one, such as https://example.com/page, or - to read "
            "them from standard input. scrapy robots -h tells more."
        )


def faults_of_fleet(opts: argparse.Namespace) -> Iterator[str]:
    start = f"scrapy robots fleet {opts.spider}"
    orders = (None, "show", *OF_ALL, *OF_HOSTS)
    if opts.do not in orders:
        known = ", ".join(filter(None, orders))
        yield (
            f"{opts.do!r} is nothing to do with a queue. Type one of {known}; to see one "
            f"host, {start} show HOST."
        )
    if opts.do in OF_HOSTS and not opts.host:
        yield f"No host is given. Type {start} {opts.do} HOST."
    if opts.do in OF_ALL and opts.host:
        yield f"{opts.do} is about the whole queue. Type no host after it."
    if opts.watch and opts.do not in {None, "show"}:
        yield f"--watch is for what is shown. Type no {opts.do} beside it."
    for host in opts.host:
        if not host or "/" in host:
            yield f"{without_user(host)!r} is no host. Type one as {start} shows it."


def faults_of_report(opts: argparse.Namespace) -> Iterator[str]:
    if opts.output is None and not (opts.json or opts.csv):
        yield "No page is named. Type -o FILE, or -o - for standard output."
    if opts.json and opts.csv:
        yield "--json and --csv exclude each other. Type one of them."


FAULTS = {
    "": faults_of_urls,
    "fleet": faults_of_fleet,
    "report": faults_of_report,
}
