"""What the guide answers: each task and each combination has a test that tries it."""

from __future__ import annotations

import ast
import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest
import scrapy
from docutils import nodes
from scrapy.pipelines.files import FilesPipeline

from scrapy_rep.commands.typed import CHOICE, OPTION, pages
from tests.documents import DOCUMENTS, ROOT, blocks, document, name_of, page, snippet
from tests.site import Site
from tests.test_readme import DISALLOW_P, executed, items_of
from tests.utils import Pages, coroutine_test, crawl, make_crawler

if TYPE_CHECKING:
    from pathlib import Path

ANSWERS = {
    "how": {
        "See why a page was refused?": [
            "test_guide_answers.py::test_an_errback_is_told_why",
            "commands/test_online.py::test_as_a_spider_asks_and_is_judged",
        ],
        "See why my crawl is slow, and who waits?": [
            "test_guide_answers.py::test_who_waits",
            "crawls/test_told.py::test_a_crawl_that_creeps",
        ],
        "Exempt one request, or a whole crawl?": [
            "test_guide_answers.py::test_a_whole_crawl_is_exempt",
            "crawls/test_middleware.py::test_who_need_not_obey",
            "crawls/test_permissions.py::test_each_request_is_an_exemption_with_its_reason_in_audit_and_report",
        ],
        "Slow down, or cap a delay?": [
            "crawls/test_crawl_delay.py::test_over_the_maximum_may_be_clamped",
            "crawls/test_latency.py::test_delays_of_the_users_own_wait_in_the_queue",
        ],
        "Keep what was learned, and the job, between runs?": [
            "crawls/test_killed.py::test_nothing_is_lost",
            "test_readme.py::test_the_next_crawl_knows",
        ],
        "Obey the rules of two or more agents?": [
            "crawls/test_middleware.py::test_agents"
        ],
        "Try it first, as a dry run?": [
            "crawls/test_middleware.py::test_dry_run_sends_and_counts"
        ],
        "Crawl with many workers?": [
            "crawls/test_fleet.py::test_one_pace_and_one_fetch"
        ],
        "Check my own robots.txt?": [
            "commands/test_file.py::test_lint",
            "commands/test_file.py::test_each_agent_in_turn",
        ],
        "See what holds in my project?": ["commands/test_doctor.py::test_what_is_off"],
        "See how many requests were refused?": [
            "crawls/test_middleware.py::test_refusal_reaches_the_errback_with_rule_and_line"
        ],
        "Show that I obeyed?": ["report/test_page.py::test_what_one_host_is_told_of"],
        "Crawl behind a proxy API or a rendering service?": [
            "crawls/test_middleware.py::test_robotstxt_url_is_judged_in_place_of_the_requests"
        ],
        "Judge what a page loads in a browser?": [
            "crawls/test_browser.py::test_what_a_page_asks_for_is_judged"
        ],
        "Use the parser alone, without Scrapy?": ["test_readme.py::test_doctests"],
        "Test my spider, or switch it off in tests?": [
            "test_readme.py::test_snippet_of_a_spiders_own_test"
        ],
        "Ask from a spider?": ["test_readme.py::test_spider_robots_snippet"],
    },
    "together": {
        "Delays: AutoThrottle, DOWNLOAD_DELAY, DOWNLOAD_SLOTS": [
            "crawls/test_latency.py::test_of_ours_and_autothrottle_the_longer_one_holds",
            "crawls/test_latency.py::test_delays_of_the_users_own_wait_in_the_queue",
            "crawls/test_one_pace.py::test_a_host_that_is_spread_over_slots",
        ],
        "HTTP cache": [
            "crawls/test_http_cache.py::test_what_is_disallowed_stays_refused",
            "crawls/test_http_cache.py::test_a_page_in_the_cache_waits_for_no_retry",
            "test_holding.py::test_an_http_cache_that_keeps_what_is_to_be_tried_again",
        ],
        "Conditional refetch": [
            "crawls/test_http_cache.py::test_a_conditional_refetch_saves_what_the_page_says"
        ],
        "scrapy-playwright": [
            "crawls/test_browser.py::test_what_a_page_asks_for_is_judged"
        ],
        "Files and images: FilesPipeline, ImagesPipeline": [
            "test_guide_answers.py::test_a_refused_file_is_not_in_its_item",
            "crawls/test_crawl_delay.py::test_media_requests_keep_it_too",
        ],
        "scrapyd, or several processes": [
            "crawls/test_fleet.py::test_one_pace_and_one_fetch"
        ],
        "CrawlerProcess: several spiders in one process": [
            "crawls/test_one_pace.py::test_two_spiders_of_a_process",
            "crawls/test_one_origin.py::test_two_spiders_of_a_process",
            "crawls/test_told.py::test_spiders_that_run_together_are_named",
        ],
        "scrapy shell, fetch, view, parse": [
            "commands/test_prompt.py::test_says_what_a_crawl_would_do",
            "commands/test_prompt.py::test_waits_where_it_is_told_to",
        ],
        "Ctrl-C, and kill": [
            "crawls/test_job_faults.py::test_stopped",
            "crawls/test_killed.py::test_nothing_is_lost",
        ],
        "A downloader of yours": [
            "crawls/test_pace_by_answers.py::test_a_downloader_that_sends_no_signals"
        ],
    },
    "testing": {
        "In a unit test": ["test_readme.py::test_snippet_of_a_spiders_own_test"],
        "Switch it off in tests": ["test_guide_answers.py::test_switched_off"],
        "In a test that crawls": [
            "crawls/test_middleware.py::test_refusal_reaches_the_errback_with_rule_and_line"
        ],
    },
    "moving": {
        "From Scrapy's own middleware": [
            "test_readme.py::test_settings_that_enable",
            "crawls/test_kinds_of_answer.py::test_built_in",
        ],
        "From ROBOTSTXT_PARSER": [
            "test_readme.py::test_settings_that_enable",
            "test_guide_answers.py::test_another_parser_is_not_used",
        ],
        "From scrapy-redis": [
            "test_guide_answers.py::test_what_scrapy_redis_has_set_stays",
            "crawls/test_redis_spider.py::test_its_start_urls_are_crawled",
        ],
        "From urllib.robotparser, and other parsers": ["test_readme.py::test_doctests"],
    },
}
"""The sections of these pages, and the tests that try what each says."""


