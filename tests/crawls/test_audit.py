"""REP_AUDIT_URI in crawls: what is written, and what of it is there after a kill."""

from __future__ import annotations

import gzip
import json
import logging
import os
import subprocess
import sys
import threading
import time
from io import BytesIO
from pathlib import Path

import pytest
from scrapy import Request
from scrapy.exceptions import CloseSpider
from twisted.internet.defer import Deferred

from scrapy_rep import SettingError, __version__
from scrapy_rep.evidence import sink
from scrapy_rep.report.audit import Audit
from scrapy_rep.settings import DEFAULTS
from tests.audits import digest, lines_of, of_type, records_of
from tests.crawls.processes import reactor
from tests.crawls.test_middleware import LEAKS_OF_SCRAPY
from tests.evidence.test_sink import EACH_WAY
from tests.forking import Forked
from tests.site import Reply, Site, some_sites
from tests.utils import (
    Pages,
    at_once,
    coroutine_test,
    crawl,
    make_crawler,
    sleep,
)

REPOSITORY = Path(__file__).parents[2]
RULES = "User-agent: *\nDisallow: /private/\nContent-Signal: search=yes\n"
AGENT = "ExampleBot/1.0"


async def audited(path, site, *paths, meta=None, cls=Pages, **settings):
    crawler = make_crawler(
        cls, **{"USER_AGENT": AGENT, "REP_AUDIT_URI": str(path), **settings}
    )
    await crawl(crawler, urls=[site.url(one) for one in paths], meta=meta)
    return crawler


def threads():
    return [one for one in threading.enumerate() if one.name == "rep-audit"]


@coroutine_test
async def test_nothing_unless_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Site({"/robots.txt": RULES}) as site:
        crawler = make_crawler()
        await crawl(crawler, urls=[site.url("/a")])
    assert not list(tmp_path.rglob("*jsonl*"))
    assert crawler.stats.get_value("rep/audit/records") is None


@EACH_WAY
@coroutine_test
async def test_a_whole_crawl(tmp_path, monkeypatch, name, packing):
    if packing == "zlib":
        monkeypatch.setattr(sink, "gzip_file", gzip.GzipFile)
    path = tmp_path / "new" / name
    began = time.time() - 1
    with Site({"/robots.txt": RULES}) as site:
        crawler = await audited(path, site, "/a", "/private/b")
        origin, url = site.origin, site.url
        at_site = [hit.path for hit in site.hits]
    assert not threads()
    if name.endswith(".gz"):
        assert gzip.decompress(path.read_bytes()).decode().splitlines() == lines_of(
            path
        )
    found = records_of(path)
    assert crawler.stats.get_value("rep/audit/records") == len(found)
    assert crawler.stats.get_value("rep/audit/lost") is None
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
    assert [one["url"] for one in sent] == [url(path) for path in at_site]
    assert [one.get("robots") for one in sent] == [True, None]
    assert {one["host"] for one in sent} == {"127.0.0.1"}
    assert all(one.keys() <= {"type", "time", "url", "host", "robots"} for one in sent)

    (copy,) = of_type("copy", found)
    assert began < copy.pop("fetched") < copy.pop("time") < time.time() + 1
    assert copy == {
        "type": "copy",
        "origin": origin,
        "state": "fetched",
        "status": 200,
        "url": url("/robots.txt"),
        "digest": digest(RULES),
        "encoding": "utf-8",
        "body": RULES,
    }

    decisions = {one["url"]: one for one in of_type("decision", found)}
    assert set(decisions) == {url("/a"), url("/private/b")}
    refused = decisions[url("/private/b")]
    assert refused == {
        "type": "decision",
        "time": refused["time"],
        "url": url("/private/b"),
        "host": "127.0.0.1",
        "agent": AGENT,
        "allowed": False,
        "cause": "rule",
        "enforced": True,
        "reason": "Disallow: /private/ (line 2, user-agent *)",
        "group": ["*"],
        "rule": "Disallow: /private/",
        "line": 2,
        "digest": digest(RULES),
        "delay": 0.0,
        "preferences": {"search": "yes"},
    }
    allowed = decisions[url("/a")]
    assert allowed["allowed"] is True
    assert not allowed.keys() & {"cause", "rule", "line"}  # null, which needs no words
    assert copy["digest"] == allowed["digest"]
    with Audit([str(path)]) as audit:
        assert audit.conclusion[0].text == (
            "No URL that a rule disallows was requested; no host asked for a delay."
        )
        assert (audit.sums["urls"], audit.sums["not_sent_by_rule"]) == (1, 1)


