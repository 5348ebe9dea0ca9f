"""Judging by a file, as far as no transcript shows it."""

from __future__ import annotations

import gzip
import os
import re
import shlex
import signal
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tests.commands.cli import ROOT, command, environment, robots, scrapy
from tests.documents import page
from tests.forking import Forked

VISITED = "User-agent: *\nDisallow: /private/\nVisit-time: {}\n"
TOO_SLOW = "User-agent: *\nCrawl-delay: 1000"


def visit_time(hours: int) -> str:
    """Return a visit time of three hours that begins so many hours from now."""
    hour = (datetime.now(timezone.utc).hour + hours) % 24
    return VISITED.format(f"{hour:02}00-{(hour + 3) % 24:02}00")


@pytest.mark.parametrize(
    ("file", "setting", "path", "status", "now"),
    [
        (23, "", "/", 0, ("send", None)),
        (5, "", "/", 1, ("refuse", "visit_time")),
        (5, "REP_VISIT_TIME_MAX=86400", "/", 1, ("wait", "visit_time")),
        (23, "", "/private/", 1, ("refuse", "rule")),
        (TOO_SLOW, "", "/", 1, ("refuse", "crawl_delay")),
        ("User-agent: *\nCrawl-delay: 10", "", "/", 0, ("send", None)),
        (TOO_SLOW, "REP_CRAWL_DELAY_OVER_MAX=clamp", "/", 0, ("send", None)),
        (23, "REP_OBEY=visit-time", "/private/", 0, ("send", None)),
    ],
    ids=["in time", "at another time", "waited for", "disallowed", "too slow", "slow", "clamp", "dry run"],
)  # fmt: skip
def test_what_is_sent_now(file, setting, path, status, now):
    action, cause = now
    args = ("-s", setting or "REP_WAIT=1", path)
    if isinstance(file, int):  # asked now, as the hour may turn while others run
        file = visit_time(file)
    said = robots("--file", "-", "--json", "--now", *args, stdin=file)
    (verdict,) = said.objects[0]["verdicts"]
    assert (said.status, verdict["now"]["action"]) == (status, action)
    assert verdict["now"]["cause"] == cause
    assert verdict["allowed"] is (path == "/")
    hours = verdict["now"]["wait"] and verdict["now"]["wait"] / 3600
    assert hours is None if action != "wait" else 3.9 <= hours <= 5
    plain = robots("--file", "-", *args, stdin=file)
    assert plain.status == (0 if path == "/" else 1)
    assert ("now" in plain.rows) == ((action == "send") != (path == "/"))


def test_octets_that_are_no_utf8_are_escaped(tmp_path):
    (tmp_path / "robots.txt").write_text("User-agent: *\nDisallow: /caf%E9\n")
    args = ("--file", "robots.txt", "-")
    done = robots(*args, stdin="/café".encode("latin-1"), cwd=tmp_path)
    assert done.out.startswith("/caf%E9\n")
    assert done.status == 1


def test_arguments_that_are_no_text_are_octets(tmp_path):
    (tmp_path / "robots.txt").write_text("User-agent: *\nDisallow: /caf%E9\n")
    args = ("--file", "robots.txt", os.fsdecode(b"/caf\xe9"))
    done = robots(*args, cwd=tmp_path)
    assert (done.status, done.out.splitlines()[0]) == (1, "/caf%E9")


def test_a_packed_file_is_read_as_a_crawl_would():
    packed = gzip.compress(b"User-agent: *\nDisallow: /x\n")
    assert robots("--file", "-", "/x", stdin=packed).status == 1
    assert robots("lint", "-", stdin=packed).out == "(standard input): no mistakes\n"
    for args in (("--file", "-", "/x"), ("lint", "-")):
        cut = robots(*args, stdin=packed[:-9])
        assert (cut.status, cut.out) == (2, "")
        assert "content coding 'gzip' ends too early" in cut.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="of Linux")
@pytest.mark.parametrize("args", ["--file robots.txt /y", "lint robots.txt", "card"])
def test_what_cannot_be_written_is_no_verdict(args, tmp_path):
    (tmp_path / "robots.txt").write_text("")
    with (
        Path("/dev/full").open("wb") as full,
        Forked(
            command(*args.split()),
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            cwd=tmp_path,
        ) as process,
    ):
        _, err = process.communicate(timeout=60)
    said = b"Standard output cannot be written (No space left on device).\n"
    assert err.endswith(said)
    assert b"Traceback" not in err
    assert process.returncode == 2


@pytest.mark.skipif(sys.platform == "win32", reason="of POSIX shells")
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--file - /x <&-", "Standard input is closed.\n"),
        ("--file /dev/null - <&-", "Standard input is closed.\n"),
        ("report - --json <&-", "audit is '-' (standard input is closed), expected a "),
        ("--file /dev/null /x >&-", "Standard output is closed.\n"),
        ("--file missing /x 2>&-", ""),
    ],
)
def test_what_the_shell_has_closed(typed, said, tmp_path):
    done = subprocess.run(
        f"{shlex.join(command())} {typed}",
        shell=True,
        capture_output=True,
        text=True,
        env=environment(),
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said)


def test_a_file_does_not_steer_the_terminal():
    text = "User-agent: *\nDisallow: /\x1b[2Jx\x07\nDisallow: /y # \x1b]0;owned\x07\n"
    for args in (["/y"], ["--lint"], ["-", "--agent", "A\x1b[1m"]):
        done = robots("--file", "-", *args, stdin=text)
        assert "\x1b" not in done.out
        assert "\x07" not in done.out


def test_a_pipe_that_is_closed_early(tmp_path):
    (tmp_path / "robots.txt").write_text("")
    with subprocess.Popen(
        command("--file", "robots.txt", "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=tmp_path,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        try:
            process.stdin.write(b"/\n" * 20000)
            process.stdin.close()
        except BrokenPipeError:
            pass
        assert process.stderr.read() == b""
        assert process.wait(30) == 2


def test_the_hook_of_pre_commit(tmp_path):
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    told = dict(re.findall(r"(?m)^[ -] (\w+): (.+)$", hook))
    assert told["id"] in page("lint").read_text(encoding="utf-8")
    names = ["robots.txt", "www/robots.txt", "www/robots.txt.bak", "www/my-robots.txt"]
    takes = re.compile(told["files"]).search
    assert list(filter(takes, names)) == names[:2]
    program, *args = told["entry"].split()
    assert program == "scrapy"
    for text, status in {"User-agent: *\nDisallow: /\n": 0, "Disallow: /\n": 1}.items():
        (tmp_path / "robots.txt").write_text(text)
        assert scrapy(*args, "robots.txt", cwd=tmp_path).status == status


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT")
def test_ctrl_c_while_standard_input_is_read(tmp_path):
    with Forked(
        command("lint", "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=tmp_path,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(
            b"User-agent: *\n" * 9000
        )  # more than a pipe holds: it reads
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
