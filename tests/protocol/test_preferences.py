"""What a robots.txt and headers say about use: Content-Usage, Content-Signal, and the like."""

from __future__ import annotations

import json
import pickle
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_rep.protocol import GYM2008, MK1996, RFC9309, Policy, parse
from scrapy_rep.protocol.preferences import (
    CATEGORIES,
    PURPOSES,
    Preferences,
    combine,
    dictionary,
    header_preferences,
    parse_tdmrep,
    tdm_preferences,
)
from tests.conformance import params
from tests.strategies import CHARACTERS

Y, N, U = "yes", "no", "unstated"
LEVELS = ("use=immediate", "use=reference", "use=full")
SAID = ("training", "input", "search")


def answers(preferences, names=CATEGORIES[:3]):
    """Return the answers for training, input and search, or for other *names*."""
    return tuple(preferences.of(name).answer for name in names)


def asked(text, url="/", agent="ExampleBot"):
    return answers(parse(text).preferences(url, agent))


# draft-ietf-aipref-attach-05

FIGURE_2 = """\
User-Agent: *
Allow: /
Disallow: /never/
Content-Usage: train-ai=n
Content-Usage: /ai-ok/ train-ai=y

User-Agent: ExampleBot
Allow: /
Content-Usage: train-ai=y
"""


@pytest.mark.parametrize(
    ("agent", "url", "allowed", "training", "line"),
    [  # table 1, and the text below it
        ("OtherBot", "/test", True, N, 4), ("OtherBot", "/never/test", False, U, 0),
        ("OtherBot", "/ai-ok/test", True, Y, 5), ("ExampleBot", "/test", True, Y, 9),
        ("ExampleBot", "/never/test", True, Y, 9),
        ("ExampleBot/1.0 (+https://example.com/)", "/ai-ok/test", True, Y, 9),
    ],
)  # fmt: skip
def test_attach_3_4_example(agent, url, allowed, training, line):
    assert parse(FIGURE_2).allowed(url, agent) is allowed
    for dialect in (RFC9309, GYM2008, MK1996):
        if dialect is not RFC9309 and not allowed:  # there the first rule allows
            training, line = N, 4
        policy = parse(FIGURE_2, dialect=dialect)
        found = policy.preferences(f"https://example.com{url}", agent).of("train-ai")
        assert (found.answer, found.line) == (training, line)


@pytest.mark.parametrize(
    ("usage", "url", *SAID), params("preferences", "usage", "url", *SAID)
)
def test_content_usage(usage, url, training, input, search):  # noqa: A002
    lines = [f"Content-Usage: {rule}" for rule in usage.split("\n")]
    for end, start, expected in (
        ("\n", "User-agent: *", (training, input, search)),
        ("\r\n", "User-agent: *\nAllow: /zz", (training, input, search)),
        ("\n", "User-agent: *\nDisallow: /", (U, U, U)),
    ):
        assert asked(end.join([*start.split("\n"), *lines, ""]), url) == expected


@pytest.mark.parametrize(("signal", *SAID), params("preferences", "signal", *SAID))
def test_content_signal(signal, training, input, search):  # noqa: A002
    text = f"User-agent: *\nContent-Signal: {signal}\nAllow: /\n"
    assert asked(text) == (training, input, search)
    header = header_preferences([("Content-Signal", signal)])
    assert answers(header) == (training, input, search)


@pytest.mark.parametrize(
    ("file", "training", "input_", "search", "others"),
    params("preferences", "file", *SAID, "others"),
)
def test_to_whom_a_file_says_it(file, training, input_, search, others):
    assert asked(file) == (training, input_, search)
    assert asked(file, agent="nobody") == tuple(others.split())


def test_only_allow_and_disallow_part_groups():
    # RFC 9309 2.2.4, as for verdicts; attach-05 would part them
    text = "User-agent: *\nContent-Usage: search=n\nUser-agent: a\nDisallow: /x\n"
    assert not parse(text).allowed("/x", "a")
    assert not parse(text).allowed("/x", "other")


