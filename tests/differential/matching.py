"""Whether a rule matches a URL: both are rewritten until no parser can read them otherwise.

As in `structure`, each step writes one thing as it is meant here. What may be escaped, or
has a meaning of its own somewhere, becomes letters on both sides: `:` is ``zz3A``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol import RFC9309
from scrapy_rep.protocol.origin import origin_of
from scrapy_rep.protocol.paths import encode_reserved, path_of
from tests.differential.others import Case, Other, ours
from tests.differential.structure import AGENT

if TYPE_CHECKING:
    from collections.abc import Callable

SITE = "https://example.com"
NO_PATH = "/zz-none"
TOKEN = re.compile(r"%([0-9A-Fa-f]{2})|(.)", re.DOTALL)
UNRESERVED = re.compile(r"[A-Za-z0-9._~-]")
CUT = re.compile(r"%([0-9A-Fa-f]?)(?=\*|\Z)")
WHOLE_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")


class Pair(NamedTuple):
    allow: bool
    rule: str
    url: str
    """Absolute, of SITE."""

    def path(self) -> str:
        """Path and query of the URL."""
        return self.url.partition("#")[0][len(SITE) :]

    def asked(self) -> Case:
        """A question whose answer is whether the rule matches; if it allows, yes is yes."""
        lines = (
            ["Allow: " + self.rule, "Disallow: /"]
            if self.allow
            else ["Disallow: " + self.rule]
        )
        return Case("\n".join([f"User-agent: {AGENT}", *lines]), self.url, AGENT)


def spelt(text: str, kinds: str, pair: Pair, *, rule: bool) -> str:
    """A rule, or path and query, with characters of these kinds of `kind_of` in letters."""
    done = ""
    query = behind = False
    for token in TOKEN.finditer(text):
        char = chr(int(token[1], 16)) if token[1] else token[2]
        last = token.end() == len(text)
        if rule and token[0] == "*":
            behind = True
        elif token[0] == "?" and not query:
            query = True
        elif token[0] != "/" and not (rule and token[0] == "$" and last):
            in_query = query or (behind and char in pair.path().partition("?")[2])
            kind = kind_of(token[0], char, in_query=in_query)
            if kind and kind in kinds:
                done += lettered(char, escape=bool(token[1]), in_query=in_query)
                continue
        done += token[0]
    return done


def kind_of(token: str, char: str, *, in_query: bool) -> str:
    """The number of the decision about a character, "" when there is nothing to decide."""
    if char == "%":
        return "9"
    if UNRESERVED.match(char):
        return "5" if token != char else ""
    if char in "*$":
        return "8"
    if in_query and (char in "&=#" and token != char):
        return "6"
    if in_query and char in "&=":
        return ""
    if in_query and char in ":/?":
        return "7"
    if char in ":/?#[]@!&'()+,;=":
        return "6"
    return "5" if ord(char) > 0x7E else "0"


def lettered(char: str, *, escape: bool, in_query: bool) -> str:
    if UNRESERVED.match(char) or (in_query and char == "/"):
        return char
    octets = bytes([ord(char)]) if escape else char.encode("utf-8", "surrogateescape")
    return "".join(f"zz{octet:02X}" for octet in octets)


def spelling(kinds: str) -> Callable[[Pair], Pair]:
    def step(pair: Pair) -> Pair:
        rule = spelt(pair.rule, kinds, pair, rule=True)
        return pair._replace(
            rule=rule, url=SITE + spelt(pair.path(), kinds, pair, rule=False)
        )

    return step


def without_fragment(pair: Pair) -> Pair:
    path = pair.path()
    return pair._replace(url=SITE + (path if path.startswith("/") else f"/{path}"))


def whole_url(pair: Pair) -> Pair:
    found = WHOLE_URL.match(pair.rule)
    if found is None:
        return pair
    rest = pair.rule[found.end() :]
    own = origin_of(found[0]) == SITE and "\\" not in found[0]
    return pair._replace(
        rule=("" if rest[:1] == "/" else "/") + rest if own else NO_PATH
    )


def no_path(pair: Pair) -> Pair:
    return pair if pair.rule.startswith(("/", "*")) else pair._replace(rule=NO_PATH)


def cut_escape(pair: Pair) -> Pair:
    if not CUT.search(pair.rule):
        return pair
    cut = CUT.sub(lambda found: "\0" + found[1].upper(), pair.rule)
    rule = spelt(cut.replace("\0", "zz"), "0567", pair, rule=True)
    path = (
        encode_reserved(path_of(pair.url, RFC9309)).replace("\n", "").replace("%", "zz")
    )
    return pair._replace(rule=rule, url=SITE + path)


def folder(pair: Pair) -> Pair:
    """`/a/index.html` for `/a/`."""
    if not (pair.allow and pair.rule.endswith(("/index.html", "/index.htm"))):
        return pair
    return literal(
        pair._replace(rule=pair.rule[: pair.rule.rindex("/") + 1] + "$"), pair
    )


def literal(meant: Pair, pair: Pair) -> Pair:
    """`pair` with a rule that matches as `meant` does, and has no wildcard."""
    matches = ours(meant.asked().text).allowed(meant.url, AGENT) is meant.allow
    return pair._replace(rule="/zz-all" if matches else NO_PATH, url=f"{SITE}/zz-all")


def without_wildcards(pair: Pair) -> Pair:
    special = "*" in pair.rule or pair.rule.endswith("$")
    return literal(pair, pair) if special else pair


def lettered_question_mark(pair: Pair) -> Pair:
    url = SITE + pair.path().replace("?", "zzq", 1)
    return pair._replace(rule=pair.rule.replace("?", "zzq", 1), url=url)


def lettered_slashes(pair: Pair) -> Pair:
    if "//" in pair.path() and "*" in pair.rule:
        return literal(pair, pair)
    url = SITE + re.sub("(?<=/)/", "zzss", pair.path())
    return pair._replace(rule=re.sub("(?<=/)/", "zzss", pair.rule), url=url)


WILDCARDS = "RFC 9309 2.2.3: * and $"
STEPS: dict[str, Callable[[Pair], Pair]] = {
    "D23: a URL without a path, or with a fragment": without_fragment,
    "D21: a rule that is a whole URL": whole_url,
    "D20: a rule that begins with neither / nor *": no_path,
    "D11: /index.html for its folder": folder,
    "D9: a rule that breaks off within an escape": cut_escape,
    "D9: a % that begins no escape": spelling("9"),
    "D5: escapes of unreserved octets, and of those outside ASCII": spelling("5"),
    "D6: reserved characters and their escapes": spelling("6"),
    "D7: : and / in the query": spelling("7"),
    "D8, D16: * and $ that are literal": spelling("8"),
    "D10: white space, and what else no URI may hold": spelling("0"),
    "RFC 9309 2.2.2: a question mark is a character as others are": lettered_question_mark,
    WILDCARDS: without_wildcards,
    "D23: // as given": lettered_slashes,
}


def matches(pair: Pair, other: Other | None = None) -> bool:
    """Whether the rule matches the URL to another parser, or to us."""
    case = pair.asked()
    if other is None:
        return ours(case.text).allowed(case.url, AGENT) is pair.allow
    return other.allowed(case) is pair.allow
