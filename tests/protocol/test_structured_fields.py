"""Dictionaries of structured fields: RFC 9651, by the sections of its parsing rules."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_rep.protocol.preferences import dictionary
from tests.conformance import params
from tests.strategies import CHARACTERS


@pytest.mark.parametrize(
    ("text", "members"), params("preferences", "dictionary", "members")
)
def test_dictionaries(text, members):
    found = dictionary(text)
    told = [f"{key}={value or '-'}" for key, value in (found or {}).items()]
    assert ("none" if found is None else " ".join(told)) == members


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
