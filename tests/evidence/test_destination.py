"""Where an audit may go (REP_AUDIT_URI): what a URI may have, and what is wrong with one."""

from __future__ import annotations

import sys
import traceback

import pytest

from scrapy_rep import SettingError
from scrapy_rep.evidence.destination import fill_in
from tests.evidence.test_sink import opened
from tests.utils import Pages, make_crawler


def filled(uri: str, **settings) -> str:
    crawler = make_crawler(**settings)
    crawler.spider = Pages()
    return fill_in(uri, crawler, "host-4711")


def test_the_worker_is_known_whatever_the_function_returns():
    uri = filled("memory:%(a)s-%(worker)s", FEED_URI_PARAMS=lambda *_: {"a": "b"})
    assert uri == "memory:b-host-4711"


@pytest.mark.parametrize("params", [lambda *_: 1 / 0, "tests.nothing", lambda *_: 5])
def test_a_function_of_parameters_that_fails(params):
    with pytest.raises(SettingError, match=r"^FEED_URI_PARAMS is .*returns a dict"):
        filled("a.jsonl", FEED_URI_PARAMS=params)


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
    ],
)
def test_what_cannot_be_opened(tmp_path, uri, expected):
    (tmp_path / "file").touch()
    with pytest.raises(SettingError, match=expected) as it:
        opened(uri.replace("{folder}", str(tmp_path)))
    assert str(it.value).startswith("REP_AUDIT_URI is ")
    assert "secret" not in "".join(traceback.format_exception(it.value))


@pytest.mark.parametrize(
    ("module", "uri", "package"),
    [
        ("boto3", "s3://me:secret@bucket/a", "boto3"),
        ("google.cloud.storage", "gs://bucket/a", "google-cloud-storage"),
    ],
)
def test_what_a_storage_needs_is_missed_at_once(monkeypatch, module, uri, package):
    """Not when the crawl is over."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SettingError, match=f"pip install {package}") as it:
        opened(uri)
    assert "secret" not in "".join(traceback.format_exception(it.value))
