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


# The questions that new users had, in words that they would type.
QUESTIONS = {
    "enable": ("start", "Enable it"),
    "page refused": ("how", "See why a page was refused?"),
    "why slow": ("how", "See why my crawl is slow, and who waits?"),
    "exempt a request": ("how", "Exempt one request, or a whole crawl?"),
    "cap Crawl-delay": ("how", "Slow down, or cap a delay?"),
    "keep between runs": ("how", "Keep what was learned, and the job, between runs?"),
    "two agents": ("how", "Obey the rules of two or more agents?"),
    "AutoThrottle": (
        "together",
        "Delays: AutoThrottle, DOWNLOAD_DELAY, DOWNLOAD_SLOTS",
    ),
    "HTTPCACHE": ("together", "HTTP cache"),
    "playwright": ("together", "scrapy-playwright"),
    "FilesPipeline": ("together", "Files and images: FilesPipeline, ImagesPipeline"),
    "scrapyd": ("together", "scrapyd, or several processes"),
    "CrawlerProcess": ("together", "CrawlerProcess: several spiders in one process"),
    "stats": ("stats", "Stats and log"),
    "many workers": ("how", "Crawl with many workers?"),
    "check my robots.txt": ("how", "Check my own robots.txt?"),
    "unit test": ("testing", "In a unit test"),
    "switch off in tests": ("testing", "Switch it off in tests"),
    "parser only": ("how", "Use the parser alone, without Scrapy?"),
    "migrate": ("moving", "From Scrapy's own middleware"),
    "contribute": ("working", "Set it up"),
}


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
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_search_finds_the_answer_in_one_step(question, guide, browser):
    """Its first result leads to the section, or to the page that begins with it."""
    page, title = QUESTIONS[question]
    url = f"{(guide / 'search.html').as_uri()}?q={quote(question)}"
    found = json.loads(Page(browser, url).eval(RESULTS))
    assert found, question
    link, _, anchor = found[0].partition("#")
    assert link.endswith(f"/{page}.html"), found
    text = (guide / f"{page}.html").read_text(encoding="utf-8")
    after = text.partition(f'id="{anchor}"')[2] if anchor else text
    titles = re.findall(r"<h[1-3]>(.*?)<a ", after)
    assert html.unescape(titles[0]) == title
