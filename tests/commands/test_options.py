"""What can be typed: help for each form, and what is wrong in a sentence, exit 2."""

from __future__ import annotations

import re

import pytest

from scrapy_rep import __version__
from scrapy_rep.commands.typed import OPTION, pages
from scrapy_rep.protocol import COMPILED
from tests.commands.cli import robots

URL = "https://example.com/"
WORDS = ["lint", "compare", "job", "fleet", "report", "doctor", "card", "approve"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            (),
            "No URL is given. Type one, or - to read them. scrapy robots -h tells more.",
        ),
        (("--lint",), "No URL is given. Type one"),
        (("--file", "F"), "No URL is given. Type one"),
        (
            ("nonsense",),
            "'nonsense' is no URL to judge. Type an absolute http or https",
        ),
        (
            ("ftp://example.com/",),
            "'ftp://example.com/' is no URL to judge. Type an abs",
        ),
        (("--agnt", "A", URL), "There is no --agnt. scrapy robots -h tells more."),
        ((URL, "--agnt"), "There is no --agnt. scrapy robots -h tells more."),
        (("--agent", " ", URL), "--agent has no value. Type --agent AGENT. scrapy "),
        (
            (URL, "--agent"),
            "--agent has no value. Type --agent AGENT. scrapy robots -h",
        ),
        (("doctor", "--spider"), "--spider has no value. Type --spider NAME. scrapy "),
        (("report", "a", "-o"), "--output has no value. Type --output FILE. scrapy "),
        (
            ("report", "a", "--against"),
            "--against has no value. Type --against FILES. ",
        ),
        (("--file", "missing", URL), "The file 'missing' cannot be read (No such file"),
        (
            ("--file", ".", URL),
            "The file '.' cannot be read (Is a directory). Type the",
        ),
        (("--file", "-", "-"), "- is given twice. Type the name of a file in one"),
        (("-", "-"), "- is given twice"),
        (
            ("--lint", "--sitemaps", URL),
            "--lint and --sitemaps exclude each other. Type",
        ),
        (
            ("--lint", "--file", "F", URL),
            "--lint and --sitemaps are about the whole of",
        ),
        (
            ("--sitemaps", "--file", "F", URL),
            "--lint and --sitemaps are about the whole of",
        ),
        (
            ("--lint", "--agent", "A", URL),
            "--lint and --agent exclude each other. Type",
        ),
        (
            ("--now", "--lint", URL),
            "--lint and --now exclude each other. Type one",
        ),
        (
            ("--spider", "nobody", URL),
            "There is no spider 'nobody' here. Type one that",
        ),
        (("lint",), "Nothing is named. Type a robots.txt, a URL, or --agent"),
        (("lint", "-", "-"), "- is given twice"),
        (("lint", "missing"), "The file 'missing' cannot be read"),
        (("lint", "ftp://example.com/"), "'ftp://example.com/' is no URL to judge."),
        (
            ("lint", "a", "--ignore", "R999"),
            "'R999' is no mistake that is known. Type one as",
        ),
        (("lint", "--agent", ""), "--agent has no value. Type --agent AGENT. scrapy "),
        (("--agent", "A", "doctor"), "There is no --agent. scrapy robots doctor -h"),
        (("compare", "A"), "are required: NEW, URLS. scrapy robots compare -h tells"),
        (("compare", "-", "B", "-"), "- is given twice"),
        (
            ("compare", "missing", "B", "L"),
            "The file 'missing' cannot be read (No such",
        ),
        (("report",), "are required: AUDIT. scrapy robots report -h tells more."),
        (
            ("report", "A"),
            "No page is named. Type -o FILE, or -o - for standard output.",
        ),
        (("report", "-", "-", "-o", "P"), "- is given twice"),
        (("job",), "are required: DIR. scrapy robots job -h tells more."),
        (("job", "D", "E"), "There is no E. scrapy robots job -h tells more."),
        (("approve",), "No URL is known. Type one, or --spider NAME of a spider"),
        (("doctor", "x"), "There is no x. scrapy robots doctor -h tells more."),
        (("-s", "REP_DIALECT=x", URL), "REP_DIALECT is 'x', expected"),
    ],
)
def test_wrong_arguments(args, said, tmp_path):
    done = robots(*args, cwd=tmp_path)
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_what_scrapy_itself_finds_wrong():
    for args, said in {
        ("-s", "REP_DIALECT", URL): "Invalid -s value, use -s NAME=VALUE",
        ("-L",): "--loglevel: expected one argument",
    }.items():
        done = robots(*args)
        assert done.status == 2
        assert said in done.err
        assert "Traceback" not in done.err


def test_a_list_that_is_missing(tmp_path):
    file = tmp_path / "robots.txt"
    file.write_text("")
    done = robots("compare", str(file), str(file), "missing")
    assert done.status == 2
    assert "The file 'missing' cannot be read (No such file or directory)" in done.err
    assert "Type the name of a list of URLs, or -." in done.err


def test_the_help_fits_a_screen_and_names_all_words_and_the_manual():
    done = robots("-h")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[15:23]] == WORDS
    assert "scrapy_rep/docs" in done.out
    options = [name for _, name, *_ in OPTION.findall(done.out)]
    assert options == [
        "--agent", "--spider", "--file", "--sitemaps", "--lint", "--now", "--json",
        "--version",
    ]  # fmt: skip


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


def test_options_may_stand_before_the_word_and_among_urls():
    text = "User-agent: *\nDisallow: /x\n"
    before = robots("-s", "REP_DIALECT=mk1996", "--json", "lint", "-", stdin=text)
    assert (before.status, before.out) == (0, "")
    among = robots("/x", "--file", "-", "/y", "--json", stdin=text)
    assert [each["url"] for each in among.objects] == ["/x", "/y"]


def test_a_host_that_is_called_like_a_word_is_named_by_its_url():
    done = robots("--file", "-", "http://lint/", "lint.example/", stdin="")
    assert done.status == 0
    assert "http://lint/\n" in done.out
    assert "\nhttps://lint.example/\n" in done.out


def test_the_version_says_which_form_runs():
    done = robots("--version")
    form = "compiled" if COMPILED else "plain Python"
    assert done.status == 0
    assert done.out == f"scrapy_rep {__version__}; the protocol is {form}\n"
