"""What is typed, as the pages in ``help.txt`` say, and what is written."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from math import ceil
from pathlib import Path
from string import printable as ASCII
from textwrap import wrap
from time import monotonic
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, NoReturn
from urllib.parse import quote_from_bytes

from scrapy.exceptions import UsageError
from scrapy.spiderloader import get_spider_loader

from scrapy_rep.policies.agreed import SETTING
from scrapy_rep.protocol import COMPILED, __version__, parse
from scrapy_rep.protocol.answers import decode_body
from scrapy_rep.protocol.decoding import MAX_SIZE
from scrapy_rep.protocol.lint import NUMBERS
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.printable import duration, printable, without_user

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scrapy import Spider
    from scrapy.settings import Settings as ScrapySettings

    from scrapy_rep.protocol import Policy
    from scrapy_rep.settings import Settings

Answer = dict[str, Any]
"""What JSON tells; words are made of it."""

COLOURS = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "dim": "2"}
LABEL_COLUMNS = 12
AT_SPACES: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
LATE_SECONDS = 4.0
"""Seconds until progress is told, and until it is told again."""
CLEAR_SCREEN = "\x1b[H\x1b[J"


class Row(NamedTuple):
    """Some words that are more than a line."""

    label: str
    """Before the first text; "": the texts are lines of their own."""
    texts: Sequence[str]
    """They are broken at spaces to fit the screen; what may be copied has none."""
    colour: str = ""


class Screen:
    """Writes to standard output; whatever a site wrote is made printable here."""

    def __init__(self, *, as_json: bool = False) -> None:
        if sys.stdout is None:
            fail("Standard output is closed.")
        self._out = sys.stdout
        if hasattr(self._out, "reconfigure"):
            self._out.reconfigure(errors="backslashreplace")  # whatever a site wrote
        self._as_json = as_json
        # In a pipe too, so that what a test or a pager shows is what a terminal shows.
        columns = shutil.get_terminal_size((80, 24)).columns
        self._room = max(40, min(columns, 120)) - LABEL_COLUMNS
        # https://no-color.org: set to anything but "" it means no colour.
        self._in_colour = self._out.isatty() and not os.environ.get("NO_COLOR")
        self.progress = Progress(None, "")

    def say(self, words: Callable[..., Iterable[str | Row]], *answers: Answer) -> None:
        """Write *answers*, a line of JSON in ASCII each, or the *words* for all of them."""
        self.write(*(map(json.dumps, answers) if self._as_json else words(*answers)))

    def sum_up(self, text: str) -> None:
        """For people; programs count for themselves."""
        if not self._as_json:
            self.write(text)

    def write(self, *rows: str | Row) -> None:
        self._out.writelines(f"{line}\n" for row in rows for line in self._lines(row))
        self._out.flush()

    def _lines(self, row: str | Row) -> Iterator[str]:
        label, texts, colour = Row("", [row]) if isinstance(row, str) else row
        before = f"  {label:10}" if label else ""
        for text in map(printable, texts):
            lines = wrap(text, self._room, **AT_SPACES) if label else [text]
            for line in lines or [""]:
                yield (self._paint(before, "dim") + self._paint(line, colour)).rstrip()
                before = " " * len(before)

    def _paint(self, text: str, colour: str) -> str:
        if not (self._in_colour and text and colour):
            return text
        return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m"

    def start_again(self) -> None:
        self._out.write(CLEAR_SCREEN if self._out.isatty() else "")

    def track(self, total: int | None, unit: str) -> Progress:
        self.progress = Progress(total, unit)
        return self.progress


class Progress:
    """How far some work is: told on standard error if it takes long."""

    def __init__(self, total: int | None, unit: str) -> None:
        self._of = f"{unit}," if total is None else f"of {total:,} {unit},"
        self._begun = self._told = monotonic()
        self._done = 0
        self.waits_for = ""

    def add(self, done: int = 1) -> None:
        self._done += done
        self.tick()

    def tick(self) -> None:
        now = monotonic()
        if now < self._told + LATE_SECONDS:
            return
        self._told = now
        so_far = f"{self._done:,} {self._of} {duration(round(now - self._begun))}"
        of = f", waiting for the robots.txt of {self.waits_for}"
        complain(so_far + of if self.waits_for else so_far)


def complain(line: str) -> None:
    if sys.stderr is None:  # closed
        return
    sys.stderr.write(f"{printable(line)}\n")
    sys.stderr.flush()


def table(rows: Sequence[Sequence[str]], numbers: set[int]) -> list[str]:
    """Return *rows* in columns as wide as they need; those of *numbers* end on the right."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place in numbers else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in shown
    ]


