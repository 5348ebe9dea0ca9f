"""Passwords in URIs and URLs: nothing that a crawl tells or writes has one."""

from __future__ import annotations

import json
import os
import re
import traceback
from io import BytesIO
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse

from scrapy_rep import Policy, RobotsForbidden, SettingError
from scrapy_rep.compat import get
from scrapy_rep.compat.urllib_fetch import fetch
from scrapy_rep.events.kinds import AuditFailed
from scrapy_rep.events.sink import Sink, fill_in
from scrapy_rep.events.stream import Stream
from scrapy_rep.exceptions import RedisStartError, StillParked
from scrapy_rep.gate.robots import Robots
from tests.commands.cli import robots
from tests.crawls.test_middleware import LEAKS_OF_SCRAPY
from tests.play import play
from tests.site import Reply, Site
from tests.utils import Pages, coroutine_test, crawled, make_crawler

RULES = "User-agent: *\nDisallow: /private/\n"


def told_by(crawler: Any, caplog: pytest.LogCaptureFixture) -> str:
    """Return all that the log and the stats of a crawl have; ``None``: it was never made."""
    records = [
        f"{record.getMessage()} {record.args} {record.exc_text}"
        for record in caplog.records
    ]
    stats = {} if crawler is None else crawler.stats.get_stats()
    return "\n".join([*records, caplog.text, str(stats)])


# Of the URI of an audit


class TellsAll:
    """A storage that fails with all that it knows, in forms that libraries have."""

    def __init__(self, uri, *, feed_options=None):
        self.uri = uri

    def open(self, spider):
        return BytesIO()

    def store(self, file):
        try:
            password = urlsplit(self.uri).password or ""
        except ValueError:
            password = ""
        known = [self.uri, password, unquote(self.uri), quote(self.uri)]
        raise PermissionError(*known, repr(self.uri), ascii(self.uri), "no entry")


class TellsAllAtOnce(TellsAll):
    def open(self, spider):
        raise ConnectionError(self.uri, unquote(self.uri)) from ValueError(self.uri)


SECRET = "s3c/r3t"
SECRETS = re.compile(r"s3c|r3t", re.IGNORECASE)
URIS = [
    pytest.param("all://me:{}@host/a.jsonl", id="as it should be"),
    pytest.param("all://me:s3c%2Fr3t@host/a.jsonl", id="encoded"),
    pytest.param("all://:{}@host/a.jsonl", id="no user"),
    pytest.param("all://{}@host/a.jsonl", id="a token"),
    pytest.param("all://me:{} {}@host/a.jsonl", id="a space"),
    pytest.param("all://me:{}\n{}@host/a.jsonl", id="a line end"),
    pytest.param("all://me:{}\t{}@host/a.jsonl", id="a tab"),
    pytest.param("all://me:{}'{}@host/a.jsonl", id="a quote"),
    pytest.param('all://me:{}"{}@host/a.jsonl', id="a double quote"),
    pytest.param("all://me:{}@{}@host/a.jsonl", id="an @"),
    pytest.param("all://me:{}?{}@host/a.jsonl", id="a question mark"),
    pytest.param("all://me:{}#{}@host/a.jsonl", id="a hash"),
    pytest.param("all://me:{}\\{}@host/a.jsonl", id="a backslash"),
    pytest.param("all://me:{}[{}@host/a.jsonl", id="a bracket"),
    pytest.param("all://host/a.jsonl?password={}", id="in the query"),
    pytest.param("all://host/a?to=me@host&password={}", id="in a query with an @"),
    pytest.param("all:me:{}@host/a.jsonl", id="no slashes"),
    pytest.param("all:/me:{}@host/a.jsonl", id="one slash"),
    pytest.param("all:///me:{}@host/a.jsonl", id="three slashes"),
    pytest.param("all://me:%(password)s@host/a.jsonl", id="a parameter"),
]


OF_AUDIT: dict[str, Any] = {
    "FEED_STORAGES": {"all": TellsAll, "atonce": TellsAllAtOnce},
    "FEED_URI_PARAMS": lambda *_: {"password": SECRET},
}


def sink_of(uri: str) -> tuple[Sink, Stream]:
    crawler = make_crawler(**OF_AUDIT)
    crawler.spider = Pages()
    stream = Stream.of(crawler)
    return Sink(crawler, uri.replace("{}", SECRET), "worker", "", stream), stream


@coroutine_test
async def test_the_password_of_an_audit_is_told_by_no_crawl(caplog):
    caplog.set_level(0)
    uri = f"all://me:{SECRET}@host/a.jsonl"
    with Site({"/robots.txt": RULES}) as site:
        played = await play(site, {"REP_AUDIT_URI": uri, **OF_AUDIT}, ["/a"])
    assert played.stats("rep/audit/")["errors"] == 1
    told = told_by(played.crawler, caplog)
    assert "The audit goes to all://***@host/a.jsonl" in told
    assert "could not be written to all://***@host/a.jsonl: PermissionError" in told
    assert not SECRETS.search(told)


