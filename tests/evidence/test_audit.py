"""What an audit consists of: its lines as they are stored, and what is written of a body."""

from __future__ import annotations

import re
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.http import Response

from scrapy_rep.downloader import Departure
from scrapy_rep.evidence import audit
from scrapy_rep.evidence.audit import Audit
from scrapy_rep.evidence.decision import Copy, Decision, copy_of
from scrapy_rep.evidence.format import BACK_OFF, BROWSER, DEMAND, DROPPED, WAITING
from scrapy_rep.judging import note_origin
from scrapy_rep.pacing import pace_of
from scrapy_rep.policies.cache import Known
from scrapy_rep.policies.lifecycle import policy_of, standing_of
from scrapy_rep.settings import Settings
from tests.audits import digest, of_type, records_of
from tests.snapshots import facts_of, snapshot_of
from tests.utils import Pages, coroutine_test, make_crawler

if TYPE_CHECKING:
    from scrapy_rep.store import Snapshot

SAMPLE = Path(__file__).with_name("sample.jsonl")
"""An audit of format 1, as it was written before there was a module for the format."""

START = 1_793_000_000.0
RULES = """\
User-agent: *
User-agent: "größe"
Disallow: /private/
Allow: /private/\\"press"/
Crawl-delay: 2.5
Content-Signal: search=yes
"""


def snapshot(url: str, **more: Any) -> Snapshot:
    values = {
        "status": 200,
        "url": url,
        "checked": START,
        "lifetime": 1e6,
        "grace": 1e6,
        **more,
    }
    return snapshot_of(**values)


def known_of(origin: str, kept: Snapshot, settings: Settings) -> Known:
    stands = standing_of(kept, START + 1, settings)
    known = Known(origin, policy_of(kept, stands.state, settings), stands, None)
    known.evidence = copy_of(known, kept, settings)
    return known


def departure(url: str, host: str, slot: str, started_at: float = 0.0) -> Departure:
    request = Request(url)
    note_origin(request.url, request.meta)
    leaving = Departure(request, slot)
    leaving.host, leaving.started_at = host, started_at
    return leaving


async def write_sample(path: Path, monkeypatch: Any) -> None:
    """Write the audit that is the sample."""
    crawler = make_crawler(REP_DENY_STATUSES=[403])
    crawler.spider = Pages()
    settings = Settings.read(crawler.settings)
    clock = (START + 0.1234567 * number for number in count())

    def now() -> float:
        return next(clock)

    agent = "ExampleBot/1.0"
    found = Audit(
        crawler,
        str(path),
        now=now,
        at=lambda moment: START + moment,
        agent=lambda: f"{agent}, other",
    )
    moments = iter([2.592591, 2.716049, 2.8])
    monkeypatch.setattr("scrapy_rep.evidence.audit.monotonic", lambda: next(moments))

    of_robots = "https://a.example/robots.txt", "a.example", "a.example"
    robots = departure(*of_robots, now() - START)
    robots.robots_hop = object()
    found.write_sent(robots)
    kept = {
        "https://a.example": snapshot(
            "https://www.a.example/robots.txt", body=RULES.encode()
        ),
        "https://b.example:8443": snapshot(
            "https://b.example:8443/robots.txt", body=RULES.encode("latin-1")
        ),
        "http://c.example": snapshot("http://c.example/robots.txt", status=404),
        "http://d.example": snapshot("http://d.example/robots.txt", status=403),
        "http://e.example": snapshot_of(
            failures=1, failing_since=START, retry_at=START + 99, failure="503 \x00é"
        ),
        "http://f.example": snapshot(
            "http://f.example/robots.txt",
            body=RULES.encode(),
            lifetime=0.0,
            failures=2,
            failing_since=START + 0.5,
            retry_at=START + 99,
            failure="timed out",
        ),
    }
    for origin, one in kept.items():
        found.write_copy(
            known_of(origin, one, settings).evidence, facts_of(one)["body"]
        )
    for origin, path_, cause, enforced, preferences, names in [
        (
            "https://a.example",
            "/?q=1",
            None,
            True,
            {"search": "yes"},
            ("a.example",) * 2,
        ),
        (
            "https://a.example",
            "/?q=2",
            None,
            True,
            {"search": "yes"},
            ("a.example",) * 2,
        ),
        ("https://a.example", '/private/größe"\\', "rule", True, {}, ("", 'my "slot"')),
        ("https://a.example", "/private/x", "rule", False, {"search": "yes"}, ("", "")),
        ("https://b.example:8443", "/private/x", "rule", True, {}, ("b.example",) * 2),
        ("http://c.example", "/", None, True, {}, ("c.example",) * 2),
        ("http://d.example", "/", "status", True, {}, ("d.example",) * 2),
        ("http://e.example", "/", "unreachable", True, {}, ("e.example",) * 2),
        ("http://f.example", '/"press"/', None, True, {}, ("f.example",) * 2),
    ]:
        known = known_of(origin, kept[origin], settings)
        url = origin + path_
        verdict = known.policy.verdict(url, agent)
        pace = pace_of(known.policy, agent, settings)
        decision = Decision(
            known.evidence, agent, verdict, cause, enforced, pace, preferences
        )
        when = now()
        found.put((when, url, *names, decision, pace.asked(when), preferences))
        if cause is None:
            found.write_sent(departure(url, *names, now() - START))
    answered = departure("https://a.example/?q=1", "a.example", "a.example", 0.5)
    found.write_answer(answered, Response("https://a.example/", body=b"page"))
    answered.host = 'my "hosts"'
    found.write_failure(answered, TimeoutError())
    for _ in range(2):  # for the two of moments of their own
        now()
    robots.started_at = answered.started_at
    found.write_answer(robots, Response("https://a.example/robots.txt", status=404))
    found.write(
        BACK_OFF,
        host="a.example",
        url="https://a.example/?q=1",
        what="429",
        seconds=60.0,
        asked=60.0,
        down=True,
    )
    parked = {"cause": "parked", "requests": 7, "until": START + 60}
    found.write(WAITING, hosts=2, last=START + 90, **parked)
    found.write(WAITING, host="a.example", **parked)
    found.write(
        BROWSER,
        url="https://a.example/private/x.png",
        agent="ExampleBot/1.0",
        allowed=False,
        cause="rule",
        enforced=True,
        reason="Disallow: /private/ (line 3, user-agent *)",
        group=["*"],
        rule="Disallow: /private/",
        line=3,
        digest=digest(RULES),
    )
    found.write(
        DROPPED,
        url="https://a.example/ad",
        page="https://a.example/",
        what="request",
        agent="ExampleBot/1.0",
        cause="rel_nofollow",
        reason='rel="nofollow"',
    )
    found.write(
        DEMAND,
        host="a.example",
        url="https://a.example/paid",
        status=402,
        cause="license",
        license="https://a.example/license.xml",
        price="USD 0.01",
    )
    await found.close("finished", {"parked": 7})


