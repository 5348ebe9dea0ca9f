"""Whatever stands in an audit, a page comes of it, and every record is somewhere in it."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scrapy_rep.events.kinds import FORMAT
from scrapy_rep.report import AuditError, make
from scrapy_rep.report.audit import Audit
from scrapy_rep.report.page import Shows, write
from scrapy_rep.report.reader import RECORDS
from tests.report.reading import audit_of
from tests.report.test_page import outline

TIMES = st.one_of(
    st.floats(0, 1e11, exclude_max=True),
    st.floats(1.79e9, 1.79e9 + 100),
    st.integers(0, 10**10),
)
WORDS = "https://a.example a.example http://[ fetched rule </p> " + "x" * 999
TEXTS = st.one_of(st.text(max_size=9), st.sampled_from(WORDS.split()))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(TEXTS, inner, max_size=2)
    ),
    max_leaves=4,
)
OF_KIND = {
    bool: st.booleans(),
    dict: st.dictionaries(TEXTS, JSON, max_size=3),
    float: st.floats(0, 1e10),
    int: st.integers(0, 300),
    list: st.lists(JSON, max_size=3),
    str: TEXTS,
}
ALL_NAMES = {name for fields in RECORDS.values() for name in fields}


@st.composite
def record(draw: st.DrawFn) -> dict[str, object]:
    """A record that can be read; most of them have what it may have, and more."""
    kind, fields = draw(st.sampled_from(list(RECORDS.items())))
    found: dict[str, object] = {"type": kind}
    for name, (of_kind, needed) in fields.items():
        may = [OF_KIND[each] for each in sorted(of_kind.types, key=str)]
        if not needed:
            may.append(st.none())
        found[name] = draw(st.one_of(may))
    found |= dict.fromkeys(ALL_NAMES - fields.keys(), draw(JSON))
    found["time"] = draw(TIMES)
    if kind == "crawl":
        found["format"] = FORMAT
    if "digest" in fields:
        found["digest"] = draw(st.sampled_from([None, "", "sha256:1", "sha256:2"]))
    return found


WAITS_AFTER_THE_END = [
    {"type": "waiting", "time": 5e8, "cause": "pace", "requests": 1},
    {"type": "waiting", "time": 1e9, "cause": "asked", "requests": 1},
    {"type": "end", "time": 0.0, "reason": "finished"},
]
"""As a clock went back."""


@settings(max_examples=40, deadline=None)
@given(st.lists(record(), min_size=1, max_size=12))
@example(WAITS_AFTER_THE_END)
def test_any_records(records):
    with audit_of(records) as audit:
        assert audit.records == len(records)
        assert audit.troubles == []
        page = StringIO()
        write(page, audit, None, Shows(hosts=2, detailed=1, files=1))
        sums = audit.sums
    text = outline(page.getvalue()).text
    decided = [each for each in records if each["type"] == "decision"]
    allowed = sum(each["allowed"] is True for each in decided)
    anyway = sum(each["enforced"] is False for each in decided if not each["allowed"])
    assert sums["allowed"] == allowed
    refused = sums["refused_by_rule"] + sums["refused_otherwise"]
    assert refused == len(decided) - allowed - anyway
    sent = [each for each in records if each["type"] == "sent"]
    robots = sum(each["robots"] is True for each in sent)
    assert (sums["requests"], sums["robots"]) == (len(sent) - robots, robots)
    pages = [each for each in sent if each["robots"] is not True]
    urls = {each["judged"] or each["url"] for each in pages}
    assert f"URLs requested {len(urls)} in " in text


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=40), JSON, st.just({"type": "sent"}))))
def test_any_lines(lines):
    whole = json.dumps({"type": "end", "time": 1}).encode()
    with TemporaryDirectory() as name:
        audit, page = Path(name, "audit.jsonl"), Path(name, "report.html")
        octets = [
            each if isinstance(each, bytes) else json.dumps(each).encode()
            for each in lines
        ]
        audit.write_bytes(b"\n".join([whole, *octets]))
        make([str(audit)], str(page))
        outline(page.read_text(encoding="utf-8"))
        audit.write_bytes(b"\n".join(octets))
        with pytest.raises(AuditError, match="expected a file that a crawl"):
            Audit([str(audit)])
