"""What is in a row is believed only where a store has written it so."""

from __future__ import annotations

import sys
import tracemalloc
from typing import Any

import pytest

from scrapy_rep.protocol.decoding import MAX_SIZE
from scrapy_rep.store import Failures, KeptAnswer, Snapshot
from scrapy_rep.store.rows import (
    ANSWER_FACTS,
    FACTS,
    FAILURE_FACTS,
    flatten,
    pack_body,
    read_row,
    unpack_body,
)
from tests.snapshots import changed, facts_of, snapshot_of

GOOD = snapshot_of(
    status=200,
    body=b"User-agent: *\nDisallow: /\n",
    encoding="utf-8",
    url="https://example.com/robots.txt",
    etag='"1"',
    checked=1.8e9,
    lifetime=86400.0,
    grace=86400.0,
)
BODY = pack_body(facts_of(GOOD)["body"])
BOMB = pack_body(bytes(10 * 2**20))
"""100 KB that are 100 MiB."""


def facts(**different: Any) -> dict[str, Any]:
    return {name: facts_of(GOOD)[name] for name in FACTS} | different


@pytest.mark.parametrize(
    "snapshot",
    [
        GOOD,
        Snapshot(),
        changed(GOOD, encoding=None, body=b""),
        changed(GOOD, body=bytes(MAX_SIZE)),
        changed(GOOD, failures=1, failing_since=1, retry_at=2.5, failure="\n\0é€😀"),
        changed(GOOD, checked=-0.0, lifetime=7),
    ],
)
def test_a_row_as_it_was_written(snapshot):
    known, encoding, body = flatten(snapshot)
    assert read_row(known, encoding, pack_body(body)) == snapshot


def test_a_row_in_the_time_of_another_clock():
    failing = changed(GOOD, failures=1, failing_since=1.8e9, retry_at=0.0)
    known, encoding, body = flatten(failing, ahead=60.0)
    assert (known["checked"], known["failing_since"]) == (1.8e9 + 60, 1.8e9 + 60)
    assert known["retry_at"] == 0.0  # which is no time
    assert read_row(known, encoding, pack_body(body), ahead=60.0) == failing


ANSWER: dict[str, Any] = {
    "status": 404,
    "url": "u",
    "etag": "e",
    "last_modified": "l",
    "checked": 1.5,
    "lifetime": 2.5,
    "grace": 3.5,
    "cache_control": "c",
    "expires": "x",
}
FAILED = {"failures": 2, "failing_since": 4.5, "retry_at": 5.5, "failure": "f"}
KEPT = KeptAnswer(body=b"b", encoding="utf-8", **ANSWER)
FAILURES = Failures(count=2, since=4.5, retry_at=5.5, reason="f")


@pytest.mark.parametrize(
    ("snapshot", "known"),
    [
        pytest.param(Snapshot(answer=KEPT), ANSWER, id="an answer"),
        pytest.param(Snapshot(failures=FAILURES), FAILED, id="failures"),
        pytest.param(Snapshot(varies_at=9.5), {"checked": 9.5}, id="it varies"),
        pytest.param(
            Snapshot(answer=KEPT, failures=FAILURES), ANSWER | FAILED, id="both"
        ),
    ],
)
def test_each_part_has_its_facts(snapshot, known):
    content = ("utf-8", b"b") if snapshot.answer else (None, b"")
    assert flatten(snapshot) == (FACTS | known, *content)
    assert read_row(known, content[0], pack_body(content[1])) == snapshot


def test_there_is_a_fact_for_every_field():
    of_answer = {*KeptAnswer._fields}
    assert of_answer == {*ANSWER_FACTS, "body", "encoding"}
    # Those of code on this machine are for no other run or worker to know.
    assert {*Failures._fields} - {"by_own_code"} == {*FAILURE_FACTS.values()}
    assert {*FACTS} == {*ANSWER_FACTS, *FAILURE_FACTS}


def test_what_a_later_version_has_besides_is_left_alone():
    assert read_row(facts() | {"later": 1}, "utf-8", BODY) == GOOD


NUMBERS: list[Any] = [
    *(float("nan"), float("inf"), float("-inf"), -1, -0.5, 1e18, 1e300, 10**400),
    *("1", None, [], {}, True, b"1", "nan"),
]
TEXTS = [None, 1, 1.5, True, b"x", ["x"], {"x": 1}, "\ud800"]


@pytest.mark.parametrize("value", NUMBERS, ids=lambda value: repr(value)[:12])
@pytest.mark.parametrize(
    "name", ["checked", "lifetime", "grace", "failing_since", "retry_at"]
)
def test_a_time_that_is_none_is_refused(name, value):
    with pytest.raises(ValueError, match=f"^its {name} is "):
        read_row(facts(**{name: value}), None, BODY)


@pytest.mark.parametrize("value", [*NUMBERS, 1.5], ids=lambda value: repr(value)[:12])
@pytest.mark.parametrize("name", ["status", "failures"])
def test_a_number_that_is_none_is_refused(name, value):
    if (name, value) == ("status", None):
        return  # there never was an answer
    with pytest.raises(ValueError, match=f"^its {name} is "):
        read_row(facts(**{name: value}), None, BODY)


@pytest.mark.parametrize("value", TEXTS, ids=repr)
@pytest.mark.parametrize("name", ["url", "etag", "last_modified", "failure"])
def test_a_text_that_is_none_is_refused(name, value):
    with pytest.raises(ValueError, match=f"^its {name} is "):
        read_row(facts(**{name: value}), None, BODY)


@pytest.mark.parametrize("value", [value for value in TEXTS if value is not None])
def test_an_encoding_that_is_none_is_refused(value):
    with pytest.raises(ValueError, match=r"^its encoding is no text"):
        read_row(facts(), value, BODY)


@pytest.mark.parametrize("name", facts())
def test_a_fact_that_an_earlier_version_did_not_have(name):
    known = facts()
    del known[name]
    assert read_row(known, "utf-8", BODY) == changed(GOOD, **{name: FACTS[name]})


def test_failures_since_no_time_are_refused():
    """They would have gone on for over fifty years, for which all may be allowed."""
    with pytest.raises(ValueError, match="since no time"):
        read_row(facts(status=None, failures=3, retry_at=2e9), None, BODY)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(None, "its body: ", id="none"),
        pytest.param(7, "its body: ", id="a number"),
        pytest.param("x", "its body: ", id="a text"),
        pytest.param(b"", "does not end", id="empty"),
        pytest.param(b"User-agent: *", "its body: ", id="not packed"),
        pytest.param(BODY[:-1], "does not end", id="cut short"),
        pytest.param(BODY[:-1] + b"\0", "its body: ", id="another checksum"),
        pytest.param(BODY + b"x", "does not end", id="more follows"),
        pytest.param(
            pack_body(bytes(MAX_SIZE + 1)), "more than", id="an octet too many"
        ),
        pytest.param(BOMB, "more than", id="a bomb"),
    ],
)
def test_a_body_that_is_none_is_refused(data, why):
    with pytest.raises(ValueError, match=why):
        read_row(facts(), None, data)


def test_memory_for_a_bomb_is_bounded():
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more than"):
            unpack_body(BOMB)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 * MAX_SIZE


def test_no_number_is_too_long_to_be_shown():
    limit = sys.get_int_max_str_digits()
    with pytest.raises(ValueError, match=r"its checked is|digits"):
        read_row(facts(checked=10 ** (limit + 5)), None, BODY)
