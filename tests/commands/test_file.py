"""Judging by a file, as far as no transcript shows it."""

from __future__ import annotations

import re
import subprocess
from datetime import datetime, timezone

import pytest

from tests.commands.cli import ROOT, command, environment, robots, scrapy
from tests.documents import page

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
