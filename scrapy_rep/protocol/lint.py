"""Notes: what the owner of a robots.txt should know about it, line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.decoding import show_octets
from scrapy_rep.protocol.groups import (
    BROWSER_WORDS,
    IDENTIFIER,
    RECORDS_OF_RUNS,
    WHOLE_HEADER,
    product_tokens,
)
from scrapy_rep.protocol.language import (
    ALLOW,
    BLANKS_OF_ASCII,
    CONTENT_USAGE,
    FIELD_NAMES,
    MISSPELLINGS,
    PACE_VALUES,
    SITEMAP,
    USER_AGENT,
    split_record,
    trim,
)
from scrapy_rep.protocol.paths import CUT_ESCAPE, is_path
from scrapy_rep.protocol.preferences import RECORD_NAMES, faults

if TYPE_CHECKING:
    from scrapy_rep.protocol.decoding import Text
    from scrapy_rep.protocol.language import Dialect

# Numbers and codes stay; wording may change.
NOTES = """
R001 error   too-long           the file is longer than 512 KiB; the rest is not read
R002 warning not-utf8           the file is not UTF-8, as RFC 9309 2.3 demands
R003 warning wrong-mark         half a byte order mark, or one of UTF-16 or UTF-32 in a file that is neither; it is dropped
R004 warning wrong-charset      the Content-Type names another charset than UTF-8, which the file is in
R005 error   html               the file is a web page, not a robots.txt
R006 warning hidden-character   a character that cannot be seen, before or behind a field or a value
R007 error   no-colon           a line that is no record: it has no colon
R008 error   bare-url           a URL alone on its line; no field, such as Sitemap, says what it is
R009 warning missing-colon      a field that lacks its colon; the line is read as if it were there
R010 error   garbled-field      a field so misspelt that it is not understood; it is ignored
R011 warning unknown-field      a field that nobody is known to read
R012 info    other-field        a field of another convention, which has no effect here
R013 warning misspelt-field     a misspelt field that is understood here, but not everywhere
R014 error   rule-outside-group a rule or a pace that no user-agent line precedes; it is ignored
R015 error   path-without-slash a path that begins with neither a slash nor a wildcard; no URL matches
R016 error   absolute-url       a whole URL where a path belongs; to most crawlers no URL matches
R017 warning dot-segments       a path with dot segments, which crawlers resolve before they ask for it
R018 warning raw-octets         octets of a rule that are not UTF-8; they count as they are, and as ISO-8859-1
R019 warning bad-escape         a percent sign without two hexadecimal digits; it is taken literally
R020 warning cut-escape         a rule that breaks off within an escape; it matches all that begins like it
R021 info    reserved-escape    a reserved character, escaped; some crawlers tell the two apart
R022 warning empty-allow        an Allow without a path, which has no effect
R023 info    robots-txt-rule    a rule for /robots.txt itself, which may always be fetched
R024 error   bad-crawl-delay    not a number of seconds; it is ignored
R025 error   bad-request-rate   not of the form 1/10s or 30/60m 0900-1700; it is ignored
R026 error   bad-visit-time     not of the form 0600-0845; it is ignored
R027 warning between-agents     it holds for the user-agent lines above it only; the rules below hold for all
R028 warning missing-hyphen     two times without a hyphen between them; they are taken for a span
R029 error   relative-sitemap   a sitemap that is not an absolute URL
R030 error   empty-sitemap      a sitemap record without a URL
R031 error   empty-user-agent   a user-agent line without a product token; it matches no agent
R032 warning user-agent-browser a word that every browser sends; no crawler is known by it
R033 warning user-agent-header  a whole User-Agent header; it names only a crawler that sends exactly that
R034 warning user-agent-grammar a product token with more than letters, digits, '_' and '-'
R035 info    user-agent-digits  a product token with digits; crawlers have them, not RFC 9309
R036 info    duplicate-group    an agent that an earlier group names; RFC 9309 merges the groups
R037 error   bad-content-usage  not a dictionary of structured fields (RFC 9651); it says nothing
R038 warning unknown-preference a preference that is not known, or whose value is neither yes nor no; it is ignored
R039 warning signal-semicolon   a semicolon where only commas part signals; others may not read them
R040 error   relative-license   a license that is not an absolute URL
R041 error   no-product-token   a User-Agent that names no crawler; no site can have rules for it
R042 warning library-token      a User-Agent of a library; it says neither which crawler sends it nor whose that is
R043 warning no-version         a User-Agent whose product token has no version, such as ExampleBot/1.0
R044 warning no-contact         a User-Agent without a URL or an e-mail address; no site can write to anybody
"""
ROWS = [row.split(None, 3) for row in NOTES.strip().splitlines()]
CODES = {code: meaning for _, _, code, meaning in ROWS}
"""Every code that a note may have, and what it means."""
NUMBERS = {code: number for number, _, code, _ in ROWS}
SEVERITIES = {code: severity for _, severity, code, _ in ROWS}

OTHER_FIELD_LIST = """
acap-allow-crawl acap-crawler acap-disallow-crawl cache-delay clean-param host indexpage noarchive
nofollow noindex unavailable_after
"""
OTHER_FIELDS = OTHER_FIELD_LIST.split()

# An XML declaration, comments or stray elements may stand before the page.
HTML_TAG = r"(?is)\s*(?:<.*?)??<(?:!doctype|html|head|body|script|meta)\b"
CRAWLER_NAME = r"[A-Za-z0-9_-]+"  # of a crawler such as MJ12bot
ABSOLUTE_URL = r"[A-Za-z][A-Za-z0-9+.-]*://"
PATH_FAULTS = {
    "dot-segments": r"/(?:\.|%2[Ee]){1,2}(?:[/?$]|\Z)",
    "bad-escape": r"%(?![0-9A-Fa-f]{2}|[0-9A-Fa-f]?(?:\*|\Z))",
    "cut-escape": CUT_ESCAPE.pattern,
    "reserved-escape": r"(?i)%(?:2[1789BC]|3[AB]|40|5[BD])",
}
"""Noted wherever it stands in a path."""
CONTACT = r"://|(?i:www\.)|@"  # what a URL has, or an e-mail address
LIBRARY_TOKENS = {"scrapy"}
MAX_GUESSES = 100  # names of a file; a lookup is slow, and no owner reads more

Remarks = Iterator[tuple[str, str]]
"""Codes of notes on one line, and what each is about."""


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
    message = CODES[code] + (f": {detail}" if detail else "")
    return Note(line, SEVERITIES[code], code, message)


def notes_on(text: Text, dialect: Dialect) -> Iterator[Note]:
    """Those on the whole file first, then nearly by line."""
    is_html = re.match(HTML_TAG, text.lines[:2048]) is not None
    for problem in (*text.problems, *["html"] * is_html):
        yield note(0, problem)
    apart = set() if dialect.any_record_ends_agents else RECORDS_OF_RUNS
    guesses: dict[str, str] = {}  # what unknown names may mean
    agents: dict[str, int] = {}  # lines of all user agents so far, each one's first
    group_line = 0
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
        name, value = record[0].lower(), record[1]
        field = FIELD_NAMES.get(name, "")
        remarks: list[tuple[str, str]] = []
        if field or not is_html:
            if not line.isascii() and has_hidden_ends(line):
                remarks.append(("hidden-character", ascii(content)))
            remarks += on_spelling(content, record[0], field, guesses)
        if field == USER_AGENT:
            if ended or not in_group:
                group_line, above = number, []
            yield from above
            in_group, ended, above = True, False, []
            first = agents.setdefault(value.lower(), number)
            remarks += on_agent(value)
            if first < group_line:
                remarks.append(("duplicate-group", f"{value}, line {first}"))
        elif field == SITEMAP:
            remarks += on_sitemap(value)
        elif (field or name == CONTENT_USAGE) and not in_group:
            remarks.append(("rule-outside-group", content))
        elif field in PACE_VALUES:
            remarks += on_pace(field, value)
        elif field:
            ended = True
            remarks += on_rule(field, value, dialect)
            if content != raw and split_record(raw) != record:
                remarks.append(("raw-octets", value))
        if name in RECORD_NAMES:
            remarks += faults(name, value)
        for code, detail in remarks:
            yield note(number, code, detail)
        if (field or name) in apart and not ended:
            above.append(note(number, "between-agents", content))


def has_hidden_ends(line: str) -> bool:
    """Something unseen outside ASCII, at an end of a field or a value."""
    content = line.partition("#")[0]
    parts = [part.strip(BLANKS_OF_ASCII) for part in content.partition(":")]
    return any(part != trim(part) for part in parts)


def on_spelling(
    content: str, name: str, field: str, guesses: dict[str, str]
) -> Remarks:
    """`field` is what it means, "" nothing."""
    colon = trim(content[len(name) :]).startswith(":")
    if field:
        if not colon:
            yield "missing-colon", content
        elif name.lower() in MISSPELLINGS:
            yield "misspelt-field", f"{name} for {field}"
    elif name.lower() in OTHER_FIELDS:
        yield "other-field", name
    elif not colon:
        yield "no-colon", content
    elif name.lower() in RECORD_NAMES:
        pass
    elif re.match(ABSOLUTE_URL, content):
        yield "bare-url", content
    elif nearest := nearest_field(name, guesses):
        yield "garbled-field", f"{name}, perhaps {nearest}"
    else:
        yield "unknown-field", name


def on_pace(field: str, value: str) -> Remarks:
    asked = PACE_VALUES[field](value)
    if asked is None:
        yield f"bad-{field}", value
    elif getattr(asked, "start", None) is not None and "-" not in value:
        yield "missing-hyphen", value


def on_sitemap(value: str) -> Remarks:
    if not value:
        yield "empty-sitemap", ""
    elif not re.match(ABSOLUTE_URL, value):
        yield "relative-sitemap", value


def on_agent(value: str) -> Remarks:
    if not value:
        yield "empty-user-agent", ""
    elif value.lower() in BROWSER_WORDS:
        yield "user-agent-browser", value
    elif value.lower().startswith(WHOLE_HEADER):
        yield "user-agent-header", value
    elif value != "*" and not IDENTIFIER.fullmatch(value):
        # No owner can help how a crawler is called.
        named = re.fullmatch(CRAWLER_NAME, value)
        yield "user-agent-digits" if named else "user-agent-grammar", value


def on_rule(field: str, path: str, dialect: Dialect) -> Remarks:
    if not path:
        if field == ALLOW and not dialect.blank_rules_count:
            yield "empty-allow", ""
    elif re.match(ABSOLUTE_URL, path):
        yield "absolute-url", path
    elif not is_path(path, dialect):
        yield "path-without-slash", path
    elif path.removesuffix("$") == "/robots.txt":
        yield "robots-txt-rule", path
    for code, pattern in PATH_FAULTS.items():
        if re.search(pattern, path):
            yield code, path


def nearest_field(name: str, guesses: dict[str, str]) -> str:
    """Or "": it looks like none."""
    name = name.lower()[:40]
    if name not in guesses and len(guesses) < MAX_GUESSES:
        from difflib import get_close_matches  # noqa: PLC0415 - few files need it

        found = get_close_matches(name, FIELD_NAMES, n=1, cutoff=0.7)
        guesses[name] = FIELD_NAMES[found[0]] if found else ""
    return guesses.get(name, "")


def notes_on_header(header: str) -> Iterator[Note]:
    """The notes on a User-Agent that is sent: can sites have rules for it, and write to it?

    RFC 9309 2.2.1 and RFC 9110 10.1.5 ask for a product token; versions and contacts are custom.
    Line 0. Raises TypeError when `header` is not a str.
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
    if not re.search(CONTACT, header):
        yield note(0, "no-contact", header)
