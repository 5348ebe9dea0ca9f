"""Each cause of a difference from another parser, on files that have no other."""

from __future__ import annotations

import random

import pytest

from tests.differential.__main__ import made_up, main
from tests.differential.causes import causes_of_delay, causes_of_verdict
from tests.differential.others import OTHERS, PROTEGO, URLLIB, Case, ours

SITE = "https://example.com"
ALL = "User-agent: *\n"
BLOCKED = "Disallow: /x\n"
HEADER = "Mozilla/5.0 (compatible; ExampleBot/1.0)"

# The parser, a file, a path, and how the cause of another verdict begins.
VERDICTS = [
    (URLLIB, f"\ufeff{ALL}{BLOCKED}", "/x", "D17"),
    (PROTEGO, f"{ALL}Disallow: /a\x0bDisallow: /x\n", "/x", "D24"),
    (PROTEGO, f"{ALL}# {'x' * 600_000}\n{BLOCKED}", "/x", "D26"),
    (PROTEGO, f"{ALL}Disallow: /\udcf0\n", "/y", "D29"),
    (URLLIB, f"{ALL}\u200b{BLOCKED}", "/x", "D28"),
    (URLLIB, f"{ALL}Disallow /x\n", "/x", "D13"),
    (PROTEGO, f"{ALL}Disallow /x y\n", "/x%20y", "D13"),
    (URLLIB, f"{ALL}Disalow: /x\n", "/x", "D12"),
    (PROTEGO, f"User-agent: examplebot\nFoo: 1\nUser-agent: b\n{BLOCKED}", "/x", "D14"),
    (
        PROTEGO,
        f"User-agent: examplebot\nCrawl-delay: 1\n{ALL}{BLOCKED}",
        "/x",
        "D14, D25",
    ),
    (URLLIB, f"{ALL}\n{BLOCKED}", "/x", "D14: a blank line"),
    (URLLIB, f"{ALL}Disallow:\n{BLOCKED}", "/x", "D15"),
    (URLLIB, f"{ALL}{BLOCKED}User-agent: examplebot\n", "/x", "D19"),
    (URLLIB, f"User-agent: bot\n{BLOCKED}", "/x", "D1: another"),
    (PROTEGO, f"User-agent: example\n{BLOCKED}", "/x", "D1: another"),
    (URLLIB, f"User-agent: ExampleBot/1.0\n{BLOCKED}", "/x", "D2"),
    (URLLIB, f"User-agent: * all\n{BLOCKED}", "/x", "D3"),
    (URLLIB, f"{ALL}Disallow: /y\n{ALL}{BLOCKED}", "/x", "D18"),
    (URLLIB, f"{ALL}Disallow: /\n", "/robots.txt", "D4"),
    (PROTEGO, f"{ALL}Disallow: /\n", "/robots.txt?x", "D4"),
    (URLLIB, f"{ALL}Disallow: /a#b\n", "/a#c", ""),
    (PROTEGO, f"{ALL}{BLOCKED}", "/a/../x", "D23: dot segments"),
    (URLLIB, f"{ALL}Disallow: /a/*/b\n", "/a//b", "RFC 9309 2.2.3"),
    (PROTEGO, f"{ALL}Disallow: {SITE}/x\n", "/x", "D21"),
    (URLLIB, f"{ALL}Allow: /a/index.html\nDisallow: /a\n", "/a/", "D11"),
    (PROTEGO, f"{ALL}Allow: /a/index.htm\nDisallow: /a\n", "/a/", "D11"),
    (PROTEGO, f"{ALL}Disallow: /*%c\n", "/%C3%A9", "D9: a rule"),
    (PROTEGO, f"{ALL}Disallow: /a%zz\n", "/a%25zz", "D9: a %"),
    (PROTEGO, f"{ALL}Disallow: /a%26b\n", "/?/a", ""),
    (PROTEGO, f"{ALL}Disallow: /a?b%26c\n", "/a?b&c", "D6"),
    (PROTEGO, f"{ALL}Disallow: /go?u=a/b\n", "/go?u=a%2Fb", "D7"),
    (PROTEGO, f"{ALL}Disallow: /a$\n", "/a$b", "D8"),
    (URLLIB, f"{ALL}Disallow: /a?\n", "/a", "RFC 9309 2.2.2: a question"),
    (URLLIB, f"{ALL}Disallow: /*.gif\n", "/a.gif", "RFC 9309 2.2.3"),
    (URLLIB, f"{ALL}Disallow: /\nAllow: /x\n", "/x", "RFC 9309 2.2.2: the most"),
    (PROTEGO, f"{ALL}Disallow: /a==\nAllow: /a==$\nDisallow: /a:=\n", "/a==", ""),
    (PROTEGO, f"{ALL}Allow: /*a=\nDisallow: /aaa*\n", "/aaa=", "D22"),
    (URLLIB, f"{ALL}Disallow: //[\n", "/x", "RFC 9309 2.3.1.5"),
]


