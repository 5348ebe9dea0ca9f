"""The page in a real browser: ``pytest -m browser``, with Chromium on the PATH."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.report import make
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
from tests.report.test_page import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.browser

HOSTS, FIRST = 120, 100
COLUMN = {"host": 0, "robots.txt": 1, "sent": 2, "delay": 4, "short": 7}
BLUE = "rgb(47, 116, 181)"
SHOWN = "[...document.getElementById('hosts').children].filter(host => !host.hidden)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a page of a crawl of HOSTS hosts."""
    folder: Path = tmp_path_factory.mktemp("report")
    audit = write(folder / "audit.jsonl", with_answers(crawl(4000, HOSTS)))
    make([audit], str(folder / "report.html"))
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
    cell = (
        f"host.firstElementChild.children[{COLUMN[name]}].lastChild.textContent.trim()"
    )
    found: list[str] = page.eval(f"{SHOWN}.map(host => {cell})")
    return found


def focused(page: Page) -> str:
    text: str = page.of(":focus", "textContent.trim()")
    return text


def box(page: Page, css: str) -> list[float]:
    """Return left, top, right and bottom of the first element that *css* finds."""
    names = "left", "top", "right", "bottom"
    return [page.of(css, f"getBoundingClientRect().{name}") for name in names]


def open_all(page: Page) -> None:
    page.eval(
        "document.querySelectorAll('details').forEach(each => { each.open = true })"
    )


def click_head(page: Page, name: str) -> None:
    page.eval(f"document.getElementById('heads').children[{COLUMN[name]}].click()")


def test_loads(page):
    assert page.eval("document.title") == "shop, 2026-10-26: robots.txt"
    assert page.of("#found", "textContent") == "120 of 120"
    # Hosts with short gaps come first, and the first is open.
    assert "of" in column(page, "short")[0]
    assert page.of(".host", "open")
    assert page.style("rect.sent", "fill") == BLUE


def test_many_hosts_are_a_list_that_is_made_longer(page):
    assert len(column(page, "host")) == FIRST
    assert page.of("html", "scrollHeight") < 16_000
    assert page.of("#all", "textContent") == "Show all 120 hosts"
    page.of("#all", "click()")
    assert len(column(page, "host")) == HOSTS
    assert page.of("#all", "hidden")


def test_a_host_stands_once(page):
    name = column(page, "host")[5]
    places = (
        f"[...document.querySelectorAll('.name')].filter(each => each.closest('.host') && "
        f"each.textContent === {name!r}).length"
    )
    assert page.eval(places) == 1


def test_sorts_by_figures_and_by_names(page):
    page.of("#all", "click()")

    def order() -> list[int]:
        return [int(each.replace(",", "")) for each in column(page, "sent")]

    def state() -> list[str | None]:
        found: list[str | None] = page.eval(
            "[...document.getElementById('heads').children]"
            ".map(head => head.ariaPressed && head.dataset.order)"
        )
        return found

    assert state() == [None] * 8
    click_head(page, "sent")
    assert order() == sorted(order(), reverse=True)
    assert len(set(order())) > 20
    assert state()[COLUMN["sent"]] == "down"
    click_head(page, "sent")
    assert order() == sorted(order())
    assert state()[COLUMN["sent"]] == "up"
    click_head(page, "host")
    names = column(page, "host")
    assert names[:3] == [
        "www0.shop0.example",
        "www1.shop1.example",
        "www2.shop2.example",
    ]
    assert names[-1] == f"www{HOSTS - 1}.shop0.example"
    assert [each for each in state() if each] == ["up"]
    # Hosts that no delay was asked by come last either way.
    click_head(page, "delay")
    assert column(page, "delay")[0] == "5 s"
    assert column(page, "delay")[-1] == "–"  # noqa: RUF001
    click_head(page, "delay")
    assert column(page, "delay")[0] == "0.5 s"
    assert column(page, "delay")[-1] == "–"  # noqa: RUF001


def test_searches_and_filters(page):
    page.of("#search", "focus()")
    page.type("SHOP3 www")
    assert len(column(page, "host")) == 17
    assert all("shop3" in name for name in column(page, "host"))
    assert page.of("#found", "textContent") == "17 of 120"
    assert page.of("#found", "role") == "status"

    def only(value: str) -> None:
        page.of("#only", f"value = {value!r}")
        page.of("#only", "dispatchEvent(new Event('change'))")

    only("lacking")
    assert set(column(page, "robots.txt")) == {"unreachable (503)"}
    page.of("#search", "value = ''")
    only("failed")
    assert 20 < len(column(page, "host")) < FIRST
    only("short")
    assert len(column(page, "host")) == 3
    assert all("of" in each for each in column(page, "short"))
    page.of("#search", "focus()")
    page.type("nowhere")
    assert column(page, "host") == []
    assert page.of("#found", "textContent") == "0 of 120"


