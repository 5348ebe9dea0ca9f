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


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://host/a", "http://host/a"),
        ("http://me:pw@host/a", "http://host/a"),
        ("http://me@host", "http://host"),
        ("http://@host/", "http://host/"),
        ("http://me:p@w@host:8080/a?b@c#d@e", "http://host:8080/a?b@c#d@e"),
        ("http://me:pw@[::1]:80/", "http://[::1]:80/"),
        ("ftp://me:pw@host/a", "ftp://host/a"),
        ("http://me:p w\n@host/a", "http://host/a"),
        # An "@" behind the host is not about a user.
        ("https://host/@me", "https://host/@me"),
        ("https://host?to=me@host", "https://host?to=me@host"),
        ("https://host#me@host", "https://host#me@host"),
        ("https://me:p\\w@host/", "https://host/"),
        ("https://proxy/?url=https://me@host/", "https://proxy/?url=https://me@host/"),
        ("mailto:me@host", "mailto:me@host"),
        ("me@host", "me@host"),
        ("://@", "://"),
        ("", ""),
    ],
)
def test_without_user(url, expected):
    assert without_user(url) == expected


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("audit/a.jsonl", "audit/a.jsonl"),
        ("what?.jsonl", "what?.jsonl"),
        ("file:///tmp/a.jsonl", "file:///tmp/a.jsonl"),
        ("s3://bucket/%(name)s.jsonl", "s3://bucket/%(name)s.jsonl"),
        ("ftp://me:pw@host/a", "ftp://***@host/a"),
        ("ftp://me@host/a", "ftp://***@host/a"),
        ("ftp://me:p@w@host/a", "ftp://***@host/a"),
        ("ftp://me:p/w#x@host/a", "ftp://***@host/a"),
        ("ftp://me:p?w@host/a", "ftp://***"),
        ("ftp://me:p w\n\t'\"\\@host/a", "ftp://***@host/a"),
        ("ftp:me:pw@host/a", "***@host/a"),
        ("ftp:/me:pw@host/a", "***@host/a"),
        ("//me:pw@host/a", "***@host/a"),
        ("me:pw@host/a", "***@host/a"),
        ("my pw://me@host", "***@host"),
        ("s3://bucket/a?password=pw", "s3://bucket/a?***"),
        ("unix:/run/redis.sock?password=pw", "unix:/run/redis.sock?***"),
        ("?me@host", "***"),
        ("s3://me:pw@bucket/a?password=pw", "s3://***@bucket/a?***"),
        ("s3://bucket/a?user=me@host&password=pw", "s3://***"),
    ],
)
def test_hidden(uri, expected):
    assert mask_uri(uri) == expected
    assert mask_uri(expected) == expected


@pytest.mark.parametrize(
    ("uri", "text", "expected"),
    [
        (
            "audit/a.jsonl",
            "audit/a.jsonl is a folder",
            "OSError: audit/a.jsonl is a folder",
        ),
        (
            "ftp://me:secret@host/a",
            "530 Login incorrect",
            "OSError: 530 Login incorrect",
        ),
        (
            "ftp://me:secret@host/a",
            "no me at ftp://me:secret@host/a",
            "OSError: no me at ftp://***@host/a",
        ),
        ("ftp://me:secret@host/a", "password 'secret' is wrong", "OSError"),
        ("ftp://me:secret@host/a", "password 'SECRET' is wrong", "OSError"),
        ("ftp://me:s%2Fcret@host/a", "password 's/cret' is wrong", "OSError"),
        ("ftp://me:s/cret@host/a", "port is 's', not a number", "OSError"),
        ("ftp://me:se cret@host/a", "password 'se%20cret' is wrong", "OSError"),
        ("ftp://me:se\ncret@host/a", r"at 'ftp://me:se\ncret@host/a'", "OSError"),
        ("ftp://secret@host/a", "user 'secret' is unknown", "OSError"),
        ("ftp:me:secret@host/a", "user 'me:secret' is unknown", "OSError"),
        ("ftp://me:пароль@host/a", "пароль", "OSError"),
        ("ftp://me:пароль@host/a", "timeout", "OSError"),  # who knows
        ("s3://host/a?token=secret", "token 'secret' is wrong", "OSError"),
        ("s3://me@host/a?token=secret", "token 'secret' is wrong", "OSError"),
        ("s3://host/a?to=me@host&token=secret", "token 'secret' is wrong", "OSError"),
        ("ftp://me:p?secret@host/a", "'secret' is no host", "OSError"),
    ],
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
    ("seconds", "words"),
    [
        (0, "0 s"), (0.0004, "0 s"), (0.4837, "0.48 s"), (0.999, "1 s"), (1.93, "1.9 s"),
        (2.01, "2 s"), (0.05, "0.05 s"), (1.5, "1.5 s"), (10.739, "11 s"), (30.0, "30 s"),
        (9.96, "10 s"), (59.4, "59 s"), (59.7, "1 min"), (90, "1 min 30 s"), (300.0, "5 min"),
        (3600, "1 h"), (3661, "1 h 1 min"), (86400 * 2.5, "2 d 12 h"),
    ],
)  # fmt: skip
def test_duration(seconds, words):
    assert duration(seconds) == words


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