@pytest.mark.parametrize(
    ("file", "levels", "of_others"),
    params("preferences", "file", "levels", "of_others"),
)
def test_a_use_that_others_may_make_says_no_more_than_no(file, levels, of_others):
    policy = parse(file)
    for agent, said in (("goodbot", levels), ("x", of_others)):
        found = policy.preferences("/", agent)
        assert " ".join(answers(found, LEVELS)) == said
        assert (found.use.answer == U) == (set(said.split()) == {U})
        header = header_preferences([("Content-Signal", "search=yes")])
        assert combine(found, header).grants_use is found.grants_use


def test_the_line_of_the_least_use_is_told():
    signal = "User-agent: {}\nContent-Signal: use={}\n"
    text = signal.format("a", "immediate") + signal.format("*", "full")
    use = parse(text).preferences("/", "x").use
    assert (use.answer, use.line) == ("immediate", 2)


def test_conventions_are_joined():
    text = (
        "User-agent: *\nContent-Usage: train-ai=y, ai-use=n\n"
        "Content-Signal: ai-train=no, ai-input=yes\n"
    )
    found = parse(text).preferences("/", "ExampleBot")
    assert answers(found) == (N, N, U)
    assert found.of("train-ai").said == "Content-Signal: ai-train=no, ai-input=yes"
    assert found.of("ai-input").line == 2


# The others


def test_74_licenses_are_recorded_wherever_they_stand():
    policy = parse(
        "License: https://a.example/l\nUser-agent: a\nDisallow: /\nlicense: /o # RSL"
    )
    for url in ("/", "/robots.txt"):
        for agent in ("a", "b"):
            found = policy.preferences(url, agent).licenses
            assert found == (("https://a.example/l", 1), ("/o", 4))


@pytest.mark.parametrize(("tdm", "answer"), params("preferences", "tdm", "answer"))
def test_tdm_headers(tdm, answer):
    headers = [
        (name, value) for name, value in (x.split(": ") for x in tdm.split("\n"))
    ]
    found = header_preferences(headers)
    assert found.of("tdm").answer == answer
    assert answers(found) == (U, U, U)
    policies = tuple((value, 0) for name, value in headers if name == "tdm-policy")
    assert found.tdm_policies == policies


# Headers, and both


def test_header_lines_are_one_dictionary():
    usage = [("Content-Usage", "train-ai=n"), ("content-usage", "train-ai=y, search=y")]
    assert answers(header_preferences(usage)) == (Y, U, Y)
    usage.append(("Content-Usage", "X"))
    assert answers(header_preferences(usage)) == (U, U, U)
    assert header_preferences([("Content-Type", "train-ai=n")]) == Preferences()


@pytest.mark.parametrize(
    ("robots", "header", "expected"),
    [(Y, Y, Y), (Y, N, N), (Y, U, Y), (N, Y, N), (N, U, N), (U, U, U), (U, Y, Y)],
)
def test_the_more_restrictive_holds(robots, header, expected):
    def usage(answer):
        return "" if answer == U else f"train-ai={answer[0]}"

    first = parse(f"User-agent: *\nContent-Usage: {usage(robots)}")
    second = header_preferences([("Content-Usage", usage(header))])
    found = combine(first.preferences("/", "x"), second)
    assert found.of("train-ai").answer == expected


def test_combined_keeps_everything():
    text = "User-agent: *\nContent-Signal: use=full\nLicense: https://a.example/\n"
    said = [("Content-Signal", "use=reference"), ("tdm-policy", "https://b.example/")]
    found = combine(parse(text).preferences("/", "x"), header_preferences(said))
    assert found.use.answer == "reference"
    urls = [pointer.url for pointer in found.licenses + found.tdm_policies]
    assert urls == ["https://a.example/", "https://b.example/"]


# As part of a policy


def test_names_of_purposes():
    found = parse("User-agent: *\nContent-Usage: train-ai=n, ai-use=n, search=n")
    for purpose in PURPOSES:
        answer = found.preferences("/", "x").of(purpose).answer
        assert answer == (U if purpose.startswith(("use=", "tdm")) else N)
    with pytest.raises(KeyError):
        found.preferences("/", "x").of("training")


def test_no_file_states_nothing():
    for policy in (Policy.allow_all(), Policy.disallow_all(), parse("")):
        assert policy.preferences("/", "x") == Preferences()


def test_it_changes_neither_verdicts_nor_equality():
    policy = parse(FIGURE_2)
    policy.preferences("/", "x")
    assert policy == parse(FIGURE_2)
    again = pickle.loads(pickle.dumps(policy))
    assert again.preferences("/", "x") == policy.preferences("/", "x")