def test_works_by_keyboard_alone(page):
    page.press("Tab")
    assert focused(page) == "Skip to the hosts"
    page.press("Enter")
    assert focused(page) == "Hosts"
    page.press("Tab")
    assert page.of(":focus", "id") == "search"
    page.press("Tab")
    assert page.of(":focus", "id") == "only"
    page.press("Tab")
    assert focused(page) == "Host"
    assert page.style(":focus", "outlineStyle") == "solid"
    page.press("Enter")
    assert column(page, "host")[0] == "www0.shop0.example"
    page.press(" ")
    last = f"www{HOSTS - 1}.shop0.example"
    assert column(page, "host")[0] == last
    for _ in range(8):
        page.press("Tab")
    assert page.of(":focus", "tagName") == "SUMMARY"
    assert focused(page).startswith(last)
    for expected in (True, False):
        page.press("Enter")
        assert page.of(":focus", "parentElement.open") is expected


def test_there_is_a_way_back_up_from_everywhere(page):
    page.eval("scrollTo(0, document.documentElement.scrollHeight)")
    _, top, _, bottom = box(page, "nav a")
    assert 0 <= top < bottom < 60
    page.of("nav a", "click()")
    assert page.eval("scrollY") == 0


def test_a_link_opens_the_file_at_its_line(page):
    link = '.more a[href^="#f"]'
    page.of(link, "click()")
    page.eval("new Promise(done => setTimeout(done, 100))")

    def is_in_sight() -> bool:
        """Not below what stays at the top."""
        return box(page, "nav")[3] <= box(page, ":target")[1] < 900

    assert page.of(":target", "closest('details').open")
    line = page.of(":target", "innerText")
    assert re.search(r"Disallow: /(cart|search)/\s+[\d,]+ refused", line)
    assert is_in_sight()
    # It leads there a second time, too.
    page.eval("scrollTo(0, 0)")
    page.of(":target", "closest('details').open = false")
    page.of(link, "click()")
    assert page.of(":target", "closest('details').open")
    assert is_in_sight()


def test_pictures_hold_what_they_draw(page):
    """Dots stand in their picture, and a short gap below the delay."""
    assert page.of("#h0 path.short", "getAttribute('d')").startswith("M")
    assert page.of("#h0 svg", "getAttribute('aria-label')").endswith("short")
    left, top, right, bottom = box(page, "#h0 .plot")
    for what in ("path.kept", "path.short", "path.band"):
        its = box(page, f"#h0 {what}")
        assert left - 1 <= its[0] <= its[2] <= right + 1
        assert top - 1 <= its[1] <= its[3] <= bottom + 1
    assert box(page, "#h0 path.short")[1] > box(page, "#h0 path.band")[1]


def test_what_happened_over_time_has_titles_and_one_axis(page):
    """What was sent and refused; answers and pauses; what waited."""
    figures = "[...document.querySelectorAll('section[aria-labelledby=time] figure')]"
    titles = page.eval(f"{figures}.map(each => each.querySelector('h3').textContent)")
    assert titles == [
        "Requests sent and refused",
        "Answers, and hosts left alone",
        "Requests waiting",
    ]
    times = page.eval(
        f"{figures}.map(each => [...each.querySelectorAll('text[text-anchor=middle]')]"
        ".map(text => text.textContent).join())"
    )
    assert len(set(times)) == 1
    assert times[0].startswith("07:34,")
    colours = page.eval(
        "[...document.querySelectorAll('.legend li')].map(each => [each.textContent.trim(), "
        "getComputedStyle(each.firstChild).backgroundColor])"
    )
    meanings: dict[str, set[str]] = {}
    for words, colour in colours:
        meanings.setdefault(colour, set()).add(re.sub("[0-9].*", "", words))
    # One colour, one meaning: what was sent is blue, as a bar and as a dot.
    sent = meanings.pop(BLUE)
    assert sent == {"requests sent", "gap, not short", "longer gap, at the edge"}
    assert all(len(words) == 1 for words in meanings.values())


@pytest.mark.parametrize("width", [320, 360, 700, 1000, 1280])
def test_no_width_needs_scrolling_sideways(width, browser, report):
    page = Page(browser, report, width=width, height=780, phone=width < 800)
    open_all(page)
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
    assert len(column(page, "host")) == len(HOSTILE) + 1
    assert page.eval("document.images.length + document.scripts.length") == 1
    open_all(page)
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
