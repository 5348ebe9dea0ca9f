"""Inputs for the fuzzer: made from grammars, then damaged.

Everything comes out of one ``random.Random``, so a seed repeats a run. Alphabets are
small: rules and URLs must meet, or nothing is tested.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

LARGEST = 600_000  # octets; a little more than what is read of a robots.txt
PUMPED = 0.001  # the part of inputs of which a piece is repeated until they are large
MANY = 0.002  # the part of files with so many rules that they are indexed
LONGEST_LINE = 60_000  # octets of a header

# robots.txt

PATH_PIECES = [
    *("/", "/", "/", "a", "a", "b", "*", "*", "$", "?", "%", ".", "2", "F", "=", "~"),
    *("%2F", "%2f", "%61", "%2A", "%24", "%3A", "%C3%A9", "%zz", "index.html", "//"),
    *(":", "&", " ", "\u00e9", "\u30c4", "\\", "%25", "%3F", "/index.htm", "a" * 9),
    *("/..", "/.", "%2e", "%26", "%3d", "%C", "[", "+"),
]
TOKENS = ["a", "b", "A", "ab", "*", "bot2", "foo-bar", "Mozilla"]
AGENT_LINES = [
    *TOKENS, *"aa**bB", "a/1.0", "a b", "Mozilla/5.0 (a)", "b*", "* b", "", "\u00e9", "ab\x00",
]  # fmt: skip
FIELDS = [
    *("Disallow", "Disallow", "Disallow", "Allow", "Allow", "Allow", "Allow", "Allow"),
    *("disallow", "ALLOW", "allow", "disallow"),
    *("Disalow", "Dissallow", "Diasllow", "disallaw", "Disallowed", "Al low"),
]
PACES = [
    *("Crawl-delay: 1", "Crawl-delay: 0.5", "Crawl-delay: -1", "Crawl-delay: 1e400"),
    *("crawldelay: 99999999999999999999", "Crawl delay: \u0663", "Crawl-delay: nan"),
    *("Request-rate: 1/10s", "Request-rate: 1/0", "Request-rate: 30/60m 0900-1700"),
    *("Visit-time: 0600-0845", "Visit-time: 2400-2400", "Visit-time: 9999-0000"),
]
OTHER_LINES = [
    *("", "", "# a", "#", "Sitemap: /a", "Sitemap: http://[", "Site-map: http://a/"),
    *("disallow /a", "user-agent a", "a b c", ": /", ":", "Host: a", "<html>", "\x00"),
    *("Disallow: /a # b", "Disallow : /a", "\tDisallow:\t/b\t", "Disallow", "Allow:"),
    *("Content-Signal: search=yes", "User-agent", "Disallow:/a:b", "\ufeffDisallow: /"),
]
LINE_ENDS = [*["\n"] * 12, *["\r\n", "\r", "\n\n"] * 2, "\x0b", "\x85", "\u2028"]
OCTETS = [
    *(b"\x00", b"\r", b"\n", b"\xff", b"\xc3", b"\xa9", b"\xef\xbb\xbf", b"\xfe\xff"),
    *(b"\xed\xa0\x80", b":", b"#", b"*", b"$", b"%", b"?", b"/", b" ", b"\t", b"\x0b"),
    *(b"\x0c", b"\x1c", b"\x1f", b"\x85", b"\xa0", b"User-agent:", b"\nAllow: /\n"),
    *(b"\nDisallow: ", b"\nUser-agent: a", b"%2", b"%%", b"\n*", b"-1", b"9" * 20),
]
STARTS = [
    *(b"\xef\xbb\xbf", b"\xef\xbb", b"\xef", b"\xff\xfe", b"\xfe\xff", b"\x00", b"\n")
]
CHARSETS = [
    *(None, None, None, "utf-8", "UTF8", "latin-1", "cp1252", "koi8-r", "big5", "utf-7"),
    *("utf-16", "utf-32", "idna", "punycode", "hex", "base64", "rot13", "zlib", "bz2"),
    *("unicode_escape", "raw_unicode_escape", "undefined", "cp037", "mbcs", "", " "),
    *("iso-2022-jp", "hz", "utf-8-sig", "x-user-defined", "\x00", "\u00e9", "a" * 3000),
]  # fmt: skip
ODD_URLS = ["", "/robots.txt", "?a", "#", "/a#b", "//", "http://[", "\ud800", "/\x00"]

RULE = re.compile(rb"llow:? ([/*][^\s#]*)")  # of most rules, the path


def path(rnd: Random, most: int = 7) -> str:
    return "".join(rnd.choices(PATH_PIECES, k=rnd.randrange(most + 1)))


def rule(rnd: Random) -> str:
    start = rnd.choice(("/", "/", "/", "/", "/", "*", "", "http://a/"))
    return f"{rnd.choice(FIELDS)}: {start}{path(rnd)}"


def line(rnd: Random) -> str:
    kind = rnd.random()
    if kind < 0.6:
        return rule(rnd)
    if kind < 0.75:
        return f"User-agent: {rnd.choice(AGENT_LINES)}"
    return rnd.choice(PACES if kind < 0.8 else OTHER_LINES)


def robots_txt(rnd: Random) -> bytes:
    """A robots.txt that more or less keeps to the grammar."""
    first = rnd.choice((*TOKENS, *"****aa"))
    lines = [f"User-agent: {first}"] if rnd.random() < 0.9 else []
    lines += [line(rnd) for _ in range(rnd.randrange(9))]
    end = rnd.choice(LINE_ENDS)
    return end.join(lines).encode()


def body(rnd: Random) -> bytes:
    """What a server may send: a robots.txt, or one that is damaged, or neither."""
    kind = rnd.random()
    if kind < 0.02:
        return rnd.randbytes(rnd.randrange(200))
    if kind < 0.02 + MANY:
        lines = [f"Disallow: /*{path(rnd)}*{path(rnd, 3)}" for _ in range(210)]
        return "\n".join(["User-agent: a", *lines, *map(line, [rnd] * 9)]).encode()
    made = robots_txt(rnd)
    if kind < 0.5:
        made = damaged(rnd, made)
    if kind > 1 - PUMPED:
        made = pumped(rnd, made)
    return made


def damaged(rnd: Random, data: bytes) -> bytes:
    """*data* with a few octets cut, doubled, flipped or put in."""
    for _ in range(rnd.randrange(1, 4)):
        at = rnd.randrange(len(data) + 1)
        to = at + rnd.randrange(8)
        kind = rnd.randrange(6)
        if kind == 0:
            data = data[:at] + data[to:]
        elif kind == 1:
            data = data[:to] + data[at:]
        elif kind == 2:
            data = rnd.choice(STARTS) + data
        elif kind == 3 and at < len(data):
            data = (
                data[:at] + bytes([data[at] ^ 1 << rnd.randrange(8)]) + data[at + 1 :]
            )
        else:
            data = data[:at] + rnd.choice(OCTETS) + data[at:]
    return data


def pumped(rnd: Random, data: bytes, largest: int = LARGEST) -> bytes:
    """*data* with one piece of it repeated, thousands of times at the most."""
    at = rnd.randrange(len(data) + 1)
    piece = data[at : at + rnd.randrange(1, 30)] or rnd.choice(OCTETS)
    length = int(largest ** rnd.uniform(0.6, 1.0))
    return data[:at] + piece * (length // len(piece)) + data[at:]


def spoilt(rnd: Random, value: bytes, part: float) -> bytes:
    """*value*, damaged in *part* of all cases, and now and then very long."""
    kind = rnd.random()
    if kind < PUMPED:
        return pumped(rnd, value, LONGEST_LINE)
    return damaged(rnd, value) if kind < part else value


def url(rnd: Random, body: bytes = b"") -> str:
    """A URL, or path and query; in half of all cases one that a rule of *body* is like."""
    kind = rnd.random()
    rules = RULE.findall(body[:1000])
    if kind < 0.5 and rules:
        rule = rnd.choice(rules).decode("utf-8", "replace").removesuffix("$")
        made = "".join(path(rnd, 3) if each == "*" else each for each in rule)
        made += path(rnd, 2) if kind < 0.3 else ""
    else:
        made = "/" + path(rnd, 9)
    kind = rnd.random()
    if kind < 0.6:
        return made
    if kind < 0.95:
        return rnd.choice(("http://a", "https://example.com:8080", "HTTP://A.b")) + made
    if kind < 0.99:
        return rnd.choice(ODD_URLS) + (made if kind < 0.97 else "")
    return made + rnd.choice(("a", "/", "?", "%", "%2", "*", "\u00e9")) * 2000


COMMENTS = [
    "",
    " (compatible; ",
    " (+http://ab.example/bot; ",
    " (X11; U; b@a.example; ",
]
NAMES = ["a", "a", "b", "AB", "c", "bot2", "foo-bar", "Foo", "", " a "]
WORDS = [*TOKENS, *"  /();@+,", "1.0", "://", "www."]


def agent(rnd: Random) -> tuple[Any, list[str]]:
    """An agent in one of the forms that are taken, and its names, most wanted first."""
    kind = rnd.random()
    names = [name for name in rnd.sample(TOKENS, rnd.randrange(1, 4)) if name != "*"]
    if kind < 0.5 or not names:
        name = rnd.choice(NAMES)
        return name, [name.strip()]
    if kind < 0.75:
        return (names if kind < 0.6 else tuple(names)), names
    versions = [f"{name}/{rnd.randrange(9)}.0" for name in names]
    comment = rnd.choice(COMMENTS)
    header = " ".join(versions)
    if comment:
        header = f"{versions[0]}{comment}{'; '.join(versions[1:])})"
    # What browsers carry names nobody, here or in the comments.
    names = [name for name in names if name != "Mozilla"]
    return header, [header, *sorted(names, key=len, reverse=True)]


def header(rnd: Random) -> str:
    """A User-Agent, or what looks like one."""
    made = "".join(rnd.choices(WORDS, k=rnd.randrange(12)))
    return spoilt(rnd, made.encode(), 0.2).decode("latin-1")


def text(rnd: Random, most: int = 20) -> str:
    """Any str at all, lone surrogates included."""
    reach = rnd.choice((0x80, 0x100, 0x3000, 0x110000))
    return "".join(chr(rnd.randrange(reach)) for _ in range(rnd.randrange(most)))
