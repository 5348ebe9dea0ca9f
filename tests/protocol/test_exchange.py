"""One exchange for a robots.txt: what is asked for, and what comes of each answer."""

from __future__ import annotations

import gzip
from typing import Any
from unittest.mock import Mock

import pytest

from scrapy_rep.protocol.access import Answer, Exchange, Limits, Outcome, Validators
from scrapy_rep.protocol.answers import Access
from tests.conformance import params
from tests.fuzz.run import fuzz
from tests.utils import fields

URL = "https://example.com/robots.txt"
RULES = b"User-agent: *\nDisallow: /p\n"
OK, NONE, AWAY = Access.SUCCESSFUL, Access.UNAVAILABLE, Access.UNREACHABLE


def answer(
    status: int = 200, body: bytes = RULES, *, cut: bool = False, **headers: str
) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, fields(named), body, cut)


def undelimited(body: bytes = RULES, status: int = 200) -> Answer:
    return Answer(status, fields(), body, delimited=False)


def redirect(to: str, status: int = 301) -> Answer:
    return answer(status, Location=to)


def after_all(*answers: Answer, **options: Any) -> tuple[list[str], Any]:
    """Return the URLs that were asked for, and what came of *answers*."""
    exchange: Any = Exchange(URL, **options)
    asked = []
    for each in answers:
        assert exchange.outcome is None
        asked.append(exchange.request.url)
        exchange.receive(each)
    if exchange.outcome is None:
        asked.append(exchange.request.url)
    return asked, exchange.outcome


def outcome_of(*answers: Answer, **options: Any) -> Any:
    _, outcome = after_all(*answers, **options)
    return outcome


def test_what_is_asked_for():
    assert Exchange(URL).request == (URL, {})


@pytest.mark.parametrize(
    ("status", "headers", "access", "reason"),
    params("2.3.1-access-results", "answer", "headers", "outcome", "reason"),
)
def test_what_comes_of_an_answer(status, headers, access, reason):
    named = [line.split(": ") for line in headers.splitlines()]
    given = Answer(int(status), fields(named), RULES)
    outcome = outcome_of(given, limits=Limits(deny_statuses=frozenset({403})))
    assert (outcome.access, outcome.reason) == (Access[access], reason)
    assert (outcome.status, outcome.url) == (given.status, URL)
    assert outcome.fields is given.fields
    assert outcome.body == (RULES if outcome.access is OK else b"")
    assert (outcome.fault is not None) is (not reason.isdigit() and bool(reason))


@pytest.mark.parametrize(
    ("error", "given", "reason"),
    [
        (OSError("no route\nto host \udcff"), "", "no route"), (OSError("x"), "as we say", "as we say"),
        (KeyError(), "", "KeyError"), (ValueError("\udcff" + "x" * 9999), "", "?" + "x" * 199),
    ],
    ids=lambda each: ascii(each)[:20],
)  # fmt: skip
def test_48_there_may_be_none(error, given, reason):
    exchange: Any = Exchange(URL)
    exchange.fail(error, given)
    assert exchange.outcome == Outcome(AWAY, fault=error, reason=reason, url=URL)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_39_redirects(status):
    asked, outcome = after_all(redirect("//b.com/r?q#f", status), answer())
    assert asked == [URL, "https://b.com/r?q"]
    assert (outcome.access, outcome.url) == (OK, "https://b.com/r?q")


def test_39_one_after_the_other_from_where_it_stands():
    asked, outcome = after_all(redirect("http://b.com/1/2"), redirect("3"))
    assert asked == [URL, "http://b.com/1/2", "http://b.com/1/3"]
    assert outcome is None


def test_43_a_redirect_by_way_of_a_public_host_leads_to_no_private_one():
    exchange: Any = Exchange("http://10.0.0.1/robots.txt")
    for url in ("http://10.0.0.2/", "http://b.com/", "http://10.0.0.1/"):
        assert exchange.outcome is None
        exchange.receive(redirect(url))
    assert exchange.outcome.access is AWAY


@pytest.mark.parametrize("most", [0, 1, 5, 7])
def test_41_redirects_beyond_the_limit_are_unavailable(most):
    hops = [redirect(f"/{n}") for n in range(most)]
    limits = Limits(max_redirects=most)
    assert outcome_of(*hops, answer(), limits=limits).access is OK
    outcome = outcome_of(*hops, redirect("/one more"), limits=limits)
    assert (outcome.access, outcome.status) == (NONE, 301)
    reasons = [
        each.policy().verdict("/p", "a").reason
        for each in (outcome, outcome_of(answer(404)))
    ]
    assert reasons == ["no robots.txt (too many redirects)", "no robots.txt (404)"]


