"""What the gate's decisions look like as evidence, where the robots.txt is known already.

A gate without a crawl: its requests are judged by snapshots, and none is sent.
"""

from __future__ import annotations

import json
import marshal
import pickle
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request

from scrapy_rep import RepMiddleware
from scrapy_rep.crawl import Crawl
from scrapy_rep.exceptions import RobotsRefused
from scrapy_rep.gate import evidence as witness
from scrapy_rep.gate.evidence import EVIDENCE
from tests.audits import digest, of_type, records_of
from tests.snapshots import snapshot_of
from tests.utils import DictStore, Pages, coroutine_test, make_crawler

ORIGIN = "https://a.example"
RULES = """\
User-agent: *
Disallow: /private/
Content-Usage: /drafts/ train-ai=n
Content-Signal: search=yes
"""
DAY = 86400.0


def fetched(body: str = RULES, **more: Any):
    """Return a snapshot of an answer of now, which holds for a day."""
    values: dict[str, Any] = {"status": 200, "body": body.encode(), "lifetime": DAY}
    values |= {"url": f"{ORIGIN}/robots.txt", "checked": time.time(), "grace": DAY}
    return snapshot_of(**values | more)


def failing(seconds: float = 0.0) -> dict[str, Any]:
    """Return what a snapshot has where asking has failed for so long."""
    now = time.time()
    failed = {"failures": 1, "failing_since": now - seconds, "retry_at": now + 1800}
    return {**failed, "failure": "503"}


class Gate:
    """Judges requests to one origin, of which *snapshot* is known."""

    def __init__(self, snapshot, **settings: Any) -> None:
        own: dict[str, Any] = {"USER_AGENT": "ExampleBot/1.0", "REP_STORE": DictStore}
        self.crawler = make_crawler(**own | {"REP_EVIDENCE": True} | settings)
        self.crawler.spider = Pages()
        nothing = SimpleNamespace(active=set())
        self.crawler.engine = SimpleNamespace(downloader=nothing)  # nor is it woken
        self.snapshot = snapshot
        self.gate = RepMiddleware.from_crawler(self.crawler)
        self.crawl: Any = Crawl.of(self.crawler)

    async def judge(self, path: str, **meta: Any) -> Any:
        """Return the evidence on a request, which has nowhere to go."""
        await self.crawl.store.put(ORIGIN, self.snapshot)
        request = Request(ORIGIN + path, meta={"download_slot": "a.example", **meta})
        with suppress(RobotsRefused):
            await self.gate.process_request(request)
        return request.meta.get("rep_evidence")

    async def audited(self) -> list[dict[str, Any]]:
        """End the audit, and return its decisions."""
        await self.crawl.audit.close("finished")
        path = self.crawler.settings["REP_AUDIT_URI"]
        return of_type("decision", records_of(path))


async def evidence(path: str, snapshot, **settings: Any) -> Any:
    return await Gate(snapshot, **settings).judge(path)


@pytest.mark.parametrize("path", ["/a", "/private/a", "/drafts/a"])
@coroutine_test
async def test_it_is_plain_and_has_the_keys_that_are_declared(path):
    found = await evidence(path, fetched())
    assert tuple(found) == EVIDENCE
    assert json.loads(json.dumps(found)) == found
    assert marshal.loads(marshal.dumps(found)) == found
    assert pickle.loads(pickle.dumps(found)) == found


BY_RULE = "rule: Disallow: /private/ (line 2, user-agent *)"
AWAY = "robots.txt unreachable (503)"
FORBIDDEN = "robots.txt answered 403"
TOO_LONG = f"{AWAY} for too long to be waited for"
GONE, DENIED = fetched("", status=404), fetched("", status=403)
FAILS = snapshot_of(**failing())
KNOWN: list[tuple[Any, dict[str, Any], str]] = [
    (fetched(), {}, f"fetched 200 None {BY_RULE}"),
    (GONE, {}, "unavailable 404 None None: no robots.txt (404)"),
    (DENIED, {"REP_DENY_STATUSES": [403]}, f"denied 403 None status: {FORBIDDEN}"),
    (fetched(**failing()), {}, f"holding 200 503 {BY_RULE}"),
    (FAILS, {"REP_UNREACHABLE": "allow"}, f"unreachable None 503 None: {AWAY}"),
    (FAILS, {"REP_OBEY": ["crawl-delay"]}, f"unreachable None 503 unreachable: {AWAY}"),
    (snapshot_of(**failing(31 * DAY)), {}, f"given up None 503 None: {TOO_LONG}"),
]


