"""Declares once what evidence consists of, and the lines of an audit (REP_AUDIT_URI).

The writer takes names and their order from here, the reader its checks, the guide its tables.
A line is a JSON object with ``type`` and the fields of its record.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

FORMAT = 1
META_KEY = "rep_evidence"
"""The key of evidence in ``request.meta`` (REP_EVIDENCE)."""
TIME_DECIMALS = 4
"""Decimals of times in an audit. Writing four takes half the time of six."""
MAX_DIGEST_CHARACTERS = 200
END_OF_TIME = 1e11
"""Seconds since 1970, in the year 5138: later times are not valid. Charts go beyond the last time,
and Python's dates end with the year 9999."""

encode = json.JSONEncoder(separators=(",", ":"), default=str).encode
decode = json.JSONDecoder().decode


class Kind(NamedTuple):
    """The JSON types that a value may have, and ``expected``: the same in words."""

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
    """A record without it is broken."""


@dataclass(frozen=True)
class RecordType:
    """A type of record, and its fields in the order in which they are written."""

    name: str
    meaning: str
    fields: tuple[Field, ...]

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        """Return name of a field -> its kind."""
        return {field.name: field.kind for field in self.fields}

    # What reading checks: all but the time, which is checked in records of any type.

    @cached_property
    def types(self) -> dict[str, frozenset[type]]:
        return {
            each.name: each.kind.types for each in self.fields if each.name != "time"
        }

    @cached_property
    def needed(self) -> tuple[str, ...]:
        names = (each.name for each in self.fields if each.needed)
        return tuple(name for name in names if name != "time")

    def line(self, values: dict[str, object]) -> str:
        """Return the line of a record that has *values*, in ASCII and with its end."""
        assert values.keys() <= self.kinds.keys()
        in_order = {name: values[name] for name in self.kinds if name in values}
        return encode({"type": self.name, **in_order}) + "\n"


EVIDENCE = (
    Field("url", TEXT, "what was judged", needed=True),
    Field(
        "time", NUMBER, "when, in seconds since 1970, as all times here", needed=True
    ),
    Field("agent", TEXT, "whose rules were obeyed"),
    Field("allowed", FLAG, "whether it may be fetched", needed=True),
    Field("cause", TEXT, "why not, as in rep/forbidden/CAUSE (Stats and log)"),
    Field("enforced", FLAG, "false: REP_OBEY leaves that out, so the request was sent"),
    Field("reason", TEXT, "the same in words"),
    Field("group", LIST, "the user-agent lines of the groups that hold"),
    Field("rule", TEXT, 'the rule that decided, such as "Disallow: /private/"'),
    Field("line", WHOLE, "its line in the file, counted from 1"),
    Field(
        "delay",
        NUMBER,
        "the seconds between two requests that the site asks for, whether REP_OBEY has that "
        "or not; 0: it asks for none",
    ),
    Field(
        "preferences",
        OBJECT,
        "what the file says of the use of the URL, such as "
        '{"train-ai": "no"}; see Preferences',
    ),
    Field("origin", TEXT, "whose robots.txt decided", needed=True),
    Field(
        "state",
        TEXT,
        'of that: "fetched"; "unavailable", there is none; "denied", see '
        'REP_DENY_STATUSES; "holding", an earlier copy while it cannot be fetched; '
        '"unreachable"; "given up", for REP_UNREACHABLE_MAX; "unknown"',
        needed=True,
    ),
    Field("status", WHOLE, "of the answer that decided"),
    Field("robots_url", TEXT, "where that came from, redirects followed"),
    Field("fetched", NUMBER, "when it came, or was last confirmed by a 304"),
    Field("digest", TEXT, 'of its body, octet by octet: "sha256:..."; only of a 2xx'),
    Field("failure", TEXT, "why it could not be fetched since, in words"),
)
"""The keys of evidence on a request, in their order. What does not apply is ``None``."""


def _same(names: str) -> tuple[Field, ...]:
    """Return fields of evidence, by their *names*, for a record that has them, too."""
    by_name = {field.name: field for field in EVIDENCE}
    return tuple(by_name[name] for name in names.split())


