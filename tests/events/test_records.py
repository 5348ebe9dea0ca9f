"""What the lines of an audit are: declared once, for who writes and who reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scrapy_rep.events import as_octets, as_text
from scrapy_rep.events.kinds import Ended
from scrapy_rep.report.reader import RECORDS, fault
from tests.audits import records_of
from tests.events.test_audit import SAMPLE


@pytest.mark.parametrize("record", records_of(SAMPLE), ids=lambda each: each["type"])
def test_lines_of_the_sample_are_as_declared(record):
    assert fault(record) == ""
    kind, *names = record
    assert kind == "type"
    assert names == [name for name in RECORDS[record["type"]] if name in record]


def test_every_type_is_in_the_sample():
    assert {record["type"] for record in records_of(SAMPLE)} == set(RECORDS)


def test_values_are_written_as_json_in_the_order_of_the_fields():
    ended = Ended("größe", {"parked": 3}, time=1.50004)
    assert ended.as_json() == (
        '{"type":"end","time":1.5000,"reason":"gr\\u00f6\\u00dfe","unsent":{"parked":3}}\n'
    )
    assert Ended(None, None, time=1).as_json() == '{"type":"end","time":1.0000}\n'


SENT = {"type": "sent", "time": 1, "url": "u", "host": "a"}
DECIDED = {"type": "decision", "time": 1, "url": "u", "allowed": True}


FAULTS = [
    line.split("  ", 1)
    for line in Path(__file__).with_name("faults.txt").read_text().splitlines()
]
"""Lines of an audit, and how what is wrong with them is told."""


@pytest.mark.parametrize(("line", "what"), FAULTS)
def test_what_is_wrong_is_named(line, what):
    found = fault(json.loads(line))
    assert found.startswith(what.strip())
    assert len(found) < 150


def test_what_is_wrong_is_told_in_few_words():
    assert fault({**DECIDED, "digest": "a" * 201}).startswith("digest is 'aaaa")
    assert len(fault({**DECIDED, "digest": "a" * 201})) < 150


@pytest.mark.parametrize(
    "record",
    [
        {"type": "crawl", "time": 0},
        {**SENT, "robots": None, "body": 5, "digest": [1], "more": {}},
        {**DECIDED, "delay": 0, "preferences": {}, "rule": None},
        {"type": "later", "time": 1.5, "url": 7, "body": 5, "digest": [1]},
    ],
)
def test_what_is_no_field_or_of_no_known_type_is_no_fault(record):
    assert fault(record) == ""


@pytest.mark.parametrize(
    ("octets", "encoding"),
    [(b"", "utf-8"), (b"\xc3\xa9", "utf-8"), (b"\xe9\r\n", "latin-1")],
)
def test_a_body_comes_back_octet_by_octet(octets, encoding):
    assert as_text(octets)[0] == encoding
    assert as_octets(*as_text(octets)) == octets


@pytest.mark.parametrize(
    ("encoding", "text", "octets"),
    [
        (None, "\xe9", b"\xc3\xa9"),
        ("latin-1", "\u20ac", b"\xe2\x82\xac"),
        (None, "\ud800", b"\xed\xa0\x80"),
    ],
)
def test_octets_of_what_nobody_has_written(encoding, text, octets):
    assert as_octets(encoding, text) == octets