@pytest.mark.parametrize("uri", URIS)
@coroutine_test
async def test_a_sink_tells_no_password(uri):
    sink, stream = sink_of(uri)
    failures: list[AuditFailed] = []
    stream.listen(failures.append, [AuditFailed])
    await sink.close()
    (failed,) = failures
    assert failed.error.startswith("PermissionError")
    assert not SECRETS.search(f"{failed.name} {failed.error}")


@pytest.mark.parametrize("scheme", ["atonce", "smb"])
@pytest.mark.parametrize("uri", URIS)
def test_the_password_of_an_audit_that_cannot_be_opened_is_not_told(uri, scheme):
    with pytest.raises(SettingError, match=r"^REP_AUDIT_URI is '") as it:
        sink_of(uri.replace("all:", f"{scheme}:"))
    told = "".join(traceback.format_exception(it.value))
    # Nor does what a log collector looks into.
    assert not SECRETS.search(told + repr(vars(it.value)))


def test_what_has_no_secret_is_told_in_full():
    with pytest.raises(SettingError, match=r"ConnectionError: .*atonce://host/a") as it:
        sink_of("atonce://host/a")
    assert isinstance(it.value.__cause__, ConnectionError)


@pytest.mark.parametrize(
    "part", ["%(", "%(a", "%(name)0", "%(name)1", "%(name).1", "%(name)- +#0"]
)
def test_parameters_are_looked_for_in_linear_time(part):
    crawler = make_crawler()
    crawler.spider = Pages()
    for uri in (part * 100_000, part + part[-1] * 1_000_000):
        assert fill_in(uri, crawler, "worker") == uri


@pytest.mark.skipif(os.name != "posix", reason="there are no such modes")
@pytest.mark.parametrize("name", ["audit.jsonl", "audit.jsonl.gz"])
@coroutine_test
async def test_only_the_owner_may_read_an_audit(tmp_path, name):
    before = os.umask(0)
    try:
        for _ in range(2):
            await crawled([], REP_AUDIT_URI=str(tmp_path / "sub" / name))
    finally:
        os.umask(before)
    files = list((tmp_path / "sub").iterdir())
    assert len(files) == 2
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert all(file.stat().st_size for file in files)


# Of other settings


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"REP_STORE": "redis://me:{}@host"}, "REP_STORE"),
        ({"REP_AUDIT_URI": [f"ftp://me:{SECRET}@host"]}, "REP_AUDIT_URI"),
        ({"REP_AUDIT_URI": b"ftp://me:s3c/r3t@host"}, "REP_AUDIT_URI"),
        ({"REP_STORE_PATH": b"ftp://me:s3c/r3t@host"}, "REP_STORE_PATH"),
        ({"REP_DIALECT": "redis://me:{}@host"}, "REP_DIALECT"),
        ({"REP_FLEET": "redis://me:{}@host:port"}, "REP_FLEET"),
        ({"REP_FLEET": "redis://me@127.0.0.1:9?s3c=r3t"}, "REP_FLEET"),
        ({"REP_FLEET": "http://me:{}@host"}, "REP_FLEET"),
        ({"REP_FLEET": "me:{}@host"}, "REP_FLEET"),
    ],
)
@pytest.mark.only_asyncio
@LEAKS_OF_SCRAPY
@coroutine_test
async def test_a_setting_that_is_wrong_is_shown_without_its_password(
    settings, name, caplog
):
    settings = {
        key: value.replace("{}", SECRET) if isinstance(value, str) else value
        for key, value in settings.items()
    }
    with pytest.raises(SettingError, match=f"^{name} is ") as it:
        await play({}, settings, ["http://127.0.0.1:9/"])
    told = "".join(traceback.format_exception(it.value)) + told_by(None, caplog)
    assert not SECRETS.search(told)


@pytest.mark.only_asyncio
@coroutine_test
async def test_a_redis_server_that_is_away_is_told_without_its_password(caplog):
    caplog.set_level(0)
    fleet = "redis://me:s3c-r3t@127.0.0.1:9/0?client_name=s3c"
    with pytest.raises(RedisStartError) as it:
        await play({}, {"REP_FLEET": fleet}, ["http://127.0.0.1:9/"])
    told = "".join(traceback.format_exception(it.value)) + told_by(None, caplog)
    assert "Redis at redis://" in told
    assert not SECRETS.search(told)


# Of the URLs of requests


class Answers:
    """Answers in the place of the site, as Twisted takes no URL with a user."""

    def process_request(self, request, spider=None):
        if "/quiet" in request.url:
            headers = {"X-Robots-Tag": "noindex, nofollow"}
            return HtmlResponse(request.url, headers=headers, body=b"<a href=/linked>")
        return None


class Finds(Pages):
    def parse(self, response):
        self.got.append(response.meta["rep_evidence"]["url"])
        yield {"url": response.url}
        yield response.follow("/linked")

    def failed(self, failure):
        self.got.append(failure.request.meta["rep_evidence"]["url"])
        super().failed(failure)


