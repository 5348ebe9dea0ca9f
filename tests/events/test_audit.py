"""What an audit consists of: its lines as they are stored, and what is written of a body."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from scrapy import Request, signals

from scrapy_rep.crawl import Crawl
from scrapy_rep.events import audit
from scrapy_rep.events.audit import Audit
from scrapy_rep.events.kinds import (
    Answered,
    AuditFailed,
    BackedOff,
    Copy,
    Demanded,
    Dropped,
    InBrowser,
    Judged,
    NewCopy,
    Sent,
    Waited,
    said_by,
)
from scrapy_rep.gate.evidence import collect_evidence
from scrapy_rep.policies.agreed import copy_of
from scrapy_rep.policies.lifecycle import Known, policy_of, standing_of
from tests.audits import digest, of_type, records_of
from tests.snapshots import facts_of, snapshot_of
from tests.utils import Pages, coroutine_test, make_crawler

SAMPLE = Path(__file__).with_name("sample.jsonl")
"""An audit with a record of each type."""

START = 1_793_000_000.0
RULES = """\
User-agent: *
User-agent: "größe"
Disallow: /private/
Allow: /private/\\"press"/
Crawl-delay: 2.5
Content-Signal: search=yes
"""


def snapshot(url: str, **more: Any):
    """Return what came from a robots.txt, for a long time."""
    whole = {"status": 200, "checked": START, "lifetime": 1e6, "grace": 1e6}
    return snapshot_of(**whole | {"url": f"{url}/robots.txt"} | more)


def known_of(origin: str, kept, settings) -> Any:
    stands = standing_of(kept, START + 1, settings)
    known = Known(origin, policy_of(kept, stands.state, settings), stands, None)
    known.copy = copy_of(known, kept, settings)
    return known


async def write_sample(path: Path) -> None:
    """Write the audit that is the sample: each event comes a little later than the last one."""
    crawler = make_crawler(REP_DENY_STATUSES=[403], REP_AUDIT_URI=str(path))
    downloader = SimpleNamespace(active=set())
    crawler.spider = Pages()
    crawler.engine = SimpleNamespace(downloader=downloader)
    crawl: Any = Crawl.of(crawler)
    clock = (START + 0.1234567 * number for number in count())
    crawl.events.at = lambda moment: next(clock)
    crawl.agents.of = lambda *_: ("ExampleBot/1.0", "other")
    collect_evidence(crawl)
    tell, settings, agent = crawl.events.tell, crawl.settings, "ExampleBot/1.0"

    tell(Sent("https://a.example/robots.txt", "a.example", robots=True))
    failed = {"failing_since": START, "retry_at": START + 99}
    of_f = {"lifetime": 0.0, "failures": 2, "failing_since": START + 0.5}
    kept = {
        "https://a.example": snapshot("https://www.a.example", body=RULES.encode()),
        (b := "https://b.example:8443"): snapshot(b, body=RULES.encode("latin-1")),
        (c := "http://c.example"): snapshot(c, status=404),
        (d := "http://d.example"): snapshot(d, status=403),
        "http://e.example": snapshot_of(failures=1, failure="503 \x00é", **failed),
        (f := "http://f.example"): snapshot(
            f, body=RULES.encode(), failure="timed out", **failed | of_f
        ),
    }
    known = {origin: known_of(origin, one, settings) for origin, one in kept.items()}
    for origin, one in kept.items():
        copy = known[origin].copy
        tell(NewCopy(copy, facts_of(one)["body"]))
    for origin, path_, cause, enforced in [
        ("https://a.example", "/?q=1", None, True),
        ("https://a.example", "/?q=2", None, True),
        ("https://a.example", '/private/größe"\\', "rule", True),
        ("https://a.example", "/private/x", "rule", False),
        ("https://b.example:8443", "/private/x", "rule", True),
        ("http://c.example", "/", None, True),
        ("http://d.example", "/", "status", True),
        ("http://e.example", "/", "unreachable", True),
        ("http://f.example", '/"press"/', None, True),
    ]:
        url, policy = origin + path_, known[origin].policy
        verdict = policy.verdict(url, agent)
        request = Request(url)
        copy = known[origin].as_copy()
        tell(Judged(request, url, agent, verdict, cause, enforced, policy, copy))
        if cause is None:
            tell(Sent(request.url, "a.example", robots=None))
    page = "https://a.example/?q=1"
    tell(Answered(page, "a.example", 0.5, 0.25, 4, 200, None, robots=None))
    tell(Answered(page, 'my "hosts"', 0.5, None, None, None, "timeout", robots=None))
    of_robots = "https://a.example/robots.txt", "a.example"
    tell(Answered(*of_robots, 0.5, 0.5, 0, 404, None, robots=True))
    tell(BackedOff("a.example", page, "429", 60.0, 60.0, 60.0, down=True))
    tell(Waited("parked", 7, hosts=2, until=START + 60, last=START + 90))
    tell(Waited("parked", 7, "a.example", until=START + 60))
    verdict = known["https://a.example"].policy.verdict("/private/x.png", agent)
    tell(
        InBrowser(
            url="https://a.example/private/x.png",
            agent=agent,
            cause="rule",
            enforced=True,
            digest=digest(RULES),
            **said_by(verdict),
        )
    )
    rel = "rel_nofollow", 'rel="nofollow"'
    url = "https://a.example/"
    tell(Dropped(f"{url}ad", url, "request", agent, *rel))
    license_ = "https://a.example/license.xml"
    paid = "https://a.example/paid"
    tell(Demanded("a.example", paid, 402, "license", license_, "USD 0.01"))
    crawl.waits.left["parked"] = 7
    await crawl.audit.close("finished")


def masked(text: str) -> str:
    """Return an audit without what differs from run to run."""
    text = re.sub(r'"worker":"[^"]*"', '"worker":"host-4711-a1b2c3d4"', text, count=1)
    text = re.sub(r'"version":"[^"]*"', '"version":"0.1.0"', text, count=1)
    return re.sub(r'"settings":{.*}}\n', '"settings":{}}\n', text, count=1)


@coroutine_test
async def test_the_lines_are_those_of_the_sample(tmp_path):
    """Octet by octet: audits of before are read with those of after."""
    path = tmp_path / "audit.jsonl"
    await write_sample(path)
    assert masked(path.read_text("ascii")) == SAMPLE.read_text("ascii")


def opened(path: Path, spider: Pages | None):
    """Return a crawler without an engine, its stream and its audit."""
    crawler = make_crawler()
    crawler.spider = spider
    crawler.engine = SimpleNamespace(downloader=SimpleNamespace(active=set()))
    crawl = Crawl.of(crawler)
    found = Audit(crawler, str(path), crawl.events, crawl.waits, lambda: "ExampleBot")
    return crawler, crawl.events, found


@coroutine_test
async def test_digests_are_remembered_up_to_a_number(tmp_path, monkeypatch):
    """Nothing is taken for written, either, before there is a spider to open a file for."""
    monkeypatch.setattr(audit, "MAX_DIGESTS", 2)
    path = tmp_path / "audit.jsonl"
    crawler, events, found = opened(path, None)
    copies = [Copy("o", "fetched", digest=digest(b"%d" % n)) for n in range(4)]
    events.tell(NewCopy(copies[1], b"1"))
    assert not path.exists()
    crawler.spider = Pages()
    crawler.signals.send_catch_log(signals.spider_opened)
    for number in [1, 2, 3, 3, 1]:
        events.tell(NewCopy(copies[number], b"%d" % number))
    events.tell(AuditFailed("a", "b", 1))  # another file has no bodies yet
    events.tell(NewCopy(copies[1], b"1"))
    await found.close("finished")
    bodies = [copy.get("body") for copy in of_type("copy", records_of(path))]
    assert bodies == ["1", "2", "3", None, "1", "1"]


@coroutine_test
async def test_nothing_is_written_after_the_end(tmp_path):
    path = tmp_path / "audit.jsonl"
    _, events, found = opened(path, Pages())
    await found.close("finished")
    events.tell(Sent("https://a.example/", "a.example", robots=None))
    assert [record["type"] for record in records_of(path)] == ["crawl", "end"]
