"""The page in a real browser: ``pytest -m browser``, with Chromium on the PATH."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from scrapy_rep.report import make
from tests.audits import START, by_rule, copy, crawl, refused, sent, with_answers, write
from tests.browser import Browser, Page
from tests.report.test_page import HOSTILE

pytestmark = pytest.mark.browser

HOSTS = 120
OPEN_ALL = "document.querySelectorAll('details').forEach(one => { one.open = true })"
HELPERS = """
find = (css) => document.querySelector(css)
all = (css) => [...document.querySelectorAll(css)]
text = (css) => find(css).textContent.trim()
style = (css, name) => getComputedStyle(find(css))[name]
box = (css) => find(css).getBoundingClientRect()
column = (at) => all("#hosts > *").filter(host => !host.hidden)
  .map(host => host.firstElementChild.children[at].lastChild.textContent.trim())
click_head = (at) => find("#heads").children[at].click()
later = () => new Promise(done => setTimeout(done, 100))
is_in_sight = (css) => box("nav").bottom <= box(css).top && box(css).top < 900
is_within = (one, other) => other.left - 1 <= one.left && one.right <= other.right + 1
  && other.top - 1 <= one.top && one.bottom <= other.bottom + 1
"""
"""What ``browser.txt`` asks by."""
CASES = re.split(
    r"(?m)^(\S.*)\n\n(?=    )",
    Path(__file__).with_name("browser.txt").read_text(encoding="utf-8"),
)[1:]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory):
    with Browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a page of a crawl of HOSTS hosts."""
    folder: Path = tmp_path_factory.mktemp("report")
    audit = write(folder / "audit.jsonl", with_answers(crawl(4000, HOSTS)))
    make([audit], str(folder / "report.html"))
    return (folder / "report.html").as_uri()


@pytest.mark.parametrize(
    "steps",
    [pytest.param(CASES[at + 1], id=CASES[at]) for at in range(0, len(CASES), 2)],
)
def test_page(steps, browser, report):
    page = Page(browser, report)
    page.eval(HELPERS)
    found = None
    for step in filter(None, map(str.strip, steps.splitlines())):
        what, _, given = step.partition(" ")
        if what == "=":
            assert found == json.loads(given)
        elif what == "type":
            page.type(given)
        elif what == "press":
            for key in given.split():
                page.press({"Space": " "}.get(key, key))
        else:
            found = page.eval(step)
    # It must ask for nothing else and have no word in the console.
    assert page.problems == []
    assert page.requested == [report]


def box(page: Page, css: str) -> list[float]:
    """Return left, top, right and bottom of the first element that *css* finds."""
    names = "left", "top", "right", "bottom"
    return [page.of(css, f"getBoundingClientRect().{name}") for name in names]


@pytest.mark.parametrize("width", [320, 360, 700, 1000, 1280])
def test_no_width_needs_scrolling_sideways(width, browser, report):
    page = Page(browser, report, width=width, height=780, phone=width < 800)
    page.eval(OPEN_ALL)
    assert page.of("html", "scrollWidth") <= width
    assert page.eval("innerWidth") == width
    # Sorting is at hand there, too.
    left, _, right, _ = box(page, "#heads button")
    assert left + 20 < right <= width
    # And each figure has its name, where no head has it.
    left, _, right, _ = box(page, ".row i")
    assert (right - left > 20) is (width < 800)
    assert page.problems == []


def test_on_a_phone_a_host_is_short_until_it_opens(browser, report):
    page = Page(browser, report, width=360, height=780, phone=True)
    cell = "#h1 .row > :nth-child(7)"
    assert page.style(cell, "display") == "none"
    assert "Short gaps" in page.of("#h1 .row", "innerText")
    page.of("#h1 summary", "click()")
    assert page.style(cell, "display") != "none"
    assert page.problems == []


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        parts = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
            for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colour_schemes(scheme, browser, report):
    page = Page(browser, report, scheme=scheme)
    paper = page.style("body", "backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}[scheme]
    texts = "body, figcaption, .verdict, .tiles .bad, .tiles .good, .row .bad, input"
    for what in (*texts.split(", "), "#heads button"):
        assert contrast(page.style(what, "color"), paper) >= 4.5, what
    bars = "sent robots refused answered failed alone waiting"
    for name in bars.split():
        assert contrast(page.style(f"rect.{name}", "fill"), paper) >= 3, name
    mark = page.style(".marked", "backgroundColor")
    assert contrast(page.style(".marked code", "color"), mark) >= 4.5
    assert page.problems == []


def test_prints(browser, report):
    page = Page(browser, report, scheme="dark")
    page.media("print", "dark")
    assert page.style("body", "backgroundColor") == "rgb(255, 255, 255)"
    assert page.style("#choose", "display") == "none"
    assert page.style(".row", "display") == "grid"
    assert page.pdf().startswith(b"%PDF-")


def test_what_sites_wrote_does_nothing(browser, tmp_path):
    records = []
    for number, text in enumerate(HOSTILE):
        body = f"User-agent: *\nDisallow: /{text}\n"
        host = f"{number}{text}"
        records += [
            copy(START + number, host, body),
            sent(START + number, host, f"/{text}"),
            by_rule(START + number, host, f"/{text}", body, 2),
            refused(START + number, host, "/", cause=text, reason=text),
            sent(START + number + 0.5, host, "/"),
        ]
    make([write(tmp_path / "audit.jsonl", records)], str(tmp_path / "report.html"))
    url = (tmp_path / "report.html").as_uri()
    page = Page(browser, url)
    assert page.problems == []
    assert page.requested == [url]
    # Of a half of a character, the one who asks and the robots.txt make two hosts.
    assert page.of("#hosts", "children.length") == len(HOSTILE) + 1
    assert page.eval("document.images.length + document.scripts.length") == 1
    page.eval(OPEN_ALL)
    assert "<img src=x onerror=alert(1)>" in page.of("body", "innerText")


def test_its_policy_keeps_others_out(browser, report):
    """What gets in all the same is not run and loads nothing, and the tests notice."""
    page = Page(browser, report)
    told = page.eval(
        "try { document.body.setAttribute('onclick', 'document.title = 1') }"
        "catch (error) { String(error) }"
    )
    assert "TrustedScript" in told
    page.eval(
        "new Image().src = 'https://example.com/pixel.png'; fetch('/other').catch(() => 0)"
    )
    page.eval("new Promise(done => setTimeout(done, 100))")
    told = " ".join(page.problems)
    assert "img-src data:" in told
    assert "default-src &#39;none&#39;" in told or "default-src 'none'" in told
