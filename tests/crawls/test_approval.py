"""REP_APPROVED: a robots.txt that is not as approved is told of, or its site is left alone."""

from __future__ import annotations

import logging
import os
from typing import Any

import pytest

from scrapy_rep import RobotsForbidden, SettingError
from tests.commands.cli import robots
from tests.commands.test_online import project
from tests.play import harvest
from tests.site import Reply, Site
from tests.utils import InTurn, Pages, coroutine_test, make_crawler

RULES = """\
User-agent: *
Disallow: /

User-agent: ExampleBot
Disallow: /cart/
Allow: /cart/help
Crawl-delay: 0.2
"""
AGENT = "ExampleBot/1.0 (+https://example.com/bot)"
STRICT: dict[str, Any] = {"REP_APPROVED_STRICT": True}


def approve(folder: Any, *args: str, agent: str = AGENT) -> Any:
    return robots("approve", *args, "-s", f"USER_AGENT={agent}", cwd=folder)


TERMS = """\
    Allow: /cart/help
    Disallow: /cart/
    Crawl-delay: 0.2
"""
"""What the command makes of RULES."""


async def crawled(
    folder: Any, robots_txt: Any, paths: Any = ("/",), spider: Any = Pages, **more: Any
) -> Any:
    """Crawl a site whose RULES are approved, and which has *robots_txt* now."""
    site, lock = Site({"/robots.txt": robots_txt}), folder / "robots.lock"
    lock.write_text(f"{more.pop('origin', site.origin)} for ExampleBot\n{TERMS}")
    given = {"USER_AGENT": AGENT, "REP_APPROVED": str(lock), **more}
    _, _, crawler = await harvest(site, paths, spider, **given)
    crawler.spider.paths = [url.removeprefix(site.origin) for url in crawler.spider.got]
    crawler.spider.origin = site.origin
    return crawler


def told(caplog: Any) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING and "REP_APPROVED" in record.getMessage()
    ]


def test_the_file_is_stable_text(tmp_path):
    with Site({"/robots.txt": RULES}) as site:
        done = approve(tmp_path, site.url("/"), site.url("/cart/1"))
        assert (done.status, done.err) == (1, "")
        lock = tmp_path / "robots.lock"
        text = lock.read_text()
        assert text == (
            "# What robots.txt files tell us, approved by: scrapy robots approve\n"
            "\n"
            f"{site.origin} for ExampleBot\n{TERMS}"
            f"    # may fetch {site.url('/')}\n"
            f"    # may not fetch {site.url('/cart/1')}: Disallow: /cart/\n"
        )
        assert f"{site.origin} for ExampleBot (new)" in done.out
        # Others' rules, the order of lines, comments and our version are no difference.
        site.replies["/robots.txt"] = (
            "# new\nUser-agent: ExampleBot\nAllow: /cart/help\nCrawl-delay: 0.20\n"
            "Disallow: /cart/\n\nUser-agent: OtherBot\nDisallow: /x\n"
        )
        args = site.url("/"), site.url("/cart/1")
        again = approve(tmp_path, *args, agent="ExampleBot/2.0 (+https://b.example)")
        assert "(as it was)" in again.out
        assert lock.read_text() == text


def test_what_has_changed_is_shown_and_others_stay(tmp_path):
    with Site({"/robots.txt": RULES}) as one, Site({"/robots.txt": ""}) as two:
        assert approve(tmp_path, one.url("/"), two.url("/")).status == 0
        lock = tmp_path / "robots.lock"
        head = f"{two.origin} for ExampleBot\n"
        assert f"{head}    no rules\n" in lock.read_text()
        before = lock.read_text().replace(head, f"{head}# by hand\n")
        lock.write_text(before)
        one.replies["/robots.txt"] = RULES.replace("/cart/help", "/help")
        done = approve(tmp_path, one.url("/"))
        assert "(changed)" in done.out
        assert "  + Allow: /help\n" in done.out
        assert "  - Allow: /cart/help\n" in done.out
        (told_json,) = approve(tmp_path, "--json", one.url("/")).objects
        assert told_json["terms"][0] == "Allow: /help"
    assert lock.read_text() == before.replace("/cart/help", "/help")


def test_of_a_spider_with_its_start_urls(tmp_path):
    with Site({"/robots.txt": RULES}) as site:
        folder = project(
            tmp_path, "SPIDER_MODULES = ['its_spiders']\nREP_APPROVED = 'shop.lock'\n"
        )
        (folder / "its_spiders.py").write_text(
            "import scrapy\n"
            "class Shop(scrapy.Spider):\n"
            "    name = 'shop'\n"
            f"    start_urls = ['{site.url('/a')}', '{site.url('/b')}']\n"
            f"    custom_settings = {{'USER_AGENT': '{AGENT}'}}\n"
        )
        done = robots("approve", "--spider", "shop", cwd=folder)
        assert (done.status, done.err) == (0, "")
        text = (folder / "shop.lock").read_text()
        assert f"# may fetch {site.url('/b')}" in text
        assert site.paths == ["/robots.txt"]
        named = robots("approve", "--spider", "shop", "--file", "x.lock", cwd=folder)
        assert named.status == 0
        assert (folder / "x.lock").read_text() == text


