"""What a robots.txt and headers say about use: Content-Usage, Content-Signal, and the like."""

from __future__ import annotations

import pickle
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_rep.protocol import COMPILED, GYM2008, MK1996, Policy, parse
from scrapy_rep.protocol.preferences import (
    CATEGORIES,
    PURPOSES,
    Preferences,
    combine,
    header_preferences,
)
from tests.strategies import CHARACTERS

Y, N, U = "yes", "no", "unstated"


def answers(preferences):
    """Return the answers for training, input and search."""
    return tuple(preferences.of(name).answer for name in CATEGORIES[:3])


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
    [
        # Table 1
        ("OtherBot", "/test", True, N, 4),
        ("OtherBot", "/never/test", False, U, 0),
        ("OtherBot", "/ai-ok/test", True, Y, 5),
        # the text below it
        ("ExampleBot", "/test", True, Y, 9),
        ("ExampleBot", "/never/test", True, Y, 9),
        ("ExampleBot/1.0 (+https://example.com/)", "/ai-ok/test", True, Y, 9),
    ],
)
def test_attach_3_4_example(agent, url, allowed, training, line):
    policy = parse(FIGURE_2)
    found = policy.preferences(f"https://example.com{url}", agent).of("train-ai")
    assert policy.allowed(url, agent) is allowed
    assert (found.answer, found.line) == (training, line)


def test_attach_1_2_header():
    assert answers(header_preferences([("Content-Usage", "train-ai=n")])) == (N, U, U)


def test_attach_1_2_robots_txt():
    assert asked("User-Agent: *\nAllow: /\nContent-Usage: train-ai=n\n") == (N, U, U)


USAGE = [
    # the rules of one group, a path, and what is said of training, input and search
    (["train-ai=n, ai-use=y"], "/", (N, Y, U)),
    (["search=y,train-ai=n"], "/", (N, U, Y)),
    ([""], "/", (U, U, U)),
    # vocab 6.5: only the tokens y and n
    (["train-ai"], "/", (U, U, U)),
    (["train-ai=?0, search=1"], "/", (U, U, U)),
    (['train-ai="n"'], "/", (U, U, U)),
    (["train-ai=N, search=no, ai-use=n"], "/", (U, N, U)),
    (["train-ai=(n)"], "/", (U, U, U)),
    # vocab 6.4: unknown labels and parameters are ignored
    (["train-ai=n;exceptions=cc-cr, tdm=n, all=n"], "/", (N, U, U)),
    # vocab-08 6.1 has these three labels; older versions had others
    (["train-ai=n, ai-use=n, search=y"], "/", (N, N, Y)),
    (["tdm=n, ai=n, genai=n, inference=n"], "/", (U, U, U)),  # -01
    (["all=n, train-genai=n, bots=n, ai-output=n"], "/", (U, U, U)),  # -02 to -04
    # vocab 6.5.1: one fault voids all; of equal keys the last counts
    (["Train-AI=n, search=n"], "/", (U, U, U)),
    (["train-ai=n search=n"], "/", (U, U, U)),
    (["train-ai = n"], "/", (U, U, U)),
    (["train-ai=n, train-ai=y"], "/", (Y, U, U)),
    (["train-ai=n, train-ai"], "/", (U, U, U)),
    # attach 3.1: the most octets, as for Allow; order does not count
    (["train-ai=n", "/a/ train-ai=y"], "/a/b", (Y, U, U)),
    (["/a/ train-ai=y", "train-ai=n"], "/b", (N, U, U)),
    (["/a/ train-ai=y", "/a/b train-ai=n"], "/a/bc", (N, U, U)),
    (["/ train-ai=y", "train-ai=n"], "/", (Y, U, U)),
    (["/a/ search=y", "train-ai=n"], "/a/", (U, U, Y)),
    (["/*.pdf$ train-ai=n", "train-ai=y"], "/x.pdf", (N, U, U)),
    (["/*.pdf$ train-ai=n", "train-ai=y"], "/x.pdf?y", (Y, U, U)),
    (["/%61 train-ai=n"], "/a", (N, U, U)),
    (["/a%20b train-ai=n"], "/a b", (N, U, U)),
    (["/a?b=c train-ai=n"], "/a?b=c&d", (N, U, U)),
    (["/*u=https%3A train-ai=n"], "/go?u=https:", (N, U, U)),
    (["/x train-ai=n"], "/a", (U, U, U)),
    # attach 3.1: equal paths count together, any n wins
    (["train-ai=y", "train-ai=n", "train-ai=y"], "/", (N, U, U)),
    (["/a train-ai=y", "/a search=y"], "/a", (Y, U, Y)),
    (["/a* train-ai=y", "/*a train-ai=n"], "/a", (N, U, U)),
    # attach 3.2: what does not begin with a slash is no path; a path ends at SP or HTAB
    (["* train-ai=n"], "/", (U, U, U)),
    (["/a\ttrain-ai=n"], "/a", (N, U, U)),
    (["/a"], "/a", (U, U, U)),
    (["train-ai=n # not train-ai=y"], "/", (N, U, U)),
    (["train-ai=n, search=\u00e9"], "/", (U, U, U)),
]