@pytest.mark.parametrize("name", ANSWERS)
def test_each_section_has_its_tests(name):
    sections = list(document(page(name)).findall(nodes.section))
    titles = {each[0].astext() for each in sections} - {sections[0][0].astext()}
    # docutils takes the title of a page for that of the document.
    assert titles | {sections[0][0].astext()} >= set(ANSWERS[name])
    assert len(set(ANSWERS[name])) >= len(titles)


@pytest.mark.parametrize(
    "test",
    sorted(
        {each for page in ANSWERS.values() for tests in page.values() for each in tests}
    ),
)
def test_the_tests_exist(test):
    file, _, function = test.partition("::")
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    assert function in {
        node.name
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


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
    for name in re.findall(r"``((?:tests|scrapy_rep|example|docs)/[\w./*]+)``", text):
        folders = (ROOT, ROOT / "scrapy_rep", ROOT / "example_project")
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


def settings_of(part: str, name: str, folder: Path) -> dict[str, Any]:
    names = executed(snippet(part, page(name)), folder)
    return {key: value for key, value in names.items() if key.isupper()}


@coroutine_test
async def test_a_whole_crawl_is_exempt(tmp_path, caplog):
    settings = settings_of('"scrapy_rep.Addon": None', "how", tmp_path)
    assert await paths_with(settings) == ["/p"]
    assert "WARNING" not in {record.levelname for record in caplog.records}


@coroutine_test
async def test_switched_off(tmp_path):
    settings = settings_of("TEST_SETTINGS", "testing", tmp_path)["TEST_SETTINGS"]
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
    theirs = settings_of("SCHEDULER_PERSIST", "moving", tmp_path)
    ours = settings_of("REP_FLEET_PERSIST", "moving", tmp_path)
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
