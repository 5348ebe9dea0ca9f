"""The page as a file: what it says, what it leaves out, and that nothing gets into it."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from io import StringIO
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.printable import printable
from scrapy_rep.report import Made, make
from scrapy_rep.report.audit import Audit
from scrapy_rep.report.page import Shows
from scrapy_rep.report.page import write as write_page
from tests.audits import (
    START,
    allowed,
    answered,
    back_off,
    by_rule,
    copy,
    crawl,
    end,
    line,
    refused,
    run,
    sent,
    waiting,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

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


def made(folder: Path, *records, **options) -> tuple[Made, str]:
    audit = write(folder / "audit.jsonl", records)
    page = folder / "report.html"
    found = make([audit], str(page), **options)
    return found, page.read_text(encoding="utf-8")


def shown(folder: Path, *records, chosen: Iterable[str] = (), **shows) -> str:
    """Return the page that shows no more than it is told."""
    out = StringIO()
    with Audit([write(folder / "audit.jsonl", records)]) as audit:
        write_page(out, audit, None, frozenset(chosen), Shows(**shows))
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


def test_what_one_host_is_told_of(tmp_path):
    found, page = made(tmp_path, *ONE_HOST)
    assert found == Made(
        conclusion=[
            "No URL that a rule disallows was requested.",
            "1 of 2 gaps between requests was shorter than the delay asked for, at 1 host.",
            "1 URL was refused and never requested, as a rule says.",
        ],
        records=9,
        hosts=1,
        warnings=[],
        missing=[],
    )
    text = outline(page).text
    for part in (
        "shop, 2026-10-26: what it did about robots.txt",
        "2026-10-26 07:33:20 to 2026-10-26 07:33:23 UTC",
        "Requests against a rule 0 exempt: 0 · dry run: 0",
        "Short gaps 1 of 2 gaps with a delay",
        "URLs requested 2 in 2 requests, retries among them",
        "URLs refused, never requested 1 a rule: 1 · other reasons: 0",
        "Refused 1 a rule of robots.txt",
        (
            "a.example robots.txt fetched (200) URLs sent 2 Refused 1 Delay 1 s "
            "Smallest gap 0.500 s Median gap 0.800 s Short gaps 1 of 2"
        ),
        "https://a.example : robots.txt fetched, status 200, on 2026-10-26 07:33:20",
        "1 URL : a rule of robots.txt, Disallow: /private/ , line 3 , group *",
        "https://a.example/private/x",
        "3 Disallow: /private/ 1 refused",
        "ended: finished",
        "from 9 records",
    ):
        assert part in text
    assert "What it leaves out" not in text


def test_refusal_leads_to_its_line(tmp_path):
    found = outline(made(tmp_path, *ONE_HOST)[1])
    assert found.count("li", id="f0-3")
    assert found.count("a", href="#f0-3")


def test_copy_that_did_not_come(tmp_path):
    records = [
        copy(START, "a.example", None, status=None, failure="no answer in 30 s"),
        refused(START, "a.example", "/", cause="unreachable", reason="why"),
    ]
    text = outline(made(tmp_path, *records)[1]).text
    assert (
        "robots.txt unreachable, on 2026-10-26 07:33:20; it did not come: no answer in 30 s"
        in text
    )
    assert "1 URL : robots.txt did not come why https://a.example/" in text
    assert "without robots.txt: no answer 1 · errors 0" in text


def test_dry_run_is_told_apart(tmp_path):
    records = [
        by_rule(START, "a.example", "/private/", BODY, 3, enforced=False),
        sent(START, "a.example", "/private/"),
        sent(START, "a.example", "/else", exempt="dont_obey_robotstxt"),
    ]
    text = outline(made(tmp_path, *records)[1]).text
    assert "Requests against a rule 1 exempt: 1 · dry run: 1" in text
    assert "Against robots.txt, but sent (REP_OBEY) 1 a rule of robots.txt" in text
    assert "Exempt 1 dont_obey_robotstxt" in text
    assert "1 URL , sent all the same (REP_OBEY), though against: a rule" in text
    assert "The audit does not have its text" in text


def test_the_crawls_own_delay_is_shown(tmp_path):
    own = run(settings={"DOWNLOAD_DELAY": 0.25})
    records = [own, *ONE_HOST[1:], sent(START + 2, "a.example", "/3")]
    text = outline(made(tmp_path, *records)[1]).text
    assert "with a delay of its own of 0.25 s (DOWNLOAD_DELAY)" in text
    assert "the crawl's own delay, 0.25 s" in text


def test_what_came_of_requests_and_why_others_waited(tmp_path):
    host = "a.example"
    records = [
        run(),
        answered(START + 3, host, "/"),
        answered(START + 4, host, "/", status=503),
        answered(START + 5, host, "/", error="timeout"),
        back_off(START + 4, host, 10.0),
        back_off(START + 5, host, 10.0, what="timeout"),
        waiting(START + 5, "parked", 7, hosts=1),
        waiting(START + 5, "parked", 7, host=host, until=START + 15),
        waiting(START + 6, "odd", 1, host="b.example"),
        {**end(START + 9), "unsent": {"parked": 4, "odd": 1}},
    ]
    found = outline(made(tmp_path, *records)[1])
    for part in (
        "Answers 1 200 1 503 1 timeout",
        "Answers: 200 (1), 503 (1), timeout (1)",
        "Left alone 2 times, 11 s in all, after: 503 (1), timeout (1)",
        "Requests waiting One bar is 0.1 s. At most: 7 for a host that is left alone.",
        (
            "2026-10-26 07:33:25: 7 requests wait until 2026-10-26 07:33:35 for a host that is "
            "left alone"
        ),
        "2026-10-26 07:33:26: 1 request waits for odd",
        "Still waiting at the end, for 4 a host that is left alone 1 odd",
    ):
        assert part in found.text
    assert found.count("figure") == 2


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
    body = f"User-agent: *\nCrawl-delay: 1\nDisallow: /private/{text}\n"
    robots, copied, decided = ONE_HOST[1], ONE_HOST[2], ONE_HOST[5]
    hostile = {
        "url": f"https://a.example{text}/{text}",
        "origin": f"https://a.example{text}",
        "host": f"a.example{text}",
    }
    records = [
        run(
            spider=text, agent=text, worker=text, version=text, settings={text: [text]}
        ),
        {**robots, **hostile},
        {**copied, **hostile, "host": None, "state": text, "body": body},
        {**allowed(START + 1.1, "a.example", "/", delay=1), **hostile},
        {**sent(START + 1.1, "a.example", "/"), **hostile},
        {
            **decided,
            **hostile,
            "rule": text,
            "group": [text],
            "cause": text,
            "reason": text,
        },
        {
            **refused(START + 1.3, "a.example", "/", cause="status"),
            **hostile,
            "reason": text,
        },
        {**sent(START + 1.6, "a.example", "/2"), **hostile},
        {"type": "dropped", "time": START + 2, "url": text, "cause": text},
        {**end(START + 3), "reason": text},
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


def test_what_page_rules_dropped_is_said_in_words(tmp_path):
    causes = ["nofollow", "noindex", "nofollow", "of tomorrow"]
    dropped = [
        {
            "type": "dropped",
            "time": START + 2,
            "url": "https://a.example/",
            "cause": cause,
        }
        for cause in causes
    ]
    _, page = made(tmp_path, *ONE_HOST, *dropped)
    text = outline(page).text
    assert "Dropped for the rules of pages" in text
    assert "2 requests: the page asks that no link be followed" in text
    assert "1 items: the page asks not to be indexed" in text
    assert "1 of tomorrow" in text


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
    page = shown(
        tmp_path,
        *records,
        {"type": "later", "time": START},
        hosts=20,
        detailed=5,
        files=2,
        runs=0,
        sources=0,
    )
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
    for host in range(Shows().detailed + 10):
        name = f"{host}.example"
        its = f"{body}# {host}\n"
        records.append(copy(START + host, name, its))
        records += [sent(START + host + n, name, "/") for n in range(100)]
        records += [
            by_rule(START + host, name, f"/{'&' * 400}{n}", its, 2 + n % 15)
            for n in range(60)
        ]
    _, page = made(tmp_path, *records)
    assert len(page) < 10_000_000


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
