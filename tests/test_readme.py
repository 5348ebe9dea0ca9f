"""The README and the guide: their code runs, and what they say of the code is so."""

from __future__ import annotations

import ast
import doctest
import gzip
import hashlib
import json
import re
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
import scrapy
from docutils import nodes
from scrapy.exceptions import DropItem, IgnoreRequest

from scrapy_rep.events.kinds import EVENTS
from scrapy_rep.protocol.language import MISSPELLINGS
from scrapy_rep.settings import DEFAULTS
from tests.documents import (
    DOCUMENTS,
    PACKAGE,
    README,
    ROOT,
    blocks,
    document,
    name_of,
    page,
    snippet,
)
from tests.site import Reply, Site
from tests.utils import InTurn, coroutine_test, crawl, make_crawler

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EXAMPLE = "https://example.com"
DISALLOW_P = "User-agent: *\nDisallow: /p\n"
BUILT_IN: dict[str, Any] = {"ADDONS": {}, "ROBOTSTXT_OBEY": True}


def executed(code: str, folder: Path) -> dict[str, Any]:
    """Return the names that *code* leaves behind, run from a file as Scrapy needs it."""
    file = folder / "snippet.py"
    file.write_text(code, encoding="utf-8")
    names: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(code, str(file), "exec"), names)
    return names


def settings_of(part: str, path: Path, folder: Path) -> dict[str, Any]:
    """Return the settings that a snippet has."""
    names = executed(snippet(part, path), folder)
    return {name: value for name, value in names.items() if name.isupper()}


def spider(part: str, path: Path, site: Site, folder: Path) -> type[scrapy.Spider]:
    """Return the spider of a snippet, which crawls *site* in place of example.com."""
    code = snippet(part, path).replace(EXAMPLE, site.origin)
    (cls,) = [
        value
        for value in executed(code, folder).values()
        if isinstance(value, type)
        and issubclass(value, scrapy.Spider)
        and value.__module__ == "snippet"
    ]
    return cls


async def items_of(spidercls: type[scrapy.Spider], **settings: Any) -> tuple[Any, Any]:
    crawler = make_crawler(spidercls, **settings)
    items: list[Any] = []

    def scraped(item):
        items.append(item)

    crawler.signals.connect(scraped, scrapy.signals.item_scraped)
    await crawl(crawler)
    return crawler, sorted(items, key=itemgetter("url"))


async def played(
    part: str, name: str, replies: dict[str, Any], folder: Path, **settings: Any
) -> tuple[Any, list[Any], list[str]]:
    """Return the crawler of a page's spider, its items, and the paths that it asked for.

    A site with *replies* is example.com.
    """
    with Site(replies) as site:
        spidercls = spider(part, page(name), site, folder)
        crawler, items = await items_of(spidercls, **settings)
        shown = json.dumps(items).replace(site.origin, EXAMPLE)
        return crawler, json.loads(shown), site.paths


# What it looks like, and its code


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_renders_without_a_word_of_complaint(path):
    assert document(path).astext() or path == page("changes")  # it includes another


def test_the_front_is_short_enough_to_be_read():
    assert len(README.read_text(encoding="utf-8").split()) <= 800


@pytest.mark.parametrize(
    ("path", "least"),
    [(page("how"), 3), (page("parser"), 8), (page("pages"), 4), (page("dropins"), 8)],
    ids=["how", "parser", "pages", "dropins"],
)
def test_doctests(path, least):
    results = doctest.testfile(
        str(path), module_relative=False, encoding="utf-8", report=True
    )
    assert results.attempted >= least
    assert results.failed == 0


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_snippets_run(path, tmp_path):
    for number, code in enumerate(blocks("python", path)):
        folder = tmp_path / str(number)
        folder.mkdir()
        executed(code, folder)


def anchors(path: Path) -> set[str]:
    """Return what a hosting site makes of the titles of a document."""
    titles = (each[0].astext() for each in document(path).findall(nodes.section))
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in titles}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_lead_to_documents_and_titles_that_there_are(path):
    (base,) = re.findall(
        r'(?m)^Repository = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8")
    )
    for reference in document(path).findall(nodes.reference):
        uri = reference.get("refuri", "")
        if uri.startswith(f"{base}/"):
            file = ROOT / uri.removeprefix(f"{base}/blob/main/").partition("#")[0]
        elif uri and not uri.startswith("http"):
            # The front is shown by package indexes, too, which have no other file.
            assert path != README
            file = (path.parent / uri.partition("#")[0]).resolve()
        else:
            continue
        assert file.exists(), uri
        if "#" in uri:
            assert uri.partition("#")[2] in anchors(file), uri


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ("ADDONS", README),
        ("ADDONS", page("start")),
        ("RepMiddleware", page("start")),
        ("ROBOTSTXT_OBEY = True  # may go", page("moving")),
        ("RepRobotParser", page("moving")),
    ],
)
@coroutine_test
async def test_settings_that_enable(part, path, tmp_path):
    settings = settings_of(part, path, tmp_path)
    with Site({"/robots.txt": DISALLOW_P}) as site:
        crawler = make_crawler(**{"ADDONS": {}, **settings})
        await crawl(crawler, urls=[site.url("/p"), site.url("/q")])
        assert site.paths == ["/robots.txt", "/q"]


