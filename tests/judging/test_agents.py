"""Which agent a request answers to, and the names that keep one pace."""

from __future__ import annotations

import logging
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
    name_of,
    tokens_not_in,
)
from scrapy_rep.settings import Settings

SENT = "Sent/1.0 (+https://example.com)"


def agents_of(spider=None, **settings):
    read = ScrapySettings({"USER_AGENT": SENT, **settings})
    return Agents(Chooser(read, spider), Settings.read(read))


@pytest.mark.parametrize(
    ("settings", "spider", "meta", "expected"),
    [
        ({}, {}, {}, SENT),
        ({"USER_AGENT": None}, {}, {}, ""),
        ({}, {"user_agent": "Spiders"}, {}, "Spiders"),
        (
            {"DEFAULT_REQUEST_HEADERS": {"user-AGENT": "Default"}},
            {"user_agent": "S"},
            {},
            "Default",
        ),
        ({"DEFAULT_REQUEST_HEADERS": {"User-Agent": b"Bytes"}}, {}, {}, "Bytes"),
        (
            {"DEFAULT_REQUEST_HEADERS": {"User-Agent": None, "Accept": "x"}},
            {},
            {},
            SENT,
        ),
        ({"ROBOTSTXT_USER_AGENT": "Chosen"}, {"user_agent": "S"}, {}, "Chosen"),
        ({"ROBOTSTXT_USER_AGENT": ["A", "B"]}, {}, {}, ("A", "B")),
        ({"ROBOTSTXT_USER_AGENT": "C"}, {"robotstxt_user_agent": "Own"}, {}, "Own"),
        ({}, {"robotstxt_user_agent": "Own"}, {"robotstxt_user_agent": ["M"]}, ("M",)),
        ({"ROBOTSTXT_USER_AGENT": "C"}, {}, {"robotstxt_user_agent": None}, "C"),
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
    agents = agents_of(
        SimpleNamespace(robotstxt_user_agent=5 if where == "spider" else None)
    )
    meta = {"robotstxt_user_agent": 5} if where == "meta" else {}
    with pytest.raises(SettingError, match=f"{where}.*robotstxt_user_agent.* is 5"):
        agents.of(Request("https://a.example", meta=meta))


def test_a_token_that_is_not_sent_is_told_once(caplog):
    caplog.set_level(logging.WARNING, "scrapy_rep")
    agents_of(ROBOTSTXT_USER_AGENT=["sent"]).check()
    assert caplog.messages == []
    agents = agents_of(ROBOTSTXT_USER_AGENT=["Sent", "Other", "Third"])
    assert agents.unsent_tokens() == ("Other", "Third")
    for _ in range(2):
        agents.check()
    (said,) = caplog.messages
    assert said.startswith(
        "The product token Other, Third, whose rules the crawl obeys, is not part"
    )
    assert SENT in said
    meta = {"robotstxt_user_agent": "Fourth"}
    for _ in range(2):
        agents_of().of(Request("https://a.example", meta=meta))
    assert ["Fourth" in each for each in caplog.messages] == [False, True, True]


def test_tokens_that_are_not_in_a_header():
    assert tokens_not_in(SENT, SENT) == tokens_not_in(SENT, "SENT/2") == ()
    assert tokens_not_in(SENT, "Other/1 (Sent)") == ("Other",)
    assert tokens_not_in(SENT, ("a", "b b")) == ("b b",)
    assert (name_of("A"), name_of(("A", "B"))) == ("A", "A, B")


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("example.com", "example.com"),
        ("a.b.example.com", "example.com"),
        ("a.example.co.uk", "example.co.uk"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("localhost", "localhost"),
        ("co.uk", "co.uk"),
        ("", ""),
    ],
)
def test_registrable_domains(host, domain):
    assert domain_of(host) == domain


def test_what_keeps_one_pace(caplog):
    def named(pace_by):
        settings = Settings.read(ScrapySettings({"REP_PACE_BY": pace_by}))
        request = Request("https://me:secret@a.example.com/x")
        name_of = make_namer(settings, SimpleNamespace(spider=None))  # type: ignore[arg-type]
        return name_of(request), name_of(request)

    assert named("host") == ("a.example.com",) * 2
    assert named("domain") == ("example.com",) * 2
    assert named(lambda request: "mine") == ("mine",) * 2
    assert caplog.messages == []
    for number, gives in enumerate(
        (lambda request: "", lambda request: 5, lambda request: 1 / 0), 1
    ):
        assert named(gives) == ("a.example.com",) * 2
        assert len(caplog.messages) == number
        assert "gave no name for https://a.example.com/x, so" in caplog.messages[-1]
