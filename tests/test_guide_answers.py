"""What the guide answers: each task and each combination has a test that tries it."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import scrapy
from docutils import nodes
from scrapy.pipelines.files import FilesPipeline

from scrapy_rep.commands.terminal import CHOICE, OPTION, pages
from tests.documents import (
    DOCUMENTS,
    PACKAGE,
    README,
    ROOT,
    blocks,
    document,
    name_of,
    page,
    section,
    snippet,
)
from tests.site import Site
from tests.test_readme import DISALLOW_P, executed, items_of, settings_of
from tests.utils import Pages, coroutine_test, crawl, make_crawler


def answers() -> dict[str, dict[str, list[str]]]:
    """Return, by page and title, the tests that ``answers.txt`` names."""
    found: dict[str, dict[str, list[str]]] = {}
    name = title = ""
    for line in (ROOT / "tests" / "answers.txt").read_text("utf-8").splitlines():
        words = line.strip()
        if line.startswith(" " * 8):
            found[name][title].append(words)
        elif line.startswith(" "):
            title = words
            found[name][title] = []
        elif words and not line.startswith("#"):
            name = words
            found[name] = {}
    return found


@pytest.mark.parametrize(("name", "tests"), answers().items())
def test_each_section_has_its_tests(name, tests):
    if name == "README":
        (rows,) = section("Beside Scrapy's own middleware", README).findall(nodes.tbody)
        titles = [row[0].astext() for row in rows.findall(nodes.row)]
    else:
        first, *others = document(page(name)).findall(nodes.section)
        titles = [each[0].astext() for each in others]
        # docutils takes the title of a page with one section for that of the document.
        titles = [first[0].astext()][: len(tests) - len(titles)] + titles
    assert titles == list(tests)
    for each in {each for named in tests.values() for each in named}:
        file, _, function = each.partition("::")
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert re.search(rf"(?m)^(async )?def {function}\(", text), each


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_commands_can_be_typed(path):
    """Words and options of ``scrapy robots`` in the text are those of its help."""
    helps = pages()
    for block in [*blocks("sh", path), *blocks("console", path)]:
        for line in re.findall(r"(?m)^(?:\$ )?scrapy robots (.*)$", block):
            typed = shlex.split(line)
            word = typed[0] if typed[0] in helps else ""
            options = {
                name for short in OPTION.findall(helps[word]) for name in short[:2]
            }
            given = {each for each in typed if re.fullmatch(r"--?[a-zA-Z][\w-]*", each)}
            assert given - {"-s", "-L"} <= options, line
            if word == "fleet" and len(typed) > 2:
                assert typed[2] in CHOICE.findall(helps[word])


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_programs_and_files_that_are_named_are_there(path):
    text = path.read_text(encoding="utf-8")
    for module in re.findall(r"python\s+-m\s+(tests[\w.]*)", text):
        named = ROOT / module.replace(".", "/")
        assert named.with_suffix(".py").exists() or (named / "__main__.py").exists()
    named = r"``((?:tests|scrapy_rep|example|docs)/[\w./*]+|[\w/*]+\.(?:py|sql))``"
    for name in re.findall(named, text):
        folders = (path.parent, PACKAGE, ROOT, ROOT / "example_project")
        assert any(list(folder.glob(name)) for folder in folders), name


@coroutine_test
async def test_an_errback_is_told_why(tmp_path, caplog):
    not_sent = executed(snippet("def not_sent", page("how")), tmp_path)["not_sent"]
    with Site({"/robots.txt": DISALLOW_P}) as site, caplog.at_level("INFO"):
        url = site.url("/p")

        class Asks(scrapy.Spider):
            name = "asks"

            async def start(self):
                yield scrapy.Request(
                    url, errback=lambda failure: not_sent(self, failure)
                )

        await crawl(make_crawler(Asks))
    assert f"{url}: Disallow: /p (line 2, user-agent *)" in caplog.text


@coroutine_test
async def test_who_waits(tmp_path, capsys):
    tell = executed(snippet("def tell(spider)", page("how")), tmp_path)["tell"]

    class Tells(Pages):
        def parse(self, response):
            tell(self)

    with Site({"/robots.txt": "User-agent: *\nCrawl-delay: 0.5\n"}) as site:
        await crawl(make_crawler(Tells), urls=[site.url("/1"), site.url("/2")])
    assert re.search(
        r"^127\.0\.0\.1 .*delay.* 1$", capsys.readouterr().out, re.MULTILINE
    )


async def paths_with(settings: dict[str, Any]) -> list[str]:
    with Site({"/robots.txt": DISALLOW_P}) as site:
        await crawl(make_crawler(**settings), urls=[site.url("/p")])
        return site.paths


@coroutine_test
async def test_a_whole_crawl_is_exempt(tmp_path, caplog):
    settings = settings_of('"scrapy_rep.Addon": None', page("how"), tmp_path)
    assert await paths_with(settings) == ["/p"]
    warned = {r.name for r in caplog.records if r.levelname == "WARNING"}
    assert not {name for name in warned if "downloader.handlers" not in name}


@coroutine_test
async def test_switched_off(tmp_path):
    settings = settings_of("TEST_SETTINGS", page("testing"), tmp_path)["TEST_SETTINGS"]
    crawler = make_crawler(**settings)
    with Site({"/robots.txt": DISALLOW_P}) as site:
        await crawl(crawler, urls=[site.url("/p")])
        assert site.paths == ["/p"]
        assert not hasattr(crawler.spider, "robots")
        # And the other way, for a spider that asks.
        crawler = make_crawler(ROBOTSTXT_OBEY=False)
        await crawl(crawler, urls=[site.url("/p")])
        assert site.paths == ["/p", "/p"]
        assert crawler.spider.robots.allowed(site.url("/p")) is None


@coroutine_test
async def test_another_parser_is_not_used():
    settings: dict[str, Any] = {
        "ROBOTSTXT_PARSER": "scrapy.robotstxt.PythonRobotParser"
    }
    rules = "User-agent: *\nAllow: /\nDisallow: /p\n"  # the first match would allow
    with Site({"/robots.txt": rules}) as site:
        await crawl(make_crawler(None, **settings), urls=[site.url("/p")])
        assert site.paths == ["/robots.txt"]


def test_what_scrapy_redis_has_set_stays(tmp_path):
    theirs = settings_of("SCHEDULER_PERSIST", page("moving"), tmp_path)
    ours = settings_of("REP_FLEET_PERSIST", page("moving"), tmp_path)
    crawler = make_crawler(None, **theirs)
    for name in ("SCHEDULER", "DUPEFILTER_CLASS"):
        assert crawler.settings[name] == theirs[name]
    crawler = make_crawler(None, **{**ours, "REDIS_URL": theirs["REDIS_URL"]})
    assert crawler.settings["SCHEDULER"] == "scrapy_rep.Scheduler"
    assert crawler.settings["REP_FLEET"] == theirs["REDIS_URL"]


@coroutine_test
async def test_a_refused_file_is_not_in_its_item(tmp_path):
    with Site({"/robots.txt": DISALLOW_P, "/f": "file", "/p.pdf": "no"}) as site:
        files = [site.url("/f"), site.url("/p.pdf")]

        class Files(scrapy.Spider):
            name = "files"
            start_urls = [site.url("/")]

            def parse(self, response):
                yield {"url": response.url, "file_urls": files}

        _, (item,) = await items_of(
            Files, ITEM_PIPELINES={FilesPipeline: 1}, FILES_STORE=str(tmp_path)
        )
        assert [each["url"] for each in item["files"]] == files[:1]
        assert "/p.pdf" not in site.paths
