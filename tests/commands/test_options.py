"""Wrong arguments: what is wrong, what was expected, exit 2."""

from __future__ import annotations

import pytest

from scrapy_rep import __version__
from scrapy_rep.protocol import COMPILED
from tests.commands.cli import robots

URL = "https://example.com/"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "there is no URL, expected some, or - to read them"),
        (("--lint",), "there is no URL, expected some, or - to read them, or --file"),
        (("--file", "F"), "there is no URL, expected some, or - to read them"),
        (("example.com",), "URL is 'example.com', expected an absolute http or https"),
        (("ftp://example.com/",), "URL is 'ftp://example.com/', expected an absolute"),
        (("--agnt", "A", URL), "unknown option --agnt; scrapy robots -h lists them"),
        (("--agent", " ", URL), "--agent is empty, expected a product token"),
        (("--file",), "--file: expected one argument"),
        (("--file", "missing", URL), "--file is 'missing' (No such file or directory)"),
        (("--file", ".", URL), "--file is '.' (Is a directory), expected a file"),
        (("--file", "-", "-"), "- is given twice"),
        (("-", "-"), "- is given twice"),
        (("--lint", "--sitemaps", URL), "--lint and --sitemaps exclude each other"),
        (("--lint", "--file", "F", URL), "--lint is about the whole of --file"),
        (("--sitemaps", "--file", "F", URL), "--sitemaps is about the whole of --file"),
        (("--lint", "--agent", "A", URL), "--lint is about all agents"),
        (("--sitemaps", "--agent", "A", URL), "--sitemaps is about all agents"),
        (("--now", "--lint", URL), "--now is about requests, expected no --lint"),
        (("--now", "--compare", "A", "B", "--urls", "L"), "--now is given with"),
        (("--urls", "L", URL), "--urls is for --compare OLD NEW"),
        (("--compare", "A"), "--compare: expected 2 arguments"),
        (("--compare", "A", "B"), "--compare lacks its URLs, expected --urls FILE"),
        (("--compare", "A", "B", "--urls", "L", URL), "a URL is given with --compare"),
        (("--compare", "-", "B", "--urls", "-"), "- is given twice"),
        (("--compare", "A", "B", "--urls", "L", "--lint"), "--lint is given with"),
        (("--compare", "missing", "B", "--urls", "L"), "OLD is 'missing' (No such"),
        (("--report",), "--report: expected at least one argument"),
        (("--report", "A"), "--report lacks its page, expected -o FILE"),
        (("--report", "-", "-", "-o", "P"), "- is given twice"),
        (("--report", "A", "-o", "P", "--json"), "--json is given with --report"),
        (
            ("--host", "H", URL),
            "--host is for --report and --fleet, expected one of them beside",
        ),
        (("-o", "P", URL), "-o is for --report AUDIT..., expected that beside it"),
        (("-s", "REP_DIALECT=x", URL), "REP_DIALECT is 'x', expected"),
        (("-s", "REP_DIALECT", URL), "Invalid -s value, use -s NAME=VALUE"),
    ],
)
def test_wrong_arguments(args, said, tmp_path):
    done = robots(*args, cwd=tmp_path)
    assert done.status == 2
    assert said in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


def test_a_list_that_is_missing(tmp_path):
    file = tmp_path / "robots.txt"
    file.write_text("")
    done = robots("--compare", str(file), str(file), "--urls", "missing")
    assert done.status == 2
    assert "--urls is 'missing' (No such file or directory)" in done.err


def test_help_names_every_option():
    done = robots("-h")
    assert done.status == 0
    for option in (
        "agent",
        "file",
        "lint",
        "json",
        "sitemaps",
        "compare",
        "urls",
        "report",
        "version",
    ):
        assert f"\n  --{option}" in done.out
    assert "\n  -o FILE" in done.out or "\n  -o, --output" in done.out


def test_the_version_says_which_form_runs():
    done = robots("--version")
    form = "compiled" if COMPILED else "plain Python"
    assert done.status == 0
    assert done.out == f"scrapy_rep {__version__}; the protocol is {form}\n"