def left(seconds: float) -> str:
    """Return for how long something goes on, in whole seconds, the last one included."""
    return duration(ceil(seconds))


OPTION = re.compile(r"(?m)^  (?:(-\w), )?(--\w+)(?: ([A-Z]+)(\.\.\.)?)?  +\S")
"""An option of a page: short name, name, its value, whether it may be repeated."""
PLACE = re.compile(r"(\[?)\b([A-Z]+)(\.\.\.)?")
"""What stands in a place of its own: whether it may be left out, or repeated."""
NARGS = {("[", "..."): "*", ("[", ""): "?", ("", "..."): "+"}
APART = ("lint", "sitemaps", "agent"), ("lint", "sitemaps", "now"), ("csv", "json")
CHOICE = re.compile(r"(?m)^  ([a-z]+)  +\S")
"""What may be done, on the page of ``fleet``."""
OF_HOSTS = ("block", "unblock", "purge")

LOCK_NAME = "robots.lock"
STDIN_NAME = "-"
URL_WANTED = "an absolute http or https URL such as https://example.com/page"
BARE_HOST = re.compile(
    r"(?:localhost|\[[0-9A-Fa-f:.]+\]|[\w-]+(?:\.[\w-]+)+\.?)(?::\d+)?(?=[/?#]|\Z)"
)
"""The begin of a URL as people type it, without its scheme."""


def pages() -> dict[str, str]:
    """Return the help of each word; "": of URLs."""
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
    def error(self, message: str) -> NoReturn:
        """Have *message*, of argparse, end in where to read what to type."""
        message = message.replace("unrecognized arguments:", "there is no")
        fail(f"{message[:1].upper()}{message[1:]}. {self.prog} -h tells more.")


def fail(sentence: str) -> NoReturn:
    complain(sentence)
    sys.exit(2)


class Typed(argparse.Namespace):
    """What was typed, by the names of options and places, and what follows from it."""

    word: str
    """"": URLs were typed."""
    kind: type[Spider] | None = None
    files: Sequence[str] = ()
    asked: Sequence[str] = ()
    is_lint: bool
    whole: bool
    """Whether files are told of, not URLs: one URL of each origin is enough."""
    process: Any = None
    ask: Callable[[Sequence[str], Any], None]

    @property
    def asks(self) -> bool:
        return bool(self.asked) or self.word == "approve"


def read(
    opts: argparse.Namespace, others: Sequence[str], settings: ScrapySettings
) -> Typed:
    """Return the word of *opts* and what is in its page's places; end with 2 for what is wrong.

    *others* were not taken yet: what was typed after an option, and options that no page has.
    The *settings* get those of the spider.
    """
    places, all_pages = [*opts.typed, *others], pages()
    word = places.pop(0) if places and places[0] in all_pages else ""
    page = all_pages[word]
    if opts.help:
        sys.stdout.write(page)
        sys.exit()
    form = Form(prog=f"scrapy robots {word}".strip())
    for may_lack, place, more in PLACE.findall(page.partition("\n")[0]):
        nargs = NARGS.get((may_lack, more))
        how: dict[str, Any] = {"default": []} if nargs == "*" else {}
        if place == "DO":
            how["choices"] = CHOICE.findall(page)
        form.add_argument(place.lower(), metavar=place, nargs=nargs, **how)
    its = {name: value for _, name, value, _ in OPTION.findall(page)}
    names = {name for _, name, *_ in OPTION.findall("".join(all_pages.values()))}
    strays = [name for name in sorted(names - {*its}) if getattr(opts, name[2:], None)]
    typed = form.parse_args([*strays, *places], Typed(**vars(opts), word=word))
    for name, value in its.items():
        given = getattr(typed, name[2:], None)
        values = [given] if isinstance(given, str) else given
        if value and values is not None and not all(map(str.strip, values or [""])):
            form.error(f"{name} has no value. Type {name} {value}")
    for name in ("agent", "against", "host", "ignore"):
        setattr(typed, name, getattr(typed, name) or [])
    typed.is_lint = typed.lint or word == "lint"
    typed.whole = typed.is_lint or typed.sitemaps
    if word == "lint":
        typed.asked = [name for name in typed.what if "://" in name]
        typed.files = [name for name in typed.what if "://" not in name]
    elif not word and typed.file is not None:
        typed.files = [typed.file]
    elif word in {"", "approve"}:
        typed.asked = typed.url
    for fault in faults(typed, places):
        fail(fault)
    if typed.spider is not None:
        _take_spider(typed, settings)
    if word == "approve":
        typed.file = typed.file or settings.get(SETTING) or LOCK_NAME
    return typed


