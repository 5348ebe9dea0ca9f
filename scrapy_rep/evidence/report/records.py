"""The records of an audit: what each type must have, and may have."""

from __future__ import annotations

NUMBER = frozenset({int, float})
WHOLE = frozenset({int})
TEXT = frozenset({str})
WORDS = frozenset({str, list})
FLAG = frozenset({bool})
OBJECT = frozenset({dict})
NAMES = {
    NUMBER: "a number from 0",
    WHOLE: "a whole number from 0",
    TEXT: "a string",
    WORDS: "a string or a list",
    FLAG: "true or false",
    OBJECT: "an object",
}

KINDS = {
    "agent": WORDS,
    "allowed": FLAG,
    "body": TEXT,
    "cause": TEXT,
    "delay": NUMBER,
    "digest": TEXT,
    "encoding": TEXT,
    "enforced": FLAG,
    "failure": TEXT,
    "fetched": NUMBER,
    "format": WHOLE,
    "group": WORDS,
    "line": WHOLE,
    "origin": TEXT,
    "page": TEXT,
    "reason": TEXT,
    "robots": FLAG,
    "rule": TEXT,
    "settings": OBJECT,
    "slot": TEXT,
    "spider": TEXT,
    "state": TEXT,
    "status": WHOLE,
    "url": TEXT,
    "version": TEXT,
    "what": TEXT,
    "worker": TEXT,
}
"""What the values of keys are; any may be null. Other keys are of no concern."""

MUST = {
    "crawl": (),
    "copy": ("origin", "state"),
    "decision": ("url", "allowed"),
    "sent": ("url", "slot"),
    "dropped": ("url",),
    "end": (),
}
"""What there is no record without, by its type, beside that and its time."""

FORMAT = 1
LONGEST_DIGEST = 200
END_OF_TIME = 1e11
"""Seconds since 1970: the year 5138. Pictures go beyond it, dates end with 9999."""


def fault(record: object) -> str:
    """Return what is wrong with a line of an audit; "" where nothing is.

    Records of a type that is not known are no concern, but must have their time.
    """
    if type(record) is not dict:
        return "not a JSON object"
    kind = record.get("type")
    if type(kind) is not str:
        return _wrong("type", kind, "the type of a record")
    time = record.get("time")
    if type(time) not in NUMBER or not 0 <= time < END_OF_TIME:  # type: ignore[operator]
        return _wrong("time", time, "seconds since 1970")
    if kind not in MUST:
        return ""
    for name, value in record.items():
        kinds = KINDS.get(name)
        if kinds is None or value is None:
            continue
        # Python reads NaN and infinities, too.
        if type(value) not in kinds or (int in kinds and not 0 <= value < END_OF_TIME):
            return _wrong(name, value, NAMES[kinds])
    for name in MUST[kind]:
        if record.get(name) is None:
            return _wrong(name, None, NAMES[KINDS[name]])
    if len(record.get("digest") or "") > LONGEST_DIGEST:
        return _wrong("digest", record["digest"], f"up to {LONGEST_DIGEST} characters")
    if kind == "crawl" and record.get("format", FORMAT) != FORMAT:
        return _wrong("format", record["format"], f"{FORMAT}, the only one known here")
    return ""


def _wrong(name: str, value: object, expected: str) -> str:
    shown = "missing" if value is None else ascii(value)
    if len(shown) > 60:
        shown = f"{shown[:57]}..."
    return f"{name} is {shown}, expected {expected}"