@coroutine_test
async def test_spider_robots_snippet(tmp_path):
    with Site() as site:
        urls = "".join(
            f"<url><loc>{site.url(path)}</loc></url>" for path in ["/a", "/p"]
        )
        site.replies["/robots.txt"] = f"{DISALLOW_P}Sitemap: /map.xml\n"
        site.replies["/map.xml"] = Reply(
            '<?xml version="1.0"?>'
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>',
            headers={"Content-Type": "text/xml"},
        )
        _, items = await items_of(
            spider("SitemapPages", page("spider"), site, tmp_path)
        )
        assert items == [{"url": site.url("/a")}]
        assert site.paths == ["/robots.txt", "/map.xml", "/a"]


def test_snippet_of_a_spiders_own_test(tmp_path):
    executed(snippet("robots_for", page("testing")), tmp_path)[
        "test_carts_are_left_alone"
    ]()


@coroutine_test
async def test_errback_and_signal_snippets(tmp_path):
    names = executed(snippet("request_forbidden", page("refusals")), tmp_path)
    crawler, items, _ = await played(
        *(
            "errback",
            "refusals",
            {"/robots.txt": "User-agent: *\nDisallow: /private/\n"},
        ),
        tmp_path,
        EXTENSIONS={names["Refusals"]: 0},
    )
    reason = "Disallow: /private/ (line 2, user-agent *)"
    assert items == [
        {"url": f"{EXAMPLE}/"},
        {"url": f"{EXAMPLE}/private/diary", "refused": reason},
    ]
    assert crawler.stats.get_value("refused/line 2") == 1


@coroutine_test
async def test_events_snippet(tmp_path):
    alerts = executed(snippet("BackedOff", page("events")), tmp_path)["Alerts"]
    asked = Reply(status=429, headers={"Retry-After": "1"})
    with Site({"/p": [asked, "fine"]}) as site:
        crawler = make_crawler(EXTENSIONS={alerts: 0})
        await crawl(crawler, urls=[site.url("/p")])
    assert crawler.extensions is not None
    (extension,) = [
        each for each in crawler.extensions.middlewares if type(each) is alerts
    ]
    (alert,) = extension.alerts
    assert re.fullmatch(r"127\.0\.0\.1: 429, for (1\.0|0\.9\d*) s", alert)


@coroutine_test
async def test_page_rules_snippet(tmp_path):
    meta = '<head><meta name="robots" content="noarchive, nofollow"></head>'
    _, items, paths = await played(
        "rep_page", "pages", {"/": f'{meta}<a href="/b">'}, tmp_path
    )
    because = {
        rule: f'<meta name="robots">: {rule}' for rule in ("noarchive", "nofollow")
    }
    assert items == [{"url": f"{EXAMPLE}/", "body": None, "because": because}]
    assert paths == ["/robots.txt", "/"]


@coroutine_test
async def test_preferences_snippets(tmp_path):
    settings = settings_of("REP_PURPOSE", page("pages"), tmp_path)
    licence, said = f"{EXAMPLE}/rsl.xml", "Content-Usage: train-ai=n"
    rules = {"/robots.txt": f"License: {licence}\nUser-agent: *\n{said}\n"}
    _, items, _ = await played("Licensed", "pages", rules, tmp_path)
    found = {"training": "no", "said": said, "line": 3, "licenses": [licence]}
    assert items == [{"url": f"{EXAMPLE}/", **found}]
    crawler, items, _ = await played("Licensed", "pages", rules, tmp_path, **settings)
    assert items == []
    assert crawler.stats.get_value("rep/forbidden/purpose") == 1


@coroutine_test
async def test_evidence_snippets(tmp_path):
    uri = settings_of("REP_AUDIT_URI", page("audit"), tmp_path)["REP_AUDIT_URI"]
    robots = {"/robots.txt": DISALLOW_P}
    _, items, _ = await played(
        "Kept", "audit", robots, tmp_path, REP_AUDIT_URI=f"{tmp_path}/{uri}"
    )
    digest = f"sha256:{hashlib.sha256(DISALLOW_P.encode()).hexdigest()}"
    found = {"allowed_by": "no rule matches", "robots_txt": digest}
    assert items == [{"url": f"{EXAMPLE}/", **found}]
    (file,) = (tmp_path / "audit").iterdir()
    assert file.name.startswith("kept-2")
    lines = gzip.decompress(file.read_bytes()).splitlines()
    types = {json.loads(line)["type"] for line in lines} - {"waiting"}
    assert types == {"crawl", "copy", "decision", "sent", "answer", "end"}


