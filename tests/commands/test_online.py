"""Judging by what a site says, asked as the project would ask."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from scrapy.settings import Settings as ScrapySettings

from scrapy_rep.commands.asking import URLS_AHEAD, prepare
from tests.commands.cli import robots
from tests.site import Reply, Site

if TYPE_CHECKING:
    from pathlib import Path

DISALLOW_X = "User-agent: *\nDisallow: /x\nSitemap: /map.xml\n"
REACTORS = {
    "asyncio": (),
    "other reactor": (
        "-s",
        "TWISTED_REACTOR=twisted.internet.selectreactor.SelectReactor",
    ),
    "no reactor": ("-s", "TWISTED_REACTOR_ENABLED=False"),
}
HAS_REACTORLESS = find_spec("scrapy.utils.reactorless") is not None


def project(folder: Path, settings: str) -> Path:
    """Make a Scrapy project with the *settings*; return its folder."""
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = its_settings\n")
    (folder / "its_settings.py").write_text(settings)
    return folder


@pytest.mark.parametrize("reactor", REACTORS)
def test_all_that_is_said(reactor, tmp_path):
    if reactor == "no reactor" and not HAS_REACTORLESS:
        pytest.skip("Scrapy 2.15 or newer")
    with Site({"/robots.txt": DISALLOW_X}) as site:
        done = robots(*REACTORS[reactor], site.url("/x"), cwd=tmp_path)
        assert site.paths == ["/robots.txt"]
        assert "scrapy" in site.hits[0].headers["User-Agent"].lower()
        assert done.status == 1
        assert "Traceback" not in done.err
        assert done.out.startswith(f"{site.origin}/x\n")
        rows = done.rows
        assert rows.pop("agent")[0].startswith("Scrapy/")
        assert re.fullmatch(r"\d s \(fresh\)", rows.pop("age")[0])
        assert rows.pop("refresh")[0].startswith("in 21 h 3")
        assert rows == {
            "verdict": ["refused"],
            "rule": ["line 2, Disallow: /x"],
            "group": ["* (line 1), as none names Scrapy"],
            "pace": ["none asked for"],
            "lines": ["1   User-agent: *", "2 > Disallow: /x", "3   Sitemap: /map.xml"],
            "sitemaps": [site.url("/map.xml")],
            "copy": [site.url("/robots.txt"), "200, fetched now"],
        }
        assert list(tmp_path.iterdir()) == []


def test_a_copy_for_one_agent_is_told_of_as_any_other(tmp_path):
    reply = Reply(DISALLOW_X, headers={"Vary": "User-Agent"})
    settings = "REP_STORE = 'sqlite'\nREP_STORE_PATH = 'robots.sqlite'\n"
    folder = project(tmp_path, settings)
    with Site({"/robots.txt": reply}) as site:
        copies = [
            robots(site.url("/x"), *args, cwd=folder).rows["copy"]
            for args in ((), (), ("-s", "USER_AGENT=OtherBot"))
        ]
        assert site.count("/robots.txt") == 2
    url = site.url("/robots.txt")
    assert [row[0] for row in copies] == [url] * 3
    now, kept = "200, fetched now", "200, kept from an earlier crawl"
    assert [row[1] for row in copies] == [now, kept, now]


def test_quiet_unless_told_otherwise(tmp_path):
    with Site() as site:
        assert robots(site.url("/"), cwd=tmp_path).err == ""
        done = robots(site.url("/"), "-L", "INFO", cwd=tmp_path)
        assert "Spider opened" in done.err


def test_each_origin_is_asked_once_and_answers_keep_their_order(tmp_path):
    slow = Reply(DISALLOW_X, after=0.5)
    with Site({"/robots.txt": slow}) as one, Site({"/robots.txt": DISALLOW_X}) as two:
        urls = [site.url(path) for path in ("/x", "/y") for site in (one, two)]
        done = robots("--json", "-", stdin="\n".join(urls), cwd=tmp_path)
        assert one.paths == two.paths == ["/robots.txt"]
    assert [each["url"] for each in done.objects] == urls
    allowed = [each["verdicts"][0]["allowed"] for each in done.objects]
    assert allowed == [False, False, True, True]
    assert done.status == 1


def test_a_list_of_more_urls_than_are_asked_at_once(tmp_path):
    with Site({"/robots.txt": DISALLOW_X}) as site:
        urls = [site.url(f"/{number}") for number in range(2 * URLS_AHEAD + 1)]
        done = robots("--json", "-", stdin="\n".join(urls), cwd=tmp_path)
        assert site.paths == ["/robots.txt"]
    assert [each["url"] for each in done.objects] == urls
    assert done.status == 0


@pytest.mark.parametrize(
    ("reply", "reason", "state", "status"),
    [
        (Reply(status=404), "no robots.txt (404)", "fresh", 0),
        (Reply(status=503), "robots.txt unreachable (503)", "unreachable", 2),
        (Reply(reset=True), "robots.txt unreachable (", "unreachable", 2),
        ("User-agent: *\nDisallow: /", "rule", "fresh", 1),
        ("", "no group", "fresh", 0),
    ],
)
def test_exit_status_by_answer(reply, reason, state, status, tmp_path):
    with Site({"/robots.txt": reply}) as site:
        done = robots("--json", site.url("/x"), cwd=tmp_path)
    (found,) = done.objects
    assert done.status == status
    (verdict,) = found["verdicts"]
    assert verdict["reason"].startswith(reason)
    assert verdict["allowed"] is {0: True, 1: False, 2: None}[status]
    assert found["robots_txt"]["state"] == state
    assert found["robots_txt"]["came_by"] == ("none" if status == 2 else "network")


def test_could_not_tell_outweighs_refused(tmp_path):
    with Site({"/robots.txt": DISALLOW_X}) as site:
        done = robots("-", stdin=f"{site.url('/x')}\nnonsense\n", cwd=tmp_path)
    assert done.status == 2
    assert "\n\nnonsense\n  verdict   not an absolute http or https URL" in done.out


def test_unreachable_in_words(tmp_path):
    with Site({"/robots.txt": Reply(status=500)}) as site:
        rows = robots(site.url("/x"), cwd=tmp_path).rows
        assert rows["verdict"] == [
            "not known: refused until its robots.txt can be read"
        ]
        assert rows["copy"] == [
            site.url("/robots.txt"),
            "none: it could not be fetched",
        ]
        assert rows["failure"] == ["500"]
        allow = ("-s", "REP_UNREACHABLE=allow")
        done = robots(*allow, site.url("/x"), cwd=tmp_path)
        assert done.rows["verdict"] == [
            "not known: allowed until its robots.txt can be read"
        ]
        assert done.status == 2


def test_redirects(tmp_path):
    with Site({"/robots.txt": DISALLOW_X}) as target:
        moved = Reply(status=301, headers={"Location": target.url("/robots.txt")})
        with Site({"/robots.txt": moved}) as site:
            done = robots(site.url("/x"), cwd=tmp_path)
            (found,) = robots("--json", site.url("/x"), cwd=tmp_path).objects
            assert done.rows["redirects"] == [
                f"301 {site.url('/robots.txt')}",
                f"200 {target.url('/robots.txt')}",
            ]
            assert done.rows["sitemaps"] == [site.url("/map.xml")]
            assert found["robots_txt"]["asked"] == site.url("/robots.txt")
            assert found["robots_txt"]["url"] == target.url("/robots.txt")
            assert found["robots_txt"]["hops"] == [
                {"status": 301, "url": site.url("/robots.txt")},
                {"status": 200, "url": target.url("/robots.txt")},
            ]


def test_as_the_project_asks(tmp_path):
    settings = """