@pytest.mark.parametrize(
    ("validators", "conditions"),
    [
        (Validators(URL, '"1"', "x"), {"If-None-Match": '"1"', "If-Modified-Since": "x"}),
        (Validators(URL, '"1"'), {"If-None-Match": '"1"'}),
        (Validators(URL, last_modified="x"), {"If-Modified-Since": "x"}),
        (Validators(URL), {}),
        (Validators("http://b.com/r", '"1"'), {}),
    ],
)  # fmt: skip
def test_37_validators_make_a_request_conditional(validators, conditions):
    exchange: Any = Exchange(URL, validators=validators)
    request = exchange.request
    found = {n: v for n, v in request.headers.items() if n.startswith("If-")}
    assert found == conditions
    exchange.receive(answer(304, b"", ETag='"1"'))
    expected = Access.NOT_MODIFIED if conditions else AWAY
    assert exchange.outcome.access is expected


def test_37_only_where_the_copy_came_from():
    exchange: Any = Exchange(URL, validators=Validators("http://b.com/r", '"1"'))
    exchange.receive(redirect("http://b.com/r"))
    assert exchange.request.headers
    exchange.receive(redirect("http://b.com/other"))
    assert not exchange.request.headers
    exchange.receive(answer(304))
    assert exchange.outcome.access is AWAY


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    params("2.3.1-access-results", "content_type", "encoding"),
)
def test_33_charset(content_type, encoding):
    found = outcome_of(answer(Content_Type=content_type)).encoding
    assert (found or "none") == encoding


def test_35_limits_of_size():
    limits = Limits(max_size=20)
    assert outcome_of(answer(), limits=limits).body == b"User-agent: *\n"
    packed = gzip.compress(RULES)
    coded = outcome_of(answer(body=packed, Content_Encoding="gzip"), limits=limits)
    assert coded.body == b"User-agent: *\n"
    cut_off = answer(body=packed[:-3], cut=True, Content_Encoding="gzip")
    assert outcome_of(cut_off).access is OK
    assert outcome_of(cut_off._replace(cut=False)).access is AWAY


def test_codings_on_several_lines():
    body = gzip.compress(gzip.compress(RULES))
    headers = fields(
        [("Content-Encoding", "gzip"), ("Content-Encoding", "gzip, UTF-8")]
    )
    assert outcome_of(Answer(200, headers, body)).body == RULES


def test_whatever_is_raised_is_a_fault_of_the_site(monkeypatch):
    error = ArithmeticError("raised")
    monkeypatch.setattr(
        "scrapy_rep.protocol.access.decode_body", Mock(side_effect=error)
    )
    outcome = outcome_of(answer(Retry_After="7"))
    assert (outcome.access, outcome.fault, outcome.reason) == (AWAY, error, "raised")
    assert outcome.fields == {"retry-after": ["7"]}


@pytest.mark.parametrize(("target", "count"), [("exchange", 900), ("headers", 600)])
def test_any_answers_have_an_outcome(target, count):
    assert fuzz(target, count, 9309).findings == []


@pytest.mark.parametrize(
    ("vary", "varies"), params("2.3.1-access-results", "vary", "varies")
)
def test_an_answer_that_depends_on_the_user_agent_says_so(vary, varies):
    assert outcome_of(answer(Vary=vary)).varies is (varies == "yes")
    # What a redirect says of itself decides where it leads to.
    moved = answer(301, Location="/other.txt", Vary=vary)
    assert outcome_of(moved, answer()).varies is (varies == "yes")


@pytest.mark.parametrize(
    ("second", "access", "status"),
    [
        pytest.param(undelimited(), OK, 200, id="the same"),
        pytest.param(undelimited(RULES[:-1]), AWAY, 200, id="shorter"),
        pytest.param(answer(body=RULES + b"#"), OK, 200, id="one that tells its end"),
        pytest.param(undelimited(status=503), AWAY, 503, id="an error"),
        pytest.param(redirect("/r"), None, None, id="a redirect"),
    ],
)
def test_a_file_whose_end_was_not_told_is_asked_for_twice(second, access, status):
    asked, outcome = after_all(undelimited(), second)
    assert asked[:2] == [URL, URL]
    if access is None:
        assert outcome is None
        return
    assert (outcome.access, outcome.status) == (access, status)
    assert outcome.body == (second.body if access is OK else b"")


def test_what_was_cut_at_the_limit_is_asked_for_once():
    long = Answer(200, fields(), RULES, cut=True, delimited=False)
    assert outcome_of(long, limits=Limits(max_size=len(RULES))).access is OK