# What it says of the code


def test_every_setting_has_its_heading_and_default():
    shown = {}
    for each in document(page("settings")).findall(nodes.section):
        if re.fullmatch(r"(REP|ROBOTSTXT)_[A-Z_]+", each[0].astext()):
            assert each[1].astext().startswith("Default: ")
            literal = next(each[1].findall(nodes.literal)).astext()
            shown[each[0].astext()] = ast.literal_eval(literal)
    scrapys = {"ROBOTSTXT_OBEY": False, "ROBOTSTXT_USER_AGENT": None}
    assert shown == {**scrapys, **DEFAULTS}


def test_every_stat_is_listed():
    code = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "scrapy_rep").rglob("*.py")
    )
    counted = re.findall(r'\.count\(\s*f?"([\w/{}.]+)"', code)
    written = re.findall(r'"rep/(\w[\w/{}.]*)"', code)
    declared = [name for each in EVENTS for name in each.counts]
    in_code = {
        re.sub(r"{(self\.)?cause}", "CAUSE", f"rep/{name}")
        for name in (*counted, *written, *declared)
    }
    assert "rep/origins" in in_code
    assert "rep/forbidden/CAUSE" in in_code
    assert "rep/put_off" in in_code
    terms = {term.astext() for term in document(page("stats")).findall(nodes.term)}
    assert in_code == {term for term in terms if term.startswith("rep/")}


def test_every_misspelling_is_listed():
    literals = {
        literal.astext() for literal in document(page("rules")).findall(nodes.literal)
    }
    assert literals >= set(MISSPELLINGS)