def test_what_cannot_be_asked_is_not_in_the_file(tmp_path):
    with Site({"/robots.txt": Reply(status=503)}) as site:
        done = approve(tmp_path, site.url("/"))
    assert done.status == 2
    assert "its robots.txt is unreachable (503); it is not in the file" in done.err
    assert not (tmp_path / "robots.lock").exists()


@coroutine_test
async def test_as_approved(tmp_path, caplog):
    crawler = await crawled(tmp_path, RULES, **STRICT)
    assert crawler.spider.paths == ["/"]
    assert told(caplog) == []
    assert crawler.stats.get_value("rep/unapproved") is None


CHANGES = [
    (RULES.replace("/cart/help", "/"), "new is Allow: /; gone is Allow: /cart/help"),
    (RULES.replace("0.2", "0.3"), "new is Crawl-delay: 0.3; gone is Crawl-delay: 0.2"),
    (RULES.replace("Allow: /cart/help\n", ""), "gone is Allow: /cart/help"),
    (
        Reply(status=404),
        "; gone is ".join(["new is no rules", *map(str.strip, TERMS.splitlines())]),
    ),
]


@pytest.mark.parametrize(("robots_txt", "said"), CHANGES)
@coroutine_test
async def test_what_is_not_as_approved_is_left_alone(
    robots_txt, said, tmp_path, caplog
):
    crawler = await crawled(tmp_path, robots_txt, **STRICT)
    assert crawler.spider.paths == []
    (refusal,) = crawler.spider.failures
    assert type(refusal) is RobotsForbidden
    assert refusal.reason == f"{said} (REP_APPROVED)"
    assert crawler.stats.get_value("rep/forbidden/approval") == 1
    (warning,) = told(caplog)
    assert "its requests are refused" in warning


@coroutine_test
async def test_or_it_is_said(tmp_path, caplog):
    robots_txt, said = CHANGES[0]
    crawler = await crawled(tmp_path, robots_txt)
    assert crawler.spider.paths == ["/"]
    (warning,) = told(caplog)
    assert f"(REP_APPROVED): {said}; the crawl goes on." in warning
    assert crawler.stats.get_value("rep/unapproved") == 1


@coroutine_test
async def test_a_site_that_was_not_approved_at_all(tmp_path):
    other = "https://other.example"
    crawler = await crawled(tmp_path, RULES, origin=other, **STRICT)
    origin = crawler.spider.origin
    (refusal,) = crawler.spider.failures
    assert refusal.reason == f"{origin} for ExampleBot was not approved (REP_APPROVED)"
    # But one that allowed us more need not be.
    allowing: Any = {"REP_HOSTS": {"127.0.0.1": {"allow": "a letter"}}}
    robots_txt = "User-agent: *\nDisallow: /\n"
    crawler = await crawled(tmp_path, robots_txt, origin=other, **STRICT, **allowing)
    assert crawler.spider.paths == ["/"]


@coroutine_test
async def test_a_change_during_the_crawl(tmp_path, caplog):
    old = {"Cache-Control": "no-cache"}
    changed = RULES.replace("/cart/help", "/")
    replies = [Reply(text, headers=old) for text in (RULES, changed)]
    crawler = await crawled(tmp_path, replies, ["/1", "/2"], InTurn, **STRICT)
    assert crawler.spider.paths == ["/1"]
    assert len(told(caplog)) == 1


@coroutine_test
async def test_what_is_unreachable_is_no_difference(tmp_path, caplog):
    crawler = await crawled(tmp_path, Reply(status=503), **STRICT)
    assert told(caplog) == []
    assert crawler.stats.get_value("rep/forbidden/unreachable") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("    Allow: /\n", "line 1, 'Allow: /', is neither ORIGIN for AGENT nor below"),
        ("#\n\nexample.com\n", "line 3, 'example.com', is neither"),
    ],
)
def test_a_file_that_cannot_be_read(text, said, tmp_path):
    path = tmp_path / "robots.lock"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingError, match=said):
        make_crawler(REP_APPROVED=str(path))._create_engine()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/dev/zero", "no regular file"),
        ("pipe", "no regular file"),
        (".", "Is a directory"),
        ("a\0b", "embedded null byte"),
        ("\ud800", "codec can.t encode"),
    ],
)
def test_what_is_no_file_that_ends(name, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(SettingError, match=said):
        make_crawler(REP_APPROVED=name)._create_engine()


def test_what_is_typed_to_approve(tmp_path):
    with Site({"/robots.txt": RULES}) as site:
        listed = robots("approve", "-", stdin=site.url("/"), cwd=tmp_path)
        assert listed.out.endswith("Written to robots.lock\n")
        unwritable = approve(tmp_path, site.url("/"), "--file", "missing/robots.lock")
    assert unwritable.status == 2
    assert unwritable.err == "missing/robots.lock: No such file or directory.\n"
    bare = approve(tmp_path, "localhost:9")
    assert (bare.status, bare.err[:23]) == (2, "https://localhost:9: it")
    no_file = approve(tmp_path, "localhost:9", "--file", "-")
    assert (no_file.status, no_file.err[:25]) == (2, "What is approved is kept ")