@coroutine_test
async def test_what_is_not_enforced_in_audit_and_evidence(tmp_path):
    class Keeps(Pages):
        def parse(self, response):
            self.got.append(response.meta["rep_evidence"])

    path = tmp_path / "audit.jsonl"
    only = {"REP_EVIDENCE": True, "REP_OBEY": ["crawl-delay"]}
    with Site({"/robots.txt": RULES}) as site:
        crawler = await audited(path, site, "/private/b", cls=Keeps, **only)
    (evidence,) = crawler.spider.got
    found = records_of(path)
    (decision,) = of_type("decision", found)
    assert (decision["allowed"], decision["enforced"]) == (False, False)
    assert (decision["cause"], decision["line"]) == ("rule", 2)
    assert decision.pop("time") == pytest.approx(evidence["time"], abs=1e-4)
    del decision["type"], decision["host"]
    assert decision == {name: evidence[name] for name in decision}
    assert found[0]["settings"]["REP_OBEY"] == ["crawl-delay"]
    with Audit([str(path)]) as audit:
        assert (audit.sums["dry"], audit.sums["exempt"]) == (1, 0)
        assert audit.conclusion[0].tone == "bad"


@coroutine_test
async def test_copies_that_are_not_there_of_origins_that_share_a_slot(tmp_path):
    path = tmp_path / "audit.jsonl"
    missing = Site({"/robots.txt": Reply(status=404)})
    with missing, Site({"/robots.txt": Reply(status=503)}) as down:
        crawler = make_crawler(REP_AUDIT_URI=str(path))
        urls = [site.url("/a") for site in (missing, down)]
        await crawl(crawler, urls=urls, meta={"download_slot": "both"})
    found = records_of(path)
    copies = {one["origin"]: one for one in of_type("copy", found)}
    decisions = {one["url"]: one for one in of_type("decision", found)}
    for site, state, cause in [
        (missing, "unavailable", None),
        (down, "unreachable", "unreachable"),
    ]:
        copy, decision = copies[site.origin], decisions[site.url("/a")]
        assert (copy["state"], copy.keys() & {"digest", "body"}) == (state, set())
        assert (decision.get("cause"), decision.get("digest")) == (cause, None)
        assert None not in decision.values()
        assert decision["allowed"] is (cause is None)
    sent = of_type("sent", found)
    assert [one["url"] for one in sent if "robots" not in one] == [missing.url("/a")]
    assert {one["host"] for one in sent} == {"127.0.0.1"}


class Handed(Pages):
    """Hands a request to the download handlers, past all middlewares."""

    async def parse(self, response):
        super().parse(response)
        handlers = self.crawler.engine.downloader.handlers
        await handlers.download_request_async(Request(response.urljoin("/private/x")))


OTHER = {"robotstxt_url": "http://127.0.0.2/page"}