def _take_spider(typed: Typed, settings: ScrapySettings) -> None:
    try:
        typed.kind = get_spider_loader(settings).load(typed.spider)
    except KeyError:
        if typed.word != "fleet":  # its project may be elsewhere
            fail(
                f"There is no spider {typed.spider!r} here. Type one that scrapy list names."
            )
    else:
        typed.kind.update_settings(settings)


def faults(typed: Typed, places: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong, in sentences; *places* have what is no option."""
    for group in APART:
        given = [f"--{name}" for name in group if getattr(typed, name)]
        if len(given) > 1 and typed.word != "lint":
            yield f"{' and '.join(given)} exclude each other. Type one of them."
    if [*places, typed.file, *typed.against].count(STDIN_NAME) > 1:
        yield "- is given twice. Type the name of a file in one of the places."
    for url in typed.asked:
        if url != STDIN_NAME and origin_of(with_scheme(url)) is None:
            yield f"{without_user(url)!r} is no URL to judge. Type {URL_WANTED}."
    for code in {*typed.ignore} - {*NUMBERS, *NUMBERS.values()}:
        yield f"{code!r} is no mistake that is known. Type one as lint shows it, such as R007."
    if not typed.word:
        is_of_a_file = typed.whole and bool(typed.files)
        if is_of_a_file and typed.url:
            yield "--lint and --sitemaps are about the whole of --file. Type no URL beside it."
        elif not (is_of_a_file or typed.url):
            yield "No URL is given. Type one, or - to read them. scrapy robots -h tells more."
    elif typed.word == "lint" and not (typed.what or typed.agent):
        yield "Nothing is named. Type a robots.txt, a URL, or --agent USER-AGENT."
    elif typed.word == "fleet":
        yield from faults_of_fleet(typed)
    elif typed.word == "report" and not (typed.output or typed.json or typed.csv):
        yield "No page is named. Type -o FILE, or -o - for standard output."
    elif typed.word == "approve" and typed.file == STDIN_NAME:
        yield "What is approved is kept in a file. Type --file FILE, with a name."


def faults_of_fleet(typed: Typed) -> Iterator[str]:
    do = typed.do or "show"
    if do != "show" and (do in OF_HOSTS) != bool(typed.host):
        what, host = ("a host", " HOST") if do in OF_HOSTS else ("the whole queue", "")
        yield f"{do} is about {what}. Type scrapy robots fleet {typed.spider} {do}{host}."
    if typed.watch and do != "show":
        yield f"--watch is for what is shown. Type no {do} beside it."
    for host in typed.host:
        if not host or "/" in host:
            yield f"{without_user(host)!r} is no host. Type one as fleet shows it."


def with_scheme(url: str) -> str:
    return f"https://{url}" if BARE_HOST.match(url) else url


def standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise UsageError("Standard input is closed.")
    return sys.stdin.buffer


def open_named(name: str, what: str) -> BinaryIO:
    if name == STDIN_NAME:
        return standard_input()
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise unreadable(name, error.strerror or error, what) from None


def unreadable(name: str, why: object, what: str) -> UsageError:
    wanted = f"Type the name of a {what}, or -"
    return UsageError(f"The file {name!r} cannot be read ({why}). {wanted}.")


def policy_in(name: str, settings: Settings, what: str = "robots.txt") -> Policy:
    """Return the policy in a robots.txt; what no crawler reads is not read."""
    with open_named(name, what) as file:
        body = file.read(MAX_SIZE + 1)
    try:
        # As a crawl would: where it is packed, it has no rules as it is.
        body = decode_body(body, "", limit=MAX_SIZE + 1, cut=len(body) > MAX_SIZE)
    except ValueError as error:
        raise unreadable(name, error, what) from None
    return parse(body, dialect=settings.dialect)


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
            yield from filter(None, map(url_of, standard_input()))
        else:
            yield url_of(os.fsencode(url))  # whose octets may be no text here
