"""Dictionaries of structured fields: RFC 9651, by the sections of its parsing rules."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_rep.protocol.preferences import dictionary
from tests.strategies import CHARACTERS

GOOD = [
    ("", {}),
    ("   ", {}),
    ("a=y", {"a": "y"}),
    ("a=y, b=n", {"a": "y", "b": "n"}),
    ("a=y\t ,\tb=n  ", {"a": "y", "b": "n"}),
    ("a=y,b=n\t", {"a": "y", "b": "n"}),
    # 4.2.2: the last of equal keys, a bare key is true
    ("a=y, a=n", {"a": "n"}),
    ("a=n, a=1", {"a": None}),
    ("a", {"a": None}),
    ("a;x=1, b=n", {"a": None, "b": "n"}),
    # 4.2.3.2: parameters do not count
    ("a=y;x;y=n; z=?0", {"a": "y"}),
    ('a=y;x="n,=;"', {"a": "y"}),
    # 4.2.3.3: keys
    ("*a-b_c.d*1=y", {"*a-b_c.d*1": "y"}),
    # 4.2.1.2: inner lists
    ("a=()", {"a": None}),
    ("a=( x  y;p=1 );q, b=n", {"a": None, "b": "n"}),
    # 4.2.4 to 4.2.10: values that are no tokens
    ("a=1, b=-1.5, c=999999999999999", {"a": None, "b": None, "c": None}),
    ('a="n", b=:bg==:, c=?1, d=@-1, e=%"n%c3%a9"', dict.fromkeys("abcde")),
    ('a="\\"\\\\", b=n', {"a": None, "b": "n"}),
    # 4.2.6: tokens
    ("a=*y:/!#$%&'*+-.^_`|~9", {"a": "*y:/!#$%&'*+-.^_`|~9"}),
    ("a=Y, b=N", {"a": "Y", "b": "N"}),
]


@pytest.mark.parametrize(("text", "expected"), GOOD)
def test_dictionaries(text, expected):
    assert dictionary(text) == expected


BAD = [  # one fault, and all is void
    "A=n", "train-ai=n, Search=y", "a=y,", "a=y, ", ",a=y", "a=y,,b=n", "a=y b=n", "a = y",
    "a= y", "a=", "=y", "1a=y", "-a=y", "\ta=y", "a=y; X=1", "a=y;", "a=y ;x", "a=(x", "a=(x,y)",
    "a=((x))", 'a=(x"y")', 'a="n', 'a="\\n"', 'a="\u00e9"', "a=1.", "a=.5", "a=1.1234",
    "a=1234567890123456", "a=1234567890123.1", "a=--1", "a=:b$:", "a=?2", "a=@1.5", 'a=%"%C3%A9"',
    'a=%"%c"', "a=\u00e9", "\u0430=y", "a=y\n", "a/b",
]  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_no_dictionaries(text):
    assert dictionary(text) is None


@settings(deadline=None)
@given(st.text(CHARACTERS) | st.text("abAB=,;() \t\"'\\:?@%*1.-"))
def test_nothing_makes_it_raise(text):
    dictionary(text)


@pytest.mark.parametrize(
    "part", ["a=(", "a=(x ", "(a ", "a;", "a;a", "a,", 'a="', ":a", "a=%22", " ", "1"]
)
def test_time_is_linear(part):
    for text in (part * 50_000, "a=(" + part * 50_000, "a=" + part * 50_000):
        begun = time.process_time()
        dictionary(text)
        assert time.process_time() - begun < 1
