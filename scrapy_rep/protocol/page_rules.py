"""Page rules: what the ``X-Robots-Tag`` headers and robots meta tags of a page ask for.

No standard defines them. This reads what Google documents (2026), for which sites write, and what
they write in its place, towards the restriction. The draft of a header without ``X-``
(draft-illyes-repext-03) has expired.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.groups import agents_given, names_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

UNAVAILABLE_AFTER = "unavailable_after"
RULES_WITH_VALUE = frozenset(
    {UNAVAILABLE_AFTER, "max-snippet", "max-image-preview", "max-video-preview"}
)
RULES_WITHOUT_VALUE = frozenset(
    {
        "all", "index", "follow", "none", "noindex", "nofollow", "noarchive", "nocache",
        "nosnippet", "notranslate", "noimageindex", "indexifembedded", "noodp", "noydir",
        "noyaca", "nositelinkssearchbox", "noai", "noimageai",
    }
)  # fmt: skip
RULES_IN_ONE = {"none": ("none", "noindex", "nofollow"), "all": ()}
"""``all`` is the default, and takes nothing back."""
RULES = {name: name for name in RULES_WITH_VALUE | RULES_WITHOUT_VALUE}
RULES |= {name.replace("-", "").replace("_", ""): name for name in RULES}
"""What is known to be a rule, and so is no agent; also without hyphens, which people misplace."""
EVERYBODY = frozenset({"robots", "*", "x-robots-tag"})

# Full width, other quotes, characters that cannot be seen.
ASCII_FORMS: dict[int, str] = {0xFF01 + n: chr(0x21 + n) for n in range(94)}
ASCII_FORMS |= dict.fromkeys(map(ord, "‘’“”„«»"), " ")  # noqa: RUF001
ASCII_FORMS |= dict.fromkeys(
    map(ord, "\xad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"), ""
)
ASCII_FORMS[ord("、")] = ","
# A comma or semicolon; or a word without quotes, and the colon behind it. A colon in a time or a
# URL is the word's.
LETTER = r"[^\s,;:\"'`]"
TOKEN = rf"([,;])|((?:{LETTER}+|:(?=//)|(?<=[0-9]):(?=[0-9]))+)[\s\"'`]*(:?)"
NAME = r"[A-Za-z0-9_-]+"

LETTERS = "[a-z]+"
DAY = "(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*"
DATE_WORD = (
    f"{DAY}|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
    "|t|z|utc?|gmt|[ecmp][sd]t"
)
DATE_OF_RFC_850 = r"(?a)\b(\d+)-([A-Za-z]+)-(\d+)"
UTC = r"(?i)\s*(?:Z|UTC?|GMT)$"


class PageRules(NamedTuple):
    """What a page asks of one agent."""

    said: dict[str, str]
    """Every rule that applies, in lower case, and as it is written, such as ``X-Robots-Tag:
    examplebot: noindex``. Unknown ones are kept, and have no effect."""
    unavailable_after: datetime | None
    """The earliest time, in UTC, from which the page is not to be shown."""


class Word(NamedTuple):
    text: str
    rule: str
    """Which it names; "": none that is known."""
    first: bool
    """A comma, a semicolon or nothing stands before it."""
    colon: bool


class PageRule(NamedTuple):
    name: str
    value: str
    agent: str
    """"": it is meant for everybody."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.agent, self.name, self.value) if part)


def page_rules(
    headers: Iterable[str],
    metas: Iterable[tuple[str, str]],
    agent: str | Sequence[str],
) -> PageRules:
    """The rules for `agent`: all that are meant for it or for everybody.

    `headers` are values of X-Robots-Tag, `metas` names and contents of any meta tags. Every token
    of `agent` counts. No content makes it raise.
    """
    ours = names_of(agents_given(agent)).keys() | EVERYBODY
    sources = [("X-Robots-Tag", value, True) for value in headers]
    for name, content in metas:
        if is_one_of(ours, name.strip()):
            sources.append((f'<meta name="{name}">', content, False))
    said: dict[str, str] = {}
    times = []
    for source, text, is_header in sources:
        for rule in rules_in(text, ours, is_header=is_header):
            name = rule.name.lower()
            for one in RULES_IN_ONE.get(name, (name,)):
                said.setdefault(one, f"{source}: {rule}")
            if name == UNAVAILABLE_AFTER:
                times.append(parse_date(rule.value))
    return PageRules(said, min((time for time in times if time), default=None))


