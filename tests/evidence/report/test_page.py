"""The page as a file: what it says, what it leaves out, and that nothing gets into it."""

from __future__ import annotations

import base64
import hashlib
import re
import tracemalloc
from html.parser import HTMLParser
from pathlib import Path

import pytest

from scrapy_rep.evidence.report import AuditError, Limits, Made, Shows, make
from scrapy_rep.protocol.printable import printable
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
    with_answers,
    write,
)

BODY = "User-agent: *\nCrawl-delay: 1\nDisallow: /private/\n"
ONE_HOST = [
    run(),
    sent(START, "a.example", "/robots.txt", robots=True),
    copy(START + 0.1, "a.example", BODY),
    allowed(START + 1.1, "a.example", "/", delay=1),
    sent(START + 1.1, "a.example", "/"),
    by_rule(START + 1.2, "a.example", "/private/x", BODY, 3, delay=1),
    sent(START + 1.6, "a.example", "/2"),
    end(START + 3),
]
VOID = {"meta", "link", "input", "br", "path", "rect"}


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


def made(folder: Path, *records, **options) -> tuple[Made, str]:
    audit = write(folder / "audit.jsonl", records)
    page = folder / "report.html"
    found = make([audit], page, **options)
    return found, page.read_text(encoding="utf-8")


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
    assert found == Made(records=8, hosts=1, troubles=[], broken=0, torn=0, missing=[])
    text = outline(page).text
    for part in (
        "shop, 2026-10-26: what it did about robots.txt",
        "1 request came sooner than asked for, at 1 host. 1 request not sent, as a rule says.",
        "2026-10-26 07:33:20 to 2026-10-26 07:33:23 UTC",
        "1 a rule of robots.txt",
        "a.example fetched (200) 2 1 1 0 1 s 0.5 s 0.8 s 1 of 2",
        "1 request : a rule of robots.txt, Disallow: /private/ , line 3 , group *",
        "https://a.example/private/x",
        "3 Disallow: /private/ 1 refused",
        "ended: finished",
        "from 8 records in 1 file",
    ):
        assert part in text
    assert "What it leaves out" not in text


def test_refusal_leads_to_its_line(tmp_path):
    found = outline(made(tmp_path, *ONE_HOST)[1])
    assert ("li", {"id": "f0-3", "class": "marked"}) in found.tags
    assert ("a", {"href": "#f0-3"}) in found.tags


def test_copy_that_could_not_be_had(tmp_path):
    records = [copy(START, "a.example", None, status=None, failure="no answer in 30 s")]
    text = outline(made(tmp_path, *records, sent(START, "a.example", "/"))[1]).text
    assert "a.example unreachable 1 0" in text
    records.append(refused(START, "a.example", "/", cause="unreachable", reason="why"))
    text = outline(made(tmp_path, *records)[1]).text
    assert (
        "unreachable, on 2026-10-26 07:33:20, could not be had: no answer in 30 s"
        in text
    )
    assert "1 request : robots.txt could not be had why https://a.example/" in text


def test_request_without_a_slot_is_of_its_host(tmp_path):
    records = [sent(START, "a.example", "/", slot=""), sent(START, "b.example", "/")]
    assert made(tmp_path, *records)[0].hosts == 2


def test_the_first_host_of_the_table_may_be_without_details(tmp_path):
    records = [sent(START + n, host, "/") for n, host in enumerate(("a", "b", "b"))]
    records[2]["robots"] = True  # so that each has one page
    _, page = made(tmp_path, *records)
    assert page.index(">a</th>") < page.index('href="#h0">b</a>')
    assert ("details", {"id": "h0", "open": None}) in outline(page).tags


def test_empty_audit(tmp_path):
    found, page = made(tmp_path)
    assert found.records == 0
    text = outline(page).text
    assert "A crawl: what it did about robots.txt" in text
    assert "The audit is empty." in text