@pytest.mark.parametrize(
    ("snapshot", "settings", "expected"), KNOWN, ids=[each[2] for each in KNOWN]
)
@coroutine_test
async def test_what_is_known_of_the_origin(snapshot, settings, expected):
    found = await evidence("/private/a", snapshot, **settings)
    form = "{state} {status} {failure} {cause}: {reason}"
    assert form.format_map(found) == expected
    assert found["allowed"] is (found["cause"] is None)
    assert found["enforced"] is ("REP_OBEY" not in settings)
    assert found["origin"] == ORIGIN
    answered = found["status"] is not None
    assert found["robots_url"] == (f"{ORIGIN}/robots.txt" if answered else None)
    checked = pytest.approx(snapshot.answer.checked) if answered else None
    assert found["fetched"] == checked
    assert found["digest"] == (digest(RULES) if found["status"] == 200 else None)
    by_rule = found["cause"] == "rule"
    assert (found["rule"], found["line"], found["group"]) == (
        ("Disallow: /private/", 2, ["*"]) if by_rule else (None, None, None)
    )


@coroutine_test
async def test_where_nothing_is_known_yet(monkeypatch):
    """As many requests wait for robots.txt files as may."""
    monkeypatch.setattr("scrapy_rep.gate.middleware.MAX_WAITING", 0)
    gate = Gate(fetched())
    request = Request("https://b.example/", meta={"download_slot": "b.example"})
    request.callback = None
    gate.crawl.is_queued = True  # which has not handed it out
    with pytest.raises(RobotsRefused):
        await gate.gate.process_request(request)
    found = request.meta["rep_evidence"]
    assert (found["state"], found["cause"]) == ("unknown", "waiting")
    assert (found["origin"], found["status"]) == ("https://b.example", None)


@pytest.mark.parametrize(
    ("path", "obey", "expected"),
    [
        ("/private/a", [], ("rule", False)),
        ("/private/a", ["crawl-delay"], ("crawl_delay", True)),
        ("/private/a", ["disallow"], ("rule", True)),
        ("/a", ["crawl-delay"], ("crawl_delay", True)),
        ("/a", [], ("crawl_delay", False)),
        ("/a", ["disallow"], ("crawl_delay", False)),
    ],
)
@coroutine_test
async def test_more_than_one_thing_left_out(path, obey, expected):
    """The first one counts, and what is enforced counts more."""
    snapshot = fetched(f"{RULES}Crawl-delay: 500\n")
    found = await evidence(path, snapshot, REP_OBEY=obey)
    assert (found["cause"], found["enforced"]) == expected
    assert (found["allowed"], found["delay"]) == (False, 500)


@coroutine_test
async def test_what_is_left_out_of_one_request_is_not_held_against_the_next():
    gate = Gate(fetched(), REP_OBEY=[])
    assert (await gate.judge("/private/a"))["cause"] == "rule"
    assert (await gate.judge("/a"))["cause"] is None


@coroutine_test
async def test_preferences_of_the_url():
    gate = Gate(fetched(), REP_PURPOSE=["train-ai"])
    refused = await gate.judge("/drafts/a")
    assert refused["cause"] == "purpose"
    assert refused["reason"].startswith("no to train-ai (REP_PURPOSE)")
    assert refused["preferences"] == {"train-ai": "no", "search": "yes"}
    allowed = await gate.judge("/a")
    assert (allowed["cause"], allowed["preferences"]) == (None, {"search": "yes"})


@coroutine_test
async def test_the_url_that_was_judged():
    other = f"{ORIGIN}/private/b"
    found = await Gate(fetched()).judge("/render", robotstxt_url=other)
    assert (found["url"], found["cause"]) == (other, "rule")