def masked(text: str) -> str:
    """Return an audit without what differs from run to run."""
    text = re.sub(r'"worker":"[^"]*"', '"worker":"host-4711-a1b2c3d4"', text, count=1)
    text = re.sub(r'"version":"[^"]*"', '"version":"0.1.0"', text, count=1)
    text = re.sub(r'("type":"answer".*"seconds":)[\d.]+', r"\g<1>0.5", text)
    return re.sub(r'"settings":{.*}}\n', '"settings":{}}\n', text, count=1)


@coroutine_test
async def test_the_lines_are_those_of_the_sample(tmp_path, monkeypatch):
    """Octet by octet: audits of before are read with those of after."""
    path = tmp_path / "audit.jsonl"
    await write_sample(path, monkeypatch)
    assert masked(path.read_text("ascii")) == SAMPLE.read_text("ascii")


@coroutine_test
async def test_digests_are_remembered_up_to_a_number(tmp_path, monkeypatch):
    """Nothing is taken for written, either, before there is a spider to open a file for."""
    monkeypatch.setattr(audit, "MAX_DIGESTS", 2)
    path = tmp_path / "audit.jsonl"
    crawler = make_crawler()
    found = Audit(
        crawler, str(path), now=time.time, at=float, agent=lambda: "ExampleBot"
    )
    copies = [Copy("o", "fetched", digest=digest(b"%d" % n)) for n in range(4)]
    found.write_copy(copies[1], b"1")
    assert not path.exists()
    crawler.spider = Pages()
    crawler.signals.send_catch_log(signals.spider_opened)
    for number in [1, 2, 3, 3, 1]:
        found.write_copy(copies[number], b"%d" % number)
    await found.close("finished")
    bodies = [copy.get("body") for copy in of_type("copy", records_of(path))]
    assert bodies == ["1", "2", "3", None, "1"]


@coroutine_test
async def test_nothing_is_written_after_the_end(tmp_path):
    path = tmp_path / "audit.jsonl"
    crawler = make_crawler()
    crawler.spider = Pages()
    found = Audit(
        crawler, str(path), now=time.time, at=float, agent=lambda: "ExampleBot"
    )
    await found.close("finished")
    found.write_sent(departure("https://a.example/", "a.example", ""))
    assert [record["type"] for record in records_of(path)] == ["crawl", "end"]
