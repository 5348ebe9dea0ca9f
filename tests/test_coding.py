"""Content codings: what comes out, how much of it, and at what cost."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from time import process_time

import pytest

from scrapy_rep.coding import MOST_MEMBERS, decoded

LIMIT = 512 * 1024
RULES = b"User-agent: *\nDisallow: /p\n"


def read(body: bytes, coding: str, *, limit: int = LIMIT, cut: bool = False) -> bytes:
    return decoded(body, coding, limit=limit, cut=cut)


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        (RULES, ""),
        (RULES, "identity"),
        (gzip.compress(RULES), "gzip"),
        (gzip.compress(RULES), " X-GZIP "),
        (gzip.compress(RULES[:9]) + gzip.compress(RULES[9:]), "gzip"),
        (zlib.compress(RULES), "deflate"),
        (zlib.compress(RULES)[2:-4], "deflate"),
        (gzip.compress(zlib.compress(RULES)), "deflate, gzip"),
        (gzip.compress(b"") * (MOST_MEMBERS - 1) + gzip.compress(RULES), "gzip"),
    ],
)
def test_what_comes_out(body, coding):
    assert read(body, coding) == RULES


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        (RULES, "br"),
        (RULES, "gzip"),
        (RULES, "\x00"),
        (gzip.compress(RULES)[:-1], "gzip"),
        (gzip.compress(RULES) + b"\x1f\x8b", "gzip"),
        (gzip.compress(RULES) + b"and more", "gzip"),
        (gzip.compress(RULES), "gzip, gzip"),
        (RULES, ",".join(["identity"] * 5)),
        (gzip.compress(b"") * MOST_MEMBERS + gzip.compress(RULES), "gzip"),
    ],
)
def test_what_is_not_read(body, coding):
    with pytest.raises(ValueError, match="content coding"):
        read(body, coding)


@pytest.mark.parametrize("bombs", [1, 2, 3])
def test_bombs_cost_no_more_than_the_limit(bombs):
    body = RULES + b"#\n" * 50_000_000
    for _ in range(bombs):
        body = gzip.compress(body, 9 if bombs == 1 else 6)
    tracemalloc.start()
    try:
        start = process_time()
        found = read(body, ", ".join(["gzip"] * bombs))
        assert process_time() - start < 2
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.startswith(RULES)
    assert LIMIT - 2 <= len(found) <= LIMIT
    assert peak < 8 * LIMIT


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        (gzip.compress(b"") * (LIMIT // 20), "gzip"),
        (gzip.compress(b"x") * (LIMIT // 21), "gzip"),
        (gzip.compress(RULES), ",".join(["gzip"] * 10_000)),
    ],
    ids=["empty members", "small members", "ten thousand codings"],
)
def test_traps_are_not_read(body, coding):
    start = process_time()
    with pytest.raises(ValueError, match="content coding"):
        read(body, coding)
    assert process_time() - start < 1
