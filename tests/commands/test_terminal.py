"""On a terminal of 80 columns: colours, width, progress."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from scrapy_rep.commands.terminal import Screen
from tests.commands.cli import command, environment, on_terminal, robots, without_colour
from tests.forking import Forked
from tests.site import Reply, Site

on_posix = pytest.mark.skipif(sys.platform == "win32", reason="there is no pty")

LONG = "/" + "long-path/" * 20
WIDE = "/" + "日本語" * 30
ROBOTS = f"""\
User-agent: *
Disallow: {LONG}
Disallow: /
# {WIDE}
Disallow: {WIDE}
Crawl-delay: 1
nonsense
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "r"
    path.write_text(ROBOTS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return "r"


@on_posix
def test_colours(file):
    status, shown = on_terminal("--file", file, "/", "/robots.txt")
    assert status == 1
    assert "\x1b[31mrefused\x1b[0m" in shown
    assert "\x1b[32mallowed\x1b[0m" in shown
    assert without_colour(shown) == robots("--file", file, "/", "/robots.txt").out


@on_posix
@pytest.mark.parametrize("args", [["/"], ["--lint"]])
def test_no_colours(file, args):
    """Where they are not wanted, or in a pipe; an empty NO_COLOR means nothing."""
    assert "\x1b[" in on_terminal("--file", file, *args, NO_COLOR="")[1]
    assert "\x1b" not in on_terminal("--file", file, *args, NO_COLOR="1")[1]
    assert "\x1b" not in robots("--file", file, *args).out


@on_posix
def test_what_may_be_copied_is_whole(file):
    _, shown = on_terminal("--file", file, LONG)
    heading, *lines = without_colour(shown).splitlines()
    assert heading == LONG
    assert f"{' ' * 12}{LONG}" in lines


@on_posix
def test_what_has_spaces_fits_the_screen(tmp_path):
    file = tmp_path / "slow"
    file.write_text("User-agent: *\nCrawl-delay: 1000\n")
    for columns, fits in {80: False, 110: True}.items():
        _, shown = on_terminal("--file", str(file), "/", columns=columns)
        _, *lines, _ = without_colour(shown).splitlines()
        assert max(map(len, lines)) <= columns
        assert any("more than REP_CRAWL_DELAY_MAX" in line for line in lines) == fits
    assert max(map(len, robots("-h").out.splitlines())) <= 80


def test_who_lets_us_wait_is_told_while_it_does():
    with (
        Site({"/robots.txt": Reply("", hang=True)}) as site,
        Forked(
            command(site.url("/")),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        ) as process,
    ):
        assert process.stderr is not None
        told = process.stderr.readline().decode()
        process.kill()
    waits = re.escape(f"waiting for the robots.txt of {site.origin}")
    assert re.fullmatch(rf"0 of 1 URLs, \d+ s, {waits}\n", told)


def test_progress(monkeypatch, capsys):
    monkeypatch.setattr("scrapy_rep.commands.terminal.LATE_SECONDS", 0.0)
    progress = Screen().track(2, "URLs")
    progress.tick()
    assert re.fullmatch(r"0 of 2 URLs, .* s\n", capsys.readouterr().err)
    progress.waits_for = "https://example.com"
    progress.add()
    told = capsys.readouterr().err
    assert re.fullmatch(
        r"1 of 2 URLs, .* s, waiting for the robots.txt of https://example.com\n", told
    )


def test_no_progress_of_what_is_quick(file):
    with Site() as site:
        assert robots(site.url("/")).err == ""
    assert robots("compare", file, file, file).err == ""
