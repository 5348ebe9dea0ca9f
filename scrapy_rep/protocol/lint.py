"""Notes: what the owner of a robots.txt should know about it, line by line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol import fields, pace_values, preferences
from scrapy_rep.protocol.decoding import (
    NOT_UTF8,
    TOO_LONG,
    WRONG_CHARSET,
    WRONG_MARK,
    show_octets,
)
from scrapy_rep.protocol.fields import (
    BLANKS_OF_ASCII,
    FIELD_NAMES,
    MISSPELLINGS,
    split_record,
    trim,
)
from scrapy_rep.protocol.groups import RECORDS_OF_RUNS
from scrapy_rep.protocol.patterns import compiled
from scrapy_rep.protocol.rules import CUT_ESCAPE, is_path
from scrapy_rep.protocol.user_agents import (
    BROWSER_WORDS,
    IDENTIFIER,
    WHOLE_HEADER,
    product_tokens,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.protocol.decoding import Text
    from scrapy_rep.protocol.dialect import Dialect

ERROR, WARNING, INFO = "error", "warning", "info"

SEVERITIES = {
    TOO_LONG: ERROR,
    NOT_UTF8: WARNING,
    WRONG_MARK: WARNING,
    WRONG_CHARSET: WARNING,
    "html": ERROR,
    "hidden-character": WARNING,
    "no-colon": ERROR,
    "bare-url": ERROR,
    "missing-colon": WARNING,
    "garbled-field": ERROR,
    "unknown-field": WARNING,
    "other-field": INFO,
    "misspelt-field": WARNING,
    "rule-outside-group": ERROR,
    "path-without-slash": ERROR,
    "absolute-url": ERROR,
    "dot-segments": WARNING,
    "raw-octets": WARNING,
    "bad-escape": WARNING,
    "cut-escape": WARNING,
    "reserved-escape": INFO,
    "empty-allow": WARNING,
    "robots-txt-rule": INFO,
    "bad-crawl-delay": ERROR,
    "bad-request-rate": ERROR,
    "bad-visit-time": ERROR,
    "between-agents": WARNING,
    "missing-hyphen": WARNING,
    "relative-sitemap": ERROR,
    "empty-sitemap": ERROR,
    "empty-user-agent": ERROR,
    "user-agent-browser": WARNING,
    "user-agent-header": WARNING,
    "user-agent-grammar": WARNING,
    "user-agent-digits": INFO,
    "duplicate-group": INFO,
    "bad-content-usage": ERROR,
    "unknown-preference": WARNING,
    "signal-semicolon": WARNING,
    "relative-license": ERROR,
    "no-product-token": ERROR,
    "library-token": WARNING,
    "no-version": WARNING,
    "no-contact": WARNING,
}

NUMBERS = {code: f"R{number:03}" for number, code in enumerate(SEVERITIES, 1)}
"""Code -> its number, which stays as well: a new code goes to the end of ``SEVERITIES``."""

CODES = {
    TOO_LONG: "the file is longer than 512 KiB; the rest is not read",
    NOT_UTF8: "the file is not UTF-8, as RFC 9309 2.3 demands",
    WRONG_MARK: "half a byte order mark, or one of UTF-16 in a file that is not; it is dropped",
    WRONG_CHARSET: "the Content-Type names another charset than UTF-8, which the file is in",
    "html": "the file is a web page, not a robots.txt",
    "hidden-character": "a character that cannot be seen, before or behind a field or a value",
    "no-colon": "a line that is no record: it has no colon",
    "bare-url": "a URL alone on its line; no field, such as Sitemap, says what it is",
    "missing-colon": "a field that lacks its colon; the line is read as if it were there",
    "garbled-field": "a field so misspelt that it is not understood; it is ignored",
    "unknown-field": "a field that nobody is known to read",
    "other-field": "a field of another convention, which has no effect here",
    "misspelt-field": "a misspelt field that is understood here, but not everywhere",
    "rule-outside-group": "a rule or a pace that no user-agent line precedes; it is ignored",
    "path-without-slash": "a path that begins with neither a slash nor a wildcard; no URL matches",
    "absolute-url": "a whole URL where a path belongs; to most crawlers no URL matches",
    "dot-segments": "a path with dot segments, which crawlers resolve before they ask for it",
    "raw-octets": "octets of a rule that are not UTF-8; they count as they are, and as ISO-8859-1",
    "bad-escape": "a percent sign without two hexadecimal digits; it is taken literally",
    "cut-escape": "a rule that breaks off within an escape; it matches all that begins like it",
    "reserved-escape": "a reserved character, escaped; some crawlers tell the two apart",
    "empty-allow": "an Allow without a path, which has no effect",
    "robots-txt-rule": "a rule for /robots.txt itself, which may always be fetched",
    "bad-crawl-delay": "not a number of seconds; it is ignored",
    "bad-request-rate": "not of the form 1/10s or 30/60m 0900-1700; it is ignored",
    "bad-visit-time": "not of the form 0600-0845; it is ignored",
    "between-agents": "it holds for the user-agent lines above it only; the rules below hold for all",
    "missing-hyphen": "two times without a hyphen between them; they are taken for a span",
    "relative-sitemap": "a sitemap that is not an absolute URL",
    "empty-sitemap": "a sitemap record without a URL",
    "empty-user-agent": "a user-agent line without a product token; it matches no agent",
    "user-agent-browser": "a word that every browser sends; no crawler is known by it",
    "user-agent-header": "a whole User-Agent header; it names only a crawler that sends exactly that",
    "user-agent-grammar": "a product token with more than letters, digits, '_' and '-'",
    "user-agent-digits": "a product token with digits; crawlers have them, not RFC 9309",
    "duplicate-group": "an agent that an earlier group names; RFC 9309 merges the groups",
    "bad-content-usage": "not a dictionary of structured fields (RFC 9651); it says nothing",
    "unknown-preference": "a preference that is not known, or whose value is neither yes nor no; it is ignored",
    "signal-semicolon": "a semicolon where only commas part signals; others may not read them",
    "relative-license": "a license that is not an absolute URL",
    "no-product-token": "a User-Agent that names no crawler; no site can have rules for it",
    "library-token": "a User-Agent of a library; it says neither which crawler sends it nor whose that is",
    "no-version": "a User-Agent whose product token has no version, such as ExampleBot/1.0",
    "no-contact": "a User-Agent without a URL or an e-mail address; no site can write to anybody",
}
"""Every code that a note may have, and what it means. Codes stay; wording may change."""

OTHER_FIELDS = {
    "acap-allow-crawl",
    "acap-crawler",
    "acap-disallow-crawl",
    "cache-delay",
    "clean-param",
    "host",
    "indexpage",
    "noarchive",
    "nofollow",
    "noindex",
    "unavailable_after",
}

# An XML declaration, comments or stray elements may stand before the page.
HTML_TAG = r"(?is)\s*(?:<.*?)??<(?:!doctype|html|head|body|script|meta)\b"
CRAWLER_NAME = r"[A-Za-z0-9_-]+"  # of a crawler such as MJ12bot
BAD_ESCAPE = r"%(?![0-9A-Fa-f]{2}|[0-9A-Fa-f]?(?:\*|\Z))"
RESERVED_ESCAPE = r"(?i)%(?:2[1789BC]|3[AB]|40|5[BD])"
DOT_SEGMENT = r"/(?:\.|%2[Ee]){1,2}(?:[/?$]|\Z)"
ABSOLUTE_URL = r"[A-Za-z][A-Za-z0-9+.-]*://"
PACE_VALUES = {
    fields.CRAWL_DELAY: pace_values.crawl_delay,
    fields.REQUEST_RATE: pace_values.request_rate,
    fields.VISIT_TIME: pace_values.visit_time,
}
CONTACT = r"://|(?i:www\.)|@"  # what a URL has, or an e-mail address
LIBRARY_TOKENS = {"scrapy"}
MAX_GUESSES = 100  # names of a file; a lookup is slow, and no owner reads more


class Note(NamedTuple):
    """Something about a robots.txt that its owner should know."""

    line: int
    """From 1; 0 when it is about the whole file."""
    severity: str
    """"error": it does not do what it says; "warning": other crawlers may read it
    differently; "info"."""
    code: str
    """A key of `CODES`."""
    message: str


def note(line: int, code: str, detail: str = "") -> Note:
    detail = detail if len(detail) <= 60 else detail[:57] + "..."
    return Note(
        line, SEVERITIES[code], code, CODES[code] + (f": {detail}" if detail else "")
    )


def notes_on(text: Text, dialect: Dialect) -> Iterator[Note]:
    """The notes on a file, those on the whole of it first, then nearly by line."""
    for problem in text.problems:
        yield note(0, problem)
    if is_html := compiled(HTML_TAG).match(text.lines[:2048]) is not None:
        yield note(0, "html")
    apart = set() if dialect.any_record_ends_agents else RECORDS_OF_RUNS
    guesses: dict[str, str] = {}  # what unknown names may mean
    earlier: dict[str, int] = {}  # lines of the user agents of earlier groups
    group: dict[str, int] = {}  # and of this one
    above: list[Note] = []  # for the next user-agent line, if no rule comes before it
    in_group = ended = False
    for number, line in enumerate(text.lines.split("\n")):
        raw = trim(line.partition("#")[0])
        content = show_octets(raw)
        record = split_record(content)
        if record is None:
            if content and not is_html:
                yield note(number, "no-colon", content)
            elif dialect.blank_line_ends_group and not trim(line):
                in_group = False
            continue
        name = record[0].lower()
        field = FIELD_NAMES.get(name, "")
        if not (is_html and not field):
            if not line.isascii() and has_hidden_ends(line):
                yield note(number, "hidden-character", ascii(content))
            yield from notes_on_field(number, content, record[0], field, guesses)
        if field == fields.USER_AGENT:
            if ended or not in_group:
                for agent, its_line in group.items():
                    earlier.setdefault(agent, its_line)
                group, above = {}, []
            yield from above
            in_group, ended, above = True, False, []
            group.setdefault(record[1].lower(), number)
            yield from notes_on_agent(number, record[1], earlier)
        elif field == fields.SITEMAP:
            yield from notes_on_sitemap(number, record[1])
        elif field and not in_group:
            yield note(number, "rule-outside-group", content)
        elif field in PACE_VALUES:
            yield from notes_on_pace(number, field, record[1])
        elif field:
            ended = True
            yield from notes_on_rule(number, field, record[1], dialect)
            if content != raw and split_record(raw) != record:
                yield note(number, "raw-octets", record[1])
        elif name in preferences.RECORD_NAMES:
            if name == fields.CONTENT_USAGE and not in_group:
                yield note(number, "rule-outside-group", content)
            for code, detail in preferences.faults(name, record[1]):
                yield note(number, code, detail)
        if (field or name) in apart and not ended:
            above.append(note(number, "between-agents", content))


def has_hidden_ends(line: str) -> bool:
    """Whether something outside ASCII stands at an end of a field or a value unseen."""
    content = line.partition("#")[0]
    parts = [part.strip(BLANKS_OF_ASCII) for part in content.partition(":")]
    return any(part != trim(part) for part in parts)


def notes_on_field(
    number: int, content: str, name: str, field: str, guesses: dict[str, str]
) -> Iterator[Note]:
    """Notes on how the name of a record is spelt; `field` is what it means, "" nothing."""
    colon = trim(content[len(name) :]).startswith(":")
    if field:
        if not colon:
            yield note(number, "missing-colon", content)
        elif name.lower() in MISSPELLINGS:
            yield note(number, "misspelt-field", f"{name} for {field}")
    elif name.lower() in OTHER_FIELDS:
        yield note(number, "other-field", name)
    elif colon and name.lower() in preferences.RECORD_NAMES:
        pass
    elif not colon:
        yield note(number, "no-colon", content)
    elif compiled(ABSOLUTE_URL).match(content):
        yield note(number, "bare-url", content)
    elif nearest := nearest_field(name, guesses):
        yield note(number, "garbled-field", f"{name}, perhaps {nearest}")
    else:
        yield note(number, "unknown-field", name)


def notes_on_pace(number: int, field: str, value: str) -> Iterator[Note]:
    asked = PACE_VALUES[field](value)
    if asked is None:
        yield note(number, f"bad-{field}", value)
    elif getattr(asked, "start", None) is not None and "-" not in value:
        yield note(number, "missing-hyphen", value)


def notes_on_sitemap(number: int, value: str) -> Iterator[Note]:
    if not value:
        yield note(number, "empty-sitemap")
    elif compiled(ABSOLUTE_URL).match(value) is None:
        yield note(number, "relative-sitemap", value)


def notes_on_agent(number: int, value: str, seen: dict[str, int]) -> Iterator[Note]:
    if not value:
        yield note(number, "empty-user-agent")
    elif value.lower() in BROWSER_WORDS:
        yield note(number, "user-agent-browser", value)
    elif value.lower().startswith(WHOLE_HEADER):
        yield note(number, "user-agent-header", value)
    elif value != "*" and IDENTIFIER.fullmatch(value) is None:
        # No owner can help how a crawler is called.
        named = compiled(CRAWLER_NAME).fullmatch(value) is not None
        code = "user-agent-digits" if named else "user-agent-grammar"
        yield note(number, code, value)
    if value.lower() in seen:
        yield note(number, "duplicate-group", f"{value}, line {seen[value.lower()]}")


def notes_on_rule(
    number: int, field: str, path: str, dialect: Dialect
) -> Iterator[Note]:
    if not path:
        if field == fields.ALLOW and not dialect.blank_rules_count:
            yield note(number, "empty-allow")
    elif compiled(ABSOLUTE_URL).match(path):
        yield note(number, "absolute-url", path)
    elif not is_path(path, dialect):
        yield note(number, "path-without-slash", path)
    elif path.removesuffix("$") == "/robots.txt":
        yield note(number, "robots-txt-rule", path)
    if compiled(DOT_SEGMENT).search(path):
        yield note(number, "dot-segments", path)
    if "%" in path:
        if compiled(BAD_ESCAPE).search(path):
            yield note(number, "bad-escape", path)
        if compiled(CUT_ESCAPE).search(path):
            yield note(number, "cut-escape", path)
        if compiled(RESERVED_ESCAPE).search(path):
            yield note(number, "reserved-escape", path)


def nearest_field(name: str, guesses: dict[str, str]) -> str:
    """The field that an unknown name looks most like, "" when it looks like none."""
    name = name.lower()[:40]
    if name not in guesses and len(guesses) < MAX_GUESSES:
        from difflib import get_close_matches  # noqa: PLC0415 - few files need it

        found = get_close_matches(name, FIELD_NAMES, n=1, cutoff=0.7)
        guesses[name] = FIELD_NAMES[found[0]] if found else ""
    return guesses.get(name, "")


def notes_on_header(header: str) -> Iterator[Note]:
    """The notes on a User-Agent that is sent: can sites have rules for it, and write to it?

    RFC 9309 2.2.1 and RFC 9110 10.1.5 ask for a product token; versions and contacts are
    custom. Their line is 0. Raises TypeError when `header` is not a str.
    """
    tokens = product_tokens(header)
    if tokens and {token.lower() for token in tokens} <= LIBRARY_TOKENS:
        yield note(0, "library-token", header)
        return
    if not tokens:
        yield note(0, "no-product-token", header)
    elif not any(
        re.search(rf"(?i){re.escape(token)}/v?\d", header) for token in tokens
    ):
        yield note(0, "no-version", header)
    if not compiled(CONTACT).search(header):
        yield note(0, "no-contact", header)
