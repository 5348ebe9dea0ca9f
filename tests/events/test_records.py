"""What the lines of an audit are: declared once, for who writes and who reads them."""

from __future__ import annotations

import pytest

from scrapy_rep.events import as_octets, as_text
from scrapy_rep.events.of_requests import Ended
from scrapy_rep.report.reader import RECORDS, fault
from tests.audits import records_of
from tests.evidence.test_audit import SAMPLE


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
COPY = {"type": "copy", "time": 1, "origin": "o", "state": "fetched"}
DECIDED = {"type": "decision", "time": 1, "url": "u", "allowed": True}


@pytest.mark.parametrize(
    ("record", "what"),
    [
        ([1], "not a JSON object"),
        ({"time": 1}, "type is missing, expected the type of a record"),
        ({"type": ["sent"], "time": 1}, "type is ['sent'], expected the type of"),
        ({"type": "sent"}, "time is missing, expected seconds since 1970"),
        ({"type": "later"}, "time is missing, expected seconds since 1970"),
        ({**SENT, "time": "1"}, "time is '1', expected seconds since 1970"),
        ({**SENT, "time": True}, "time is True, expected seconds since 1970"),
        ({**SENT, "time": float("nan")}, "time is nan, expected seconds since 1970"),
        ({**SENT, "time": -1}, "time is -1, expected seconds since 1970"),
        ({**SENT, "time": 1e300}, "time is 1e+300, expected seconds since"),
        ({**SENT, "url": None}, "url is missing, expected a string"),
        ({**SENT, "host": 1}, "host is 1, expected a string"),
        ({**SENT, "robots": 1}, "robots is 1, expected true or false"),
        ({**DECIDED, "allowed": None}, "allowed is missing, expected true or false"),
        ({**DECIDED, "allowed": 1}, "allowed is 1, expected true or false"),
        ({**DECIDED, "line": -1}, "line is -1, expected a whole number from 0"),
        ({**DECIDED, "line": 1.5}, "line is 1.5, expected a whole number from 0"),
        ({**DECIDED, "group": "*"}, "group is '*', expected a list"),
        ({**DECIDED, "digest": "a" * 201}, "digest is 'aaaa"),
        ({**COPY, "fetched": float("inf")}, "fetched is inf, expected a number from 0"),
        ({**COPY, "digest": [1]}, "digest is [1], expected a string"),
        ({**COPY, "body": 5}, "body is 5, expected a string"),
        ({"type": "crawl", "time": 1, "settings": []}, "settings is [], expected an "),
        (
            {"type": "crawl", "time": 1, "format": 2},
            "format is 2, expected 1, the only",
        ),
    ],
)
def test_what_is_wrong_is_named(record, what):
    assert fault(record).startswith(what)
    assert len(fault(record)) < 150


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