@pytest.mark.parametrize(
    ("url", "meta", "why", "sums"),
    [
        ("/a", {"dont_obey_robotstxt": True}, "dont_obey_robotstxt", {"exempt": 1}),
        ("/a", OTHER, None, {"urls": 1, "exempt": 0, "unjudged": 0}),
        ("/handed", {}, "passed_by", {"urls": 2, "unjudged": 1}),
        ("data:,x", {}, "no_origin", {"exempt": 1, "unjudged": 0}),
    ],
)
@coroutine_test
async def test_how_a_request_was_judged(tmp_path, url, meta, why, sums):
    """By another URL, by none as it has no origin, or by nobody."""
    path = tmp_path / "audit.jsonl"
    with Site({"/robots.txt": RULES}) as site:
        cls = Handed if url == "/handed" else Pages
        crawler = make_crawler(cls, REP_AUDIT_URI=str(path), REP_UNREACHABLE="allow")
        url = site.url(url) if url.startswith("/") else url
        await crawl(crawler, urls=[url], meta=meta)
    last = of_type("sent", records_of(path))[-1]
    assert last.get("exempt") == why
    assert last.get("judged") == meta.get("robotstxt_url")
    with Audit([str(path)]) as audit:
        assert {name: audit.sums[name] for name in sums} == sums
        tone = "unsure" if why == "passed_by" else "good"
        assert audit.conclusion[0].tone == tone


class UntilTold(Pages):
    """Ends when the audit says of some hosts why they wait, and that one has not answered."""

    audit: Path

    async def start(self):
        for request in self.requests():
            yield request
        while not self.is_told(records_of(self.audit)):
            await sleep(0.1)
        raise CloseSpider("told")

    def is_told(self, found):
        waits = {one["cause"] for one in of_type("waiting", found) if "host" in one}
        failed = [one for one in of_type("answer", found) if "error" in one]
        return waits >= {"parked", "unreachable"} and failed


@coroutine_test
async def test_what_happened_next(tmp_path):
    path = tmp_path / "audit.jsonl"
    busy = Reply("busy", 429, {"Retry-After": "1000"})
    with some_sites(3, "") as (site, away, resets):
        site.replies["/0"] = busy
        away.replies["/robots.txt"] = Reply(status=503)
        resets.replies["/0"] = Reply(reset=True)
        crawler = make_crawler(
            UntilTold,
            REP_AUDIT_URI=str(path),
            REP_UNREACHABLE_RETRY_DELAYS=[1000],
            CONCURRENT_REQUESTS_PER_DOMAIN=1,
        )
        urls = [each.url(f"/{n}") for each in (site, away, resets) for n in range(2)]
        await crawl(crawler, urls=urls, audit=path)
    found = records_of(path)
    answers = {one["url"]: one for one in of_type("answer", found)}
    assert answers[site.url("/robots.txt")]["robots"]
    first = answers[site.url("/0")]
    assert (first["status"], first["octets"]) == (429, 4)
    assert first["seconds"] >= 0
    assert answers[away.url("/robots.txt")]["status"] == 503
    assert answers[resets.url("/0")]["error"] == "connection lost"
    assert answers[resets.url("/1")]["status"] == 200
    (pause,) = of_type("backoff", found)
    assert (pause["host"], pause["what"]) == ("127.0.0.2", "429")
    assert (pause["seconds"], pause["asked"], pause["url"]) == (1000, 1000, urls[0])
    hosts = {one["host"]: one for one in of_type("waiting", found) if "host" in one}
    assert (hosts["127.0.0.2"]["cause"], hosts["127.0.0.2"]["requests"]) == (
        "parked",
        1,
    )
    assert hosts["127.0.0.3"]["requests"] == 2
    assert (
        0 < hosts["127.0.0.3"]["until"] - hosts["127.0.0.3"]["time"] < 2000
    )  # with jitter
    assert found[-1]["unsent"] == {"parked": 1, "unreachable": 2}
    with Audit([str(path)]) as audit:
        assert audit.sums["pauses"] == 1
        came = [(each["cause"], each["requests"]) for each in audit.causes["answers"]]
        assert set(came) == {(200, 1), (429, 1), ("connection lost", 1)}
        assert audit.unsent == {"parked": 1, "unreachable": 2}
        (host,) = audit.rows("SELECT left_alone FROM host WHERE name = '127.0.0.2'")
        assert host["left_alone"] == 1000


