"""Pages that their site gives only with a licence or for a payment: told, and not asked again."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from scrapy.core import downloader

from scrapy_rep.events.kinds import Demanded
from scrapy_rep.report.audit import Audit
from tests.play import play
from tests.site import Reply, Site
from tests.utils import Pages, coroutine_test

PRICED = Reply(status=402, headers={"crawler-price": "USD 0.01"})
LICENSED = Reply(
    status=401,
    headers={
        "WWW-Authenticate": 'License error="invalid_request"',
        "Link": '</license.xml>; rel="license"',
    },
)
RETRIES: dict[str, Any] = {"RETRY_TIMES": 2, "RETRY_HTTP_CODES": [401, 402, 404]}


class Takes(Pages):
    handle_httpstatus_list = [401, 402, 404]


class OwnDownloader(downloader.Downloader):
    """A user's, which the add-on leaves alone."""


@pytest.mark.parametrize("kind", ["scrapy_rep.Downloader", OwnDownloader])
@coroutine_test
async def test_each_is_told_of_and_asked_for_once(kind, tmp_path, caplog):
    caplog.set_level(logging.INFO, "scrapy_rep")
    replies = {"/a": PRICED, "/b": PRICED, "/c": LICENSED, "/d": Reply(status=404)}
    with Site({**replies, "/robots.txt": PRICED}) as site:
        path = str(tmp_path / "audit.jsonl")
        settings = {"DOWNLOADER": kind, "REP_AUDIT_URI": path, **RETRIES}
        played = await play(site, settings, replies, Takes)
        # What is only missing is retried, as the user wants.
        assert [site.count(each) for each in replies] == [1, 1, 1, 3]
    assert len(played.spider.got) == 4
    # That the robots.txt is priced, too, is another matter: RFC 9309 2.3.1.3.
    assert played.stats("rep/demanded") == {"": 3, "/payment": 2, "/license": 1}
    (line,) = [each for each in caplog.messages if " wants a " in each]  # of a host
    assert line.endswith("which is not asked for again")
    licence = site.url("/license.xml")
    found = [
        (each.host, each.url, each.status, each.cause, each.license, each.price)
        for each in played.of(Demanded)
    ]
    assert sorted(found) == [
        (site.host, site.url("/a"), 402, "payment", None, "USD 0.01"),
        (site.host, site.url("/b"), 402, "payment", None, "USD 0.01"),
        (site.host, site.url("/c"), 401, "license", licence, None),
    ]
    with Audit([path]) as audit:
        assert [(each["cause"], each["urls"]) for each in audit.causes["demanded"]] == [
            ("payment, USD 0.01", 2),
            (f"license, {licence}", 1),
        ]
