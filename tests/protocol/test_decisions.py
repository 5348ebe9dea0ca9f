"""The decisions that other parsers do not share: what tells owners of them, and tests of them.

The numbers are those of the list of decisions in tests/conformance/README.rst.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scrapy_rep.protocol import parse
from tests.conformance import params

TESTS = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("octets", "charset", "line", "code"),
    params("lint", "octets", "charset", "line", "code"),
)
def test_the_owner_is_told(octets, charset, line, code):
    notes = parse(octets.encode("latin-1"), encoding=charset or None).notes
    assert (int(line), code) in {(note.line, note.code) for note in notes}


LISTED = re.findall(
    r"^(D\d+) ", (TESTS / "conformance/README.rst").read_text("utf-8"), re.MULTILINE
)
NAMES = "\n".join(
    name
    for path in [*TESTS.rglob("test_*.py"), *TESTS.glob("conformance/[2d]*.txt")]
    for name in re.findall(
        r"\bdef test_\w+|[\"']\S+[\"']|^[D\d]\S+-\S+",
        path.read_text("utf-8"),
        re.MULTILINE,
    )
)


def test_decisions_are_listed():
    assert LISTED


@pytest.mark.parametrize("decision", LISTED)
def test_some_test_is_named_for_each(decision: str) -> None:
    assert re.search(rf"\b{decision}-|_{decision.lower()}_", NAMES)
