"""Which agent a request answers to, and the names that keep one pace."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from scrapy import Request
from scrapy.settings import Settings as ScrapySettings

from scrapy_rep.exceptions import SettingError
from scrapy_rep.judging.target import (
    Agents,
    Chooser,
    domain_of,
    make_namer,
    tokens_not_in,
)
from scrapy_rep.protocol.groups import name_of
from scrapy_rep.settings import Settings
from tests.conformance import params

SENT = "Sent/1.0 (+https://example.com)"
DEFAULT, OWN = "DEFAULT_REQUEST_HEADERS", "robotstxt_user_agent"


def agents_of(spider=None, warn=str, **settings):
    read = ScrapySettings({"USER_AGENT": SENT, **settings})
    return Agents(Chooser(read, spider), Settings.read(read), warn)


@pytest.mark.parametrize(
    ("settings", "spider", "meta", "expected"),
    [
        ({}, {}, {}, SENT),
        ({"USER_AGENT": None}, {}, {}, ""),
        ({}, {"user_agent": "Spiders"}, {}, "Spiders"),
        ({DEFAULT: {"user-AGENT": "Default"}}, {"user_agent": "S"}, {}, "Default"),
        ({DEFAULT: {"User-Agent": b"Bytes"}}, {}, {}, "Bytes"),
        ({DEFAULT: {"User-Agent": ["Listed"]}}, {}, {}, "Listed"),
        ({"USER_AGENT": 5}, {}, {}, "5"),
        ({}, {"user_agent": ["Listed"]}, {}, "Listed"),
        ({DEFAULT: {"User-Agent": None, "Accept": "x"}}, {}, {}, SENT),
        ({"ROBOTSTXT_USER_AGENT": "Chosen"}, {"user_agent": "S"}, {}, "Chosen"),
        ({"ROBOTSTXT_USER_AGENT": ["A", "B"]}, {}, {}, ("A", "B")),
        ({"ROBOTSTXT_USER_AGENT": "C"}, {OWN: "Own"}, {}, "Own"),
        ({}, {OWN: "Own"}, {OWN: ["M"]}, ("M",)),
        ({"ROBOTSTXT_USER_AGENT": "C"}, {}, {OWN: None}, "C"),
    ],
)
def test_the_most_specific_agent_counts(settings, spider, meta, expected):
    agents = agents_of(SimpleNamespace(**spider), **settings)
    assert agents.of(Request("https://a.example", meta=meta)) == expected
    if not meta:
        assert agents.of() == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [("Own/2", "Own/2"), ("\u00e9", "\u00e9"), (b"\xe9", "\u00e9"), (None, SENT)],
)
def test_the_header_that_a_request_carries(header, expected):
    request = Request("https://a.example", headers={"User-Agent": header})
    agents = agents_of()
    assert agents.header(request) == agents.of(request) == expected
    assert agents.of(request, "as known") == "as known"
    assert agents_of(ROBOTSTXT_USER_AGENT="C").header(request) == expected


@pytest.mark.parametrize("where", ["spider", "meta"])
def test_what_is_no_agent_is_named(where):
    agents = agents_of(SimpleNamespace(**({OWN: 5} if where == "spider" else {})))
    meta = {OWN: 5} if where == "meta" else {}
    with pytest.raises(SettingError, match=f"{where}.*robotstxt_user_agent.* is 5"):
        agents.of(Request("https://a.example", meta=meta))


def test_a_token_that_is_not_sent_is_told_once():
    told: list[str] = []
    agents_of(warn=told.append, ROBOTSTXT_USER_AGENT=["sent"]).warn_if_unsent()
    assert told == []
    agents = agents_of(
        warn=told.append, ROBOTSTXT_USER_AGENT=["Sent", "Other", "Third"]
    )
    assert agents.unsent_tokens() == ("Other", "Third")
    for _ in range(2):
        agents.warn_if_unsent()
    (said,) = told
    assert said.startswith(
        "The product token Other, Third, whose rules the crawl obeys, is not part"
    )
    assert SENT in said
    meta = {"robotstxt_user_agent": "Fourth"}
    for _ in range(2):
        agents_of(warn=told.append).of(Request("https://a.example", meta=meta))
    assert ["Fourth" in each for each in told] == [False, True, True]


def test_tokens_that_are_not_in_a_header():
    assert tokens_not_in(SENT, SENT) == tokens_not_in(SENT, "SENT/2") == ()
    assert tokens_not_in(SENT, "Other/1 (Sent)") == ("Other",)
    assert tokens_not_in(SENT, ("a", "b b")) == ("b b",)
    assert (name_of("A"), name_of(("A", "B"))) == ("A", "A, B")


@pytest.mark.parametrize(("host", "domain"), params("2.3-origins", "name", "domain"))
def test_registrable_domains(host, domain):
    assert domain_of(host) == domain


def test_what_keeps_one_pace():
    told: list[tuple[str, object]] = []

    def named(pace_by):
        settings = Settings.read(ScrapySettings({"REP_PACE_BY": pace_by}))
        request = Request("https://me:secret@a.example.com/x")
        name_of = make_namer(settings, lambda *failure: told.append(failure))
        return name_of(request), name_of(request)

    assert named("host") == ("a.example.com",) * 2
    assert named("domain") == ("example.com",) * 2
    assert named(lambda request: "mine") == ("mine",) * 2
    assert told == []
    for gives, raised in (("", TypeError), (5, TypeError), (None, ZeroDivisionError)):
        told.clear()
        assert (
            named(lambda _, it=gives: 1 / 0 if it is None else it)
            == ("a.example.com",) * 2
        )
        ((sentence, error),) = told
        assert "gave no name for https://a.example.com/x, so" in sentence
        assert type(error) is raised
        assert str(error) == f"it returned {gives!r}, expected a str" or gives is None