ADDONS = {"scrapy_rep.Addon": 500}
ROBOTSTXT_OBEY = False
USER_AGENT = "ExampleBot/1.0"
DEFAULT_REQUEST_HEADERS = {"X-Of": "project"}
LOG_LEVEL = "DEBUG"
LOG_STDOUT = True
"""
    robots_txt = "User-agent: *\nDisallow: /\nUser-agent: ExampleBot\nAllow: /\n"
    with Site({"/robots.txt": robots_txt}) as site:
        done = robots(site.url("/x"), cwd=project(tmp_path, settings))
        assert site.hits[0].headers["User-Agent"] == "ExampleBot/1.0"
        assert site.hits[0].headers["X-Of"] == "project"
    assert done.status == 0
    assert done.err == ""
    assert done.rows["agent"] == ["ExampleBot/1.0"]
    assert done.rows["group"] == ["ExampleBot (line 3), for this agent"]


def test_through_a_proxy(tmp_path):
    url = "http://site.invalid/robots.txt"
    with Site({url: DISALLOW_X}) as proxy:
        done = robots("http://site.invalid/x", cwd=tmp_path, http_proxy=proxy.origin)
        assert proxy.paths == [url]
    assert done.status == 1


def test_kept_by_the_store(tmp_path):
    settings = 'REP_STORE = "sqlite"\n'
    folder = project(tmp_path, settings)
    reply = Reply(DISALLOW_X, headers={"ETag": '"1"'})
    with Site({"/robots.txt": [reply, Reply(status=304)]}) as site:
        robots(site.url("/x"), cwd=folder)
        kept = robots(site.url("/x"), cwd=folder)
        assert site.count("/robots.txt") == 1
        assert kept.status == 1
        assert kept.rows["copy"][1] == "200, kept from an earlier crawl"


def test_confirmed(tmp_path):
    folder = project(tmp_path, 'REP_STORE = "sqlite"\nREP_MIN_AGE = 0\n')
    headers = {"ETag": '"1"', "Cache-Control": "no-cache"}
    replies = [Reply(DISALLOW_X, headers=headers), Reply(status=304, headers=headers)]
    with Site({"/robots.txt": replies}) as site:
        robots(site.url("/x"), cwd=folder)
        done = robots(site.url("/x"), cwd=folder)
    assert done.status == 1
    assert done.rows["copy"][1] == "200, kept from an earlier crawl, confirmed now"


def test_holding(tmp_path):
    folder = project(tmp_path, 'REP_STORE = "sqlite"\nREP_MIN_AGE = 0\n')
    headers = {"Cache-Control": "no-cache"}
    replies = [Reply(DISALLOW_X, headers=headers), Reply(status=503)]
    with Site({"/robots.txt": replies}) as site:
        robots(site.url("/x"), cwd=folder)
        done = robots(site.url("/x"), cwd=folder)
    assert done.status == 1  # the last good copy tells
    assert done.rows["copy"][1] == "200, kept from an earlier crawl"
    assert done.rows["failure"] == ["503"]
    assert re.fullmatch(r"\d s \(holding\)", done.rows["age"][0])


def test_leaves_the_work_of_the_project_alone(tmp_path):
    settings = """