PIECES = "Content-Usage: Content-Signal: License: User-agent: train-ai=n /a* $ , * x ai-train=no %"


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from([*PIECES.split(), "\n", " "]) | st.text(CHARACTERS, max_size=3)
    ),
    st.text(CHARACTERS),
    st.text(CHARACTERS) | st.text("abAB=,;() \t\"'\\:?@%*1.-"),
)
def test_nothing_makes_it_raise(parts, url, fields):
    policy = parse("".join(parts))
    found = policy.preferences(url, "x")
    for purpose in PURPOSES:
        preference = found.of(purpose)
        assert (preference.answer == U) == (preference.line == 0)
    _ = policy.notes
    dictionary(fields)


def memory_for_preferences(part: str, url: str) -> tuple[int, int]:
    """Return the octets that it takes to ask, and those that the policy tells of in all.

    A crawl prepares files of that size before it weighs them.
    """
    policy = parse("User-agent: x\n" + part * (50_000 // len(part)))
    policy.allowed("/", "x")
    tracemalloc.start()
    policy.preferences(url, "x")
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    policy.prepare("x", url)
    return used, policy.size_bytes()


@pytest.mark.parametrize(
    "part",
    [
        "User-agent: x\nContent-Usage: /a*b train-ai=n\n",
        "Content-Signal: ai-train=no\nUser-agent: x\n",
        "Content-Usage: train-ai=n\n",
        "content-usage ",
        "License: x\n",
    ],
)
def test_time_and_memory_are_bounded(part):
    url = "/a" + "b" * 1000
    policy = parse("User-agent: x\n" + part * (250_000 // len(part)))
    begun = time.process_time()
    policy.preferences(url, "x")
    assert time.process_time() - begun < 3
    # What another thread takes meanwhile, such as that of pytest-xdist, it does not take twice.
    used, told = min(memory_for_preferences(part, url) for _ in range(2))
    assert used < told


@pytest.mark.parametrize(
    ("text", "members"), params("preferences", "dictionary", "members")
)
def test_dictionaries(text, members):
    found = dictionary(text)
    told = [f"{key}={value or '-'}" for key, value in (found or {}).items()]
    assert ("none" if found is None else " ".join(told)) == members


@pytest.mark.parametrize(
    "part", ["a=(", "a=(x ", "(a ", "a;", "a;a", "a,", 'a="', ":a", "a=%22", " ", "1"]
)
def test_time_is_linear(part):
    for text in (part * 50_000, "a=(" + part * 50_000, "a=" + part * 50_000):
        begun = time.process_time()
        dictionary(text)
        assert time.process_time() - begun < 1


POLICY = "https://provider.com/policies/policy.json"


def said(rules: Any, url: str) -> tuple[str, list[str]]:
    found = tdm_preferences(parse_tdmrep(json.dumps(rules).encode()), url)
    return found.of("tdm").answer, [policy.url for policy in found.tdm_policies]


@pytest.mark.parametrize(
    ("location", "path", "reserved"),
    params("preferences", "location", "path", "reserved"),
)
def test_locations_are_read_as_those_of_robots_txt(location, path, reserved):
    rules = [{"location": location, "tdm-reservation": 1}]
    expected = "no" if reserved == "yes" else "unstated"
    assert said(rules, f"https://provider.com{path}")[0] == expected


def test_the_first_that_matches_holds_and_names_its_policy():
    rules = [
        {"location": "/a/", "tdm-reservation": 0},
        {"location": "/a/b/", "tdm-reservation": 1, "tdm-policy": POLICY},
    ]
    assert said(rules, "https://provider.com/a/b/c") == (Y, [])
    assert said(rules[::-1], "https://provider.com/a/b/c") == (N, [POLICY])
    no_policy = [{"location": "/", "tdm-reservation": 1, "tdm-policy": 5}]
    assert said(no_policy, "https://provider.com/") == (N, [])


@pytest.mark.parametrize("body", params("preferences", "tdmrep"))
def test_what_is_no_rule_is_left_out(body):
    assert parse_tdmrep(body.encode("latin-1")) == ()
    if body.endswith("]"):
        more = body[:-1] + ', {"location": "/", "tdm-reservation": 1}]'
        assert [each.location for each in parse_tdmrep(more)] == ["/"]