def is_one_of(ours: AbstractSet[str], agent: str) -> bool:
    """Such as ``ExampleBot`` or ``ExampleBot/1.0``."""
    name = agent.lower()
    return name in ours or name.partition("/")[0].rstrip() in ours


def rules_in(
    text: str, ours: AbstractSet[str], *, is_header: bool
) -> Iterator[PageRule]:
    """Commas, semicolons and white space part rules. What a colon follows is an agent unless it is a
    known rule. In a header it holds up to the next one; a meta tag has an agent of its own, so that
    one inside of it holds up to the next comma.
    """
    agent, mine = "", True
    listed = False  # one of ours was named before a comma, perhaps in a list of agents
    unknown: list[str] = []  # rules, or the words that an agent begins with
    words = [*words_of(text), Word("", "", first=True, colon=False)]
    words.reverse()
    while words:
        word = words.pop()
        if word.first or word.rule:
            if unknown and mine:
                yield from (PageRule(name, "", agent) for name in unknown)
            listed = not word.rule and (listed or is_one_of(ours, " ".join(unknown)))
            unknown = []
        if word.first and not is_header:
            agent, mine = "", True
        if word.rule:
            value = value_of(word.rule, words)
            if mine:
                yield PageRule(word.rule, value, agent)
        elif word.colon:
            named = " ".join([*unknown, word.text])
            agent = "" if named.lower() in EVERYBODY else named
            mine = listed or is_one_of(ours, named)
            listed, unknown = False, []
        else:
            unknown.append(word.text)


def words_of(text: str) -> Iterator[Word]:
    first = True
    plain = text if text.isascii() else text.translate(ASCII_FORMS)
    for comma, written, colon in re.findall(TOKEN, plain):
        if comma:
            first = True
            continue
        parts = [written]
        # Known rules are found whatever stands between them, as in "noindex|nofollow".
        if not rule_of(written) and any(
            map(rule_of, several := re.findall(NAME, written))
        ):
            parts = several
        last = parts.pop()
        for part in parts:
            yield Word(part, rule_of(part), first, colon=False)
            first = False
        yield Word(last, rule_of(last), first, bool(colon))
        first = False


def rule_of(word: str) -> str:
    """Or "": none that is known."""
    name = word.lower()
    return RULES.get(name) or RULES.get(name.replace("-", "").replace("_", ""), "")


def value_of(rule: str, words: list[Word]) -> str:
    """Its words are taken off the end of `words`."""
    value = []
    if rule == UNAVAILABLE_AFTER:  # a date may have a comma, which says nothing
        while words and is_of_date(words[-1]):
            value.append(words.pop().text)
    elif rule in RULES_WITH_VALUE and words:
        text, another, first, colon = words[-1]
        if not (first or colon) and another in {"", "none"}:
            value.append(text)
            words.pop()
    return " ".join(value)


def is_of_date(word: Word) -> bool:
    text = word.text.lower()
    letters = re.findall(LETTERS, text)
    return (
        not word.colon
        and (bool(letters) or any(character.isdigit() for character in text))
        and all(re.fullmatch(DATE_WORD, part) for part in letters)
    )


def parse_date(text: str) -> datetime | None:
    """RFC 822, RFC 850 or ISO 8601; None: none of them."""
    text = " ".join(
        word for word in text.split() if not re.fullmatch(f"(?i){DAY}", word)
    )
    text = re.sub(DATE_OF_RFC_850, r"\1 \2 \3", text)  # or it is none without a zone
    if ":" not in text:
        text += " 00:00:00"
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        try:
            found = datetime.fromisoformat(re.sub(UTC, "+00:00", text))
        except ValueError:
            return None
    if found.tzinfo is None:
        return found.replace(tzinfo=timezone.utc)
    try:
        return found.astimezone(timezone.utc)
    except OverflowError:  # the first or the last day of all
        return None
