"""REP_AUDIT_URI in crawls: what is written, and what of it is there after a kill."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sys
import time
from io import BytesIO
from typing import Any

import pytest
from scrapy import Request
from twisted.internet.defer import Deferred

from scrapy_rep import SettingError, __version__
from scrapy_rep.events.kinds import Answered, BackedOff, Ended, Sent, Waited
from scrapy_rep.events.stream import Stream
from scrapy_rep.report.audit import Audit
from scrapy_rep.settings import DEFAULTS
from tests.audits import digest, lines_of, of_type, records_of
from tests.crawls.processes import start, wait_for_hit
from tests.crawls.test_middleware import LEAKS_OF_SCRAPY
from tests.play import play
from tests.site import Reply, Site, some_sites
from tests.utils import (
    Pages,
    at_once,
    close,
    coroutine_test,
    crawl,
    make_crawler,
    sleep,
)

RULES = "User-agent: *\nDisallow: /private/\nContent-Signal: search=yes\n"
AGENT = "ExampleBot/1.0"
SITE = {"/robots.txt": RULES}


async def audited(path, *paths, site=SITE, cls=Pages, **settings):
    settings = {"USER_AGENT": AGENT, "REP_AUDIT_URI": str(path), **settings}
    return await play(site, settings, paths or ["/a"], cls)


@coroutine_test
async def test_nothing_unless_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    played = await play(SITE, {}, ["/a"])
    assert not list(tmp_path.rglob("*jsonl*"))
    assert played.stats("rep/audit") == {}


@coroutine_test
async def test_a_whole_crawl(tmp_path):
    path = tmp_path / "new" / "audit.jsonl.gz"
    began = time.time() - 1
    with Site(SITE) as site:
        played = await audited(path, "/a", "/private/b", site=site)
        urls = [site.url(each) for each in (*site.paths, "/private/b")]
        origin = site.origin
    assert gzip.decompress(path.read_bytes()).decode().splitlines() == lines_of(path)
    found = records_of(path)
    assert played.stats("rep/audit/") == {"records": len(found)}
    assert all(began < record["time"] < time.time() + 1 for record in found)

    first, last = found[0], found[-1]
    assert first["type"] == "crawl"
    assert (first["format"], first["version"]) == (1, __version__)
    assert (first["spider"], first["agent"]) == ("pages", AGENT)
    assert str(os.getpid()) in first["worker"]
    assert first["settings"]["REP_OBEY"] == list(DEFAULTS["REP_OBEY"])
    assert "REP_AUDIT_URI" not in first["settings"]
    assert last == {"type": "end", "time": last["time"], "reason": "finished"}

    sent = of_type("sent", found)
    assert [(one["url"], one.get("robots")) for one in sent] == [
        (urls[0], True),
        (urls[1], None),
    ]
    (copy,) = of_type("copy", found)
    assert (copy["origin"], copy["url"], copy["body"]) == (origin, urls[0], RULES)
    decisions = {one["url"]: one for one in of_type("decision", found)}
    assert set(decisions) == set(urls[1:])
    refused, allowed = decisions[urls[2]], decisions[urls[1]]
    assert (refused["allowed"], refused["line"], allowed["allowed"]) == (False, 2, True)
    assert refused["digest"] == copy["digest"] == digest(RULES)
    with Audit([str(path)]) as audit:
        assert audit.conclusion[0].text == (
            "No URL that a rule disallows was requested; no host asked for a delay."
        )
        assert (audit.sums["urls"], audit.sums["not_sent_by_rule"]) == (1, 1)


class Handed(Pages):
    """Hands a request to the download handlers, past all middlewares."""

    async def parse(self, response):
        super().parse(response)
        handlers = self.crawler.engine.downloader.handlers
        await handlers.download_request_async(Request(response.urljoin("/private/x")))


OTHER = {"robotstxt_url": "http://127.0.0.2/page"}


@pytest.mark.parametrize(
    ("url", "meta", "why"),
    [
        ("/a", {"dont_obey_robotstxt": True}, "dont_obey_robotstxt"),
        ("/a", OTHER, None),
        ("/handed", {}, "passed_by"),
        ("data:,x", {}, "no_origin"),
    ],
)
@coroutine_test
async def test_how_a_request_was_judged(url, meta, why):
    """By another URL, by none as it has no origin, or by nobody."""
    cls = Handed if url == "/handed" else Pages
    played = await play(SITE, {"REP_UNREACHABLE": "allow"}, [url], cls, meta=meta)
    last = played.of(Sent)[-1]
    assert (last.exempt, last.judged) == (why, meta.get("robotstxt_url"))


class UntilTold(Pages):
    """Ends when the audit says of some hosts why they wait, and that one has not answered."""

    async def start(self):
        told: list[Any] = []
        Stream.of(self.crawler).listen(told.append, [Waited, Answered])
        for request in self.requests():
            yield request
        while not {"parked", "unreachable", "connection lost"} <= {
            each.cause
            if isinstance(each, Waited) and each.host
            else vars(each).get("error")
            for each in told
        }:
            await sleep(0.05)
        close(self.crawler)


@coroutine_test
async def test_what_happened_next(tmp_path):
    with some_sites(3, "") as (site, away, resets):
        site.replies["/0"] = Reply("busy", 429, {"Retry-After": "1000"})
        away.replies["/robots.txt"] = Reply(status=503)
        resets.replies["/0"] = Reply(reset=True)
        urls = [each.url(f"/{n}") for each in (site, away, resets) for n in range(2)]
        played = await play(
            site,
            {
                "REP_AUDIT_URI": str(tmp_path / "audit.jsonl"),
                "REP_UNREACHABLE_RETRY_DELAYS": [1000],
                "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
            },
            urls,
            UntilTold,
        )
    answers: Any = {each.url: each for each in played.of(Answered)}
    assert answers[site.url("/robots.txt")].robots
    first = answers[urls[0]]
    assert (first.status, first.octets) == (429, 4)
    assert 0 <= first.seconds < 60
    assert answers[urls[4]].error == "connection lost"
    (pause,) = played.of(BackedOff)
    assert (pause.host, pause.what, pause.url) == ("127.0.0.2", "429", urls[0])
    assert (pause.seconds, pause.asked) == (1000, 1000)
    hosts = {each.host: each for each in played.of(Waited) if each.host}
    parked, unknown = hosts["127.0.0.2"], hosts["127.0.0.3"]
    assert (parked.cause, parked.requests, unknown.requests) == ("parked", 1, 2)
    assert unknown.until is not None
    assert 0 < unknown.until - unknown.time < 2000  # with jitter
    (ended,) = played.of(Ended)
    assert ended.unsent == {"parked": 1, "unreachable": 2}
    with Audit([str(tmp_path / "audit.jsonl")]) as audit:
        assert audit.unsent == ended.unsent
        (host,) = audit.rows("SELECT left_alone FROM host WHERE name = '127.0.0.2'")
        assert host["left_alone"] == 1000


class Follows(Pages):
    """Follows every link, and yields an item for each page."""

    def parse(self, response):
        yield from response.follow_all(css="a")
        yield {"url": response.url}


@coroutine_test
async def test_what_page_rules_decide(tmp_path):
    """One record each; what they let pass, robots.txt decides about. No page is a link."""
    path = tmp_path / "audit.jsonl"
    links = '<a href="/next">next</a><a href="/ad" rel="nofollow">ad</a>'
    next_ = Reply(links, headers={"X-Robots-Tag": "examplebot: none"})
    with Site({**SITE, "/": f"<body>{links}</body>", "/next": next_}) as site:
        obey = ["nofollow", "noindex"]
        await audited(path, "/", site=site, cls=Follows, REP_PAGE_OBEY=obey)
        url = site.url
    assert sorted(site.paths) == ["/", "/next", "/robots.txt"]
    found = records_of(path)
    decided = [one["url"] for one in of_type("decision", found)]
    assert decided == [url("/"), url("/next")]
    tag = "X-Robots-Tag: examplebot: none"
    dropped = of_type("dropped", found)
    assert [list(one.values())[2:] for one in dropped] == [
        [url("/ad"), url("/"), "request", AGENT, "rel_nofollow", 'rel="nofollow"'],
        [url("/ad"), url("/next"), "request", AGENT, "nofollow", tag],
        [url("/next"), url("/next"), "item", AGENT, "noindex", tag],
    ]


# Where it goes


class InMemory:
    """A storage that takes the file at the end."""

    stored: dict[str, bytes] = {}
    fails = False

    def __init__(self, uri, *, feed_options=None):
        self.uri = uri

    def open(self, spider):
        return BytesIO()

    def store(self, file):
        self.stored[self.uri] = file.getvalue()
        done: Deferred[None] = Deferred()
        if self.fails:
            done.errback(OSError("no more room"))
        else:
            done.callback(None)
        return done


MEMORY = {"FEED_STORAGES": {"memory": InMemory}}


class Blue(Follows):
    color = "blue"


@coroutine_test
async def test_a_storage_of_ones_own_and_parameters():
    InMemory.stored = {}
    uri = "memory://%(name)s/%(color)s/%(worker)s/%(time)s/100%25.jsonl.gz"
    await audited(uri, cls=Blue, **MEMORY)
    ((name, octets),) = InMemory.stored.items()
    scheme, _, spider, color, worker, when, rest = name.split("/")
    assert (scheme, spider, color) == ("memory:", "pages", "blue")
    assert rest == "100%25.jsonl.gz"
    assert str(os.getpid()) in worker
    assert time.strptime(when, "%Y-%m-%dT%H-%M-%S+00-00")
    found = [json.loads(line) for line in gzip.decompress(octets).splitlines()]
    assert (found[0]["type"], found[-1]["type"]) == ("crawl", "end")


@coroutine_test
async def test_a_storage_that_fails_in_the_end(caplog, monkeypatch):
    caplog.set_level("INFO")
    monkeypatch.setattr(InMemory, "fails", True)
    played = await audited("memory:x", **MEMORY)
    assert played.spider.got
    audit = played.stats("rep/audit/")
    assert (audit["errors"], audit["records"]) == (1, 0)
    assert audit["lost"] >= 8
    (line,) = [text for text in caplog.messages if "no more room" in text]
    assert "REP_AUDIT_URI" in line
    assert "The audit goes to memory:x" in caplog.messages


def alters(params, spider):
    params["shelf"] = f"shelf-{spider.color}"


@coroutine_test
async def test_parameters_are_those_of_feeds(tmp_path):
    """A feed with the same URI is asked of Scrapy itself."""
    name = "%(shelf)s %(name)s %(color)5s %(batch_id)04d"
    feeds = {f"{tmp_path}/feed/{name}": {"format": "jsonl"}}
    uri = f"{tmp_path}/audit/{name}"
    await audited(uri, cls=Blue, FEEDS=feeds, FEED_URI_PARAMS=alters)
    (of_audit,), (of_feed,) = map(os.listdir, (tmp_path / "audit", tmp_path / "feed"))
    assert of_audit == of_feed == "shelf-blue pages  blue 0001"


@coroutine_test
async def test_standard_output(capfdbinary):
    await audited("stdout:")
    lines = capfdbinary.readouterr().out.splitlines()
    assert json.loads(lines[0])["type"] == "crawl"
    assert json.loads(lines[-1])["type"] == "end"
    assert not sys.stdout.closed


@coroutine_test
async def test_each_crawl_has_a_file_of_its_own(tmp_path):
    """Also where one names it by its path, and the other one by its URI."""
    path = tmp_path / "a b.jsonl.gz"
    with Site(SITE) as site:
        uris = {"one": path, "two": path.as_uri()}
        crawls = (
            crawl(
                make_crawler(USER_AGENT=agent, REP_AUDIT_URI=uri),
                urls=[site.url(f"/{agent}")],
            )
            for agent, uri in uris.items()
        )
        await at_once(*crawls)
    found = [records_of(path), records_of(tmp_path / "a b-2.jsonl.gz")]
    assert {one[0]["agent"] for one in found} == {"one", "two"}
    for one in found:
        (decision,) = of_type("decision", one)
        assert decision["url"] == site.url(f"/{one[0]['agent']}")
        assert one[-1]["type"] == "end"


@LEAKS_OF_SCRAPY
@coroutine_test
async def test_what_cannot_be_opened_stops_the_crawl():
    with Site(SITE) as site:
        with pytest.raises(SettingError, match=r"^REP_AUDIT_URI is .*%\(nothing\)s"):
            await audited("a-%(nothing)s.jsonl", site=site)
        assert not site.hits


# In a process of its own


def begun(path, site, *, most=0, holds=-1):
    """Start a crawl of all slow pages of *site*."""
    settings = {"JOBDIR": None, "REP_AUDIT_URI": str(path), "CONCURRENT_REQUESTS": 4}
    plan = {"origin": site.origin, "pages": len(site.replies) - 1}
    plan |= {"settings": settings, "most": most, "holds": holds}
    return start("tests.crawls.audit_crawl", path.parent, **plan)


def site_of_slow_pages(number, seconds):
    pages = {f"/{page}": Reply("page", after=seconds) for page in range(number)}
    return Site({**SITE, **pages})


def test_a_file_that_may_not_grow(tmp_path):
    """The crawl goes on; one line of log, and the rest is counted."""
    path = tmp_path / "audit.jsonl.gz"
    with site_of_slow_pages(60, 0.1) as site:  # in rounds of four: a second or so
        process = begun(path, site, most=1500)
        out, err = process.communicate(timeout=60)
        assert len(site.hits) == 61
    assert process.returncode == 0, err
    assert err.count("could not be written") == 1
    assert "File too large" in err
    assert "Traceback" not in err
    stats = json.loads(out)
    assert stats["rep/audit/errors"] == 1
    assert stats["rep/audit/records"] <= len(lines_of(path))
    # And some lines on what waits, depending on how long it takes.
    assert stats["rep/audit/records"] + stats["rep/audit/lost"] >= 5 + 4 * 60
    assert stats["rep/audit/lost"] > 10


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for another process")
def test_a_crawl_that_is_told_twice_to_end(tmp_path):
    """Scrapy then ends the process, and not the crawl."""
    path = tmp_path / "audit.jsonl"
    with site_of_slow_pages(200, 1) as site:
        process = begun(path, site)
        wait_for_hit(process, [site])
        time.sleep(0.3)
        deadline = time.monotonic() + 60
        # Two that come at once may count as one.
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        process.communicate(timeout=60)
        assert set(site.paths) > {"/robots.txt"}
    found = records_of(path)
    assert not of_type("end", found)
    assert {site.url(each) for each in site.paths} <= {
        one["url"] for one in of_type("sent", found)
    }


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_killed_in_a_callback_that_holds_the_event_loop(tmp_path):
    """All that happened before is there, and can be read."""
    path = tmp_path / "audit.jsonl.gz"
    with site_of_slow_pages(200, 0.03) as site:
        process = begun(path, site, holds=50)
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        seen = {site.url(each) for each in site.paths}
        deadline = time.monotonic() + 20
        while not seen <= {one["url"] for one in of_type("sent", records_of(path))}:
            assert time.monotonic() < deadline  # it would take a second, but for others
            time.sleep(0.1)
        process.kill()
        process.communicate()
    found = records_of(path)
    assert found[0]["type"] == "crawl"
    assert not of_type("end", found)
    assert len(seen) > 30
    decided = {one["url"]: one for one in of_type("decision", found)}
    assert {url for url in seen if not url.endswith("/robots.txt")} <= set(decided)
    refused = [one for one in decided.values() if not one["allowed"]]
    assert len(refused) > 10
    rules = {(one["rule"], one["line"]) for one in refused}
    assert rules == {("Disallow: /private/", 2)}