@coroutine_test
async def test_a_body_is_written_once_and_can_be_checked(tmp_path):
    """Also where it is no UTF-8; a second origin with the same one has its digest."""
    body = "User-agent: *\nDisallow: /größe\r\n".encode("latin-1")
    path = tmp_path / "audit.jsonl"
    with Site({"/robots.txt": body}) as site, Site({"/robots.txt": body}) as other:
        crawler = make_crawler(REP_AUDIT_URI=str(path))
        await crawl(crawler, urls=[site.url("/a"), other.url("/a")])
    first, second = of_type("copy", records_of(path))
    assert first["digest"] == second["digest"] == digest(body)
    assert first["body"].encode(first["encoding"]) == body
    assert "body" not in second


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
    pages = {
        "/": f"<body>{links}</body>",
        "/next": Reply(links, headers={"X-Robots-Tag": "examplebot: none"}),
    }
    with Site({"/robots.txt": RULES, **pages}) as site:
        obey = ["nofollow", "noindex"]
        crawler = await audited(path, site, "/", cls=Follows, REP_PAGE_OBEY=obey)
        url = site.url
        paths = site.paths
    assert sorted(paths) == ["/", "/next", "/robots.txt"]
    found = records_of(path)
    assert [one["url"] for one in of_type("decision", found)] == [
        url("/"),
        url("/next"),
    ]
    dropped = of_type("dropped", found)
    times = [one.pop("time") for one in dropped]
    assert times == sorted(times)
    tag = "X-Robots-Tag: examplebot: none"
    assert dropped == [
        {
            "type": "dropped",
            "url": url(of),
            "page": url(page),
            "what": what,
            "agent": AGENT,
            "cause": cause,
            "reason": reason,
        }
        for of, page, what, cause, reason in [
            ("/ad", "/", "request", "rel_nofollow", 'rel="nofollow"'),
            ("/ad", "/next", "request", "nofollow", tag),
            ("/next", "/next", "item", "noindex", tag),
        ]
    ]
    stats = crawler.stats
    assert stats.get_value("rep/page/dropped/nofollow") == 1
    assert stats.get_value("rep/audit/records") == len(found)
    with Audit([str(path)]) as audit:
        assert audit.sources[0].unknown == 0
        counts = {each["cause"]: each["requests"] for each in audit.causes["dropped"]}
        assert counts == {"rel_nofollow": 1, "nofollow": 1, "noindex": 1}


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


@coroutine_test
async def test_a_storage_of_ones_own_and_parameters():
    InMemory.stored = {}
    uri = "memory://%(name)s/%(color)s/%(worker)s/%(time)s/100%25.jsonl.gz"

    class Blue(Pages):
        color = "blue"

    with Site({"/robots.txt": RULES}) as site:
        await audited(uri, site, "/a", cls=Blue, **MEMORY)
    ((name, octets),) = InMemory.stored.items()
    scheme, _, spider, color, worker, when, rest = name.split("/")
    assert (scheme, spider, color, rest) == (
        "memory:",
        "pages",
        "blue",
        "100%25.jsonl.gz",
    )
    assert str(os.getpid()) in worker
    assert time.strptime(when, "%Y-%m-%dT%H-%M-%S+00-00")
    found = [json.loads(line) for line in gzip.decompress(octets).splitlines()]
    assert (found[0]["type"], found[-1]["type"]) == ("crawl", "end")


