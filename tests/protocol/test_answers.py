"""What an answer says: its status, its fields, its codings, and what the site wants for a page."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from contextlib import suppress
from functools import partial
from importlib import import_module
from time import process_time

import brotli  # type: ignore[import-untyped]
import pytest

from scrapy_rep.protocol import answers as content_coding
from scrapy_rep.protocol.answers import (
    MAX_GZIP_MEMBERS,
    Access,
    Demand,
    access_of,
    all_values,
    decode_body,
    demand_of,
    first_value,
    header_fields,
)
from tests.conformance import params
from tests.utils import fields

LIMIT = 512 * 1024
RULES = b"User-agent: *\nDisallow: /p\n"
ZSTD_HEAD, ZSTD_REST = bytes.fromhex("28b52ffd00"), bytes.fromhex("d90000") + RULES
ZSTD = ZSTD_HEAD + b"\x68" + ZSTD_REST  # a window of 8 MiB
ZSTD_OF_A_LARGE_WINDOW = ZSTD_HEAD + b"\x70" + ZSTD_REST  # of 16 MiB
ZSTD_BLOCK = bytes.fromhex("020010") + b"\n"  # 128 KiB of line feeds; none is the last
zipped = partial(gzip.compress, mtime=0)  # the same each time


def read(body: bytes, coding: str, *, limit: int = LIMIT, cut: bool = False) -> bytes:
    return decode_body(body, coding, limit=limit, cut=cut)


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        *((RULES, name) for name in ("", "identity", "UTF-8", "none", "aws-chunked", "\x00")),
        (RULES, "text/plain; charset=utf-8"), (zipped(RULES), "gzip"), (zipped(RULES), " X-GZIP "),
        (zipped(RULES[:9]) + zipped(RULES[9:]), "gzip"), (zipped(RULES), "gzip, utf-8"),
        (zipped(RULES), "binary, gzip"), (zlib.compress(RULES), "deflate"),
        (zlib.compress(RULES)[2:-4], "deflate"), (zipped(zlib.compress(RULES)), "deflate, gzip"),
        (zipped(b"") * (MAX_GZIP_MEMBERS - 1) + zipped(RULES), "gzip"),
        (brotli.compress(RULES), "BR"), (ZSTD, "zstd"), (zipped(ZSTD), "zstd, gzip"),
        # packed more often than it says: as they come, these have no rules
        (zipped(RULES), ""), (zipped(RULES), "identity"), (ZSTD, ""), (zipped(zipped(RULES)), "gzip"),
        (brotli.compress(zipped(RULES)), "br"), (zipped(ZSTD), "gzip"),
    ],
)  # fmt: skip
def test_what_comes_out(body, coding):
    assert read(body, coding) == RULES


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        *((RULES, name) for name in ("br", "gzip", "zstd", "X-Compress", "dcb", "dcz", "exi", "sdch")),
        (zipped(RULES), "binary"), (zipped(RULES), "gunzip"),
        (b"\x28\xb5\x2f\xfd\x04\x58" + RULES, "zst" * 100),
        (zipped(b"User-agent: *\x00"), "gzip, utf-8"), (zipped(RULES)[:-1], "gzip"),
        (zipped(RULES) + b"\x1f\x8b", "gzip"), (zipped(RULES) + b"and more", "gzip"),
        (zipped(RULES), "gzip, gzip"), (RULES, ",".join(["identity"] * 5)),
        (zipped(b"") * MAX_GZIP_MEMBERS + zipped(RULES), "gzip"),
        (zipped(RULES)[:-1], ""), (ZSTD + b"more", ""), (zipped(zipped(RULES)[:-9]), "gzip"),
        (zipped(zipped(zipped(zipped(RULES)))), ""),
        (brotli.compress(RULES)[:-1], "br"), (brotli.compress(RULES) + b"more", "br"),
    ],
)  # fmt: skip
def test_what_is_not_read(body, coding):
    with pytest.raises(ValueError, match="content coding"):
        read(body, coding)


def test_d32_utf_16_is_text():
    body = RULES.decode().encode("utf-16")
    assert read(body, "utf-16") == body


def is_installed(package: str) -> bool:
    with suppress(ImportError):
        return bool(import_module(package))
    return False


INSTALLED = [name for name in content_coding.ZSTD_PACKAGES if is_installed(name)]


@pytest.mark.parametrize("zstd", INSTALLED)
def test_each_package_for_zstd(zstd, monkeypatch):
    monkeypatch.setattr(content_coding, "ZSTD_PACKAGES", (zstd,))
    assert read(ZSTD, "zstd") == RULES
    for broken in (ZSTD[:-1], ZSTD + b"more", ZSTD_OF_A_LARGE_WINDOW):
        with pytest.raises(ValueError, match="content coding"):
            read(broken, "zstd")


def bomb(coding: str) -> bytes:
    if coding == "zstd":
        return ZSTD_HEAD + b"\x68" + ZSTD_BLOCK * 100_000
    body = RULES + b"#\n" * 10_000_000
    if coding == "br":
        return brotli.compress(body, quality=1)  # type: ignore[no-any-return]
    for _ in coding.split(","):
        body = zipped(body, 6)
    return body


@pytest.mark.parametrize(
    ("coding", "zstd"),
    [
        *((coding, "") for coding in ("gzip", "gzip, gzip", "gzip, gzip, gzip", "br")),
        *(("zstd", package) for package in INSTALLED),
    ],
)
def test_bombs_cost_no_more_than_the_limit(coding, zstd, monkeypatch):
    body = bomb(coding)
    monkeypatch.setattr(content_coding, "ZSTD_PACKAGES", (zstd,))
    tracemalloc.start()
    try:
        start = process_time()
        found = read(body, coding)
        assert process_time() - start < 2
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.startswith(RULES) or coding == "zstd"
    assert LIMIT - 2 <= len(found) <= LIMIT
    assert peak < (16 if coding in {"br", "zstd"} else 8) * LIMIT


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


@pytest.mark.parametrize(
    ("status", "access"), params("2.3.1-access-results", "status", "access")
)
def test_access(status, access):
    assert access_of(None if status == "none" else int(status)) is Access[access]


def test_37_304_confirms_a_copy():
    assert access_of(304, conditional=True) is Access.NOT_MODIFIED
    assert access_of(200, conditional=True) is Access.SUCCESSFUL


def test_45_statuses_can_be_made_to_deny():
    assert access_of(403, deny_statuses=frozenset({401, 403})) is Access.DENIED
    assert access_of(404, deny_statuses=frozenset({401, 403})) is Access.UNAVAILABLE


def test_a_name_in_any_case_is_one_field():
    fields = header_fields(
        [("ETag", '"a"'), ("VARY", "Accept"), ("vary", "User-Agent")]
    )
    assert fields == {"etag": ['"a"'], "vary": ["Accept", "User-Agent"]}
    assert first_value(fields, "vary") == "Accept"
    assert all_values(fields, "vary") == "Accept, User-Agent"


def test_a_field_that_is_missing_has_no_value():
    assert first_value({}, "date") == all_values({}, "date") == ""


def test_what_is_no_unicode_can_be_kept():
    assert header_fields([("ETag", "\udcff")]) == {"etag": ["?"]}


PAGE = "https://example.com/a/page"


def of(status: int, **headers: str) -> Demand | None:
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return demand_of(PAGE, status, fields(named))


@pytest.mark.parametrize(
    ("status", "challenge", "cause"), params("demands", "status", "challenge", "cause")
)
def test_causes(status, challenge, cause):
    found = of(int(status), WWW_Authenticate=challenge)
    assert (found.cause if found else "none") == cause


def test_the_price_is_as_written():
    found = of(402, crawler_price=" USD 0.01 ")
    assert found == Demand("payment", "", "USD 0.01")
    assert found.in_words() == "a payment (USD 0.01)"


@pytest.mark.parametrize(("link", "url"), params("demands", "link", "license"))
def test_the_licence_that_is_linked(link, url):
    found = of(401, WWW_Authenticate="License", Link=link)
    assert found == Demand("license", url)


def test_no_header_takes_long():
    begun = process_time()
    for each in ("<" * 10**6, "<a>" + ";a=b" * 10**6, "<a>; rel=" + '"' * 10**6):
        of(402, Link=each, crawler_price=each, WWW_Authenticate=each)
    assert process_time() - begun < 2
