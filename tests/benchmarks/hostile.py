"""Files of 512 KiB that are made to be slow to read: what of one fills each, and URLs."""

from __future__ import annotations

import random
from itertools import count
from typing import TYPE_CHECKING

from scrapy_rep.protocol.decoding import MAX_SIZE
from tests.benchmarks.hard import hard_cases

if TYPE_CHECKING:
    from collections.abc import Callable

LONG_PATH = "/" + "a" * 8000
EVERYBODY = "User-agent: *\n"
REFUSAL = "\nUser-agent: *\nDisallow: /y\n"


def filled(piece: str, head: str = EVERYBODY, tail: str = REFUSAL) -> bytes:
    """*piece* over and over; lone surrogates stand for octets."""
    return numbered(lambda _: piece, head, tail)


def numbered(
    piece: Callable[[int], str], head: str = EVERYBODY, tail: str = REFUSAL
) -> bytes:
    """Pieces that differ by their number."""
    parts = [head.encode()]
    room = MAX_SIZE - len(head) - len(tail)
    for number in count():
        part = piece(number).encode("utf-8", "surrogateescape")
        room -= len(part)
        if room < 0:
            break
        parts.append(part)
    return b"".join([*parts, tail.encode()])


def lines() -> dict[str, str]:
    """One line each, of which a file is full; {} is its number."""
    rules = (
        "/{}",
        "/{}$",
        "*{}",
        "*{}$",
        "/{}*a",
        "*.{}$",
        "*a{}*b{}c",
        "/{}/index.htm",
        "{}",
        "/%{}",
        "/%41{}",
        "*%3a{}",
        "*%3f*{}%2f*%",
        "*a*a*a*a*a*a*a*a*%26{}",
        "*{}*1*2*3*4",
        "/\u4e2d{}",
        "/\U0001f600{}",
        "/\udce9{}",
        "/\udce9{}/\udce9",
        "*\udce9{}*0\udce9",
        "http://h{}",
        "http://127.0.0.1/{}",
        "http://\u4e2d{}.a",
        "/ {}",
        "/:{}",
        "/?:{}",
        "/{}#",
        "",
    )
    fields = (
        "disalow:/{}",
        "allow /{}",
        "allow a b c",
        "allow a b c:",
        "user-agent:",
        "user-agent:*",
        "user-agent:b{}",
        "user-agent *",
        "user-agent a b",
        "user-agent:examplebot",
        "user-agent:\u200b\u4e2d#",
        "user-agent:*\nallow:/",
        "user-agent:*\nallow:/{}",
        "user-agent:b{}\nallow:/",
        "user-agent:*\ndisalow /x",
        "user-agent:*\ncrawl-delay:1",
        "user-agent:b\ncrawl-delay:1",
        "user-agent:b\n#",
        "crawl-delay:.{}",
        "request-rate:1/{}",
        "visit-time:0600-0700",
        "visit-time:x",
        "crawl delay \u4e2d:x",
        "content-usage:/a*b train-ai=y",
        "content-usage:/{} train-ai=y",
        "content-signal:search=yes",
        "content-signal:a;b,c",
        "license:a",
        "sitemap:http://a/{}",
        "#",
        "#a:b",
        "a",
        "a:",
        "a b c",
        " ",
        "\u00a0",
        "\r",
        "\udcff",
    )
    return {line: line for line in (*(f"allow:{rule}" for rule in rules), *fields)}


def long_lines() -> dict[str, str]:
    """What half a mebibyte of a line is full of, and how the line begins."""
    return {
        **{
            f"{start} {piece!a}": start + "{}" + piece
            for start in ("user-agent:", "disallow:/")
            for piece in (
                "a",
                "a ",
                "*%3a",
                "%",
                "%2f*",
                "\u4e2d*",
                ":",
                "\udce9",
                "\0",
            )
        }
    }


def hostile_files() -> dict[str, tuple[bytes, list[str]]]:
    """Files, at most 512 KiB of each, and paths to ask for: those of ``hard`` among them."""
    rng = random.Random(9309)
    found = hard_cases()
    for name, line in lines().items():
        body = numbered(lambda n, line=line: line.replace("{}", f"{n:x}") + "\n")  # type: ignore[misc]
        found[f"lines {name!a}"] = body, ["/x", "/y", LONG_PATH, LONG_PATH + ":?&="]
    for name, line in long_lines().items():
        start, piece = line.split("{}")
        found[f"line {name}"] = filled(piece, EVERYBODY + start), ["/x", "/y"]

    def word() -> str:
        return "".join(rng.choices("abcdefgh", k=6))

    path = "/" + "".join(rng.choices("abcdefgh", k=2000))
    found["two words"] = numbered(lambda _: f"allow:*{word()}*{word()}$\n"), [path]
    found["two syllables"] = (
        numbered(lambda n: f"allow:*{word()[:3]}*{word()[:3]}*{n % 10}\n"),
        [path],
    )
    found["UTF-16"] = ("\ufeff" + "allow:/\n" * 30000).encode("utf-16-le"), ["/x"]
    found["UTF-16, half characters"] = b"\xff\xfe" + b"\x00\xd8" * 260_000, ["/x"]
    return found
