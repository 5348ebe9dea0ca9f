"""What people are shown: no password, and one form of a duration."""

from __future__ import annotations

import pytest

from scrapy_rep.protocol.printable import (
    describe_error,
    duration,
    first_of,
    lines_around,
    mask_uri,
    without_user,
)
from tests.conformance import params


@pytest.mark.parametrize(
    ("url", "expected"), params("printable", "url", "without_user")
)
def test_without_user(url, expected):
    assert without_user(url) == expected


@pytest.mark.parametrize(("uri", "expected"), params("printable", "uri", "masked"))
def test_hidden(uri, expected):
    assert mask_uri(uri) == expected
    assert mask_uri(expected) == expected


@pytest.mark.parametrize(
    ("uri", "text", "expected"), params("printable", "at", "words", "told")
)
def test_told(uri, text, expected):
    assert describe_error(OSError(text), uri) == expected


@pytest.mark.parametrize("part", ["//", "//a@", "@", "://", "?", "a:", "%("])
def test_what_is_long_is_shown_in_linear_time(part):
    """For 8,000 slashes in pairs a pattern once took two seconds; these are 2,000,000."""
    uri = f"ftp:{part * (2_000_000 // len(part))}"
    for text in (uri, f"{uri}@", f"{uri}@host/?a"):
        without_user(text)
        assert len(mask_uri(text)) <= len(text) + 10
        describe_error(OSError("no such folder"), text[:100_000])


@pytest.mark.parametrize(
    ("seconds", "words"), params("printable", "seconds", "duration")
)
def test_duration(seconds, words):
    assert duration(float(seconds)) == words


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ([], []),
        ([5], [1, 4, 5, 6]),  # the first line, where no group begins before
        ([8, 9], [6, 7, 8, 9, 10]),
        ([10, 1], [1, 2, 6, 9, 10]),  # none beyond the file
    ],
)
def test_lines_around(marked, expected):
    assert lines_around(marked, [6], near=1, last=10) == expected


def test_first_of():
    assert first_of(["a", "b"], 2) == ["a", "b"]
    assert first_of(["a", "b", "c"], 1, " (-v)") == ["a", "and 2 more (-v)"]
    assert first_of(["a"] * 1002, 1)[1:] == ["and 1,001 more"]
    assert first_of([], 1) == []