@coroutine_test
async def test_urls_are_told_without_user_and_password(tmp_path, caplog):
    caplog.set_level(0)
    path = tmp_path / "audit.jsonl"
    replies = {"/robots.txt": RULES, "/@me": Reply(reset=True)}
    with Site(replies) as site:
        start = site.origin.replace("://", "://me:s3c-r3t@")
        crawler = await crawled(
            [start + "/@me", start + "/private/x", start + "/quiet"],
            Finds,
            REP_EVIDENCE=True,
            REP_AUDIT_URI=str(path),
            REP_PAGE_OBEY=["noindex", "nofollow"],
            DOWNLOADER_MIDDLEWARES={Answers: 900},
        )
    refusal, _ = crawler.spider.failures  # and that of the connection
    records = [json.loads(line) for line in path.read_text().splitlines()]
    decided, sent, dropped = (
        [record["url"] for record in records if record["type"] == kind]
        for kind in ("decision", "sent", "dropped")
    )
    pages = [site.url(each) for each in ("/@me", "/private/x", "/quiet", "/linked")]
    assert sorted(decided) == sorted(crawler.spider.got) == sorted(pages[:3])
    assert sent == [site.url("/robots.txt"), pages[0]]
    assert dropped == [pages[2], pages[3]]
    assert refusal.url == pages[1]
    assert str(refusal).endswith(
        f"Disallow: /private/ (line 2, user-agent *): {pages[1]}"
    )
    told = "\n".join(
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("scrapy_rep")
    )
    assert pages[3] in told
    told += path.read_text() + str(crawler.stats.get_stats()) + repr(refusal)
    assert not SECRETS.search(told)


@coroutine_test
async def test_where_a_redirect_leads_is_told_without_user_and_password(
    tmp_path, caplog
):
    caplog.set_level(0)
    path = tmp_path / "audit.jsonl"
    with Site() as other, Site() as site:
        location = other.url("/robots.txt").replace("://", "://me:s3c-r3t@")
        site.replies["/robots.txt"] = Reply(status=302, headers={"Location": location})
        settings = {"REP_EVIDENCE": True, "REP_AUDIT_URI": str(path)}
        played = await play(site, settings, ["/a"])
    told = path.read_text() + told_by(played.crawler, caplog)
    assert '"copy"' in told
    assert not SECRETS.search(told)


URL = "http://me:s3c-r3t@host.example/a"


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (StillParked, (URL, 5.0)),
        (
            RobotsForbidden,
            (URL, "http://host.example", Policy.disallow_all().verdict("/", "x")),
        ),
    ],
)
def test_exceptions_are_told_without_user_and_password(kind, arguments):
    error = kind(*arguments)
    assert "http://host.example/a" in str(error)
    assert not SECRETS.search(str(error))


@pytest.mark.parametrize("kind", [str, Request])
@coroutine_test
async def test_spider_robots_tells_no_password(kind):
    nobody: Any = None
    known = Robots(lambda: nobody)
    ask = known.fetch if kind is str else known.settle
    with pytest.raises(ValueError, match="expected an") as it:
        await ask(kind("ftp://me:s3c-r3t@host/"))
    assert not SECRETS.search(str(it.value))


@pytest.mark.parametrize("call", [lambda url: get(url, "ExampleBot"), fetch])
def test_what_asks_without_scrapy_tells_no_password(call):
    with pytest.raises(ValueError, match="expected an absolute") as it:
        call("ftp://me:s3c-r3t@host/")
    assert not SECRETS.search(str(it.value))


# Of the command


@pytest.mark.parametrize("options", [[], ["--json", "--lint"]])
def test_the_command_shows_no_password(tmp_path, options):
    with Site({"/robots.txt": RULES + "Sitemap: /map.xml\nwhat\n"}) as site:
        start = site.origin.replace("://", "://me:s3c-r3t@")
        urls = [f"{start}/private/x", f"{start}/@me"]
        done = robots(*options, *urls, cwd=tmp_path)
    assert site.origin in done.out
    assert not SECRETS.search(done.out + done.err)


def test_the_command_shows_no_password_of_what_is_no_url(tmp_path):
    done = robots("ftp://me:s3c-r3t@host/", cwd=tmp_path)
    assert "'ftp://host/' is no URL to judge" in done.err
    assert not SECRETS.search(done.out + done.err)
    done = robots("-", stdin="ftp://me:s3c-r3t@host/", cwd=tmp_path)
    assert "ftp://host/" in done.out
    assert not SECRETS.search(done.out + done.err)


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_comparison_shows_no_password(tmp_path, form):
    for name, text in (("old", ""), ("new", RULES)):
        (tmp_path / name).write_text(text)
    urls = "http://me:s3c-r3t@host/private/x"
    done = robots("compare", "old", "new", "-", *form, stdin=urls, cwd=tmp_path)
    assert "http://host/private/x" in done.out
    assert not SECRETS.search(done.out + done.err)
