"""The page in a real browser: ``pytest -m browser``, with Chromium on the PATH."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.evidence.report import make
from tests.audits import (
    START,
    by_rule,
    copy,
    crawl,
    refused,
    sent,
    with_answers,
    write,
)
from tests.browser import Browser, Page
from tests.evidence.report.test_page import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.browser

HOSTS = 120
COLUMN = {"host": 0, "robots.txt": 1, "sent": 2, "delay": 6, "short": 9}
SHOWN = "[...document.querySelectorAll('#hosts tbody tr')].filter(row => !row.hidden)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a page of a crawl of HOSTS hosts."""
    folder: Path = tmp_path_factory.mktemp("report")
    audit = write(folder / "audit.jsonl", with_answers(crawl(4000, HOSTS)))
    make([audit], folder / "report.html")
    return (folder / "report.html").as_uri()


@pytest.fixture
def page(browser: Browser, report: str) -> Iterator[Page]:
    """The page, which must ask for nothing else and have no word in the console."""
    opened = Page(browser, report)
    yield opened
    assert opened.problems == []
    assert opened.requested == [report]


def column(page: Page, name: str) -> list[str]:
    """Return what stands in a column of the rows that are shown."""
    cell = f"row.cells[{COLUMN[name]}].textContent"
    found: list[str] = page.eval(f"{SHOWN}.map(row => {cell})")
    return found


def focused(page: Page) -> str:
    text: str = page.eval("document.activeElement.textContent.trim()")
    return text


def test_loads(page):
    assert page.eval("document.title") == "shop, 2026-10-26: robots.txt"
    assert len(column(page, "host")) == HOSTS
    assert page.eval("document.getElementById('found').textContent") == "120 of 120"
    # Hosts with short gaps come first, and the first is open.
    assert "of" in column(page, "short")[0]
    assert page.eval("document.querySelector('main > section > details').open")
    assert page.eval("getComputedStyle(document.querySelector('rect.pages')).fill") == (
        "rgb(47, 116, 181)"
    )


def test_sorts_by_figures_and_by_names(page):
    def click(name: str) -> None:
        page.eval(
            f"document.querySelectorAll('#hosts thead button')[{COLUMN[name]}].click()"
        )

    def order() -> list[int]:
        return [int(each.replace(",", "")) for each in column(page, "sent")]

    def state() -> list[str | None]:
        found: list[str | None] = page.eval(
            "[...document.querySelectorAll('#hosts thead th')]"
            ".map(head => head.getAttribute('aria-sort'))"
        )
        return found

    assert state() == [None] * 10
    click("sent")
    assert order() == sorted(order(), reverse=True)
    assert len(set(order())) > 20
    assert state()[COLUMN["sent"]] == "descending"
    click("sent")
    assert order() == sorted(order())
    assert state()[COLUMN["sent"]] == "ascending"
    click("host")
    names = column(page, "host")
    assert names[:3] == [
        "www0.shop0.example",
        "www1.shop1.example",
        "www2.shop2.example",
    ]
    assert names[-1] == f"www{HOSTS - 1}.shop0.example"
    assert [each for each in state() if each] == ["ascending"]
    # Hosts that no delay was asked by come last either way.
    click("delay")
    assert column(page, "delay")[0] == "5 s"
    assert column(page, "delay")[-1] == "–"  # noqa: RUF001
    click("delay")
    assert column(page, "delay")[0] == "0.5 s"
    assert column(page, "delay")[-1] == "–"  # noqa: RUF001