JOBDIR = "job"
FEEDS = {"items.json": {"format": "json"}}
ITEM_PIPELINES = {"missing.Pipeline": 1}
SPIDER_MIDDLEWARES = {"missing.Middleware": 1}
SCHEDULER = "missing.Scheduler"
"""
    folder = project(tmp_path, settings)
    with Site({"/robots.txt": DISALLOW_X}) as site:
        done = robots(site.url("/x"), cwd=folder)
        assert done.status == 1
        again = robots(site.url("/x"), cwd=folder)
        assert again.rows["copy"][1] == "200, kept from an earlier crawl"
    assert not (folder / "items.json").exists()
    names = {path.name for path in (folder / "job").iterdir()}
    assert {name.partition("-")[0] for name in names} == {"robots.sqlite"}


def test_a_crawl_that_cannot_begin(tmp_path):
    done = robots(
        "-s",
        'EXTENSIONS={"missing.Extension": 1}',
        "-s",
        "STATS_CLASS=missing.Stats",
        "http://127.0.0.1/",
        cwd=tmp_path,
    )
    assert done.status == 2
    assert done.out == ""
    assert "missing" in done.err


def test_sitemaps(tmp_path):
    with (
        Site({"/robots.txt": DISALLOW_X}) as site,
        Site({"/robots.txt": Reply(status=503)}) as down,
    ):
        done = robots("--sitemaps", site.url("/x"), site.url("/y"), cwd=tmp_path)
        assert (done.status, done.out) == (0, site.url("/map.xml\n"))
        done = robots("--sitemaps", down.url("/"), site.url("/"), cwd=tmp_path)
        assert (done.status, done.out) == (2, site.url("/map.xml\n"))
        assert done.err == f"{down.url('/robots.txt')}: unreachable (503)\n"


def test_sitemaps_that_are_no_urls(tmp_path):
    body = "Sitemap: http://[\nSitemap: file:///x\nSitemap: /s.xml\n"
    with Site({"/robots.txt": body}) as site:
        done = robots("--sitemaps", site.url("/"), cwd=tmp_path)
        assert (done.status, done.out) == (0, site.url("/s.xml\n"))


def test_lint(tmp_path):
    with (
        Site({"/robots.txt": "Disallow: /\n"}) as site,
        Site({"/robots.txt": Reply(status=503)}) as down,
        Site() as bare,
    ):
        done = robots("--lint", site.url("/x"), site.url("/y"), cwd=tmp_path)
        assert done.status == 1
        start = f"{site.url('/robots.txt')}:1: error rule-outside-group "
        assert done.out.startswith(start)
        assert done.out.count("\n") == 1
        assert robots("--lint", bare.url("/"), cwd=tmp_path).status == 0
        done = robots("--lint", down.url("/"), "-", stdin="nonsense", cwd=tmp_path)
        assert done.status == 2
        assert "unreachable (503)\nnonsense: not an absolute" in done.err


def test_each_agent_in_turn(tmp_path):
    robots_txt = "User-agent: A\nDisallow: /\n"
    with Site({"/robots.txt": robots_txt}) as site:
        done = robots("--agent", "A", "--agent", "B", site.url("/"), cwd=tmp_path)
        assert site.hits[0].headers["User-Agent"].startswith("Scrapy")
    assert done.status == 1
    assert done.rows["verdict"] == ["refused", "allowed"]


SPIDER = """
import scrapy