@pytest.mark.parametrize(
    ("records", "said"),
    [
        pytest.param(
            [run(), sent(START, "a", "/"), end(START + 1)],
            "No host asked for a delay. No request was refused.",
            id="nothing to tell",
        ),
        pytest.param(
            [
                allowed(START, "a", "/", delay=1),
                sent(START, "a", "/"),
                sent(START + 1, "a", "/"),
                refused(START, "a", "/p"),
                refused(START, "a", "/q", cause="unreachable"),
                copy(START, "b", None),
            ],
            "Every delay that was asked for was kept. 2 requests not sent, 1 of them as a "
            "rule says. 1 site could not be asked for robots.txt.",
            id="kept",
        ),
        pytest.param(
            [run(), by_rule(START, "a", "/private/", BODY, 3, enforced=False)],
            "No host asked for a delay. 1 request went out against robots.txt, as REP_OBEY "
            "says. No request was refused. 1 run did not come to an end.",
            id="dry run, killed",
        ),
        pytest.param(
            [
                run(),
                back_off(START, "a", 5.0),
                back_off(START, "b", 5.0),
                {**end(START + 1), "unsent": {"parked": 1}},
            ],
            "No host asked for a delay. No request was refused. 2 hosts were left alone for a "
            "time, as they asked for that or were in trouble. 1 request was still waiting at "
            "the end.",
            id="left alone",
        ),
    ],
)
def test_it_begins_with_what_the_crawl_comes_to(records, said, tmp_path):
    text = outline(made(tmp_path, *records)[1]).text
    assert f" {said} " in text
    assert text.index(said) < text.index("The whole crawl")


def test_dry_run_is_told_apart(tmp_path):
    records = [by_rule(START, "a.example", "/private/", BODY, 3, enforced=False)]
    text = outline(made(tmp_path, *records)[1]).text
    assert "Against robots.txt, but sent (REP_OBEY) 1" in text
    assert "1 request sent all the same (REP_OBEY), though against" in text
    assert "The audit does not have its text" in text


def test_what_came_of_requests_and_why_others_waited(tmp_path):
    host = "a.example"
    records = [
        run(),
        *(sent(START + number, host, "/") for number in range(3)),
        answered(START + 3, host, "/"),
        answered(START + 4, host, "/", status=503),
        answered(START + 5, host, "/", error="timeout"),
        answered(START + 5, host, "/robots.txt", robots=True),
        back_off(START + 4, host, 10.0),
        back_off(START + 5, host, 10.0, what="timeout"),
        waiting(START + 5, "parked", 7, hosts=1),
        waiting(START + 5, "parked", 7, host=host, until=START + 15),
        waiting(START + 6, "odd", 1, host="b.example"),
        waiting(START + 6, "odd", 2, hosts=1),
        end(START + 9),
    ]
    found = outline(made(tmp_path, *records)[1])
    assert "Failed, of 3 answers 2" in found.text
    assert "1 with status 503" in found.text
    assert "Answers: 200 (1), 503 (1), timeout (1)" in found.text
    # The second pause begins within the first.
    assert "Left alone 2 times, 11 s in all: 503 (1), timeout (1)" in found.text
    assert (
        "2026-10-26 07:33:25: 7 requests wait until 2026-10-26 07:33:35 for a host that is "
        "left alone" in found.text
    )
    assert "2026-10-26 07:33:26: 1 request waits for odd" in found.text
    assert "at most 9 at a time" in found.text
    assert [tag for tag, _ in found.tags].count("figure") == 3


