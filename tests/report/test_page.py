"""The page as a file: what it says, what it leaves out, and that nothing gets into it."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from io import StringIO

import pytest

from scrapy_rep.protocol.printable import printable
from scrapy_rep.report import make
from scrapy_rep.report.audit import Audit
from scrapy_rep.report.page import Shows
from scrapy_rep.report.page import write as write_page
from scrapy_rep.report.reader import RECORDS
from tests.audits import (
    START,
    allowed,
    answered,
    back_off,
    by_rule,
    copy,
    crawl,
    digest,
    dropped,
    end,
    line,
    refused,
    run,
    sent,
    waiting,
    write,
)  # fmt: skip
from tests.report.reading import audit_of, cases

BODY = "User-agent: *\nCrawl-delay: 1\nDisallow: /private/\n"
ONE_HOST = [
    run(),
    sent(START, "a.example", "/robots.txt", robots=True),
    copy(START + 0.1, "a.example", BODY),
    allowed(START + 1.1, "a.example", "/", delay=1),
    sent(START + 1.1, "a.example", "/"),
    by_rule(START + 1.2, "a.example", "/private/x", BODY, 3, delay=1),
    allowed(START + 1.6, "a.example", "/2", delay=1),
    sent(START + 1.6, "a.example", "/2"),
    end(START + 3),
]
VOID = {"meta", "link", "input", "br", "path", "rect", "line"}


class Outline(HTMLParser):
    """What a page is made of; fails where tags are not closed in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in {"script", "style"}:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))

    def count(self, tag: str, **attrs: str) -> int:
        return sum(
            name == tag and its.items() >= attrs.items() for name, its in self.tags
        )


def made(folder, *records, **options) -> tuple[Audit, str]:
    audit = write(folder / "audit.jsonl", records)
    page = folder / "report.html"
    found = make([audit], str(page), **options)
    return found, page.read_text(encoding="utf-8")


def shown(folder, *records, chosen=(), **shows) -> str:
    """Return the page that shows no more than it is told."""
    out = StringIO()
    with Audit([write(folder / "audit.jsonl", records)], chosen=chosen) as audit:
        write_page(out, audit, None, Shows(**shows))
    return out.getvalue()