SLOT = Field("slot", TEXT, "its download slot")
HOST = Field("host", TEXT, "whose pace it keeps, where slot and url do not say so")
CRAWL = RecordType(
    "crawl",
    "the first line of a file",
    (
        Field("format", WHOLE, f"{FORMAT}"),
        *_same("time"),
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
        *_same("time origin state status fetched digest failure"),
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
        *_same("time url"),
        SLOT,
        HOST,
        *_same("delay agent allowed cause enforced reason group rule line digest"),
        *_same("preferences"),
    ),
)
SENT = RecordType(
    "sent",
    "a request is handed over to be downloaded, each time that it is; where nobody has judged it, "
    "this line only",
    (
        *_same("time"),
        Field("url", TEXT, "of the request", needed=True),
        SLOT._replace(needed=True),
        HOST,
        Field("robots", FLAG, "true for a robots.txt"),
        Field(
            "exempt",
            TEXT,
            'why nobody has judged it: "dont_obey_robotstxt"; "on_the_way", its robots.txt '
            'waited for it; "REP_HOSTS: ..." with the reason given there; "no_origin", it is neither http nor https; "passed_by", it has not '
            "come through RepMiddleware",
        ),
        Field("judged", TEXT, "by which URL it was judged instead (robotstxt_url)"),
    ),
)
ANSWER = RecordType(
    "answer",
    "what came of a request that was sent; answers of Scrapy's HTTP cache have none",
    (
        *_same("time"),
        Field("url", TEXT, "of the request", needed=True),
        Field("host", TEXT, "whose pace it keeps, where url does not say so"),
        Field("seconds", NUMBER, "from when it was sent until the answer was there"),
        Field(
            "headers",
            NUMBER,
            "from when it was sent until the headers were there, or it had failed: then the "
            "delay of its host begins; only where there is one",
        ),
        Field("octets", WHOLE, "of the body, as it was sent"),
        Field("status", WHOLE, "of the answer"),
        Field("error", TEXT, 'why there is none: its kind, such as "timeout"'),
        Field("robots", FLAG, "true for a robots.txt"),
    ),
)
BACK_OFF = RecordType(
    "backoff",
    "a site has asked for a pause, or is in trouble; once for all that came together",
    (
        *_same("time"),
        Field("host", TEXT, "which is left alone", needed=True),
        Field("url", TEXT, "of the request that has told"),
        Field("what", TEXT, 'the status, or the kind of error, such as "timeout"'),
        Field("seconds", NUMBER, "for how long it is left alone now", needed=True),
        Field("asked", NUMBER, "the seconds for which a Retry-After has asked"),
        Field("down", FLAG, "true: its requests are refused (REP_BACK_OFF_GIVE_UP)"),
    ),
)
DEMAND = RecordType(
    "demand",
    "a page is had only with a licence, or for a payment",
    (
        *_same("time"),
        Field("host", TEXT, "whose pace it keeps"),
        Field("url", TEXT, "of the request", needed=True),
        Field("status", WHOLE, "of the answer"),
        Field(
            "cause", TEXT, '"license" (WWW-Authenticate: License) or "payment" (402)'
        ),
        Field("license", TEXT, "the URL of the licence, where one is named"),
        Field("price", TEXT, 'where one is named, such as "USD 0.01"'),
    ),
)
WAITING = RecordType(
    "waiting",
    "what waits at a time: one host, noticed for the first time; or, where no host is "
    "named, all that wait for one cause",
    (
        *_same("time"),
        Field(
            "cause",
            TEXT,
            '"unreachable", "visit_time", "parked" (see backoff), "elsewhere" (another '
            'worker asks it), "pace" (its delay), "asked" (its robots.txt); the last '
            "two have no lines of hosts",
            needed=True,
        ),
        Field("host", TEXT, "whose requests wait"),
        Field("hosts", WHOLE, "how many hosts wait, where none is named"),
        Field("requests", WHOLE, "how many requests wait", needed=True),
        Field("until", NUMBER, "when the first of them goes on, where that is known"),
        Field("last", NUMBER, "when the last of them does, where no host is named"),
    ),
)
BROWSER = RecordType(
    "browser",
    "about what a page in a browser asks for by itself",
    (
        *_same("time"),
        Field("url", TEXT, "of the request", needed=True),
        *_same("agent allowed cause enforced reason group rule line digest"),
    ),
)
DROPPED = RecordType(
    "dropped",
    "page rules or the headers of a page have decided about a request or an item",
    (
        *_same("time"),
        Field("url", TEXT, "of the request; of an item that of its page", needed=True),
        Field("page", TEXT, "the URL of the page"),
        Field("what", TEXT, '"request" or "item"'),
        *_same("agent"),
        Field("cause", TEXT, "as in rep/page/dropped/CAUSE (Stats and log)"),
        *_same("reason"),
    ),
)
END = RecordType(
    "end",
    "the last line, unless the crawl was killed",
    (
        *_same("time"),
        Field("reason", TEXT, "why the crawl ended"),
        Field(
            "unsent", OBJECT, "how many requests were never sent, by cause of waiting"
        ),
    ),
)
RECORD_TYPES = {
    each.name: each
    for each in (
        CRAWL, COPY, DECISION, SENT, ANSWER, BACK_OFF, DEMAND, WAITING, BROWSER, DROPPED, END,
    )
}  # fmt: skip


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
    types = record_type.types
    for key, value in record.items():
        known = types.get(key)
        if known is None or value is None:
            continue
        # Python reads NaN and infinities, too.
        if type(value) not in known or (int in known and not 0 <= value < END_OF_TIME):
            return _wrong(key, value, record_type.kinds[key].expected)
    for key in record_type.needed:
        if record.get(key) is None:
            return _wrong(key, None, record_type.kinds[key].expected)
    digest = record.get("digest") if "digest" in types else None
    if digest is not None and len(digest) > MAX_DIGEST_CHARACTERS:
        return _wrong("digest", digest, f"up to {MAX_DIGEST_CHARACTERS} characters")
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