class Mine(scrapy.Spider):
    name = "mine"
    robotstxt_user_agent = "MineBot"
    custom_settings = {"DEFAULT_REQUEST_HEADERS": {"X-Of": "spider"}, "REP_DIALECT": "gym2008", "USER_AGENT": "MineBot/1.0"}
"""


def test_as_a_spider_asks_and_is_judged(tmp_path):
    folder = project(tmp_path, "SPIDER_MODULES = ['its_spiders']\n")
    (folder / "its_spiders.py").write_text(SPIDER)
    # By its dialect the first rule that matches decides.
    rules = (
        "User-agent: *\nDisallow: /\nUser-agent: MineBot\nDisallow: /x\nAllow: /x/y\n"
    )
    mine = ("--spider", "mine")
    with Site({"/robots.txt": rules}) as site:
        done = robots(*mine, site.url("/x/y"), cwd=folder)
        assert site.hits[0].headers["User-Agent"] == "MineBot/1.0"
        assert site.hits[0].headers["X-Of"] == "spider"
    assert (done.status, done.err) == (1, "")
    assert done.rows["agent"] == ["MineBot"]
    assert done.rows["rule"] == ["line 4, Disallow: /x"]
    by_file = robots(*mine, "--file", "-", "/x/y", "/z", stdin=rules, cwd=folder)
    assert by_file.status == 1
    assert by_file.out.count("allowed\n") == 1
    for word in ("old", "new"):
        (folder / word).write_text(rules.replace("/x", f"/{word}"))
    done = robots("compare", "old", "new", "-", *mine, stdin="/old\n/z\n", cwd=folder)
    assert done.out.startswith(
        "allowed for MineBot: /old\n  old: line 4, Disallow: /old\n"
    )
    other = robots(*mine, "--agent", "A", "--file", "-", "/z", stdin=rules, cwd=folder)
    assert other.status == 1


def test_asks_as_the_attributes_of_a_spider_say(tmp_path):
    folder = project(tmp_path, "SPIDER_MODULES = ['its_spiders']\n")
    code = SPIDER.replace("robotstxt_user_agent =", "user_agent =")
    (folder / "its_spiders.py").write_text(code)
    with Site() as site:
        done = robots("--spider", "mine", site.url("/"), cwd=folder)
        assert site.hits[0].headers["User-Agent"] == "MineBot"
    assert done.status == 0
    assert done.rows["agent"] == ["MineBot"]


def test_a_question_writes_no_audit():
    settings = ScrapySettings({"REP_AUDIT_URI": "audit.jsonl"})
    prepare(settings)
    assert settings.get("REP_AUDIT_URI") is None
