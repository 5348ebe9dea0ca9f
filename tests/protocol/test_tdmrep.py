"""``tdmrep.json`` (TDMRep of 2024-05): what it says of a URL."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scrapy_rep.protocol.preferences import parse_tdmrep, tdm_preferences
from tests.conformance import params

EXAMPLE = [
    {"location": "/directory-a/", "tdm-reservation": 1},
    {
        "location": "/directory-b/html/",
        "tdm-reservation": 1,
        "tdm-policy": "https://provider.com/policies/policy.json",
    },
    {"location": "/directory-b/images/*.jpg", "tdm-reservation": 0},
]
"""Of the report."""


def said(rules: Any, url: str) -> tuple[str, list[str]]:
    found = tdm_preferences(parse_tdmrep(json.dumps(rules).encode()), url)
    return found.of("tdm").answer, [policy.url for policy in found.tdm_policies]


@pytest.mark.parametrize(
    ("path", "answer", "policies"),
    [
        ("/directory-a/b.pdf", "no", []),
        (
            "/directory-b/html/1",
            "no",
            ["https://provider.com/policies/policy.json"],
        ),
        ("/directory-b/images/a/1.jpg", "yes", []),
        ("/directory-b/images/1.png", "unstated", []),
        ("/Directory-a/", "unstated", []),
        ("/", "unstated", []),
    ],
)
def test_the_example_of_the_report(path, answer, policies):
    assert said(EXAMPLE, f"https://provider.com{path}") == (answer, policies)


@pytest.mark.parametrize(
    ("location", "path", "reserved"),
    params("preferences", "location", "path", "reserved"),
)
def test_locations_are_read_as_those_of_robots_txt(location, path, reserved):
    rules = [{"location": location, "tdm-reservation": 1}]
    expected = "no" if reserved == "yes" else "unstated"
    assert said(rules, f"https://provider.com{path}")[0] == expected


def test_the_first_that_matches_holds():
    rules = [
        {"location": "/a/", "tdm-reservation": 0},
        {"location": "/a/b/", "tdm-reservation": 1},
    ]
    assert said(rules, "https://provider.com/a/b/c")[0] == "yes"
    assert said(rules[::-1], "https://provider.com/a/b/c")[0] == "no"


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"\xff\xfe", b"null", b"1", b'"a"', b"{}", b"[1, null, []]",
        b'[{"location": 1, "tdm-reservation": 1}]', b'[{"location": "/"}]',
        b'[{"location": "/", "tdm-reservation": "1"}]',
        b'[{"location": "/", "tdm-reservation": 2}]',
        b'[{"location": "/", "tdm-reservation": NaN}]',
        b"[" * 100_000, b"<!DOCTYPE html><title>Not found</title>",
    ],
)  # fmt: skip
def test_what_is_no_rule_is_left_out(body):
    assert parse_tdmrep(body) == ()


def test_a_policy_that_is_none_is_left_out():
    rules = [{"location": "/", "tdm-reservation": 1, "tdm-policy": 5}]
    assert said(rules, "https://provider.com/") == ("no", [])
