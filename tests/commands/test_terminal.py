"""On a terminal of 80 columns: colours, width, progress."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from scrapy_rep.commands.terminal import Screen
from scrapy_rep.protocol.printable import printable
from tests.commands.cli import command, environment, on_terminal, robots, without_colour
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
"""
TAKES_LONG = 2.8


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
@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colours(file, env):
    for args in (["/"], ["--lint"]):
        _, shown = on_terminal("--file", file, *args, **env)
        assert "\x1b" not in shown


@on_posix
def test_an_empty_no_color_means_nothing(file):
    _, shown = on_terminal("--file", file, "/", NO_COLOR="")
    assert "\x1b[31m" in shown


def test_no_colours_in_a_pipe(file):
    for args in (["/"], ["--lint"]):
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


@on_posix
def test_progress_of_what_takes_long():
    with Site({"/robots.txt": Reply("", after=TAKES_LONG)}) as site:
        status, shown = on_terminal(site.url("/"))
    assert status == 0
    robots_txt = site.url("/robots.txt")
    before, _, _ = shown.partition(f"\x1b[1m{site.url('/')}\x1b")
    drawn = [part for part in before.split("\r") if without_colour(part)]
    assert drawn
    said = re.compile(rf"0 of 1 URLs, \d s, waiting for {re.escape(robots_txt)}")
    assert all(said.fullmatch(without_colour(part)) for part in drawn)
    # What was drawn is gone when the block begins.
    assert before.rpartition("\r")[2].startswith("\x1b[K")
    assert without_colour(before.rpartition("\r")[2]) == ""


def test_who_lets_us_wait_is_told_in_a_pipe(monkeypatch, capsys):
    monkeypatch.setattr("scrapy_rep.commands.terminal.LATE_SECONDS", 0.0)
    progress = Screen().track(2, "URLs")
    progress.tick()
    assert capsys.readouterr().err == ""
    progress.waits_for = "https://example.com/robots.txt"
    progress.add()
    told = capsys.readouterr().err
    assert re.fullmatch(
        r"1 of 2 URLs, .* s, waiting for https://example.com/robots.txt\n", told
    )


@on_posix
def test_no_progress_of_what_is_quick(file):
    with Site() as site:
        _, shown = on_terminal(site.url("/"))
    assert "\r" not in shown
    _, shown = on_terminal("compare", file, file, file)
    assert "\r" not in shown


def test_no_progress_in_a_pipe():
    with Site({"/robots.txt": Reply("", after=TAKES_LONG)}) as site:
        done = robots(site.url("/"))
    assert done.err == ""
    assert "\r" not in done.out


@on_posix
def test_progress_of_a_long_list(file):
    import fcntl
    import os
    import pty
    import select
    import struct
    import termios

    # Standard error is the terminal; the list comes through a pipe, until a bar is seen.
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    shown, lines, bar = "", 0, re.compile(r"\r\x1b\[K[\d,]+ URLs, \d+ s")
    deadline = time.monotonic() + 60
    with subprocess.Popen(
        command("compare", file, file, "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=slave,
        env=environment(),
    ) as process:
        os.close(slave)
        assert process.stdin is not None
        assert process.stdout is not None
        while not bar.search(shown):
            assert time.monotonic() < deadline
            process.stdin.write(b"/x\n" * 1000)
            process.stdin.flush()
            lines += 1000
            if select.select([master], [], [], 0.2)[0]:
                shown += os.read(master, 65536).decode()
        process.stdin.close()
        out = process.stdout.read().decode()
    with suppress(OSError):  # nobody has the terminal any more
        shown += os.read(master, 65536).decode()
    os.close(master)
    assert out == f"0 of {lines:,} verdicts change: 0 now allowed, 0 now refused\n"
    assert max(map(len, without_colour(shown).split("\r"))) <= 80


def test_printable():
    assert printable("a\x1b[1m\tb\x00é日\u202e") == "a\\x1b[1m b\\x00é日\\u202e"