@coroutine_test
async def test_what_is_done_to_one_alters_no_other():
    rules = "User-agent: *\nContent-Signal: search=yes\n"  # the same for every URL
    gate = Gate(fetched(rules))
    first = await gate.judge("/a")
    first["group"].append("broken")
    first["preferences"]["broken"] = "yes"
    first["digest"] = "broken"
    second = await gate.judge("/b")
    assert second["group"] == ["*"]
    assert second["preferences"] == {"search": "yes"}
    assert second["digest"] == digest(rules)


@coroutine_test
async def test_an_exempt_request_has_none_of_another_page():
    gate = Gate(fetched())
    meta = {"rep_evidence": await gate.judge("/a"), "dont_obey_robotstxt": True}
    assert await gate.judge("/b", **meta) is None


@coroutine_test
async def test_a_file_that_is_made_to_fill_memory():
    """A rule of 100 KB and thousands of user-agent lines are cut; the line is not."""
    agents = "".join(f"User-agent: bot{number}\n" for number in range(3000))
    rules = f"{agents}Disallow: /{'*' * 100_000}a\n"
    gate = Gate(fetched(rules), USER_AGENT="bot7/1.0")
    for path in ("/a", "/ba"):
        found = await gate.judge(path)
        assert found["line"] == 3001
        assert found["rule"].startswith("Disallow: /***")
        assert len(found["rule"]) == len(found["reason"]) == 500
        assert found["group"] == [f"bot{number}" for number in range(20)]


@pytest.mark.invariant5
@coroutine_test
async def test_decisions_are_kept_up_to_a_number(monkeypatch):
    monkeypatch.setattr(witness, "MAX_DECISIONS", 10)
    made: list[Any] = []

    class Noted(witness.Witness):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(witness, "Witness", Noted)
    rules = "".join(f"Disallow: /{n}/\n" for n in range(30))
    gate = Gate(fetched(f"User-agent: *\n{rules}"))
    kept = []
    for number in range(30):
        await gate.judge(f"/{number}/")
        kept.append(sum(len(each.decisions) for each in made[0]._wishes.values()))
    assert 5 < max(kept) <= 10
    assert max(kept[-10:]) > 5


@coroutine_test
async def test_audit_lines_of_one_decision_differ_in_url_and_preferences(tmp_path):
    """What the requests share is encoded once."""
    path = tmp_path / "audit.jsonl"
    gate = Gate(fetched(), REP_EVIDENCE=False, REP_AUDIT_URI=str(path))
    for each in ("a", "drafts/b", "drafts/c", "d"):
        assert await gate.judge(f"/{each}") is None
    found = await gate.audited()
    no, yes = {"train-ai": "no", "search": "yes"}, {"search": "yes"}
    preferences = {one["url"][-1]: one["preferences"] for one in found}
    assert preferences == {"a": yes, "b": no, "c": no, "d": yes}
    assert {one["reason"] for one in found} == {"no rule matches"}


@pytest.mark.parametrize("settings", [{}, {"REP_OBEY": []}])
@coroutine_test
async def test_an_audit_says_what_the_evidence_says(settings, tmp_path):
    gate = Gate(fetched(), REP_AUDIT_URI=str(tmp_path / "audit.jsonl"), **settings)
    found = await gate.judge("/private/a")
    (decision,) = await gate.audited()
    assert decision.pop("time") == pytest.approx(found["time"], abs=1e-4)
    del decision["type"], decision["host"]
    assert decision == {name: found[name] for name in decision}
    assert decision["enforced"] is ("REP_OBEY" not in settings)


def by_page(request):
    return request.url[-1]


@coroutine_test
async def test_audit_lines_of_one_decision_name_who_keeps_the_pace(tmp_path):
    """The host of all, or where REP_PACE_BY is a function what that says of each."""
    for pace_by, names in (("host", ["a.example"] * 2), (by_page, ["a", "b"])):
        path = tmp_path / f"{names[0]}.jsonl"
        gate = Gate(fetched(), REP_AUDIT_URI=str(path), REP_PACE_BY=pace_by)
        for each in "ab":
            await gate.judge(f"/{each}", download_slot="127.0.0.1")
        assert [one.get("host") for one in await gate.audited()] == names
