"""The decisions that other parsers do not share: what tells owners of them, and tests of them.

The numbers are those of the list of decisions in tests/README.rst.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scrapy_rep.protocol import parse

TESTS = Path(__file__).parent.parent

GROUP = b"User-agent: *\n"
NOTES = [
    # decision, a file, the charset that was declared, the line of the note (0: all) and its code
    (
        "D1-browser",
        b"User-agent: Mozilla\nDisallow: /\n",
        None,
        1,
        "user-agent-browser",
    ),
    (
        "D1-header",
        b"User-agent: Mozilla/4.0 (compatible; SiteScope)\nDisallow: /\n",
        None,
        1,
        "user-agent-header",
    ),
    ("D4", GROUP + b"Disallow: /robots.txt\n", None, 2, "robots-txt-rule"),
    ("D6", GROUP + b"Disallow: /Special%3ASearch\n", None, 2, "reserved-escape"),
    ("D9-malformed", GROUP + b"Disallow: /a%zz\n", None, 2, "bad-escape"),
    ("D9-cut", GROUP + b"Allow: /\nDisallow: /*URL%*\n", None, 3, "cut-escape"),
    ("D13", GROUP + b"Disallow /Special:Search\n", None, 2, "missing-colon"),
    ("D17-UTF-16", b"\xff\xfe" + GROUP, None, 0, "wrong-mark"),
    ("D17-cut", b"\xef\xbb" + GROUP, None, 0, "wrong-mark"),
    ("D21", GROUP + b"Disallow: http://a.example/x\n", None, 2, "absolute-url"),
    ("D23", GROUP + b"Disallow: /a/../b\n", None, 2, "dot-segments"),
    *(
        (f"D25-{field}", GROUP + line + b"\n" + GROUP, None, 2, "between-agents")
        for field, line in {
            "delay": b"Crawl-delay: 5",
            "rate": b"Request-rate: 1/5",
            "visit": b"Visit-time: 0600-0845",
            "usage": b"Content-Usage: train-ai=n",
            "signal": b"Content-Signal: ai-train=no",
        }.items()
    ),
    ("D27", "User-agent: *\nDisallow: /\u00e9".encode(), "latin-1", 0, "wrong-charset"),
    ("D28-value", b"User-agent: *\xc2\xa0\n", None, 1, "hidden-character"),
    ("D28-field", GROUP + b"\xe2\x80\x8bAllow: /\n", None, 2, "hidden-character"),
    ("D29", GROUP + b"Disallow: /v3/\xf0\n", None, 2, "raw-octets"),
]


@pytest.mark.parametrize(
    ("body", "charset", "line", "code"),
    [pytest.param(*case[1:], id=case[0]) for case in NOTES],
)
def test_the_owner_is_told(
    body: bytes, charset: str | None, line: int, code: str
) -> None:
    notes = parse(body, encoding=charset).notes
    assert (line, code) in {(note.line, note.code) for note in notes}


LISTED = re.findall(
    r"^(D\d+) ", (TESTS / "README.rst").read_text("utf-8"), re.MULTILINE
)
NAMES = "\n".join(
    name
    for path in TESTS.rglob("test_*.py")
    if path != Path(__file__)
    for name in re.findall(r"\bdef test_\w+|[\"']\S+[\"']", path.read_text("utf-8"))
)


@pytest.mark.parametrize("decision", LISTED)
def test_some_test_is_named_for_each(decision: str) -> None:
    assert re.search(rf"\b{decision}-|_{decision.lower()}_", NAMES)
