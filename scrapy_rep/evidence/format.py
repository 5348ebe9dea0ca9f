"""What evidence consists of, and the lines of an audit (REP_AUDIT_URI): declared here once.

The writer takes names and their order from here, the reader what it checks; a test holds the
tables of the README to it. A line is a JSON object with ``type`` and the fields of its record.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

FORMAT = 1
META_KEY = "rep_evidence"
"""Where evidence stands on ``request.meta`` (REP_EVIDENCE)."""
TIME_DECIMALS = 4
"""Of times in an audit. C writes as many in half the time that six take."""
MOST_DIGEST_CHARACTERS = 200
END_OF_TIME = 1e11
"""Seconds since 1970: the year 5138. Pictures go beyond it, dates end with 9999."""

encode = json.JSONEncoder(separators=(",", ":"), default=str).encode
decode = json.JSONDecoder().decode


class Kind(NamedTuple):
    """What a value is. ``expected`` tells it in words."""

    types: frozenset[type]
    expected: str


NUMBER = Kind(frozenset({int, float}), "a number from 0")
WHOLE = Kind(frozenset({int}), "a whole number from 0")
TEXT = Kind(frozenset({str}), "a string")
LIST = Kind(frozenset({list}), "a list")
FLAG = Kind(frozenset({bool}), "true or false")
OBJECT = Kind(frozenset({dict}), "an object")


class Field(NamedTuple):
    """A key of evidence or of a record; it may be null, and in a record left out."""

    name: str
    kind: Kind
    meaning: str
    needed: bool = False
    """There is no record without it."""


@dataclass(frozen=True)
class RecordType:
    """What ``type`` stands for, and the fields in the order in which they are written."""

    name: str
    meaning: str
    fields: tuple[Field, ...]

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        """By the names of the fields."""
        return {field.name: field.kind for field in self.fields}

    @cached_property
    def needed(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.needed)

    def line(self, values: dict[str, object]) -> str:
        """Return the line of a record that has *values*, in ASCII and with its end."""
        assert values.keys() <= self.kinds.keys()
        in_order = {name: values[name] for name in self.kinds if name in values}
        return encode({"type": self.name, **in_order}) + "\n"


TIME = Field(
    "time", NUMBER, "when, in seconds since 1970, as all times here", needed=True
)
URL = Field("url", TEXT, "what was judged", needed=True)
AGENT = Field("agent", TEXT, "whose rules were obeyed")
ALLOWED = Field("allowed", FLAG, "whether it may be fetched", needed=True)
CAUSE = Field("cause", TEXT, "why not, as in rep/forbidden/CAUSE (Stats and log)")
ENFORCED = Field(
    "enforced", FLAG, "false: REP_OBEY leaves that out, so the request was sent"
)
REASON = Field("reason", TEXT, "the same in words")
GROUP = Field("group", LIST, "the user-agent lines of the groups that hold")
RULE = Field("rule", TEXT, 'the rule that decided, such as "Disallow: /private/"')
LINE = Field("line", WHOLE, "its line in the file, counted from 1")
DELAY = Field(
    "delay",
    NUMBER,
    "the seconds between two requests that the site asks for, whether REP_OBEY has that or "
    "not; 0: it asks for none",
)
PREFERENCES = Field(
    "preferences",
    OBJECT,
    'what the file says of the use of the URL, such as {"train-ai": "no"}; see Preferences',
)
ORIGIN = Field("origin", TEXT, "whose robots.txt decided", needed=True)
STATE = Field(
    "state",
    TEXT,
    'of that: "fetched"; "unavailable", there is none; "denied", see REP_DENY_STATUSES; '
    '"holding", an earlier copy while it cannot be had; "unreachable"; "given up", for '
    'REP_UNREACHABLE_MAX; "unknown"',
    needed=True,
)
STATUS = Field("status", WHOLE, "of the answer that decided")
ROBOTS_URL = Field("robots_url", TEXT, "where that came from, redirects followed")
FETCHED = Field("fetched", NUMBER, "when it came, or was last confirmed by a 304")
DIGEST = Field(
    "digest", TEXT, 'of its body, octet by octet: "sha256:..."; only of a 2xx'
)
FAILURE = Field("failure", TEXT, "why it could not be had since, in words")

EVIDENCE = (
    URL,
    TIME,
    AGENT,
    ALLOWED,
    CAUSE,
    ENFORCED,
    REASON,
    GROUP,
    RULE,
    LINE,
    DELAY,
    PREFERENCES,
    ORIGIN,
    STATE,
    STATUS,
    ROBOTS_URL,
    FETCHED,
    DIGEST,
    FAILURE,
)
"""The keys of evidence on a request, in their order. What does not apply is ``None``."""

CRAWL = RecordType(
    "crawl",
    "the first line of a file",
    (
        Field("format", WHOLE, f"{FORMAT}"),
        TIME,
        Field("spider", TEXT, "the name of the spider"),
        Field("agent", TEXT, "whose rules the crawl obeys"),
        Field("worker", TEXT, "host, process and a random part: %(worker)s"),
        Field("version", TEXT, "of scrapy_rep"),
        Field(
            "settings",
            OBJECT,
            "those of scrapy_rep but REP_AUDIT_URI, which may have a password, and "
            "ROBOTSTXT_USER_AGENT, USER_AGENT and DOWNLOAD_DELAY",
        ),
    ),
)
COPY = RecordType(
    "copy",
    "what is known of an origin's robots.txt, each time that it is learned",
    (
        TIME,
        ORIGIN,
        STATE,
        STATUS,
        FETCHED,
        DIGEST,
        FAILURE,
        Field("url", TEXT, "robots_url above"),
        Field("encoding", TEXT, "the charset in which body has that digest"),
        Field(
            "body",
            TEXT,
            "the file, with the first line of each digest; its lines end with CR, LF or "
            "both",
        ),
    ),
)
DECISION = RecordType(
    "decision",
    "about a request; the origin is that of its url",
    (
        TIME,
        URL,
        Field("slot", TEXT, "its download slot"),
        DELAY,
        AGENT,
        ALLOWED,
        CAUSE,
        ENFORCED,
        REASON,
        GROUP,
        RULE,
        LINE,
        DIGEST,
        PREFERENCES,
    ),
)
SENT = RecordType(
    "sent",
    "a request is handed to its download handler; an exempt one has this line only",
    (
        TIME,
        Field("url", TEXT, "of the request", needed=True),
        Field("slot", TEXT, "its download slot", needed=True),
        Field("robots", FLAG, "true for a robots.txt"),
    ),
)
DROPPED = RecordType(
    "dropped",
    "page rules or the headers of a page have decided about a request or an item",
    (
        TIME,
        Field("url", TEXT, "of the request; of an item that of its page", needed=True),
        Field("page", TEXT, "the URL of the page"),
        Field("what", TEXT, '"request" or "item"'),
        AGENT,
        Field("cause", TEXT, "as in rep/page/dropped/CAUSE (Stats and log)"),
        REASON,
    ),
)
END = RecordType(
    "end",
    "the last line, unless the crawl was killed",
    (TIME, Field("reason", TEXT, "why the crawl ended")),
)
RECORD_TYPES = {each.name: each for each in (CRAWL, COPY, DECISION, SENT, DROPPED, END)}


def fault(record: object) -> str:
    """Return what is wrong with a line of an audit; "" where nothing is.

    Records of a type that is not known are no concern, but must have their time. Nor are
    keys that are no fields.
    """
    if type(record) is not dict:
        return "not a JSON object"
    name = record.get("type")
    if type(name) is not str:
        return _wrong("type", name, "the type of a record")
    time = record.get("time")
    if type(time) not in NUMBER.types or not 0 <= time < END_OF_TIME:  # type: ignore[operator]
        return _wrong("time", time, "seconds since 1970")
    record_type = RECORD_TYPES.get(name)
    if record_type is None:
        return ""
    kinds = record_type.kinds
    for key, value in record.items():
        if value is None or key not in kinds:
            continue
        types, expected = kinds[key]
        # Python reads NaN and infinities, too.
        if type(value) not in types or (int in types and not 0 <= value < END_OF_TIME):
            return _wrong(key, value, expected)
    for field in record_type.needed:
        if record.get(field.name) is None:
            return _wrong(field.name, None, field.kind.expected)
    digest = record.get("digest") if "digest" in kinds else None
    if digest is not None and len(digest) > MOST_DIGEST_CHARACTERS:
        return _wrong("digest", digest, f"up to {MOST_DIGEST_CHARACTERS} characters")
    if record_type is CRAWL and record.get("format", FORMAT) != FORMAT:
        return _wrong("format", record["format"], f"{FORMAT}, the only one known here")
    return ""


def _wrong(name: str, value: object, expected: str) -> str:
    shown = "missing" if value is None else ascii(value)
    if len(shown) > 60:
        shown = f"{shown[:57]}..."
    return f"{name} is {shown}, expected {expected}"


def as_text(octets: bytes) -> tuple[str, str]:
    """Return a charset and the text that *octets* are in it: ``encoding`` and ``body``.

    Encoded again it is *octets*, one by one, so that their digest can be checked. That is
    why it is not the text that is parsed, nor in the charset that a site declares.
    """
    try:
        return "utf-8", octets.decode()
    except UnicodeDecodeError:
        return "latin-1", octets.decode("latin-1")


def as_octets(encoding: str | None, text: str) -> bytes:
    """Return what ``as_text`` was given."""
    if encoding == "latin-1":
        with suppress(UnicodeEncodeError):
            return text.encode("latin-1")
    return text.encode("utf-8", "surrogatepass")
