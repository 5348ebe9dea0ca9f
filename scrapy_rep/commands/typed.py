"""What can be typed, as the pages in ``help.txt`` say, what is wrong with it, what it names."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from string import printable as ASCII
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn
from urllib.parse import quote_from_bytes

from scrapy.exceptions import UsageError

from scrapy_rep import __version__
from scrapy_rep.access.origins import origin_of
from scrapy_rep.commands.terminal import complain
from scrapy_rep.protocol import COMPILED, parse
from scrapy_rep.protocol.decoding import MAX_SIZE
from scrapy_rep.protocol.lint import NUMBERS
from scrapy_rep.protocol.printable import without_user

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_rep.protocol import Policy
    from scrapy_rep.settings import Settings

OPTION = re.compile(r"(?m)^  (?:(-\w), )?(--\w+)(?: ([A-Z]+)(\.\.\.)?)?  +\S")
"""An option of a page: short name, name, its value, whether it may be repeated."""
PLACE = re.compile(r"(\[?)\b([A-Z]+)(\.\.\.)?")
"""What stands in a place of its own: whether it may be left out, or repeated."""
NARGS = {("[", "..."): "*", ("[", ""): "?", ("", "..."): "+"}
APART = ("lint", "sitemaps", "agent"), ("lint", "sitemaps", "now"), ("csv", "json")
"""Options of which one may be given."""
CHOICE = re.compile(r"(?m)^  ([a-z]+)  +\S")
"""What may be done, on the page of ``fleet``."""
OF_HOSTS = ("block", "unblock", "purge")
"""Of that, what needs a host."""

STDIN_NAME = "-"
URL_WANTED = "an absolute http or https URL such as https://example.com/page"
BARE_HOST = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)+\.?)(?::\d+)?(?=[/?#]|\Z)")
"""The begin of a URL as people type it, without its scheme."""


def pages() -> dict[str, str]:
    """Return the help of each word, and of "", which stands for URLs."""
    text = Path(__file__).with_name("help.txt").read_text(encoding="utf-8")
    return {
        page.split()[3] if page.split()[3].isalpha() else "": f"{page.rstrip()}\n"
        for page in re.split(r"(?m)^(?=usage: )", text)[1:]
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Have *parser* take the options of all pages, and all else as it was typed.

    One that lacks its value is no error here, which Scrapy would tell in words of its own.
    """
    for short, name, value, more in OPTION.findall("".join(pages().values())):
        how: dict[str, Any] = {"nargs": "?", "const": ""}
        if not value:
            how = {"action": "store_true"}
        elif value == "FILES":
            how = {"nargs": "*"}
        elif more:
            how |= {"action": "append"}
        parser.add_argument(*filter(None, (short, name)), **how)
    form = "compiled" if COMPILED else "plain Python"
    version = f"scrapy_rep {__version__}; the protocol is {form}"
    parser.add_argument("--version", action="version", version=version)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("typed", nargs="*")


class Form(argparse.ArgumentParser):
    """Of the places of one page."""

    def error(self, message: str) -> NoReturn:
        """Have *message*, of argparse, end in where to read what to type."""
        message = message.replace("unrecognized arguments:", "there is no")
        fail(f"{message[:1].upper()}{message[1:]}. {self.prog} -h tells more.")


def fail(sentence: str) -> NoReturn:
    """Write *sentence*, and end with 2."""
    complain(sentence)
    sys.exit(2)


def read(opts: argparse.Namespace, others: Sequence[str]) -> None:
    """Add to *opts* the word that was typed, and what is in the places of its page.

    *others* were not taken yet: what was typed after an option, and options that no page has.
    """
    typed, all_pages = [*opts.typed, *others], pages()
    opts.word = typed.pop(0) if typed and typed[0] in all_pages else ""
    page = all_pages[opts.word]
    if opts.help:
        sys.stdout.write(page)
        sys.exit()
    form = Form(prog=f"scrapy robots {opts.word}".strip())
    for may_lack, place, more in PLACE.findall(page.partition("\n")[0]):
        nargs = NARGS.get((may_lack, more))
        how: dict[str, Any] = {"default": []} if nargs == "*" else {}
        if place == "DO":
            how["choices"] = CHOICE.findall(page)
        form.add_argument(place.lower(), metavar=place, nargs=nargs, **how)
    its = {name: value for _, name, value, _ in OPTION.findall(page)}
    names = {name for _, name, *_ in OPTION.findall("".join(all_pages.values()))}
    strays = [
        name for name in sorted(names - its.keys()) if getattr(opts, name[2:], None)
    ]
    form.parse_args([*strays, *typed], opts)
    for name, value in its.items():
        given = getattr(opts, name[2:], None)
        values = [given] if isinstance(given, str) else given
        if (
            value
            and values is not None
            and not (values and all(map(str.strip, values)))
        ):
            form.error(f"{name} has no value. Type {name} {value}")
    for name in ("agent", "against", "host", "ignore"):
        setattr(opts, name, getattr(opts, name) or [])
    if opts.word == "approve":  # there it is what is written
        opts.lock, opts.file = opts.file, None
    opts.files = [] if opts.file is None else [opts.file]
    if opts.word == "lint":
        opts.lint = True
        opts.url = [name for name in opts.what if "://" in name]
        opts.files = [name for name in opts.what if "://" not in name]
    opts.whole = opts.lint or opts.sitemaps  # one URL of each origin is enough
    for fault in faults(opts, [*typed, opts.file, *opts.against]):
        fail(fault)