def test_an_audit_of_before_has_no_empty_places(tmp_path):
    """Nor has one in which all went well."""
    text = outline(made(tmp_path, *ONE_HOST)[1]).text
    well = outline(
        made(tmp_path, *ONE_HOST[:-1], answered(START + 2, "a.example", "/"))[1]
    ).text
    assert "answers" not in text
    assert "Failed, of 1 answer 0" in well
    for each in (text, well):
        assert "Answers over time" not in each
        assert "left alone" not in each
        assert "Requests that waited" not in each


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
        "slot": f"a.example{text}",
    }
    records = [
        run(
            spider=text, agent=text, worker=text, version=text, settings={text: [text]}
        ),
        {**robots, **hostile},
        {**copied, **hostile, "slot": None, "state": text, "body": body},
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
    found, page = made(
        tmp_path,
        *records,
        {"type": "later", "time": START},
        limits=Limits(hosts=50),
        shows=Shows(hosts=20, detailed=5, files=2, runs=0, sources=0),
    )
    assert found.hosts == 50
    text = outline(page).text
    for sentence in (
        " Hosts more than 50 ",
        "The table shows 20 of 50 hosts: those with short gaps first",
        "The crawl had more hosts than the 50 that are told apart here. Of the others",
        "5 of 50 hosts are shown in detail",
        "refusals are shown with their reasons; the others are counted only.",
        "the line is named but not shown in its file.",
        "records of robots.txt copies belong to origins beyond those",
        "1 record of unknown types are ignored.",
        "0 of 1 runs are listed.",
        "0 of 1 files are listed.",
    ):
        assert sentence in text
    # The sums count everything all the same.
    sends = [
        each for each in records if each["type"] == "sent" and "robots" not in each
    ]
    assert f"Pages asked for {len(sends):,} " in text
    refusals = [each for each in records if each.get("allowed") is False]
    assert f" Refused {len(refusals):,} " in text


def test_chosen_hosts_are_shown_whatever_the_limits(tmp_path):
    records = [
        record
        for number in range(30)
        for record in (
            refused(START + number, f"{number}.example", "/", cause="status"),
            sent(START + number, f"{number}.example", "/"),
        )
    ]
    records += [
        sent(START + 40, "29.example", "/"),
        sent(START + 41, "29.example", "/"),
    ]
    options = {"limits": Limits(hosts=10), "shows": Shows(hosts=5, detailed=2)}
    found, page = made(
        tmp_path, *records, **options, chosen=["29.example", "x.example"]
    )
    assert found.missing == ["x.example"]
    tags = outline(page).tags
    assert ("details", {"id": "h0", "open": None}) in tags
    assert re.search(r"<summary><h3>29.example</h3>.*3 pages", page)
    assert "29.example" not in made(tmp_path, *records, **options)[1]


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
    _, page = made(tmp_path, *sorted(records, key=lambda each: each["time"]))
    assert len(page) < 10_000_000


def test_broken_and_torn_lines_are_told(tmp_path):
    audit = tmp_path / "audit.jsonl"
    audit.write_bytes(line(run()) + b"<b>\n" * 120 + line(end(START))[:-5])
    page = tmp_path / "report.html"
    found = make([str(audit)], page)
    assert (found.broken, found.torn) == (120, 1)
    text = outline(page.read_text(encoding="utf-8")).text
    assert f"{audit}:2: not a JSON object" in text
    assert "and 20 more lines" in text
    assert "The last line of 1 file was torn" in text
    assert "without an end: killed, or still running then" in text


# The file


def test_nothing_is_left_behind_where_it_fails(tmp_path):
    page = tmp_path / "report.html"
    page.write_text("the one before")
    with pytest.raises(AuditError):
        make([str(tmp_path / "missing")], page)
    assert page.read_text() == "the one before"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_an_audit_is_not_written_over(tmp_path):
    audit = Path(write(tmp_path / "audit.jsonl", ONE_HOST))
    with pytest.raises(AuditError, match=r"page is .*, which is an audit"):
        make([str(audit)], tmp_path / "." / "audit.jsonl")
    assert len(audit.read_bytes().splitlines()) == len(ONE_HOST)


@pytest.mark.parametrize(
    ("page", "reason"), [("missing/report.html", "No such file"), (".", "a directory")]
)
def test_a_page_that_cannot_be_written(page, reason, tmp_path):
    audit = write(tmp_path / "audit.jsonl", ONE_HOST)
    with pytest.raises(AuditError, match=rf"page is .* \({reason}.*expected a file"):
        make([audit], tmp_path / page)


# Memory


def test_memory_does_not_grow_with_the_records(tmp_path):
    """The same hosts, six times the records."""
    peaks = []
    for requests in (1_000, 6_000):
        records = with_answers(crawl(requests, 50))
        audit = write(tmp_path / f"{requests}.jsonl", records)
        tracemalloc.start()
        try:
            made_ = make([audit], tmp_path / "report.html")
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert made_.records > requests
    # The records that are more would take some 10 MB.
    assert peaks[1] - peaks[0] < 1_000_000