@pytest.mark.parametrize(("rules", "url", "expected"), USAGE)
def test_content_usage(rules, url, expected):
    lines = [f"Content-Usage: {rule}" for rule in rules]
    assert asked("\n".join(["User-agent: *", *lines])) == asked(
        "\r\n".join(["User-agent: *", "Allow: /a", *lines, ""])
    )
    assert asked("\n".join(["User-agent: *", *lines]), url) == expected


@pytest.mark.parametrize(
    "line",
    [
        "content-usage:train-ai=n",
        " CONTENT-USAGE\t:\ttrain-ai=n",
        "Content-Usage: train-ai=n#x",
    ],
)
def test_spellings(line):
    assert asked(f"User-agent: *\n{line}\n") == (N, U, U)


def test_content_usage_is_of_its_group():
    text = (
        "Content-Usage: train-ai=n\n"
        "User-agent: other\nAllow: /\nContent-Usage: search=n\n"
        "User-agent: examplebot\nDisallow:\n"
        "User-agent: *\nContent-Usage: ai-use=n\nDisallow:\n"
        "User-agent: ExampleBot\nContent-Usage: search=y\n"
    )
    assert asked(text) == (U, U, Y)
    assert asked(text, agent="nobody") == (U, N, U)


def test_only_allow_and_disallow_part_groups():
    # RFC 9309 2.2.4, as for verdicts; attach-05 would part them
    text = (
        "User-agent: *\nContent-Usage: search=n\nUser-agent: ExampleBot\nDisallow: /x\n"
    )
    policy = parse(text)
    for agent in ("ExampleBot", "other"):
        assert not policy.allowed("/x", agent)


RUNS = [
    # between user-agent lines, and what is said to goodbot and to others
    ("Content-Usage: train-ai=y", (Y, U, U), (U, U, U)),
    ("Content-Usage: train-ai=n, search=y", (N, U, Y), (U, U, U)),
    ("Content-Usage: /a train-ai=y", (U, U, U), (U, U, U)),
    ("Content-Usage: / train-ai=y\nCrawl-delay: 5", (Y, U, U), (U, U, U)),
    ("content-usage : train-ai=y # so", (Y, U, U), (U, U, U)),
    # of signals, no is said by either reading
    ("Content-Signal: ai-train=yes", (Y, U, U), (U, U, U)),
    ("Content-Signal: ai-train=no, search=yes", (N, U, Y), (N, U, U)),
]


@pytest.mark.parametrize(
    ("lines", "said", "others"),
    [pytest.param(*case, id=f"D25-{case[0]}") for case in RUNS],
)
def test_a_preference_is_said_to_the_user_agent_lines_directly_above(
    lines, said, others
):
    above = f"User-agent: GoodBot\n{lines}\nUser-agent: *\nDisallow: /x\n"
    assert asked(above, agent="goodbot") == said
    assert asked(above) == others
    below = f"User-agent: *\nUser-agent: GoodBot\n{lines}\nDisallow: /x\n"
    assert asked(below, agent="goodbot") == asked(below) == said


@pytest.mark.parametrize(
    ("uses", "expected"),
    [
        # to goodbot, to others; immediate, reference and full, as goodbot is told and others
        (("use=full", None), ((Y, Y, Y), (U, U, U))),
        (("use=reference", None), ((Y, Y, N), (U, U, N))),
        (("use=immediate", "use=full"), ((Y, N, N), (Y, N, N))),
        (("use=full", "use=reference"), ((Y, Y, N), (Y, Y, N))),
    ],
    ids=lambda case: f"D25-{case[0]}" if isinstance(case[0], str) else "",
)
def test_a_use_that_others_may_make_says_no_more_than_no(uses, expected):
    groups = [
        f"User-agent: {agent}\n" + (f"Content-Signal: {use}\n" if use else "")
        for agent, use in zip(("GoodBot", "*"), uses, strict=True)
    ]
    policy = parse("".join([*groups, "Disallow: /x\n"]))
    levels = ("use=immediate", "use=reference", "use=full")
    for agent, said in zip(("goodbot", "x"), expected, strict=True):
        found = policy.preferences("/", agent)
        assert tuple(found.of(level).answer for level in levels) == said
        assert (found.use.answer == U) == (set(said) == {U})
    header = header_preferences([("Content-Signal", "search=yes")])
    assert combine(found, header).grants_use is found.grants_use