def faults(opts: argparse.Namespace, names: Sequence[str | None]) -> Iterator[str]:
    """Yield what is wrong, in sentences; *names* are those of files and URLs."""
    for group in APART if opts.word != "lint" else ():
        given = [f"--{name}" for name in group if getattr(opts, name)]
        if len(given) > 1:
            yield f"{' and '.join(given)} exclude each other. Type one of them."
    if names.count(STDIN_NAME) > 1:
        yield "- is given twice. Type the name of a file in one of the places."
    for url in [] if opts.file is not None else getattr(opts, "url", []):
        if url != STDIN_NAME and origin_of(with_scheme(url)) is None:
            yield f"{without_user(url)!r} is no URL to judge. Type {URL_WANTED}."
    for code in {*opts.ignore} - {*NUMBERS, *NUMBERS.values()}:
        yield f"{code!r} is no mistake that is known. Type one as lint shows it, such as R007."
    is_of_a_file = opts.file is not None and opts.whole
    if not opts.word and is_of_a_file and opts.url:
        yield "--lint and --sitemaps are about the whole of --file. Type no URL beside it."
    elif not (opts.word or is_of_a_file or opts.url):
        yield "No URL is given. Type one, or - to read them. scrapy robots -h tells more."
    elif opts.word == "lint" and not (opts.what or opts.agent):
        yield "Nothing is named. Type a robots.txt, a URL, or --agent USER-AGENT."
    elif opts.word == "fleet":
        yield from faults_of_fleet(opts)
    elif opts.word == "report" and not (opts.output or opts.json or opts.csv):
        yield "No page is named. Type -o FILE, or -o - for standard output."


def faults_of_fleet(opts: argparse.Namespace) -> Iterator[str]:
    do = opts.do or "show"
    if do != "show" and (do in OF_HOSTS) != bool(opts.host):
        what, host = ("a host", " HOST") if do in OF_HOSTS else ("the whole queue", "")
        yield f"{do} is about {what}. Type scrapy robots fleet {opts.spider} {do}{host}."
    if opts.watch and do != "show":
        yield f"--watch is for what is shown. Type no {do} beside it."
    for host in opts.host:
        if not host or "/" in host:
            yield f"{without_user(host)!r} is no host. Type one as fleet shows it."


def with_scheme(url: str) -> str:
    """Return *url* with https:// before it where it begins with a host instead."""
    return f"https://{url}" if BARE_HOST.match(url) else url


def open_named(name: str, what: str = "robots.txt") -> BinaryIO:
    """Open *name*, which should be a *what*; raise ``UsageError`` where that fails."""
    try:
        return sys.stdin.buffer if name == STDIN_NAME else Path(name).open("rb")
    except OSError as error:
        why = f"The file {name!r} cannot be read ({error.strerror or error})"
        raise UsageError(f"{why}. Type the name of a {what}, or -.") from None


def policy_in(name: str, settings: Settings) -> Policy:
    """Return the policy in a robots.txt; what no crawler reads is not read."""
    with open_named(name) as file:
        return parse(file.read(MAX_SIZE + 1), dialect=settings.dialect)


def url_of(line: bytes) -> str:
    """Return the URL in a line of a list, "" where there is none.

    Octets that are not UTF-8 are percent-encoded, as a client would send them.
    """
    try:
        return with_scheme(line.strip().decode())
    except UnicodeDecodeError:
        return quote_from_bytes(line.strip(), safe=ASCII)


def all_urls(given: Iterable[str]) -> Iterator[str]:
    """Return the URLs of the command line, with those of standard input in their place."""
    for url in given:
        if url == STDIN_NAME:
            yield from filter(None, map(url_of, sys.stdin.buffer))
        else:
            yield with_scheme(url)