def test_searches_and_filters(page):
    page.eval("document.getElementById('search').focus()")
    page.type("SHOP3 www")
    assert len(column(page, "host")) == 17
    assert all("shop3" in name for name in column(page, "host"))
    assert page.eval("document.getElementById('found').textContent") == "17 of 120"
    assert (
        page.eval("document.getElementById('found').getAttribute('role')") == "status"
    )

    def only(value: str) -> None:
        page.eval(
            f"document.getElementById('only').value = {value!r};"
            "document.getElementById('only').dispatchEvent(new Event('change'))"
        )

    only("lacking")
    assert set(column(page, "robots.txt")) == {"unreachable (503)"}
    page.eval("document.getElementById('search').value = ''")
    only("failed")
    assert 20 < len(column(page, "host")) < HOSTS
    only("short")
    assert len(column(page, "host")) == 3
    assert all("of" in each for each in column(page, "short"))
    page.eval("document.getElementById('search').focus()")
    page.type("nowhere")
    assert column(page, "host") == []
    assert page.eval("document.getElementById('found').textContent") == "0 of 120"


def test_works_by_keyboard_alone(page):
    page.press("Tab")
    assert focused(page) == "Skip to the hosts"
    page.press("Enter")
    assert focused(page) == "Hosts"
    page.press("Tab")
    assert page.eval("document.activeElement.id") == "search"
    page.press("Tab")
    assert page.eval("document.activeElement.id") == "only"
    page.press("Tab")
    assert focused(page) == "Host"
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.eval(outline) == "solid"
    page.press("Enter")
    assert column(page, "host")[0] == "www0.shop0.example"
    page.press(" ")
    assert column(page, "host")[0] == f"www{HOSTS - 1}.shop0.example"
    for _ in range(10):
        page.press("Tab")
    assert focused(page) == f"www{HOSTS - 1}.shop0.example"
    page.press("Enter")
    page.eval("new Promise(done => setTimeout(done, 100))")
    assert page.eval("document.activeElement.tagName") == "SUMMARY"
    assert page.eval("document.activeElement.parentElement.open")
    assert focused(page).startswith(f"www{HOSTS - 1}.shop0.example")
    page.press("Enter")
    assert not page.eval("document.activeElement.parentElement.open")


def test_a_link_opens_the_file_at_its_line(page):
    page.eval("document.querySelector('.refusals a').click()")
    page.eval("new Promise(done => setTimeout(done, 100))")
    assert page.eval("document.querySelector(':target').closest('details').open")
    line = page.eval("document.querySelector(':target').innerText")
    assert re.search(r"Disallow: /(cart|search)/\s+[\d,]+ refused", line)
    # It is in sight, and leads there a second time, too.
    top = "document.querySelector(':target').getBoundingClientRect().top"
    assert 0 <= page.eval(top) < 900
    page.eval(
        "scrollTo(0, 0); document.querySelector(':target').closest('details').open = false"
    )
    page.eval("document.querySelector('.refusals a').click()")
    assert page.eval("document.querySelector(':target').closest('details').open")
    assert 0 <= page.eval(top) < 900


def test_opens_and_closes_all(page):
    details = "[...document.getElementById('h0').parentElement.querySelectorAll(':scope > details')]"
    for button, opened in (("Open all", True), ("Close all", False)):
        page.eval(
            "[...document.querySelectorAll('.choose button')]"
            f".find(button => button.textContent === {button!r}).click()"
        )
        assert page.eval(
            f"{details}.every(each => each.open === {str(opened).lower()})"
        )


def test_pictures_hold_what_they_draw(page):
    """Dots stand in their picture, and a short gap below the delay."""
    short = "document.querySelector('#h0 path.short')"
    assert page.eval(f"{short}.getTotalLength() > 0")
    assert page.eval(
        "document.querySelector('#h0 svg').getAttribute('aria-label')"
    ).endswith("short")
    boxes = page.eval(
        "['svg', 'path.kept', 'path.short', 'path.band'].map(what => {"
        "const box = document.querySelector('#h0 ' + what).getBoundingClientRect();"
        "return [box.left, box.top, box.right, box.bottom]})"
    )
    picture, *others = boxes
    for left, top, right, bottom in others:
        assert left >= picture[0] - 1
        assert top >= picture[1] - 1
        assert right <= picture[2] + 1
        assert bottom <= picture[3] + 1
    _, _, dots, band = boxes
    assert dots[1] > band[1]