# Content-Signal


SIGNALS = [
    ("search=yes, ai-train=no", (N, U, Y)),
    ("ai-train=no, search=yes, ai-input=yes", (N, Y, Y)),
    ("search=yes,ai-train=no,use=reference", (N, U, Y)),
    (" AI-Train = NO ;", (N, U, U)),
    ("search=yes; ai-train=no", (N, U, Y)),
    ("search=yes;ai-train=no;ai-input=yes,", (N, Y, Y)),
    ("search=yes; ai-train=no, ai-input=yes", (N, Y, Y)),
    ("ai-train=yes; ai-train=no", (N, U, U)),
    ("search=yes;use=reference", (U, U, Y)),
    (";;search=yes;", (U, U, Y)),
    # what is no signal may be a condition: of a no it changes nothing
    ("ai-train=yes; with=link, search=yes", (U, U, Y)),
    ("ai-train=no; with=link", (N, U, U)),
    ("ai-train=no; see https://example.com/", (N, U, U)),
    ("search=yes; ai-train=no; see example.com", (N, U, U)),
    ("AI-TRAIN = No , Search=YES", (N, U, Y)),
    ("ai-train=n, search=y", (U, U, U)),
    ("ai-train=no, ai-train=yes", (N, U, U)),
    ("train-ai=no", (U, U, U)),
    ("", (U, U, U)),
]


@pytest.mark.parametrize(("value", "expected"), SIGNALS)
def test_content_signal(value, expected):
    assert asked(f"User-agent: *\nContent-Signal: {value}\nAllow: /\n") == expected
    assert answers(header_preferences([("Content-Signal", value)])) == expected