def outline(page: str) -> Outline:
    found = Outline()
    found.feed(page)
    found.close()
    assert found.open == []
    ids = [attrs["id"] for _, attrs in found.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in found.tags:
        href = attrs.get("href") or ""
        assert not href.startswith("#") or href[1:] in ids
        for name in ("aria-labelledby", "for"):
            assert name not in attrs or attrs[name] in ids
    return found


@pytest.mark.parametrize(("files", "expected"), cases("page.txt"))
def test_what_is_shown(files, expected):
    with audit_of(*files) as audit:
        out = StringIO()
        write_page(out, audit)
    text = outline(out.getvalue()).text
    assert [part for part in expected if part[2:] not in text] == []


def test_what_one_host_is_told_of(tmp_path):
    found, page = made(tmp_path, *ONE_HOST)
    assert (found.records, found.sums["hosts"]) == (9, 1)
    assert (found.warnings, found.missing) == ([], [])
    shown = outline(page)
    assert "What it leaves out" not in shown.text
    # A refusal leads to its line.
    assert shown.count("li", id="f0-3")
    assert shown.count("a", href="#f0-3")
    assert shown.count("figure") == 2


# Changes


def test_what_has_changed_since_another_crawl(tmp_path):
    before = write(tmp_path / "before.jsonl", ONE_HOST)
    body = BODY.replace("1", "2") + "Disallow: /<new>/\n"
    after = [
        run(START + 86400),
        copy(START + 86400, "a.example", body),
        allowed(START + 86400, "a.example", "/", delay=2),
        sent(START + 86400, "a.example", "/"),
        sent(START + 86400, "b.example", "/"),
        end(START + 86401),
    ]
    text = outline(made(tmp_path, *after, against=[before])[1]).text
    for part in (
        "What has changed since 2026-10-26 07:33:20",
        "URLs requested 2 2",
        "URLs refused, never requested 1 0 of them, by a rule 1 0 Requests that nobody has",
        "1 host is in both crawls, 0 only in the earlier one and 1 only in this one.",
        (
            "Rules 1 site https://a.example : another text 1 line gone, 2 new gone: "
            "Crawl-delay: 1 new: Crawl-delay: 2 new: Disallow: /<new>/"
        ),
        "Refusals 1 host a.example : 1 → 0 URLs never requested",
        "Delays 1 host a.example : 1 s → 2 s",
    ):
        assert part in text
    emptied = [copy(START + 86400, "a.example", "")]
    text = outline(made(tmp_path, *emptied, against=[before])[1]).text
    assert "3 lines gone, 0 new" in text
    text = outline(made(tmp_path, *ONE_HOST, against=[before])[1]).text
    assert "At the former, rules, refusals and delays are the same." in text
    assert "another text" not in text


# From outside

MARKUP = (
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>'\"&\u2028\u2029"
)
HOSTILE = [
    MARKUP,
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egpj.exe\u202c",
    "\x00\x1b[31m\x7f\r\n",
    "\ud800",
    "</style><style>*{display:none}</style>",
    "<!--",
    "]]>",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_from_the_web_are_only_texts(text, tmp_path):
    """All fields that are texts, or have some, are of the web."""
    own = {
        "url": f"https://a.example{text}/{text}",
        "origin": f"https://a.example{text}",
        "host": f"a.example{text}",
        "body": f"User-agent: *\nCrawl-delay: 1\nDisallow: /private/{text}\n",
        "digest": digest(BODY),
        "encoding": "utf-8",
    }
    kinds = {"a string": text, "a list": [text], "an object": {text: [text]}}
    more = [
        refused(START + 1.3, "a.example", "/"),
        dropped(START + 2, "a.example", "/", text),
        answered(START + 2, "a.example", "/"),
        back_off(START + 2, "a.example", 5.0),
        waiting(START + 2, text, 3),
    ]
    records = [
        each
        | {
            name: own.get(name, kinds[kind.expected])
            for name, (kind, _) in RECORDS[each["type"]].items()
            if kind.expected in kinds
        }
        for each in [*ONE_HOST, *more]
    ]
    _, page = made(tmp_path, *records)
    found = outline(page)
    assert "img" not in {tag for tag, _ in found.tags}
    for tag, attrs in found.tags:
        assert not any(name.startswith("on") for name in attrs), tag
        assert "style" not in attrs
        assert "src" not in attrs
        assert (attrs.get("href") or "#").startswith("#") or attrs["href"] == "data:,"
    assert sum(tag == "script" for tag, _ in found.tags) == 1
    assert sum(tag == "style" for tag, _ in found.tags) == 1
    # Nothing that turns the writing, ends a line of a script or cannot be seen.
    assert not re.search("[\u202a-\u202e\u2028\u2029\x00\x1b\x7f\ud800-\udfff\r]", page)
    # But all the rest is shown as it is.
    assert re.sub(r"\s+", " ", printable(text)) in found.text


def test_the_policy_lets_in_what_is_ours_and_nothing_else(tmp_path):
    page = made(tmp_path, *ONE_HOST)[1]
    (policy,) = re.findall(
        r'http-equiv="Content-Security-Policy" content="([^"]*)"', page
    )
    rules = dict(
        rule.split(maxsplit=1) for rule in policy.replace("&#39;", "'").split("; ")
    )
    assert rules["default-src"] == "'none'"
    for tag in ("style", "script"):
        (code,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"
    assert "http://" not in page
    assert set(re.findall(r"https://[\w.]+", page)) == {
        "https://a.example",
        "https://example.com",
    }


# How much of it


def test_what_is_left_out_is_said(tmp_path):
    records = list(crawl(4000, 60))
    later = {"type": "later", "time": START}
    most = {"hosts": 20, "detailed": 5, "files": 2, "runs": 0, "sources": 0}
    page = shown(tmp_path, *records, later, **most)
    found = outline(page)
    for sentence in (
        "20 of 60 hosts are listed: those with short gaps first",
        "5 of 20 hosts have details, the first ones.",
        "2 of 45 robots.txt files that refused are shown.",
        "1 record is of a type that is not known, and ignored.",
        "0 of 1 runs are listed.",
        "0 of 1 files are listed.",
    ):
        assert sentence in found.text
    assert found.count("div", id="hosts") == 1
    assert len(re.findall('class="host"', page)) == 20
    # The sums count everything all the same.
    pages = {
        each["url"]
        for each in records
        if each["type"] == "sent" and "robots" not in each
    }
    assert f"URLs requested {len(pages):,} " in found.text


def test_chosen_hosts_are_shown_whatever_the_limits(tmp_path):
    records = [
        record
        for number in range(30)
        for record in (
            refused(START + number, f"{number}.example", "/", cause="status"),
            sent(START + number, f"{number}.example", "/"),
        )
    ]
    chosen = ["29.example", "x.example"]
    page = shown(tmp_path, *records, hosts=5, detailed=2, chosen=chosen)
    assert re.search('id="h0".*\\n<summary class="row">\\n.*29.example', page)
    assert "29.example" not in shown(tmp_path, *records, hosts=5, detailed=2)
    assert made(tmp_path, *records, chosen=["x.example"])[0].missing == ["x.example"]


def test_a_page_of_hostile_size_is_bounded(tmp_path):
    # The most that is shown of each thing, and all of it needs escaping.
    body = "User-agent: *\n" + "".join(
        f"Disallow: /{'&' * 400}{n}\n" for n in range(99)
    )
    records = []
    for host in range(30):
        name = f"{host}.example"
        its = f"{body}# {host}\n"
        records.append(copy(START + host, name, its))
        records += [sent(START + host + n, name, "/") for n in range(100)]
        records += [
            by_rule(START + host, name, f"/{'&' * 400}{n}", its, 2 + n % 15)
            for n in range(60)
        ]
    page = shown(tmp_path, *records, hosts=25, detailed=15, files=10)
    assert len(page) < 1_100_000  # a tenth of one as large as it may be


def test_broken_and_torn_lines_are_told(tmp_path):
    audit = tmp_path / "audit.jsonl"
    audit.write_bytes(line(run()) + b"<b>\n" * 120 + line(end(START))[:-5])
    page = tmp_path / "report.html"
    found = make([str(audit)], str(page))
    assert found.warnings[20:] == [
        "and 100 more lines that are broken",
        "1 of 1 files end in a torn line, as after a kill; it is ignored",
    ]
    text = outline(page.read_text(encoding="utf-8")).text
    assert f"{audit}:2: not a JSON object" in text
    assert "and 20 more lines" in text
    assert "The last line of 1 file was torn" in text
    assert "without an end: killed, or still running then" in text
