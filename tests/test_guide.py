"""The guide, built: nothing in it is amiss, it has all that is declared, and a search finds it."""

from __future__ import annotations

import html
import json
import pickle
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

import scrapy_rep
from scrapy_rep import protocol
from tests.browser import Browser, Page
from tests.declared import written
from tests.documents import GUIDE, PACKAGE, ROOT, page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def built(builder: str, folder: Path) -> Path:
    """Return *folder*, in which the guide was built without a warning."""
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "-b", builder, GUIDE, folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what Sphinx knows of the guide, of which no page was written."""
    folder = built("dummy", tmp_path_factory.mktemp("guide"))
    return pickle.loads((folder / ".doctrees" / "environment.pickle").read_bytes())


def test_tables_have_all_that_is_declared():
    for name, text, expected in written():
        assert text == expected, f"{name}.rst: python -m tests.declared"


def test_the_api_has_every_public_name(environment):
    described = environment.domaindata["py"]["objects"]
    names = {name.rpartition(".")[2] for name in described}
    unnamed = {"CODES", "COMPILED", "GYM2008", "MK1996", "RFC9309", "Agent"}
    assert {*scrapy_rep.__all__, *protocol.__all__} - names == unnamed
    for name in unnamed:  # no classes and no functions: told in words
        assert any(name in page(each).read_text("utf-8") for each in ("api", "parser"))


def test_every_page_has_its_place(environment):
    pages = {path.stem for path in GUIDE.glob("*.rst")}
    assert {*environment.toctree_includes["index"]} == pages - {"index"}


def test_the_package_says_where_the_guide_is():
    """One page is installed, and the command names the folder."""
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (repository,) = re.findall(r'(?m)^Repository = "(.+)"$', pyproject)
    for path in (PACKAGE / "README.rst", PACKAGE / "commands" / "help.txt"):
        text = path.read_text(encoding="utf-8")
        assert "scrapy_rep/docs" in text
        assert repository in text


# The questions that new users had: page and section, and words that they would type.
QUESTIONS = """
start      Enable it: enable, install, setup, how to enable
how        See why a page was refused?: page refused, forbidden, blocked
how        See why my crawl is slow, and who waits?: why slow, stuck, waiting
how        Exempt one request, or a whole crawl?: exempt a request, ignore robots.txt, bypass
how        Slow down, or cap a delay?: cap Crawl-delay, maximum delay
how        Keep what was learned, and the job, between runs?: keep between runs, persist
how        Obey the rules of two or more agents?: two agents, multiple user agents
how        See how many requests were refused?: how many refused
how        Crawl with many workers?: many workers, distributed, several machines
how        Check my own robots.txt?: check my robots.txt, lint, validator
how        Use the parser alone, without Scrapy?: parser only, without Scrapy
together   Delays: AutoThrottle, DOWNLOAD_DELAY, DOWNLOAD_SLOTS: AutoThrottle
together   HTTP cache: HTTPCACHE
together   scrapy-playwright: playwright
together   Files and images: FilesPipeline, ImagesPipeline: FilesPipeline
together   scrapyd, or several processes: scrapyd
together   CrawlerProcess: several spiders in one process: CrawlerProcess
stats      Stats and log: stats, statistics
testing    In a unit test: unit test, test my spider, pytest
testing    Switch it off in tests: switch off in tests, turn off, disable
moving     From Scrapy's own middleware: migrate, migration, built-in
working    Set it up: contribute, contributing
"""
QUESTION = re.compile(r"(?m)^(\w+) +(.+): (.+)$")


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("html", tmp_path_factory.mktemp("guide"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


RESULTS = """new Promise(done => {
  const look = () => {
    const found = [...document.querySelectorAll("#search-results ul.search > li > a")];
    const status = document.querySelector("#search-results p.search-summary");
    if (status && status.innerText.startsWith("Search finished"))
      done(JSON.stringify(found.map(each => each.href)));
    else setTimeout(look, 20);
  };
  look();
})"""


@pytest.mark.browser
@pytest.mark.parametrize(
    ("name", "title", "typed"),
    [
        (name, title, typed)
        for name, title, words in QUESTION.findall(QUESTIONS)
        for typed in words.split(", ")
    ],
)
def test_a_search_finds_the_answer_in_one_step(name, title, typed, guide, browser):
    """Its first result leads to the section, or to the page that begins with it."""
    url = f"{(guide / 'search.html').as_uri()}?q={quote(typed)}"
    found = json.loads(Page(browser, url).eval(RESULTS))
    assert found, typed
    link, _, anchor = found[0].partition("#")
    assert link.endswith(f"/{name}.html"), found
    text = (guide / f"{name}.html").read_text(encoding="utf-8")
    after = text.partition(f'id="{anchor}"')[2] if anchor else text
    titles = re.findall(r"<h[1-3]>(.*?)<a ", after)
    assert html.unescape(titles[0]) == title