TWO_GROUPS = """
User-agent: *
Content-Signal: ai-train=no, search=yes
Allow: /

{}
Disallow: /x
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # no holds by either reading, of the group and of the file; yes by both
        ("User-agent: *\nContent-Signal: ai-train=no, search=yes\n", (N, U, Y)),
        ("Content-Signal: ai-train=no, search=yes\nUser-agent: *\n", (N, U, U)),
        (TWO_GROUPS.format("User-agent: *\nContent-Signal: search=yes"), (N, U, Y)),
        (TWO_GROUPS.format("User-agent: ExampleBot"), (N, U, U)),
    ],
)
def test_content_signal_is_read_as_of_the_group_and_of_the_file(text, expected):
    assert asked(text) == expected


def test_conventions_are_joined():
    text = (
        "User-agent: *\nContent-Usage: train-ai=y, ai-use=n\n"
        "Content-Signal: ai-train=no, ai-input=yes\n"
    )
    found = parse(text).preferences("/", "ExampleBot")
    assert answers(found) == (N, N, U)
    assert found.of("train-ai").said == "Content-Signal: ai-train=no, ai-input=yes"
    assert found.of("ai-input").line == 2


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("use=immediate", (Y, N, N)),
        ("use=reference", (Y, Y, N)),
        ("use=full", (Y, Y, Y)),
        ("use=full, use=reference", (Y, Y, N)),
        ("use=yes", (U, U, U)),
        ("ai-train=no", (U, U, U)),
    ],
)
def test_use(use, expected):
    found = parse(f"User-agent: *\nContent-Signal: {use}\n").preferences("/", "x")
    levels = ("use=immediate", "use=reference", "use=full")
    assert tuple(found.of(level).answer for level in levels) == expected


def test_the_least_use_of_the_file():
    text = "User-agent: a\nContent-Signal: use=immediate\nUser-agent: *\nContent-Signal: use=full\n"
    assert parse(text).preferences("/", "x").use.answer == "immediate"
    assert parse(text).preferences("/", "x").use.line == 2


# The others


def test_licenses_are_recorded_wherever_they_stand():
    text = (
        "License: https://example.com/license.xml\n"
        "User-agent: a\nDisallow: /\n"
        "license: /other.xml # RSL\n"
    )
    for url in ("/", "/robots.txt"):
        for agent in ("a", "b"):
            found = parse(text).preferences(url, agent).licenses
            assert found == (("https://example.com/license.xml", 1), ("/other.xml", 4))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("tdm-reservation", "1")], N),
        ([("TDM-Reservation", "0")], Y),
        ([("tdm-reservation", "0"), ("tdm-reservation", " 1 ")], N),
        ([("tdm-reservation", "2")], U),
        ([("tdm-policy", "https://example.com/policy")], U),
    ],
)
def test_tdm_headers(headers, expected):
    found = header_preferences(headers)
    assert found.of("tdm").answer == expected
    assert answers(found) == (U, U, U)


def test_tdm_policy():
    found = header_preferences([("TDM-Policy", "https://example.com/policy")])
    assert found.tdm_policies == (("https://example.com/policy", 0),)


# Headers, and both


def test_header_lines_are_one_dictionary():
    usage = [("Content-Usage", "train-ai=n"), ("content-usage", "train-ai=y, search=y")]
    assert answers(header_preferences(usage)) == (Y, U, Y)
    usage.append(("Content-Usage", "X"))
    assert answers(header_preferences(usage)) == (U, U, U)


def test_other_headers_are_ignored():
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
    header = header_preferences(
        [("Content-Signal", "use=reference"), ("tdm-policy", "https://b.example/")]
    )
    found = combine(parse(text).preferences("/", "x"), header)
    assert found.use.answer == "reference"
    assert [pointer.url for pointer in found.licenses + found.tdm_policies] == [
        "https://a.example/",
        "https://b.example/",
    ]


# As part of a policy


def test_names_of_purposes():
    found = parse("User-agent: *\nContent-Usage: train-ai=n, ai-use=n, search=n")
    for purpose in PURPOSES:
        answer = found.preferences("/", "x").of(purpose).answer
        assert answer == (U if purpose.startswith(("use=", "tdm")) else N)
    with pytest.raises(KeyError):
        found.preferences("/", "x").of("training")


@pytest.mark.parametrize("dialect", [GYM2008, MK1996])
def test_dialects(dialect):
    policy = parse(FIGURE_2, dialect=dialect)
    assert policy.preferences("/x", "OtherBot").of("train-ai").answer == N
    assert policy.preferences("/ai-ok/x", "OtherBot").of("train-ai").answer == Y


def test_no_file_states_nothing():
    for policy in (Policy.allow_all(), Policy.disallow_all(), parse("")):
        assert policy.preferences("/", "x") == Preferences()


def test_it_changes_neither_verdicts_nor_equality():
    policy = parse(FIGURE_2)
    policy.preferences("/", "x")
    assert policy == parse(FIGURE_2)
    again = pickle.loads(pickle.dumps(policy))
    assert again.preferences("/", "x") == policy.preferences("/", "x")
    wrong: Any
    for wrong in (None, b"/"):
        with pytest.raises(TypeError):
            policy.preferences(wrong, "x")


@pytest.mark.skipif(COMPILED, reason="compiled code calls what it was built with")
def test_it_is_read_only_when_asked_for(monkeypatch):
    policy = parse(FIGURE_2)
    policy.allowed("/", "x")

    class Unexpected:
        def __init__(self, *args):
            raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr("scrapy_rep.protocol.policy.Stated", Unexpected)
        policy.allowed("/", "x")
        policy.verdict("/", "x")
        _ = policy.sitemaps, policy.groups
        with pytest.raises(AssertionError):
            policy.preferences("/", "x")
    policy.preferences("/", "x")


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["Content-Usage:", "Content-Signal:", "License:", "User-agent:", "\n", " "]
        )
        | st.sampled_from(["train-ai=n", "/a*", "$", ",", "*", "x", "ai-train=no", "%"])
        | st.text(CHARACTERS, max_size=3)
    ),
    st.text(CHARACTERS),
)
def test_nothing_makes_it_raise(parts, url):
    text = "".join(parts)
    policy = parse(text)
    found = policy.preferences(url, "x")
    for purpose in PURPOSES:
        preference = found.of(purpose)
        assert (preference.answer == U) == (preference.line == 0)
    _ = policy.notes


def memory_for_preferences(part: str, url: str) -> tuple[int, int]:
    """Return the octets that it takes to ask, and those that the policy tells of in all."""
    policy = parse("User-agent: x\n" + part * (50_000 // len(part)))
    policy.allowed("/", "x")
    tracemalloc.start()
    policy.preferences(url, "x")
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
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
