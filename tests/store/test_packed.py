"""What is packed is believed only where a store has written it so."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from scrapy_rep.protocol.decoding import MAX_SIZE
from scrapy_rep.store import Snapshot, pack, unpack
from tests.snapshots import changed, snapshot_of
from tests.utils import traced

KEY = "https://example.com ExampleBot"
GOOD = snapshot_of(
    status=200,
    body=b"User-agent: *\nDisallow: /\n",
    encoding="utf-8",
    url="https://example.com/robots.txt",
    etag='"1"',
    checked=1.8e9,
    lifetime=86400.0,
    grace=86400.0,
    failures=1,
    failing_since=1.9e9,
    retry_at=0.0,
)
PACKED = pack(KEY, GOOD)


def with_field(part: int, name: str, value: Any) -> bytes:
    """Return what is packed, but with another *value* in its answer (1) or failures (2)."""
    head, _, body = zlib.decompress(PACKED).partition(b"\n")
    facts = json.loads(head)
    facts[part][name] = value
    return zlib.compress(json.dumps(facts).encode() + b"\n" + body)


@pytest.mark.parametrize(
    "snapshot",
    [
        GOOD,
        Snapshot(varies_at=9.5),
        changed(GOOD, encoding=None, body=b""),
        changed(GOOD, body=bytes(MAX_SIZE)),
        changed(GOOD, retry_at=2.5, failure="\n\0é€😀"),
        changed(GOOD, checked=-0.0, lifetime=7),
        snapshot_of(failures=2, failing_since=4.5, retry_at=5.5, failure="f"),
    ],
)
def test_as_it_was_packed(snapshot):
    assert unpack(KEY, pack(KEY, snapshot)) == snapshot
    assert unpack(KEY, pack(KEY, snapshot, ahead=60.0), ahead=60.0) == snapshot


def test_in_the_time_of_another_clock():
    assert unpack(KEY, pack(KEY, GOOD, ahead=60.0)) == changed(
        GOOD, checked=1.8e9 + 60, failing_since=1.9e9 + 60
    )  # a retry at 0 is no time


def test_failures_of_own_code_are_for_no_other_run_to_know():
    assert GOOD.failures is not None
    own = GOOD._replace(failures=GOOD.failures._replace(by_own_code=True))
    assert unpack(KEY, pack(KEY, own)) == GOOD


NO_TEXTS = [None, 1, 1.5, True, ["x"], {"x": 1}]
NO_TIMES: list[Any] = [
    *(float("nan"), float("inf"), float("-inf"), -1, -0.5, 1e18, 1e300, 10**400),
    *("1", None, [], {}, True, "nan"),
]
WRONG = [
    *((1, name, value) for name in ("url", "etag", "expires") for value in NO_TEXTS),
    *((2, "reason", value) for value in NO_TEXTS),
    *((1, "encoding", value) for value in NO_TEXTS if value is not None),
    *((1, n, value) for n in ("checked", "lifetime", "grace") for value in NO_TIMES),
    *((2, n, value) for n in ("since", "retry_at") for value in NO_TIMES),
    *((1, "status", value) for value in (*NO_TIMES, 1.5)),
    *((2, "count", value) for value in (*NO_TIMES, 1.5)),
]


@pytest.mark.parametrize(
    ("part", "name", "value"), WRONG, ids=lambda value: repr(value)[:12]
)
def test_a_field_that_is_not_like_its_name_is_refused(part, name, value):
    with pytest.raises(ValueError, match=f"^its {name} is "):
        unpack(KEY, with_field(part, name, value))


@pytest.mark.parametrize("name", ["url", "encoding"])
def test_half_of_a_character_is_refused(name):
    with pytest.raises(ValueError, match="surrogates"):
        unpack(KEY, with_field(1, name, "\ud800"))


@pytest.mark.parametrize("name", ["since", "count"])
def test_failures_since_no_time_are_refused(name):
    """They would have gone on for over fifty years, for which all may be allowed."""
    with pytest.raises(ValueError, match="since no time"):
        unpack(KEY, with_field(2, name, 0))


def packed_line(line: str, body: bytes = b"") -> bytes:
    return zlib.compress(line.encode() + b"\n" + body)


@pytest.mark.parametrize(
    "packed",
    [
        *(None, 7, "x", b"", b"User-agent: *"),
        PACKED[:-1],
        PACKED[:-1] + b"\0",
        PACKED + b"x",
        pack("https://other.example", GOOD),
        pack(KEY, changed(GOOD, body=bytes(MAX_SIZE + 1))),
        pack(KEY, changed(GOOD, body=bytes(10 * 2**20))),
        *map(packed_line, ("", "{}", "[]", "null", "nonsense", "[" * 10**5)),
        packed_line(json.dumps([KEY, {}, None, 0.0])),
        packed_line(json.dumps([KEY, [], None, 0.0])),
        packed_line(json.dumps([KEY, None, 7, 0.0])),
        packed_line(json.dumps([KEY, None, None, "0"])),
        with_field(1, "body", "x"),
        with_field(1, "later", "x"),
    ],
    ids=lambda packed: repr(packed)[:20],
)
def test_what_is_something_else_is_refused(packed):
    with pytest.raises(ValueError, match=r"^it|its|Expecting|to unpack"):
        unpack(KEY, packed)


def test_memory_for_a_bomb_is_bounded():
    bomb = zlib.compress(bytes(100 * 2**20))
    with traced() as memory:
        with pytest.raises(ValueError, match="too long"):
            unpack(KEY, bomb)
        _, most = memory()
    assert most < 5 * MAX_SIZE


def test_what_has_neither_an_answer_nor_failures_varies():
    assert GOOD.failures is not None
    assert Snapshot(varies_at=9.5).varies
    assert not GOOD.varies
    assert not Snapshot(answer=GOOD.answer).varies
    assert not Snapshot(failures=GOOD.failures).varies
    assert not Snapshot(failures=GOOD.failures).has_failed_here
    own = GOOD.failures._replace(by_own_code=True)
    assert Snapshot(failures=own).has_failed_here
