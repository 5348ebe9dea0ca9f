"""Judging by what a site says, asked as the project would ask."""

from __future__ import annotations

import re
import signal
import sys
from importlib.util import find_spec

import pytest
from scrapy.settings import Settings as ScrapySettings

from scrapy_rep.commands.project import URLS_AHEAD, prepare
from tests.commands.cli import command, environment, robots
from tests.fleet import until
from tests.forking import Forked
from tests.site import Reply, Site

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


def project(folder, settings: str):
    """Make a Scrapy project with the *settings*; return its folder."""
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = its_settings\n")
    (folder / "its_settings.py").write_text(settings)
    return folder


@pytest.mark.parametrize("reactor", REACTORS)
def test_a_site_is_asked_and_nothing_is_left_behind(reactor, tmp_path):
    if reactor == "no reactor" and not HAS_REACTORLESS:
        pytest.skip("Scrapy 2.15 or newer")
    with Site({"/robots.txt": DISALLOW_X}) as site:
        args = (*REACTORS[reactor], site.url("/x"))
        done = robots(*args, cwd=tmp_path)
        assert site.paths == ["/robots.txt"]
        assert "scrapy" in site.hits[0].headers["User-Agent"].lower()
        assert done.status == 1
        assert "Traceback" not in done.err
        assert list(tmp_path.iterdir()) == []
        assert "Spider opened" in robots(*args, "-L", "INFO", cwd=tmp_path).err


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


def test_redirects(tmp_path):
    with Site({"/robots.txt": DISALLOW_X}) as target:
        moved = Reply(status=301, headers={"Location": target.url("/robots.txt")})
        with Site({"/robots.txt": moved}) as site:
            (found,) = robots("--json", site.url("/x"), cwd=tmp_path).objects
    urls = [each.url("/robots.txt") for each in (site, target)]
    copy = found["robots_txt"]
    assert [copy["asked"], copy["url"]] == urls
    assert [(hop["status"], hop["url"]) for hop in copy["hops"]] == [
        (301, urls[0]),
        (200, urls[1]),
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
    done = robots("-s", "STATS_CLASS=missing.Stats", "http://127.0.0.1/", cwd=tmp_path)
    assert (done.status, done.out) == (2, "")
    assert "missing" in done.err


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


def test_a_lost_connection_is_told_in_words(tmp_path):
    with Site({"/robots.txt": Reply(reset=True)}) as site:
        (told,) = robots("--json", site.url("/"), cwd=tmp_path).objects
    failure = told["robots_txt"]["failure"]
    assert re.match(r"(DownloadFailedError|ResponseNeverReceived): Connection", failure)
    assert "<twisted" not in failure


def test_spiders_that_cannot_be_had(tmp_path):
    folder = project(tmp_path, "SPIDER_MODULES = ['its_spiders']\n")
    (folder / "its_spiders.py").write_text("import not_installed\n")
    with Site({"/robots.txt": DISALLOW_X}) as site:
        # What nobody asks about is in nobody's way.
        assert robots(site.url("/y"), cwd=folder).status == 0
        done = robots("--spider", "shop", site.url("/y"), cwd=folder)
    assert (done.status, done.out) == (2, "")
    assert done.err.endswith("No module named 'not_installed'\n")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT")
@pytest.mark.parametrize("words", [[], ["lint"], ["approve"]])
def test_control_c_while_a_site_is_waited_for(words, tmp_path):
    with (
        Site({"/robots.txt": Reply(hang=True)}) as site,
        Forked(
            command(*words, site.url("/")), env=environment(), cwd=tmp_path
        ) as process,
    ):
        until(lambda: site.hits)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert [*tmp_path.iterdir()] == []


def test_an_add_on_that_cannot_be_had(tmp_path):
    """Its status is not that of a URL that is refused."""
    folder = project(tmp_path, "ADDONS = {'not_installed.Addon': 1}\n")
    done = robots("http://localhost:9/", cwd=folder)
    assert (done.status, done.out) == (2, "")
    assert done.err.endswith("No module named 'not_installed'\n")


def test_asks_as_the_attributes_of_a_spider_say(tmp_path):
    folder = project(tmp_path, "SPIDER_MODULES = ['its_spiders']\n")
    code = SPIDER.replace("robotstxt_user_agent =", "user_agent =")
    (folder / "its_spiders.py").write_text(code)
    with Site() as site:
        done = robots("--spider", "mine", site.url("/"), cwd=folder)
        assert site.hits[0].headers["User-Agent"] == "MineBot"
    assert done.status == 0
    assert done.rows["agent"] == ["MineBot"]


@pytest.mark.parametrize("store", [None, "sqlite"])
def test_a_question_writes_no_audit_and_asks_the_job(store):
    given = {"REP_AUDIT_URI": "audit.jsonl", "JOBDIR": "job", "REP_STORE": store}
    settings = ScrapySettings(given)
    prepare(settings)
    assert (settings["REP_AUDIT_URI"], settings["JOBDIR"]) == (None, None)
    assert (settings["REP_STORE"], settings["REP_STORE_PATH"]) == (
        "sqlite",
        "job/robots.sqlite",
    )


def test_a_job_that_cannot_be(tmp_path):
    (tmp_path / "file").touch()
    done = robots("http://localhost:9/", "-s", "JOBDIR=file/job", cwd=tmp_path)
    assert (done.status, done.out) == (2, "")
    assert "REP_STORE_PATH is 'file/job/robots.sqlite', expected" in done.err
    assert "Traceback" not in done.err