def texts_of_the_code() -> Iterator[list[str]]:
    """Yield the pieces of each text between its gaps."""
    gap = re.compile(r"%\(\w+\)\S*?[sdfgr]|%[sdr]|\0|\{(?:![rs])?\}")
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (getattr(part, "value", None) for part in node.values)
                text = "".join(p if isinstance(p, str) else "\0" for p in parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            fixed = gap.split(text)
            if len("".join(fixed)) >= 15:
                yield fixed


def is_begun_by(pieces: list[str], line: str) -> bool:
    """Tell whether a text with these pieces may begin with *line*, most of which is theirs."""
    at = known = 0
    for number, piece in enumerate(pieces):
        found = line.find(piece, at + (number > 0))
        if number == 0 and found > 0:
            return False
        if found < 0:  # it is cut off within this piece, or in the gap before
            ends = range(min(len(piece), len(line) - at), 0, -1)
            known += next((end for end in ends if line.endswith(piece[:end])), 0)
            break
        at = found + len(piece)
        known += len(piece)
    return known >= max(20, len(line) // 2)


def is_written(line: str, texts: list[list[str]]) -> bool:
    """Tell whether one of *texts* is this line, or begins with it if it ends with "..."."""
    begin = line.removesuffix("...")
    return any(
        (begin != line and is_begun_by(pieces, begin.rstrip()))
        or (
            max(pieces, key=len) in line  # the others need no pattern
            and re.search(".+?".join(map(re.escape, pieces)), line)
        )
        for pieces in texts
    )


def test_lines_that_are_explained_are_written():
    titles = document(page("why")).findall(nodes.term)
    lines = [each.astext() for title in titles for each in title.findall(nodes.literal)]
    assert len(lines) > 20
    texts = list(texts_of_the_code())
    assert not [line for line in lines if not is_written(line, texts)]


def test_ci_uses_the_command_of_the_readme():
    example, tests, fleet_run = (
        command
        for command in (*blocks("sh"), *blocks("sh", page("fleets")))
        if command.startswith("python3 -m venv")
    )
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert f"'{tests}'" in ci
    assert example.endswith("scrapy crawl tour)")
    assert fleet_run.endswith("python -m example.fleet)")


def test_badges_are_true():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (python,) = re.findall(r'(?m)^requires-python = ">=([\d.]+)"$', project)
    (lowest,) = re.findall(r'"scrapy>=([\d.]+?)(?:\.0)?"', project)
    (terms,) = re.findall(r'(?m)^license = "(.+)"$', project)
    badges = {
        f"python-{python}+": f"Python {python}+",
        f"scrapy-{lowest}+": f"Scrapy {lowest}+",
        f"license-{terms.replace('-', '--')}": terms,
    }
    shown = {
        unquote(image["uri"]).rpartition("/")[2].removesuffix("-blue"): image["alt"]
        for image in document(README).findall(nodes.image)
    }
    assert shown == badges


def test_ci_runs_what_is_there_by_the_tools_of_tox():
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for name in re.findall(r"tests/[\w/]+\.py", ci):
        assert (ROOT / name).exists(), name
    tox = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for tool in ("ruff", "mypy", "scrapy-playwright"):
        (version,) = re.findall(rf'"({tool}==[\d.]+)"', tox)
        assert version in ci


def test_the_pipeline_is_that_of_the_example_and_drops_what_nothing_lets_through(
    tmp_path,
):
    shown = snippet("class Evidence:", page("audit"))
    path = ROOT / "example_project" / "example" / "pipelines.py"
    written = path.read_text(encoding="utf-8")
    bodies = [
        code.partition("def process_item")[2].splitlines()[1:]
        for code in (shown, written)
    ]
    assert bodies[0] == bodies[1] != []
    pipeline = executed(shown, tmp_path)["Evidence"]()
    with pytest.raises(DropItem):
        pipeline.process_item({"url": "https://example.com/"})


# What it says of us beside Scrapy's own middleware, as far as no other test does

OLD = Reply("", headers={"Cache-Control": "no-cache"})
"""Of a robots.txt: it allows, and is old at once."""
CONTACT = "ExampleBot/1.0 (+https://spider.example/bot)"
BESIDE: dict[str, tuple[Any, list[str], dict[str, Any], list[str], list[str]]] = {
    # answers for robots.txt, pages wanted, settings: what is asked for by us, by Scrapy's own
    "unreachable": (
        [Reply(status=503)],
        *(["/1", "/2"], {}),
        ["/robots.txt", "/robots.txt"],
        ["/robots.txt", "/1", "/2"],
    ),
    "longer than pages may be": (
        [DISALLOW_P + "#\n" * 1000],
        *(["/p"], {"DOWNLOAD_MAXSIZE": 1000}),
        ["/robots.txt"],
        ["/robots.txt", "/p"],
    ),
    "old": (
        [OLD, DISALLOW_P],
        *(["/p", "/p"], {}),
        ["/robots.txt", "/p", "/robots.txt"],
        ["/robots.txt", "/p", "/p"],
    ),
    "a word of the contact URL": (
        ["User-agent: spider\nDisallow: /\n"],
        *(["/p"], {"USER_AGENT": CONTACT}),
        ["/robots.txt", "/p"],
        ["/robots.txt"],
    ),
}


@pytest.mark.parametrize("case", BESIDE)
@coroutine_test
async def test_beside_built_in(case):
    answers, wanted, settings, *expected = BESIDE[case]
    for whose, paths in zip(({}, BUILT_IN), expected, strict=True):
        with Site({"/robots.txt": list(answers)}) as site:
            spidercls = InTurn if len(wanted) > 1 else None
            crawler = make_crawler(spidercls, **settings, **whose)
            await crawl(crawler, urls=map(site.url, wanted))
            assert site.paths == paths


@pytest.mark.parametrize(("whose", "fetched"), [({}, 1), (BUILT_IN, 2)])
@coroutine_test
async def test_the_next_crawl_knows(whose, fetched, tmp_path):
    with Site({"/robots.txt": DISALLOW_P}) as site:
        for _ in range(2):
            crawler = make_crawler(**whose, JOBDIR=str(tmp_path))
            await crawl(crawler, urls=[site.url("/p"), site.url("/q")])
        assert site.count("/robots.txt") == fetched
        assert site.count("/p") == 0


@coroutine_test
async def test_built_in_keeps_no_crawl_delay_and_gives_no_reason():
    with Site({"/robots.txt": f"{DISALLOW_P}Crawl-delay: 100\n"}) as site:
        crawler = make_crawler(**BUILT_IN, CONCURRENT_REQUESTS=1)
        await crawl(crawler, urls=map(site.url, ["/1", "/2", "/p"]))
    assert len(crawler.spider.got) == 2
    (failure,) = crawler.spider.failures
    assert type(failure) is IgnoreRequest
    assert str(failure) == "Forbidden by robots.txt"


@pytest.mark.only_asyncio
@coroutine_test
async def test_built_in_judges_only_the_first_of_those_that_wait():
    urls = ["/1", "/p?1", "/p?2", "/p?3"]
    for whose in ({}, BUILT_IN):
        with Site({"/robots.txt": DISALLOW_P}) as site:
            await crawl(make_crawler(**whose), urls=map(site.url, urls))
            sent = {path for path in site.paths if path.startswith("/p")}
            assert bool(sent) is bool(whose)
