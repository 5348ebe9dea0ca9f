"""Content codings: what comes out, how much of it, and at what cost."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from functools import partial
from time import process_time

import pytest

from scrapy_rep.access.content_coding import MAX_GZIP_MEMBERS, decode_body

LIMIT = 512 * 1024
RULES = b"User-agent: *\nDisallow: /p\n"
zipped = partial(gzip.compress, mtime=0)  # the same each time


def read(body: bytes, coding: str, *, limit: int = LIMIT, cut: bool = False) -> bytes:
    return decode_body(body, coding, limit=limit, cut=cut)


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        (RULES, ""),
        (RULES, "identity"),
        (zipped(RULES), "gzip"),
        (zipped(RULES), " X-GZIP "),
        (zipped(RULES[:9]) + zipped(RULES[9:]), "gzip"),
        (RULES, "UTF-8"),
        (RULES, "none"),
        (RULES, "text/plain; charset=utf-8"),
        (RULES, "aws-chunked"),
        (RULES, "\x00"),
        (zipped(RULES), "gzip, utf-8"),
        (zipped(RULES), "binary, gzip"),
        (zlib.compress(RULES), "deflate"),
        (zlib.compress(RULES)[2:-4], "deflate"),
        (zipped(zlib.compress(RULES)), "deflate, gzip"),
        (zipped(b"") * (MAX_GZIP_MEMBERS - 1) + zipped(RULES), "gzip"),
    ],
)
def test_what_comes_out(body, coding):
    assert read(body, coding) == RULES


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        (RULES, "br"),
        (RULES, "gzip"),
        (RULES, "zstd"),
        (RULES, "X-Compress"),
        (zipped(RULES), "binary"),
        (zipped(RULES), "gunzip"),
        (b"\x28\xb5\x2f\xfd\x04\x58" + RULES, "zst" * 100),
        (zipped(b"User-agent: *\x00"), "gzip, utf-8"),
        (zipped(RULES)[:-1], "gzip"),
        (zipped(RULES) + b"\x1f\x8b", "gzip"),
        (zipped(RULES) + b"and more", "gzip"),
        (zipped(RULES), "gzip, gzip"),
        (RULES, ",".join(["identity"] * 5)),
        (zipped(b"") * MAX_GZIP_MEMBERS + zipped(RULES), "gzip"),
    ],
)
def test_what_is_not_read(body, coding):
    with pytest.raises(ValueError, match="content coding"):
        read(body, coding)


def test_d32_utf_16_is_text():
    body = RULES.decode().encode("utf-16")
    assert read(body, "utf-16") == body


@pytest.mark.parametrize("bombs", [1, 2, 3])
def test_bombs_cost_no_more_than_the_limit(bombs):
    body = RULES + b"#\n" * 50_000_000
    for _ in range(bombs):
        body = zipped(body, 9 if bombs == 1 else 6)
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
        (zipped(b"") * (LIMIT // 20), "gzip"),
        (zipped(b"x") * (LIMIT // 21), "gzip"),
        (zipped(RULES), ",".join(["gzip"] * 10_000)),
    ],
    ids=["empty members", "small members", "ten thousand codings"],
)
def test_traps_are_not_read(body, coding):
    start = process_time()
    with pytest.raises(ValueError, match="content coding"):
        read(body, coding)
    assert process_time() - start < 1