@pytest.mark.parametrize(
    ("other", "text", "path", "cause"),
    [pytest.param(*case, id=f"{case[3][:12]}-{n}") for n, case in enumerate(VERDICTS)],
)
def test_cause_of_a_verdict(other, text, path, cause):
    case = Case(text, SITE + path, "examplebot")
    same = other.allowed(case) is ours(text).allowed(case.url, case.agent)
    assert same is (cause == "")
    if cause:
        (found,) = causes_of_verdict(case, other)
        assert found.startswith(cause)


# As above, about the delay.
DELAYS = [
    (PROTEGO, f"{ALL}Crawl-delay: 5\nCrawl-delay: 2\n", "D25: several"),
    (URLLIB, f"{ALL}Crawl-delay: 0.5\n", "D25: a value"),
    (PROTEGO, f"{ALL}Crawl-delay: 1e1\n", "D25: a value"),
    (PROTEGO, f"{ALL}Crawldelay: 5\n", "D12"),
    (PROTEGO, f"User-agent: example\nCrawl-delay: 5\n{ALL}{BLOCKED}", "D1: another"),
    (PROTEGO, f"User-agent: examplebot\nCrawl-delay: 5\n{ALL}{BLOCKED}", ""),
    (URLLIB, f"{ALL}\nCrawl-delay: 5\n", "D14: a blank line"),
]


@pytest.mark.parametrize(
    ("other", "text", "cause"),
    [pytest.param(*case, id=f"{case[2][:12]}-{n}") for n, case in enumerate(DELAYS)],
)
def test_cause_of_a_delay(other, text, cause):
    case = Case(text, f"{SITE}/", "examplebot")
    same = other.delay(case) == ours(text).crawl_delay(case.agent)
    assert same is (cause == "")
    if cause:
        (found,) = causes_of_delay(case, other)
        assert found.startswith(cause)


def test_several_causes_at_once():
    case = Case("\ufeffUser-agent *\nDisalow: /x\n", f"{SITE}/x", HEADER)
    found = causes_of_verdict(case, URLLIB)
    assert [cause.partition(":")[0] for cause in found] == ["D13", "D12"]


def test_what_no_cause_explains_is_not_explained_away():
    case = Case(f"{ALL}{BLOCKED}", f"{SITE}/x", "examplebot")
    deaf = URLLIB._replace(allowed=lambda case: True, delay=lambda case: 7.0)
    assert causes_of_verdict(case, deaf) in ([], ["unexplained"])
    assert causes_of_delay(case, deaf) == []


def test_made_up_files_are_explained(tmp_path, capsys):
    (tmp_path / "robots.txt").write_text(f"{ALL}\nDisallow: /*/x\nCrawl-delay: 0.5\n")
    assert main([str(tmp_path), "--made", "150"]) == 0
    out = capsys.readouterr().out
    assert all(other.name in out for other in OTHERS)
    assert "unexplained" not in out
    cases = [made_up(random.Random(seed)) for seed in (1, 1, 2)]
    assert cases[0] == cases[1] != cases[2]


def test_an_unexplained_difference_is_told(tmp_path, capsys, monkeypatch):
    deaf = URLLIB._replace(name="deaf", allowed=lambda case: True)
    monkeypatch.setattr("tests.differential.__main__.OTHERS", [deaf])
    (tmp_path / "robots.txt").write_text(f"{ALL}Disallow: /\n")
    assert main([str(tmp_path), "--made", "0"]) == 1
    assert "unexplained" in capsys.readouterr().out
