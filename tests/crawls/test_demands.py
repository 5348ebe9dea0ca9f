"""Pages that their site gives only with a licence or for a payment: told, and not asked again."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from scrapy.core import downloader

from scrapy_rep.report.audit import Audit
from tests.site import Reply, Site
from tests.utils import Pages, coroutine_test, crawl, make_crawler

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
    path = tmp_path / "audit.jsonl"
    replies = {"/a": PRICED, "/b": PRICED, "/c": LICENSED, "/d": Reply(status=404)}
    with Site(replies) as site:
        crawler = make_crawler(
            Takes, DOWNLOADER=kind, REP_AUDIT_URI=str(path), **RETRIES
        )
        await crawl(crawler, urls=[site.url(each) for each in replies])
        asked = [site.count(each) for each in replies]
        licence = site.url("/license.xml")
    assert asked == [1, 1, 1, 3]  # what is only missing is retried, as the user wants
    assert len(crawler.spider.got) == 4
    stat = crawler.stats.get_value
    assert stat("rep/demanded") == 3
    assert (stat("rep/demanded/payment"), stat("rep/demanded/license")) == (2, 1)
    told = [each for each in caplog.messages if " wants a " in each]
    assert len(told) == 1  # of a host
    assert told[0].endswith("which is not asked for again")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    found = sorted(
        (each for each in records if each["type"] == "demand"), key=lambda it: it["url"]
    )
    assert [{**each, "time": 0} for each in found] == [
        {
            "type": "demand",
            "time": 0,
            "host": "127.0.0.1",
            "url": site.url(page),
            **more,
        }
        for page, more in [
            ("/a", {"status": 402, "cause": "payment", "price": "USD 0.01"}),
            ("/b", {"status": 402, "cause": "payment", "price": "USD 0.01"}),
            ("/c", {"status": 401, "cause": "license", "license": licence}),
        ]
    ]
    with Audit([str(path)]) as audit:
        assert [(each["cause"], each["urls"]) for each in audit.causes["demanded"]] == [
            ("payment, USD 0.01", 2),
            (f"license, {licence}", 1),
        ]


@coroutine_test
async def test_a_robots_txt_is_another_matter():
    with Site({"/robots.txt": PRICED}) as site:
        crawler = make_crawler()
        await crawl(crawler, urls=[site.url("/a")])
        assert site.count("/a") == 1  # RFC 9309 2.3.1.3
    assert crawler.stats.get_value("rep/demanded") is None