@coroutine_test
async def test_a_storage_that_fails_in_the_end(caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(InMemory, "fails", True)
    with Site({"/robots.txt": RULES}) as site:
        crawler = await audited("memory:x", site, "/a", **MEMORY)
    assert crawler.spider.got
    assert crawler.stats.get_value("rep/audit/errors") == 1
    assert crawler.stats.get_value("rep/audit/records") == 0
    assert crawler.stats.get_value("rep/audit/lost") >= 8
    (line,) = [text for text in caplog.messages if "no more room" in text]
    assert "REP_AUDIT_URI" in line
    assert "The audit goes to memory:x" in caplog.messages


def alters(params, spider):
    params["shelf"] = f"shelf-{spider.color}"


def adds(params, spider):
    return {**params, "shelf": params["color"].upper()}


@pytest.mark.parametrize(
    ("params", "shelf"),
    [
        (adds, "BLUE"),
        ("tests.crawls.test_audit.adds", "BLUE"),
        (alters, "shelf-blue"),
        (lambda *_: {"shelf": "none", "color": 1, "name": 2, "batch_id": 3}, "none"),
    ],
)
@coroutine_test
async def test_parameters_are_those_of_feeds(tmp_path, params, shelf):
    """A feed with the same URI is asked of Scrapy itself."""

    class Blue(Follows):
        color = "blue"

    name = "%(shelf)s/%(name)s %(color)5s %(batch_id)04d"
    with Site({"/robots.txt": RULES}) as site:
        await audited(
            f"{tmp_path}/audit/{name}",
            site,
            "/a",
            cls=Blue,
            FEEDS={f"{tmp_path}/feed/{name}": {"format": "jsonl"}},
            FEED_URI_PARAMS=params,
        )
    of_audit, of_feed = (
        [
            str(path.relative_to(tmp_path / kind))
            for path in tmp_path.glob(f"{kind}/*/*")
        ]
        for kind in ("audit", "feed")
    )
    assert of_audit == of_feed
    assert of_audit[0].startswith(f"{shelf}/")


@coroutine_test
async def test_standard_output(capfdbinary):
    with Site({"/robots.txt": RULES}) as site:
        await audited("stdout:", site, "/a")
    lines = capfdbinary.readouterr().out.splitlines()
    assert json.loads(lines[0])["type"] == "crawl"
    assert json.loads(lines[-1])["type"] == "end"
    assert not sys.stdout.closed


@coroutine_test
async def test_a_path_and_a_uri_name_the_same_file(tmp_path):
    with Site({"/robots.txt": RULES}) as site:
        path = tmp_path / "a b.jsonl"
        crawler = make_crawler(REP_AUDIT_URI=path)
        await crawl(crawler, urls=[site.url("/a")])
        await audited(path.as_uri(), site, "/a")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["a b-2.jsonl", "a b.jsonl"]


@pytest.mark.parametrize("name", ["audit.jsonl", "audit.jsonl.gz"])
@coroutine_test
async def test_each_crawl_has_a_file_of_its_own(tmp_path, name):
    path = tmp_path / name
    with Site({"/robots.txt": RULES}) as site:
        one = make_crawler(USER_AGENT="one", REP_AUDIT_URI=str(path))
        two = make_crawler(USER_AGENT="two", REP_AUDIT_URI=str(path))
        await at_once(
            crawl(one, urls=[site.url("/1")]), crawl(two, urls=[site.url("/2")])
        )
        first, second = site.url("/1"), site.url("/2")
    found = [
        records_of(path),
        records_of(path.with_name(name.replace("audit", "audit-2"))),
    ]
    assert {one[0]["agent"] for one in found} == {"one", "two"}
    for one in found:
        (decision,) = of_type("decision", one)
        assert decision["url"] == (first if one[0]["agent"] == "one" else second)
        assert one[-1]["type"] == "end"


@LEAKS_OF_SCRAPY
@coroutine_test
async def test_what_cannot_be_opened_stops_the_crawl():
    with Site({"/robots.txt": RULES}) as site:
        crawler = make_crawler(REP_AUDIT_URI="a-%(nothing)s.jsonl")
        with pytest.raises(SettingError, match=r"^REP_AUDIT_URI is .*%\(nothing\)s"):
            await crawl(crawler, urls=[site.url("/a")])
        assert not site.hits


# Where writing fails


def run(origin, pages, *, most=0, **settings):
    """Start a crawl in a process of its own, with the event loop of these tests."""
    plan = {
        "origin": origin,
        "pages": pages,
        "reactor": reactor(),
        "settings": settings,
        "most": most,
    }
    return Forked(
        [sys.executable, "-m", "tests.crawls.audit_crawl", json.dumps(plan)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def site_of_slow_pages(number, seconds):
    pages = {f"/{page}": Reply("page", after=seconds) for page in range(number)}
    return Site({"/robots.txt": RULES, **pages})


def test_a_file_that_may_not_grow(tmp_path):
    """The crawl goes on; one line of log, and the rest is counted."""
    with site_of_slow_pages(60, 0.1) as site:  # in rounds of four: a second or so
        processes = {
            tmp_path / name: run(
                site.origin,
                60,
                most=most,
                REP_AUDIT_URI=str(tmp_path / name),
                CONCURRENT_REQUESTS=4,
            )
            for name, most in [("audit.jsonl", 5000), ("audit.jsonl.gz", 1500)]
        }
        ended = {path: each.communicate(timeout=60) for path, each in processes.items()}
        assert len(site.hits) == 2 * 61
    for path, (out, err) in ended.items():
        assert processes[path].returncode == 0, err
        assert err.count("could not be written") == 1
        assert "File too large" in err
        assert "Traceback" not in err
        stats = json.loads(out)
        assert stats["rep/audit/errors"] == 1
        found = records_of(path) if path.suffix == ".gz" else lines_of(path)
        assert stats["rep/audit/records"] <= len(found)
        # And some lines on what waits, depending on how long it takes.
        assert stats["rep/audit/records"] + stats["rep/audit/lost"] >= 5 + 4 * 60
        assert stats["rep/audit/lost"] > 10


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_killed(tmp_path):
    """All that is older than a second is there, and can be read."""
    path = tmp_path / "audit.jsonl.gz"
    with site_of_slow_pages(2000, 0.03) as site:
        process = run(site.origin, 2000, REP_AUDIT_URI=str(path), CONCURRENT_REQUESTS=4)
        deadline = time.monotonic() + 60
        while len(site.hits) < 50:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(1.7)  # so that it falls between two times of writing
        killed = time.monotonic()
        process.kill()
        process.communicate()
        seen = {site.url(hit.path) for hit in site.hits if hit.seconds < killed - 1}
    found = records_of(path)
    assert found[0]["type"] == "crawl"
    assert not of_type("end", found)
    decided = {one["url"]: one for one in of_type("decision", found)}
    assert len(seen) > 30
    assert seen <= {one["url"] for one in of_type("sent", found)}
    assert {url for url in seen if not url.endswith("/robots.txt")} <= set(decided)
    refused = [one for one in decided.values() if not one["allowed"]]
    assert len(refused) > 10
    assert {(one["rule"], one["line"]) for one in refused} == {
        ("Disallow: /private/", 2)
    }


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_killed_in_a_callback_that_holds_the_event_loop(tmp_path):
    path = tmp_path / "audit.jsonl"
    code = f"""
import time, scrapy
from scrapy.crawler import AsyncCrawlerProcess

class Slow(scrapy.Spider):
    name = "slow"
    start_urls = [{{url!r}}]

    def parse(self, response):
        print("in", flush=True)
        time.sleep(60)

process = AsyncCrawlerProcess({{{{
    "ADDONS": {{{{"scrapy_rep.Addon": 500}}}},
    "REP_AUDIT_URI": {str(path)!r},
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "LOG_ENABLED": False,
}}}})
process.crawl(Slow)
process.start()
"""
    with Site({"/robots.txt": RULES}) as site:
        process = Forked(
            [sys.executable, "-c", code.format(url=site.url("/a"))],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        time.sleep(1)
        process.kill()
        process.communicate()
    kinds = [record["type"] for record in records_of(path)]
    kinds = [kind for kind in kinds if kind != "waiting"]
    assert kinds == ["crawl", "sent", "answer", "copy", "decision", "sent", "answer"]
