"""What is in a row is believed only where a store has written it so."""

from __future__ import annotations

import sys
import tracemalloc
from dataclasses import asdict, replace
from typing import Any

import pytest

from scrapy_rep.protocol.decoding import MAX_SIZE
from scrapy_rep.store import Snapshot
from scrapy_rep.store.rows import packed, snapshot_of, unpacked

GOOD = Snapshot(
    status=200,
    body=b"User-agent: *\nDisallow: /\n",
    encoding="utf-8",
    url="https://example.com/robots.txt",
    etag='"1"',
    checked=1.8e9,
    lifetime=86400.0,
    grace=86400.0,
)
BODY = packed(GOOD.body)
BOMB = packed(bytes(100 * 2**20))
"""100 KB that are 100 MiB."""


def facts(**changed: Any) -> dict[str, Any]:
    known = asdict(GOOD) | changed
    return {name: known[name] for name in known if name not in {"body", "encoding"}}


@pytest.mark.parametrize(
    "snapshot",
    [
        GOOD,
        Snapshot(),
        replace(GOOD, encoding=None, body=b""),
        replace(GOOD, body=bytes(MAX_SIZE)),
        replace(GOOD, failures=1, failing_since=1, retry_at=2.5, failure="\n\0é€😀"),
        replace(GOOD, checked=-0.0, lifetime=7),
    ],
)
def test_a_row_as_it_was_written(snapshot):
    known = asdict(snapshot)
    found = snapshot_of(known, known["encoding"], packed(known["body"]))
    assert found == snapshot


def test_what_a_later_version_has_besides_is_left_alone():
    assert snapshot_of(facts() | {"later": 1}, "utf-8", BODY) == GOOD


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
        snapshot_of(facts(**{name: value}), None, BODY)


@pytest.mark.parametrize("value", [*NUMBERS, 1.5], ids=lambda value: repr(value)[:12])
@pytest.mark.parametrize("name", ["status", "failures"])
def test_a_number_that_is_none_is_refused(name, value):
    if (name, value) == ("status", None):
        return  # there never was an answer
    with pytest.raises(ValueError, match=f"^its {name} is "):
        snapshot_of(facts(**{name: value}), None, BODY)


@pytest.mark.parametrize("value", TEXTS, ids=repr)
@pytest.mark.parametrize("name", ["url", "etag", "last_modified", "failure"])
def test_a_text_that_is_none_is_refused(name, value):
    with pytest.raises(ValueError, match=f"^its {name} is "):
        snapshot_of(facts(**{name: value}), None, BODY)


@pytest.mark.parametrize("value", [value for value in TEXTS if value is not None])
def test_an_encoding_that_is_none_is_refused(value):
    with pytest.raises(ValueError, match=r"^its encoding is no text"):
        snapshot_of(facts(), value, BODY)


@pytest.mark.parametrize("name", facts())
def test_a_fact_that_an_earlier_version_did_not_have(name):
    known = facts()
    del known[name]
    expected = replace(GOOD, **{name: getattr(Snapshot(), name)})
    assert snapshot_of(known, "utf-8", BODY) == expected


def test_failures_since_no_time_are_refused():
    """They would have gone on for over fifty years, for which all may be allowed."""
    with pytest.raises(ValueError, match="since no time"):
        snapshot_of(facts(status=None, failures=3, retry_at=2e9), None, BODY)


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
        pytest.param(packed(bytes(MAX_SIZE + 1)), "more than", id="an octet too many"),
        pytest.param(BOMB, "more than", id="a bomb"),
    ],
)
def test_a_body_that_is_none_is_refused(data, why):
    with pytest.raises(ValueError, match=why):
        snapshot_of(facts(), None, data)


def test_memory_for_a_bomb_is_bounded():
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more than"):
            unpacked(BOMB)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 * MAX_SIZE


def test_no_number_is_too_long_to_be_shown():
    limit = sys.get_int_max_str_digits()
    with pytest.raises(ValueError, match=r"its checked is|digits"):
        snapshot_of(facts(checked=10 ** (limit + 5)), None, BODY)