def test_what_happened_over_time_has_one_axis(page):
    """What was sent and refused; answers and pauses; what waited."""
    times = page.eval(
        "[...document.querySelectorAll('section:first-of-type figure .times')]"
        ".map(each => each.textContent)"
    )
    assert len(times) == 3
    assert len(set(times)) == 1
    legends = page.eval(
        "[...document.querySelectorAll('section:first-of-type figure .legend')]"
        ".map(each => each.innerText.trim().split(/\\s*\\n\\s*/))"
    )
    assert [len(each) for each in legends] == [3, 5, 4]
    assert "no answer" in legends[1]
    assert "a host that is left alone" in legends[2]


@pytest.mark.parametrize("width", [320, 360, 700, 1000, 1280])
def test_no_width_needs_scrolling_sideways(width, browser, report):
    page = Page(browser, report, width=width, height=780, phone=width < 800)
    page.eval(
        "document.querySelectorAll('details').forEach(each => { each.open = true })"
    )
    assert page.eval("document.documentElement.scrollWidth") <= width
    assert page.eval("innerWidth") == width
    # Sorting is at hand there, too.
    box = "document.querySelector('#hosts thead button').getBoundingClientRect()"
    assert page.eval(f"{box}.width > 20 && {box}.right <= innerWidth")
    # And each figure has its name.
    name = page.eval(
        "getComputedStyle(document.querySelector('#hosts tbody td'), '::before').content"
    )
    assert name == ('"robots.txt"' if width < 800 else "none")
    assert page.problems == []


def test_on_a_phone_a_host_is_a_line_that_opens(browser, report):
    page = Page(browser, report, width=360, height=780, phone=True)
    row = "document.querySelector('#hosts tbody tr')"
    cell = f"getComputedStyle({row}.cells[1]).display"
    assert page.eval(cell) == "none"
    said = f"getComputedStyle({row}.cells[0], '::after').content"
    assert "pages" in page.eval(said)
    assert "short gap" in page.eval(said)
    for expanded, display in (("true", "flex"), ("false", "none")):
        page.eval(f"{row}.querySelector('.fold').click()")
        assert page.eval(cell) == display
        assert page.eval(f"{row}.querySelector('.fold').ariaExpanded") == expanded
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
    paper = page.eval("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}[scheme]
    for what in (
        "body",
        "figcaption",
        "tbody th a",
        "td.bad",
        ".times",
        "thead button",
        "input",
    ):
        ink = page.eval(f"getComputedStyle(document.querySelector({what!r})).color")
        assert contrast(ink, paper) >= 4.5, what
    for what in (
        "rect.pages",
        "rect.robots",
        "rect.refused",
        "rect.missing",
        "rect.failing",
        "rect.silent",
        "rect.backoff",
        "rect.wait-pace",
        "rect.wait-unreachable",
    ):
        ink = page.eval(f"getComputedStyle(document.querySelector({what!r})).fill")
        assert contrast(ink, paper) >= 3, what
    mark = page.eval(
        "getComputedStyle(document.querySelector('.marked')).backgroundColor"
    )
    ink = page.eval("getComputedStyle(document.querySelector('.marked code')).color")
    assert contrast(ink, mark) >= 4.5
    assert page.problems == []


def test_prints(browser, report):
    page = Page(browser, report, scheme="dark")
    page.media("print", "dark")
    assert (
        page.eval("getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    assert (
        page.eval("getComputedStyle(document.getElementById('choose')).display")
        == "none"
    )
    assert (
        page.eval("getComputedStyle(document.querySelector('#hosts tbody tr')).display")
        == "table-row"
    )
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
    make([write(tmp_path / "audit.jsonl", records)], tmp_path / "report.html")
    url = (tmp_path / "report.html").as_uri()
    page = Page(browser, url)
    assert page.problems == []
    assert page.requested == [url]
    assert len(column(page, "host")) == len(HOSTILE)
    assert page.eval("document.images.length + document.scripts.length") == 1
    page.eval(
        "document.querySelectorAll('details').forEach(each => { each.open = true })"
    )
    assert "<img src=x onerror=alert(1)>" in page.eval("document.body.innerText")


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
