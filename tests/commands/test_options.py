"""What can be typed, and what is told of it: help, versions, and in JSON, whose keys are documented."""

from __future__ import annotations

import re

import pytest

from scrapy_rep import __version__
from scrapy_rep.commands.terminal import OPTION, pages
from scrapy_rep.protocol import COMPILED
from tests.commands.cli import robots
from tests.documents import page

WORDS = ["lint", "compare", "job", "fleet", "report", "doctor", "card", "approve"]
ROBOTS = "User-agent: *\nRequest-rate: 1/10\nVisit-time: 0600-0845\nDisallow: /x\n"


def test_what_scrapy_itself_finds_wrong():
    for args, said in {
        ("-s", "REP_DIALECT", "https://example.com/"): "Invalid -s value, use -s NAME=",
        ("-L",): "--loglevel: expected one argument",
    }.items():
        done = robots(*args)
        assert done.status == 2
        assert said in done.err
        assert "Traceback" not in done.err


def test_the_help_fits_a_screen_and_names_all_words_and_the_manual():
    done = robots("-h")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[15:23]] == WORDS
    assert "scrapy_rep/docs" in done.out
    options = [name[2:] for _, name, *_ in OPTION.findall(done.out)]
    assert " ".join(options) == "agent spider file sitemaps lint now json version"


@pytest.mark.parametrize("word", WORDS)
def test_each_word_has_a_help_of_its_own_with_an_example(word):
    done = robots(word, "-h")
    assert (done.status, done.err) == (0, "")
    assert done.out == pages()[word]
    assert done.out.startswith(f"usage: scrapy robots {word} ")
    assert re.search(rf"\nexample: scrapy robots {word}\b", done.out)
    assert "\nExit status: 0 " in done.out
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 30


def test_the_version_says_which_form_runs():
    done = robots("--version")
    form = "compiled" if COMPILED else "plain Python"
    assert done.status == 0
    assert done.out == f"scrapy_rep {__version__}; the protocol is {form}\n"


def documented(after: str) -> set[str]:
    """Return the keys of the table that follows the words *after* in the page."""
    text = page("command").read_text(encoding="utf-8")
    table = text[text.index(after) :].split("\n\n")[1]
    return set(re.findall(r"(?m)^``(\w+)``", table))


def test_every_key_is_documented():
    (found,) = robots("--file", "-", "--json", "/x", stdin=ROBOTS).objects
    (verdict,) = found["verdicts"]
    assert set(found) == documented("``--json`` writes\n")
    assert set(verdict) == documented("of ``verdicts``\n")
    assert set(found["robots_txt"]) == documented("and of ``robots_txt``")
    assert set(verdict["rule"]) == {"allow", "path", "line"}
    assert set(verdict["groups"][0]) == {"tokens", "line"}
    assert set(verdict["request_rate"]) == {"requests", "seconds", "start", "end"}
    assert set(verdict["visit_time"]) == {"start", "end"}
    (told,) = robots("doctor", "--json").objects
    assert set(told) == documented("With ``doctor`` there is one")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("REP_STORE=nothing", "REP_STORE is 'nothing', expected memory, sqlite or "),
        ("REP_STORE=os.path", "REP_STORE is 'os.path', expected memory, sqlite or "),
        ("REP_APPROVED=missing", "REP_APPROVED is 'missing', expected a file that "),
        (
            "REP_AUDIT_URI=foo://u:p@x",
            "REP_AUDIT_URI is 'foo://***@x', expected a path",
        ),
        (
            "REP_STORE=sqlite REP_STORE_PATH=.",
            "REP_STORE_PATH is '.', expected a file, not a folder",
        ),
        ("REP_AUDIT_URI=.", "REP_AUDIT_URI is '.', expected a file, not a folder"),
    ],
)
def test_doctor_finds_what_would_end_a_crawl(setting, said, tmp_path):
    options = [option for each in setting.split() for option in ("-s", each)]
    done = robots("doctor", *options, cwd=tmp_path)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(said)
