"""Judging by a file."""

from __future__ import annotations

import re
from datetime import datetime, timezone

import pytest

from scrapy_rep.commands.typed import url_of
from scrapy_rep.protocol import CODES
from tests.commands.cli import ROOT, robots, scrapy
from tests.documents import page

ROBOTS = """\
# a comment
User-agent: *
Disallow: /cart/
Disallow: /*?sort=
Allow: /cart/help

User-agent: SlowBot
Disallow: /y
Crawl-delay: 2.5
Request-rate: 1/10s 0900-1700
Visit-time: 0600-0845
Sitemap: https://example.com/one.xml

User-agent: slowbot
Disallow: /x
Sitemap: /two.xml
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "robots.txt"
    path.write_text(ROBOTS)
    return str(path)


def test_all_that_is_said(file):
    done = robots("--file", file, "https://example.com/cart/help?sort=1")
    assert done.err == ""
    assert done.status == 0
    assert done.out.startswith("https://example.com/cart/help?sort=1\n")
    rows = done.rows
    assert rows.pop("agent")[0].startswith("Scrapy/")
    assert rows == {
        "verdict": ["allowed"],
        "rule": ["line 5, Allow: /cart/help"],
        "group": ["* (line 2), as none names Scrapy"],
        "lost": ["line 4, Disallow: /*?sort=", "line 3, Disallow: /cart/"],
        "pace": ["none asked for"],
        "lines": [
            "2   User-agent: *",
            "3   Disallow: /cart/",
            "4   Disallow: /*?sort=",
            "5 > Allow: /cart/help",
            "6",
            "7   User-agent: SlowBot",
        ],
        "sitemaps": ["https://example.com/one.xml", "/two.xml"],
        "copy": [file],
    }


def test_merged_groups_and_their_pace(file):
    done = robots("--file", file, "--agent", "SlowBot/1.0", "/x")
    assert done.status == 1
    rows = done.rows
    assert rows["verdict"] == ["refused"]
    assert rows["group"] == [
        "SlowBot (line 7) and slowbot (line 14), merged, for this agent"
    ]
    assert rows["pace"] == [
        "Crawl-delay: 2.5 s",
        "Request-rate: 1 in 10 s, 09:00 to 17:00 UTC",
        "Visit-time: 06:00 to 08:45 UTC",
    ]


def test_the_group_is_shown_where_it_is_far_away(tmp_path):
    path = tmp_path / "robots.txt"
    rules = "".join(f"Disallow: /{number}\n" for number in range(20))
    path.write_text(f"User-agent: *\n{rules}")
    rows = robots("--file", str(path), "/19").rows
    assert rows["lines"] == [
        " 1   User-agent: *",
        "     ...",
        "19   Disallow: /17",
        "20   Disallow: /18",
        "21 > Disallow: /19",
    ]
    assert rows["lost"] == ["line 3, Disallow: /1"]


@pytest.mark.parametrize(
    ("urls", "status"),
    [
        (["/", "/shop"], 0),
        (["/", "/cart/"], 1),
        (["https://example.com/cart/x"], 1),
        (["/robots.txt"], 0),
    ],
)
def test_exit_status(file, urls, status):
    assert robots("--file", file, *urls).status == status


def test_urls_from_stdin(file):
    done = robots("--file", file, "/a", "-", "--json", stdin="/cart/\n\n/b\r\n")
    assert [each["url"] for each in done.objects] == ["/a", "/cart/", "/b"]
    assert [each["verdicts"][0]["allowed"] for each in done.objects] == [
        True,
        False,
        True,
    ]
    assert done.status == 1


def test_octets_that_are_no_utf8_are_escaped(tmp_path):
    path = tmp_path / "robots.txt"
    path.write_text("User-agent: *\nDisallow: /caf%E9\n")
    done = robots("--file", str(path), "-", "--json", stdin="/café".encode("latin-1"))
    assert done.objects[0]["url"] == "/caf%E9"
    assert done.status == 1


def test_file_from_stdin():
    done = robots("--file", "-", "/cart/", stdin=ROBOTS)
    assert done.status == 1
    assert done.rows["copy"] == ["(standard input)"]


def test_each_agent_in_turn(file):
    agents = ("--agent", "SlowBot", "--agent", "OtherBot")
    done = robots("--file", file, *agents, "/cart/")
    assert done.status == 1
    rows = done.rows
    assert rows["agent"] == ["SlowBot", "OtherBot"]
    assert rows["verdict"] == ["allowed", "refused"]
    assert rows["rule"] == ["no rule matches", "line 3, Disallow: /cart/"]
    assert rows["lines"][1] == "2   User-agent: *"


def test_the_project_s_agent_and_dialect(file):
    agent = ("-s", "ROBOTSTXT_USER_AGENT=SlowBot")
    assert robots("--file", file, *agent, "/x").status == 1
    done = robots("--file", file, "-s", "USER_AGENT=NoBot/1", "/cart/help")
    assert done.rows["agent"] == ["NoBot/1"]
    assert done.status == 0
    dialect = ("-s", "REP_DIALECT=gym2008")  # the first rule that matches decides
    assert robots("--file", file, *dialect, "/cart/help").status == 1


def test_nobody_is_named():
    done = robots(
        "--file", "-", "--agent", "A", "/", stdin="User-agent: B\nDisallow: /"
    )
    assert done.rows["rule"] == ["no group"]
    assert done.rows["group"] == ["none names A or *"]


def test_too_slow():
    done = robots("--file", "-", "/", stdin="User-agent: *\nCrawl-delay: 1000")
    assert done.rows["pace"] == [
        "Crawl-delay: 1000 s",
        "slower than REP_CRAWL_DELAY_MAX, so nothing is sent",
    ]
    assert " ".join(done.rows["now"]) == (
        "refused: robots.txt asks for 16 min 40 s between requests, more than "
        "REP_CRAWL_DELAY_MAX (5 min)"
    )


VISITED = "User-agent: *\nDisallow: /private/\nVisit-time: {}\n"


def visit_time(hours: int) -> str:
    """Return a visit time of three hours that begins so many hours from now."""
    hour = (datetime.now(timezone.utc).hour + hours) % 24
    return VISITED.format(f"{hour:02}00-{(hour + 3) % 24:02}00")


@pytest.mark.parametrize(
    ("file", "args", "path", "status", "now"),
    [
        (23, (), "/", 0, ("send", None)),
        (5, (), "/", 1, ("refuse", "visit_time")),
        (
            5,
            ("-s", "REP_VISIT_TIME_MAX=86400"),
            "/", 1, ("wait", "visit_time"),
        ),
        (23, (), "/private/", 1, ("refuse", "rule")),
        ("User-agent: *\nCrawl-delay: 1000", (), "/", 1, ("refuse", "crawl_delay")),
        ("User-agent: *\nCrawl-delay: 10", (), "/", 0, ("send", None)),
        (
            "User-agent: *\nCrawl-delay: 1000",
            ("-s", "REP_CRAWL_DELAY_OVER_MAX=clamp"),
            "/", 0, ("send", None),
        ),
        (23, ("-s", "REP_OBEY=visit-time"), "/private/", 0, ("send", None)),
    ],
    ids=["in time", "at another time", "waited for", "disallowed", "too slow", "slow", "clamp", "dry run"],
)  # fmt: skip
def test_what_is_sent_now(file, args, path, status, now):
    action, cause = now
    if isinstance(file, int):  # asked now, as the hour may turn while others run
        file = visit_time(file)
    said = robots("--file", "-", "--json", "--now", *args, path, stdin=file)
    (verdict,) = said.objects[0]["verdicts"]
    assert (said.status, verdict["now"]["action"]) == (status, action)
    assert verdict["now"]["cause"] == cause
    assert verdict["allowed"] is (path == "/")
    hours = verdict["now"]["wait"] and verdict["now"]["wait"] / 3600
    assert hours is None if action != "wait" else 3.9 <= hours <= 5
    plain = robots("--file", "-", *args, path, stdin=file)
    assert plain.status == (0 if path == "/" else 1)
    assert ("now" in plain.rows) == ((action == "send") != (path == "/"))


def test_json(file):
    done = robots("--file", file, "--agent", "SlowBot", "--json", "/x")
    assert done.objects == [
        {
            "url": "/x",
            "problem": None,
            "verdicts": [
                {
                    "agent": "SlowBot",
                    "allowed": False,
                    "meanwhile": None,
                    "reason": "rule",
                    "rule": {"allow": False, "path": "/x", "line": 15},
                    "lost": [],
                    "groups": [
                        {"tokens": ["SlowBot"], "line": 7},
                        {"tokens": ["slowbot"], "line": 14},
                    ],
                    "by_default": False,
                    "crawl_delay": 2.5,
                    "request_rate": {
                        "requests": 1,
                        "seconds": 10.0,
                        "start": "09:00",
                        "end": "17:00",
                    },
                    "visit_time": {"start": "06:00", "end": "08:45"},
                    "too_slow": False,
                    "now": {
                        "action": "refuse",
                        "cause": "rule",
                        "reason": "Disallow: /x (line 15, user-agent SlowBot, slowbot)",
                        "wait": None,
                        "left_out": [],
                        "permission": None,
                    },
                }
            ],
            "lines": [
                {"line": 13, "text": "", "decides": False},
                {"line": 14, "text": "User-agent: slowbot", "decides": False},
                {"line": 15, "text": "Disallow: /x", "decides": True},
                {"line": 16, "text": "Sitemap: /two.xml", "decides": False},
            ],
            "sitemaps": ["https://example.com/one.xml", "/two.xml"],
            "robots_txt": {
                "asked": file,
                "came_by": "file",
                "status": None,
                "url": None,
                "state": None,
                "hops": [],
                "failure": None,
                "checked": None,
                "age": None,
                "ask_in": None,
            },
        }
    ]


def test_sitemaps(file):
    done = robots("--file", file, "--sitemaps")
    assert done.status == 0
    assert done.out == "https://example.com/one.xml\n/two.xml\n"
    (found,) = robots("--file", file, "--sitemaps", "--json").objects
    assert found["sitemaps"] == ["https://example.com/one.xml", "/two.xml"]
    assert found["robots_txt"]["asked"] == file


@pytest.mark.parametrize("args", [("--lint", "--file"), ("lint",)])
def test_lint(args, file):
    done = robots(*args, file)
    assert (done.status, done.err) == (1, "")
    group, sitemap = CODES["duplicate-group"], CODES["relative-sitemap"]
    assert done.out.splitlines() == [
        f"{file}:14: info duplicate-group {group}: slowbot, line 7 [R036]",
        f"{file}:16: error relative-sitemap {sitemap}: /two.xml [R029]",
    ]
    first, second = robots(*args, file, "--json").objects
    assert first["line"] == 14
    assert second == {
        "file": file,
        "line": 16,
        "severity": "error",
        "code": "relative-sitemap",
        "number": "R029",
        "message": "a sitemap that is not an absolute URL: /two.xml",
    }


def test_lint_without_errors():
    done = robots("lint", "-", stdin="User-agent: *\nDisalow: /\n")
    assert done.status == 0
    assert done.out.startswith("(standard input):2: warning misspelt-field ")
    done = robots("lint", "-", stdin="User-agent: *\nDisallow: /\n")
    assert (done.status, done.out) == (0, "(standard input): no mistakes\n")


def test_what_lint_counts(file, tmp_path):
    misspelt = tmp_path / "misspelt"
    misspelt.write_text("User-agent: *\nDisalow: /\n")
    names = file, str(misspelt)
    assert robots("lint", *names).out.count("\n") == 3
    ignored = ("--ignore", "R036", "--ignore", "relative-sitemap")
    done = robots("lint", *names, *ignored)
    assert done.status == 0
    clean, warning = done.out.splitlines()
    assert clean == f"{file}: no mistakes"
    assert warning.startswith(f"{misspelt}:2: warning misspelt-field ")
    assert robots("lint", *names, *ignored, "--strict").status == 1


def test_lint_of_a_missing_file_outweighs_errors(file):
    done = robots("lint", file, "missing")
    assert done.status == 2
    assert "relative-sitemap" in done.out
    assert "The file 'missing' cannot be read" in done.err


@pytest.mark.parametrize(
    ("typed", "taken"),
    [
        ("example.com/x", "https://example.com/x"),
        ("localhost:8000", "https://localhost:8000"),
        ("127.0.0.1:8000/x?y", "https://127.0.0.1:8000/x?y"),
        ("//example.com/x", "//example.com/x"),
        ("/example.com/x", "/example.com/x"),
        ("http://example.com/x", "http://example.com/x"),
        ("mailto:a@example.com", "mailto:a@example.com"),
    ],
)
def test_a_url_without_its_scheme(typed, taken):
    assert url_of(f"{typed}\n".encode()) == taken
    done = robots("--file", "-", typed, "--json", stdin="")
    assert done.objects[0]["url"] == taken


def test_a_file_does_not_steer_the_terminal():
    text = "User-agent: *\nDisallow: /\x1b[2Jx\x07\nDisallow: /y # \x1b]0;owned\x07\n"
    for args in (["/y"], ["--lint"]):
        done = robots("--file", "-", *args, stdin=text)
        assert "\x1b" not in done.out
        assert "\x07" not in done.out
    done = robots("--file", "-", "-", "--agent", "A\x1b[1m", stdin=text)
    assert "\x1b" not in done.out


def test_a_pipe_that_is_closed_early(file):
    import subprocess

    from tests.commands.cli import command, environment

    urls = "".join(f"/{number}\n" for number in range(20000)).encode()
    with subprocess.Popen(
        command("--file", file, "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        try:
            process.stdin.write(urls)
            process.stdin.close()
        except BrokenPipeError:
            pass
        assert process.stderr.read() == b""
        assert process.wait(30) == 2


def test_the_hook_of_pre_commit(tmp_path):
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    told = dict(re.findall(r"(?m)^[ -] (\w+): (.+)$", hook))
    assert told["id"] in page("lint").read_text(encoding="utf-8")
    takes = re.compile(told["files"]).search
    assert takes("robots.txt")
    assert takes("www/robots.txt")
    assert not takes("www/robots.txt.bak")
    assert not takes("www/my-robots.txt")
    program, *args = told["entry"].split()
    assert program == "scrapy"
    for text, status in {"User-agent: *\nDisallow: /\n": 0, "Disallow: /\n": 1}.items():
        (tmp_path / "robots.txt").write_text(text)
        assert scrapy(*args, "robots.txt", cwd=tmp_path).status == status


def test_lint_of_a_user_agent():
    done = robots("lint", "--agent", "ExampleBot/1.0", "--agent", "a/1 (a@b.example)")
    assert (done.status, done.err) == (0, "")
    first, last = done.out.splitlines()
    assert first.startswith("User-Agent:0: warning no-contact a User-Agent without")
    assert first.endswith("anybody: ExampleBot/1.0 [R044]")
    assert last == "User-Agent: no mistakes"
    assert robots("lint", "--agent", "ExampleBot/1.0", "--strict").status == 1
    assert robots("lint", "--agent", "Mozilla/5.0").status == 1
    both = robots("lint", "-", "--agent", "a/1 (a@b.example)", stdin="User-agent: *\n")
    assert both.out == "User-Agent: no mistakes\n(standard input): no mistakes\n"
