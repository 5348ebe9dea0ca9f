"""REP_AUDIT_URI in crawls: what is written, and what of it is there after a kill."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
import traceback
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from scrapy.settings import Settings as ScrapySettings
from scrapy.utils.reactor import is_asyncio_reactor_installed, is_reactor_installed
from twisted.internet.defer import Deferred

from scrapy_rep import SettingError, __version__
from scrapy_rep.commands.crawl import prepare
from scrapy_rep.evidence import audit, sink
from scrapy_rep.evidence.report.reader import Files
from scrapy_rep.evidence.report.tally import Tally
from scrapy_rep.settings import DEFAULTS
from tests.crawls.test_leaks import both
from tests.crawls.test_middleware import LEAKS_OF_SCRAPY
from tests.site import Reply, Site
from tests.utils import Pages, coroutine_test, crawl, make_crawler, sleep

REPOSITORY = Path(__file__).parents[2]
RULES = "User-agent: *\nDisallow: /private/\nContent-Signal: search=yes\n"
AGENT = "ExampleBot/1.0"
EACH_WAY = pytest.mark.parametrize(
    ("name", "packing"),
    [("audit.jsonl", ""), ("audit.jsonl.gz", "isal"), ("audit.jsonl.gz", "zlib")],
)
"""Of writing: as it is, and packed with the extra and without."""


def digest(body):
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def lines_of(path):
    """Return the text of a file, as far as it can be read, without its last, torn line."""
    octets = Path(path).read_bytes()
    if str(path).endswith(".gz"):
        octets = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(octets)
    return octets[: octets.rfind(b"\n") + 1].decode().splitlines()


def records(path):
    return [json.loads(line) for line in lines_of(path)]


def of_type(kind, found):
    return [record for record in found if record["type"] == kind]


async def audited(path, site, *paths, meta=None, cls=Pages, **settings):
    crawler = make_crawler(
        cls, **{"USER_AGENT": AGENT, "REP_AUDIT_URI": str(path), **settings}
    )
    await crawl(crawler, urls=[site.url(one) for one in paths], meta=meta)
    return crawler


def only(line):
    """Return a record for a sink that consists of nothing else."""
    return 0.0, line, "", None, 0.0, None


def as_they_are(records):
    """Return the lines of such records."""
    return "".join(record[1] for record in records)


def opened(path) -> Any:
    """Return a sink for such records."""
    crawler = make_crawler()
    crawler.spider = Pages()
    return sink.Sink(crawler, str(path), "worker", "head\n", as_they_are)


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


@pytest.mark.parametrize(
    ("before", "expected"),
    [("", "isal.isal_zlib\n"), ("import sys; sys.modules['isal'] = None; ", "zlib\n")],
)
def test_the_extra_is_used_where_it_is_installed(before, expected):
    code = (
        f"{before}from scrapy_rep.evidence.sink import packing; print(packing.__name__)"
    )
    found = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert found == expected


@EACH_WAY
@coroutine_test
async def test_a_whole_crawl(tmp_path, monkeypatch, name, packing):
    if packing == "zlib":
        monkeypatch.setattr(sink, "packing", zlib)
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
    found = records(path)
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
    assert {one["slot"] for one in sent} == {"127.0.0.1"}
    assert all(one.keys() <= {"type", "time", "url", "slot", "robots"} for one in sent)

    (copy,) = of_type("copy", found)
    assert began < copy.pop("fetched") < copy.pop("time") < time.time() + 1
    assert copy == {
        "type": "copy",
        "origin": origin,
        "state": "fetched",
        "status": 200,
        "url": url("/robots.txt"),
        "digest": digest(RULES.encode()),
        "failure": None,
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
        "slot": "127.0.0.1",
        "agent": AGENT,
        "allowed": False,
        "cause": "rule",
        "enforced": True,
        "reason": "Disallow: /private/ (line 2, user-agent *)",
        "group": ["*"],
        "rule": "Disallow: /private/",
        "line": 2,
        "digest": digest(RULES.encode()),
        "delay": 0.0,
        "preferences": {"search": "yes"},
    }
    allowed = decisions[url("/a")]
    assert allowed["allowed"] is True
    assert not allowed.keys() & {"cause", "rule", "line"}  # null, which needs no words
    assert copy["digest"] == allowed["digest"]


@coroutine_test
async def test_a_crawl_of_nothing(tmp_path):
    path = tmp_path / "audit.jsonl"
    with Site() as site:
        await audited(path, site)
    assert [record["type"] for record in records(path)] == ["crawl", "end"]


@coroutine_test
async def test_evidence_and_audit_agree(tmp_path):
    class Keeps(Pages):
        def parse(self, response):
            self.got.append(response.meta["rep_evidence"])

    path = tmp_path / "audit.jsonl"
    with Site({"/robots.txt": RULES}) as site:
        crawler = await audited(path, site, "/a", cls=Keeps, REP_EVIDENCE=True)
    (evidence,) = crawler.spider.got
    (decision,) = of_type("decision", records(path))
    assert decision.pop("time") == pytest.approx(evidence["time"], abs=1e-4)
    del decision["type"], decision["slot"]
    assert decision == {name: evidence[name] for name in decision}


class OwnSlots(Pages):
    """Has a download slot for each path."""

    def requests(self):
        for request in super().requests():
            request.meta["download_slot"] = request.url.rpartition("/")[2]
            yield request


@coroutine_test
async def test_what_differs_between_decisions_that_one_line_made(tmp_path):
    """Slot and preferences are of the request; what it shares is encoded once."""
    path = tmp_path / "audit.jsonl"
    rules = "User-agent: *\nAllow: /\nContent-Usage: /drafts/ train-ai=n\n"
    paths = ["/a", "/drafts/b", "/drafts/c", "/d"]
    with Site({"/robots.txt": rules}) as site:
        await audited(path, site, *paths, cls=OwnSlots, CONCURRENT_REQUESTS=1)
        url = site.url
    found = {one["url"]: one for one in of_type("decision", records(path))}
    assert {one["rule"] for one in found.values()} == {"Allow: /"}
    assert [
        (found[url(one)]["slot"], found[url(one)].get("preferences")) for one in paths
    ] == [
        ("a", None),
        ("b", {"train-ai": "no"}),
        ("c", {"train-ai": "no"}),
        ("d", None),
    ]


@coroutine_test
async def test_origins_that_share_a_slot(tmp_path):
    path = tmp_path / "audit.jsonl"
    with Site({"/robots.txt": RULES}) as site, Site() as other:
        urls = [one.url(f"/{number}") for number in range(3) for one in (site, other)]
        crawler = make_crawler(REP_AUDIT_URI=str(path))
        await crawl(crawler, urls=urls, meta={"download_slot": "both"})
    sent = of_type("sent", records(path))
    robots = [one.url("/robots.txt") for one in (site, other)]
    assert len(sent) == 8
    assert {one["url"] for one in sent} == {*urls, *robots}
    assert {one["slot"] for one in sent} == {"both"}


@coroutine_test
async def test_a_url_that_json_must_escape(tmp_path):
    path = tmp_path / "audit.jsonl"
    with Site({"/robots.txt": RULES}) as site:
        meta = {"robotstxt_url": site.url('/größe"\\')}
        await audited(path, site, "/a", meta=meta)
    (decision,) = of_type("decision", records(path))
    assert decision["url"] == meta["robotstxt_url"]


@pytest.mark.parametrize(
    ("reply", "state", "cause"),
    [
        (Reply(status=503), "unreachable", "unreachable"),
        (Reply(status=404), "unavailable", None),
    ],
)
@coroutine_test
async def test_copies_that_are_not_there(tmp_path, reply, state, cause):
    path = tmp_path / "audit.jsonl"
    with Site({"/robots.txt": reply}) as site:
        await audited(path, site, "/a")
    found = records(path)
    (copy,), (decision,) = of_type("copy", found), of_type("decision", found)
    assert (copy["state"], copy["digest"], "body" in copy) == (state, None, False)
    assert (decision.get("cause"), decision.get("digest")) == (cause, None)
    assert None not in decision.values()
    assert decision["allowed"] is (cause is None)
    assert len(of_type("sent", found)) == (1 if cause else 2)


@coroutine_test
async def test_what_is_not_enforced(tmp_path):
    path = tmp_path / "audit.jsonl"
    with Site({"/robots.txt": RULES}) as site:
        await audited(path, site, "/private/b", REP_OBEY=["crawl-delay"])
        assert site.count("/private/b") == 1
    found = records(path)
    (decision,) = of_type("decision", found)
    assert (decision["allowed"], decision["enforced"]) == (False, False)
    assert (decision["cause"], decision["line"]) == ("rule", 2)
    assert found[0]["settings"]["REP_OBEY"] == ["crawl-delay"]


@coroutine_test
async def test_exempt_requests_are_sent_without_a_decision(tmp_path):
    path = tmp_path / "audit.jsonl"
    with Site({"/robots.txt": RULES}) as site:
        await audited(path, site, "/a", meta={"dont_obey_robotstxt": True})
    found = records(path)
    assert [record["type"] for record in found] == ["crawl", "sent", "end"]


@coroutine_test
async def test_a_body_is_written_once_and_can_be_checked(tmp_path):
    """Also where it is no UTF-8; a second origin with the same one has its digest."""
    body = "User-agent: *\nDisallow: /größe\r\n".encode("latin-1")
    path = tmp_path / "audit.jsonl"
    with Site({"/robots.txt": body}) as site, Site({"/robots.txt": body}) as other:
        crawler = make_crawler(REP_AUDIT_URI=str(path))
        await crawl(crawler, urls=[site.url("/a"), other.url("/a")])
    first, second = of_type("copy", records(path))
    assert first["digest"] == second["digest"] == digest(body)
    assert first["body"].encode(first["encoding"]) == body
    assert "body" not in second


@coroutine_test
async def test_digests_are_remembered_up_to_a_number(tmp_path, monkeypatch):
    monkeypatch.setattr(audit, "MOST_DIGESTS", 2)
    path = tmp_path / "audit.jsonl"
    found: Any = audit.Audit(
        make_crawler(), str(path), now=time.time, agent=lambda: "ExampleBot"
    )
    assert not path.exists()  # there is no spider yet
    found._crawler.spider = Pages()
    found._open()
    for number in [1, 2, 3, 3, 1]:
        body = b"%d" % number
        found.copy({"digest": digest(body)}, body)
    assert len(found._digests) == 2
    await found._sink.close()
    copies = of_type("copy", records(path))
    assert [copy.get("body") for copy in copies] == ["1", "2", "3", None, "1"]


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
    found = records(path)
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
    tally = Tally()
    tally.take(Files([str(path)], lambda digest, body: None).records())
    assert tally.unknown == 0
    assert tally.dropped == {"rel_nofollow": 1, "nofollow": 1, "noindex": 1}


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
    assert crawler.stats.get_value("rep/audit/lost") == 6
    (line,) = [text for text in caplog.messages if "no more room" in text]
    assert "REP_AUDIT_URI" in line
    assert "The audit goes to memory:x" in caplog.messages


class TellsAll(InMemory):
    """Fails, with all that it knows."""

    def store(self, file):
        user, password = "me", unquote(urlsplit(self.uri).password or "")
        msg = f"login of {user} with {password!r} at {self.uri} failed"
        raise PermissionError(msg)


@pytest.mark.parametrize(
    ("uri", "params"),
    [
        ("all://me:sec%2Fret@host/a.jsonl", None),
        ("all://me:%(password)s@host/a.jsonl", lambda *_: {"password": "sec%2Fret"}),
    ],
)
@coroutine_test
async def test_the_password_of_a_uri_is_shown_nowhere(uri, params, caplog):
    caplog.set_level(0)
    with Site({"/robots.txt": RULES}) as site:
        crawler = await audited(
            uri, site, "/a", FEED_STORAGES={"all": TellsAll}, FEED_URI_PARAMS=params
        )
    (line,) = [text for text in caplog.messages if "login of me" in text]
    assert "could not be written" in line
    assert "with '***' at all://***@host/a.jsonl failed" in line
    assert "The audit goes to all://***@host/a.jsonl" in caplog.messages
    told = [str(vars(record)) for record in caplog.records]
    told += [caplog.text, str(crawler.stats.get_stats())]
    for secret in ("sec/ret", "sec%2Fret"):
        assert not [text for text in told if secret in text]


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
async def test_the_worker_is_known_whatever_the_function_returns():
    InMemory.stored = {}
    settings = {**MEMORY, "FEED_URI_PARAMS": lambda *_: {"a": "b"}}
    with Site({"/robots.txt": RULES}) as site:
        await audited("memory:%(a)s-%(worker)s", site, "/a", **settings)
    assert [str(os.getpid()) in uri for uri in InMemory.stored] == [True]


@LEAKS_OF_SCRAPY
@pytest.mark.parametrize("params", [lambda *_: 1 / 0, "tests.nothing", lambda *_: 5])
@coroutine_test
async def test_a_function_of_parameters_that_fails(params):
    with Site({"/robots.txt": RULES}) as site:
        crawler = make_crawler(REP_AUDIT_URI="a.jsonl", FEED_URI_PARAMS=params)
        with pytest.raises(SettingError, match=r"^FEED_URI_PARAMS is .*returns a dict"):
            await crawl(crawler, urls=[site.url("/a")])


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
        await both(crawl(one, urls=[site.url("/1")]), crawl(two, urls=[site.url("/2")]))
        first, second = site.url("/1"), site.url("/2")
    found = [
        records(path),
        records(path.with_name(name.replace("audit", "audit-2"))),
    ]
    assert {one[0]["agent"] for one in found} == {"one", "two"}
    for one in found:
        (decision,) = of_type("decision", one)
        assert decision["url"] == (first if one[0]["agent"] == "one" else second)
        assert one[-1]["type"] == "end"


@LEAKS_OF_SCRAPY
@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("smb://host/a.jsonl", "a path, or a URI with a scheme of FEED_STORAGES: file"),
        ("{folder}/file/a.jsonl", r"what Scrapy's feed storages can open \(.*Error"),
        ("a-%(nothing)s.jsonl", r"FEED_URI_PARAMS gives, not %\(nothing\)s"),
        ("a-%(name)d.jsonl", r"FEED_URI_PARAMS gives, not %\(name\)d"),
        ("ftp://", "what Scrapy's feed storages can open"),
        ("s3://me:secret@/a.jsonl", r"REP_AUDIT_URI is 's3://\*\*\*@/a.jsonl'"),
        ("ftp://me:secret@/a.jsonl", r"hostname: ftp://\*\*\*@/a.jsonl"),
        ("smb://me:se/cr@secret@host/a", r"REP_AUDIT_URI is 'smb://\*\*\*@host/a'"),
        ("/dev/full", r"what Scrapy's feed storages can open \(OSError: .*No space"),
        (5, "a path or a URI"),
    ],
)
@coroutine_test
async def test_what_cannot_be_opened_stops_the_crawl(tmp_path, uri, expected):
    (tmp_path / "file").touch()
    if isinstance(uri, str):
        uri = uri.replace("{folder}", str(tmp_path))
    with Site({"/robots.txt": RULES}) as site:
        crawler = make_crawler(REP_AUDIT_URI=uri)
        with pytest.raises(SettingError, match=expected) as it:
            await crawl(crawler, urls=[site.url("/a")])
        assert not site.hits
    assert str(it.value).startswith("REP_AUDIT_URI is ")
    assert "secret" not in "".join(traceback.format_exception(it.value))


@pytest.mark.parametrize(
    ("module", "uri", "package"),
    [
        ("boto3", "s3://me:secret@bucket/a", "boto3"),
        ("google.cloud.storage", "gs://bucket/a", "google-cloud-storage"),
    ],
)
@coroutine_test
async def test_what_a_storage_needs_is_missed_at_once(
    monkeypatch, module, uri, package
):
    """Not when the crawl is over."""
    monkeypatch.setitem(sys.modules, module, None)
    crawler = make_crawler(REP_AUDIT_URI=uri)
    crawler.spider = Pages()
    with pytest.raises(SettingError, match=f"pip install {package} for it") as it:
        sink.Sink(crawler, uri, "worker", "head\n", as_they_are)
    assert "secret" not in "".join(traceback.format_exception(it.value))


def test_a_question_writes_no_audit():
    settings = ScrapySettings({"REP_AUDIT_URI": "audit.jsonl"})
    prepare(settings)
    assert settings.get("REP_AUDIT_URI") is None


# The thread that writes


@coroutine_test
async def test_nothing_is_lost_between_two_threads(tmp_path, monkeypatch):
    """While one takes what waits, the other one goes on putting."""
    monkeypatch.setattr(sink, "PAUSE", 0.0001)
    path = tmp_path / "audit.jsonl"
    target = opened(path)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for number in range(50_000):
            target.put(only(f"{number}\n"))
    finally:
        sys.setswitchinterval(interval)
    await target.close()
    assert lines_of(path) == ["head", *map(str, range(50_000))]
    assert (target.written, target.lost) == (50_000, 0)
    assert target._done == target._given


@coroutine_test
async def test_it_sleeps_while_nothing_comes(tmp_path, monkeypatch):
    """A crawl that goes on for hours without a request is not woken twice a second."""
    monkeypatch.setattr(sink, "PAUSE", 0.01)
    path = tmp_path / "audit.jsonl"
    target = opened(path)
    for number in range(3):
        target.put(only(f"{number}\n"))
        assert not target._asleep
        deadline = time.monotonic() + 20
        while not target._asleep:
            assert time.monotonic() < deadline
            await sleep(0.001)
        assert lines_of(path) == ["head", *map(str, range(number + 1))]
    await target.close()


@coroutine_test
async def test_it_need_not_be_woken_while_something_comes(tmp_path, monkeypatch):
    monkeypatch.setattr(sink, "PAUSE", 60)
    target = opened(tmp_path / "audit.jsonl")
    woken = []
    wake = target._wake_thread

    def wake_thread():
        woken.append(target.written)
        wake()

    target._wake_thread = wake_thread
    for number in range(3):
        target.put(only(f"{number}\n"))
        target._hurry.set()
        deadline = time.monotonic() + 20
        while target._done < target._given:
            assert time.monotonic() < deadline
            await sleep(0.001)
        await sleep(0.05)  # it could fall asleep in
    assert woken == [0]
    await target.close()


# Where writing fails


def test_a_disk_that_does_not_take_it(tmp_path, monkeypatch):
    """What cannot be written does not fill memory, and does not hold the crawl."""
    monkeypatch.setattr(sink, "LAST_WAIT", 0.2)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        full = opened(pipe)
        line = "x" * 1000 + "\n"
        began = time.monotonic()
        for _ in range(2 * sink.MOST // len(line)):
            full.put(only(line))
        assert time.monotonic() - began < 5
        waiting = full._waiting[1 :: sink.FIELDS]
        assert sum(map(len, waiting)) < sink.MOST + 10 * sink.HURRY
        assert full.lost > 0.4 * sink.MOST / len(line)
        coroutine = full.close()
        with pytest.raises(StopIteration):
            coroutine.send(None)
        assert full.errors == 1
    finally:
        os.close(reader)  # the thread ends


def run(origin, pages, *, most=0, without=(), **settings):
    """Start a crawl in a process of its own, with the event loop of these tests."""
    reactor = "none"
    if is_reactor_installed():
        reactor = "asyncio" if is_asyncio_reactor_installed() else "default"
    plan = {
        "origin": origin,
        "pages": pages,
        "reactor": reactor,
        "settings": settings,
        "most": most,
        "without": without,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crawls.audit_crawl", json.dumps(plan)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("name", "most"), [("audit.jsonl", 5000), ("audit.jsonl.gz", 1500)]
)
def test_a_file_that_may_not_grow(tmp_path, name, most):
    """The crawl goes on; one line of log, and the rest is counted."""
    path = tmp_path / name
    with Site({"/robots.txt": RULES}) as site:
        for number in range(60):  # in rounds of four, they take a second or so
            site.replies[f"/{number}"] = Reply("page", after=0.1)
        process = run(
            site.origin, 60, most=most, REP_AUDIT_URI=str(path), CONCURRENT_REQUESTS=4
        )
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert len(site.hits) == 61
    assert err.count("could not be written") == 1
    assert "File too large" in err
    assert "Traceback" not in err
    stats = json.loads(out)
    assert stats["rep/audit/errors"] == 1
    found = records(path) if name.endswith(".gz") else lines_of(path)
    assert stats["rep/audit/records"] <= len(found)
    assert stats["rep/audit/records"] + stats["rep/audit/lost"] == 4 + 3 * 60
    assert stats["rep/audit/lost"] > 10


@coroutine_test
async def test_another_file_is_begun_after_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(sink, "RETRY", 0.0)
    path = tmp_path / "audit.jsonl.gz"
    target = opened(path)
    told = []
    target.noticed = lambda: told.append(target.errors)

    def write(line):
        before = target._done
        target.put(only(line))
        target._hurry.set()
        while target._done == before:
            time.sleep(0.01)

    write("1\n")
    target._file.close()
    write("2\n")
    write("3\n")
    await target.close()
    assert lines_of(path) == ["head", "1"]
    assert lines_of(tmp_path / "audit-2.jsonl.gz") == ["head", "3"]
    assert (target.errors, target.lost, target.written) == (1, 1, 2)
    assert told[-1] == 1


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@EACH_WAY
def test_killed(tmp_path, name, packing):
    """All that is older than a second is there, and can be read."""
    path = tmp_path / name
    with Site({"/robots.txt": RULES}) as site:
        for number in range(2000):
            site.replies[f"/{number}"] = Reply("page", after=0.03)
        process = run(
            site.origin,
            2000,
            without=["isal"] * (packing == "zlib"),
            REP_AUDIT_URI=str(path),
            CONCURRENT_REQUESTS=4,
        )
        deadline = time.monotonic() + 60
        while len(site.hits) < 50:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(1.7)  # so that it falls between two times of writing
        killed = time.monotonic()
        process.kill()
        process.communicate()
        seen = [site.url(hit.path) for hit in site.hits if hit.seconds < killed - 1]
    found = records(path)
    assert found[0]["type"] == "crawl"
    assert not of_type("end", found)
    sent = {one["url"] for one in of_type("sent", found)}
    decided = {one["url"]: one for one in of_type("decision", found)}
    assert len(seen) > 30
    assert set(seen) <= sent
    pages = [url for url in seen if not url.endswith("/robots.txt")]
    assert set(pages) <= set(decided)
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
        process = subprocess.Popen(
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
    kinds = [record["type"] for record in records(path)]
    assert kinds == ["crawl", "sent", "copy", "decision", "sent"]
