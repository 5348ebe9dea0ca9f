"""Every setting: its default, what it takes, and what is said of a wrong value."""

from __future__ import annotations

import re
import sys
from datetime import date
from pathlib import Path

import pytest
from scrapy.settings import Settings as ScrapySettings
from scrapy.utils.test import get_crawler

from scrapy_rep import settings as settings_module
from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol import GYM2008, MK1996
from scrapy_rep.protocol.access import MAX_REDIRECTS
from scrapy_rep.settings import DEFAULTS, FOREVER, Settings, unknown_names


def read(**values):
    return Settings.read(ScrapySettings(values))


@pytest.mark.parametrize("name", sorted(DEFAULTS.keys() - {"REP_STORE"}))
def test_no_setting_takes_whatever_is_given(name):
    """But REP_STORE, which is checked when the store is made."""
    with pytest.raises(SettingError, match=f"^{name} is .*, expected "):
        read(**{name: object()})


def test_a_fleet_needs_redis(monkeypatch):
    monkeypatch.setattr("scrapy_rep.settings.find_spec", lambda name: None)
    assert read(REP_FLEET="").fleet is None
    with pytest.raises(SettingError, match=r'REP_FLEET is .* its extra "redis"'):
        read(REP_FLEET="redis://localhost:9")


def test_defaults_that_depend_on_other_settings():
    assert read(CONCURRENT_REQUESTS=1).fetch_concurrency == 1
    assert read(CONCURRENT_REQUESTS=100).fetch_concurrency == 50
    assert read(CONCURRENT_REQUESTS=0).fetch_concurrency == 8
    assert read(CONCURRENT_REQUESTS=-1).fetch_concurrency == 8
    assert read(REP_DIALECT="gym2008").dialect is GYM2008
    mk1996 = read(REP_DIALECT="MK1996")
    assert mk1996.dialect is MK1996
    assert mk1996.deny_statuses == {401, 403}
    assert mk1996.max_age == 7 * 86400
    assert read(REP_DIALECT="mk1996", REP_DENY_STATUSES=[]).deny_statuses == frozenset()
    assert (read().max_age, read().deny_statuses) == (86400, frozenset())
    assert read().max_redirects == MAX_REDIRECTS


@pytest.mark.parametrize(
    ("given", "store"),
    [
        ({}, "memory"),
        ({"JOBDIR": "job"}, "sqlite"),
        ({"HTTPCACHE_ENABLED": True}, "sqlite"),
        ({"HTTPCACHE_ENABLED": "0"}, "memory"),
        ({"HTTPCACHE_ENABLED": True, "REP_STORE": "memory"}, "memory"),
    ],
)
def test_the_store_is_kept_where_requests_or_pages_are(given, store):
    assert read(**given).store == store


def test_values_may_come_from_the_command_line():
    settings = read(
        REP_OBEY="disallow, crawl-delay",
        REP_UNREACHABLE_RETRY_DELAYS="1,2.5",
        REP_MAX_AGE="120",
        REP_DENY_STATUSES="401,403",
        REP_CACHE_BYTES="1000",
    )
    assert settings.obey == {"disallow", "crawl-delay"}
    assert settings.unreachable_retry_delays == (1, 2.5)
    assert settings.max_age == 120
    assert settings.deny_statuses == {401, 403}
    assert settings.cache_bytes == 1000
    settings = read(REP_OBEY='["disallow"]', REP_UNREACHABLE_RETRY_DELAYS="[1, 2.5]")
    assert settings.obey == {"disallow"}
    assert settings.unreachable_retry_delays == (1, 2.5)
    assert read(REP_OBEY="[]").obey == read(REP_OBEY=[]).obey == frozenset()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("REP_OBEY", ["disalow"], 'items are "disallow" or'),
        ("REP_OBEY", ["disallow", "crawldelay"], "; 'crawldelay' is none"),
        ("REP_OBEY", '["disallow"', 'or "back-off", as a,b or in JSON'),
        *(("REP_OBEY", none, '"[]" for nothing') for none in ("", "  ", ",")),
        ("REP_OBEY", "[" * 10**5, "as a,b or in JSON"),
        ("REP_HOSTS", '{"a":' * 10**5, "or the same in JSON (maximum recursion"),
        ("REP_PACE_BY", "a\nb\0", r"loading object 'a\nb\x00': not a full path"),
        ("REP_DIALECT", "rfc", '"rfc9309" or "gym2008" or "mk1996"'),
        ("REP_CRAWL_DELAY_MAX", -1, "a number of seconds, >= 0"),
        ("REP_CRAWL_DELAY_OVER_MAX", "wait", '"drop" or "clamp"'),
        ("REP_MAX_AGE", 0, "a number of seconds, > 0"),
        ("REP_MAX_AGE", float("nan"), "a number of seconds"),
        ("REP_MAX_AGE", float("inf"), "a number of seconds"),
        ("REP_MAX_AGE", True, "a number of seconds"),
        ("REP_MIN_AGE", 10**6, "at most REP_MAX_AGE, which is 86400"),
        ("REP_UNREACHABLE_RETRY_DELAYS", [1, -1], "a list of numbers of seconds"),
        ("REP_LATENCY_FACTOR", -1, "a number, >= 0"),
        ("REP_LATENCY_DELAY_MIN", 31, "at most REP_LATENCY_DELAY_MAX, which is 30.0"),
        ("REP_HOST_BUDGET", -1, "a whole number, at least 0"),
        ("REP_HOSTS", ["a.example"], 'a dict such as {"example.com": {"budget": 100}}'),
        ("REP_HOSTS", "{", "or the same in JSON"),
        ("REP_HOSTS", {"a.example": 5}, "a dict such as"),
        (
            "REP_HOSTS",
            {"http://a/": {"budget": 5}},
            "'http://a/' is a URL, and no host",
        ),
        ("REP_HOSTS", {"a.example": {"dely": 5}}, "'dely' is nothing that a host"),
        ("REP_HOSTS", {"a.example": {"delay": 5}}, 'delay needs an "allow" beside it'),
        ("REP_HOSTS", {"a.example": {"until": "2027-01-01"}}, 'until needs an "allow"'),
        *(
            ("REP_HOSTS", {"a.example": {"allow": none}}, "the allow is a reason: who")
            for none in ("", None, True)
        ),
        ("REP_HOSTS", {"a.example": {"allow": "x", "until": "soon"}}, "until is a day"),
        ("REP_HOSTS", {"a.example": {"allow": "x", "delay": -1}}, "delay is a number"),
        *(
            ("REP_HOSTS", {host: {"allow": "x"}}, f"; {host!r} is none")
            for host in (
                "*.example",
                "*",
                "",
                "http://a.b",
                "a.example:80",
                "a.example/b",
            )
        ),
        ("REP_HOSTS", {"a.example": {"budget": "x"}}, "the budget is a whole number"),
        ("REP_BACK_OFF_FIRST", 301, "at most REP_BACK_OFF_MAX, which is 300.0"),
        ("REP_DENY_STATUSES", [500], "a list of 4xx statuses"),
        ("REP_DENY_STATUSES", "404,4o4", "; '4o4' is none"),
        ("REP_DENY_STATUSES", [404, 500], "; 500 is none"),
        ("REP_DENY_STATUSES", [float("inf")], "a list of 4xx statuses"),
        ("REP_UNREACHABLE_RETRY_DELAYS", [10**400], "a list of numbers of seconds"),
        ("REP_MAX_REDIRECTS", 1.5, "a whole number"),
        ("REP_MAX_SIZE", 0, "a whole number, at least 1"),
        ("REP_MAX_SIZE", 2**20, "a whole number, at least 1, at most 524288"),
        ("REP_ROBOTS_META", 5, "a dict, or a function of two requests that returns"),
        ("REP_ROBOTS_META", "no.such", "or its import path (No module named 'no')"),
        ("REP_ROBOTS_META", "{", "a dict, or a function of two requests"),
        ("REP_ROBOTS_META", {"playwright": True}, "a meta that asks for no browser"),
        ("REP_ROBOTS_META", {"zyte_api": {"browserHtml": True}}, "for no browser"),
        ("REP_PURPOSE", ["training"], '"train-ai" or'),
        ("REP_PURPOSE", "use", '"use=full"'),
        ("REP_FLEET_LEASE", 1e-9, "a number of seconds, >= 0.1"),
        ("REP_EVIDENCE", "maybe", "True or False"),
        ("REP_EVIDENCE", 2, "True or False"),
        ("REP_EVIDENCE_FIELD", ["digest"], "a str"),
        ("REP_EVIDENCE_FIELD", "False", 'a str, or "" for none'),
        ("REP_STORE_PATH", "None", 'a str, or "" for none'),
        ("REP_APPROVED", "none", 'a path or a URI, or "" for none'),
        ("REP_AUDIT_URI", "0", 'a path or a URI, or "" for none'),
        ("ROBOTSTXT_USER_AGENT", 5, "a product token"),
        ("ROBOTSTXT_USER_AGENT", ["a", ""], "a list of tokens"),
    ],
)
def test_wrong_values_are_named(name, value, expected):
    with pytest.raises(SettingError) as caught:
        read(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"{name} is {value!r}, expected ")
    assert expected in message


@pytest.mark.parametrize("name", ["CONCURRENT_REQUESTS", "RETRY_HTTP_CODES"])
def test_wrong_values_of_scrapys_are_named(name):
    with pytest.raises(SettingError, match=f"{name} is 'x', expected a whole number"):
        read(**{name: "x"})


@pytest.mark.parametrize("longest", [1e300, sys.maxsize, "1e300"])
def test_times_fit_into_redis(longest):
    """Which took the worker's lease for no number, so that a fleet waited for it for ever."""
    settings = read(
        REP_FLEET_LEASE=longest,
        REP_CRAWL_DELAY_MAX=longest,
        REP_UNREACHABLE_RETRY_DELAYS=[longest],
        REP_HOSTS={"a.example": {"allow": "x", "delay": longest}},
    )
    assert settings.fleet_lease == settings.crawl_delay_max == FOREVER
    assert settings.unreachable_retry_delays == (FOREVER,)
    assert settings.hosts["a.example"]["delay"] == FOREVER
    assert FOREVER * 1000 < 2**53


@pytest.mark.parametrize("name", ["ROBOTSTXT_OBEY", "HTTPCACHE_ENABLED"])
def test_a_flag_of_scrapys_is_named(name):
    expected = f"{name} is 'yes', expected True or False"
    with pytest.raises(SettingError, match=expected):
        read(**{name: "yes"})


@pytest.mark.parametrize("name", ["REP_MAX_REDIRECTS", "REP_EVIDENCE"])
def test_values_that_cannot_be_shown(name):
    with pytest.raises(SettingError, match="is int that cannot be shown, expected"):
        read(**{name: 10**5000})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REP_OBEY", [10**5000]),
        ("REP_HOSTS", {"example.com": {10**5000: 1}}),
        ("REP_DENY_STATUSES", [10**5000]),
    ],
)
def test_what_is_in_a_value_may_be_such(name, value):
    with pytest.raises(SettingError, match="; int that cannot be shown is no"):
        read(**{name: value})


def test_a_default_that_does_not_fit_is_shown():
    with pytest.raises(SettingError, match=r"REP_MIN_AGE is 60\.0, expected at most"):
        read(REP_MAX_AGE=30)


def test_purposes_have_one_name():
    names = ["ai-train", "search", "ai-use", "train-ai", "use=full"]
    expected = ("ai-input", "search", "train-ai", "use=full")
    assert read(REP_PURPOSE=names).purpose == expected


def test_evidence():
    for value in (True, 1, "1", "True", "true"):
        assert read(REP_EVIDENCE=value).evidence is True
    for value in (False, 0, "0", "False"):
        assert read(REP_EVIDENCE=value).evidence is False
    settings = read(REP_EVIDENCE_FIELD="robots")  # which takes evidence
    assert (settings.evidence, settings.evidence_field) == (True, "robots")
    path = Path("audit.jsonl")
    assert read(REP_AUDIT_URI=path).audit_uri == str(path.absolute())
    assert read(REP_AUDIT_URI="s3://a/b").audit_uri == "s3://a/b"
    assert read(REP_AUDIT_URI="").audit_uri is None


def test_a_crawl_reads_its_settings_once():
    crawler = get_crawler(settings_dict={"REP_TIMEOUT": 5})
    settings = Settings.of(crawler)
    assert settings.timeout == 5
    assert Settings.of(crawler) is settings
    wrong = get_crawler(settings_dict={"REP_TIMEOUT": 0})
    for _ in range(2):
        with pytest.raises(SettingError):
            Settings.of(wrong)


@pytest.mark.parametrize("suffix", ["py", "rst", "lua", "html"])
def test_every_name_that_code_and_pages_use_is_declared(suffix):
    package = Path(settings_module.__file__).parent
    used = {
        name
        for path in package.rglob(f"*.{suffix}")
        for name in re.findall(r"\bREP(?:_[A-Z]+)+", path.read_text(encoding="utf-8"))
    }
    assert used <= DEFAULTS.keys()


def test_misspelt_names_are_named():
    (sentence,) = unknown_names(ScrapySettings({"REP_CRAWLDELAY_MAX": 5}))
    assert "REP_CRAWLDELAY_MAX" in sentence
    assert "did you mean REP_CRAWL_DELAY_MAX?" in sentence
    assert unknown_names(ScrapySettings(dict.fromkeys(DEFAULTS))) == []


def one_name(request):
    return "one"


def test_what_keeps_one_pace():
    assert read().pace_by == "host"
    assert read(REP_PACE_BY="Domain").pace_by == "domain"
    assert read(REP_PACE_BY=one_name).pace_by is one_name
    assert read(REP_PACE_BY=f"{__name__}.one_name").pace_by is one_name


@pytest.mark.parametrize(
    "value", ["hosts", "no.such.function", "scrapy_rep.settings.DAY", 5, ["host"]]
)
def test_what_cannot_keep_one_pace(value):
    with pytest.raises(SettingError) as caught:
        read(REP_PACE_BY=value)
    message = str(caught.value)
    assert message.startswith("REP_PACE_BY is ")
    assert repr(value) in message
    assert '"host", "domain", or a function from a request to a name' in message


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("WWW.Example.com", "www.example.com"),
        ("example.com.", "example.com"),
        ("b\u00fccher.example", "xn--bcher-kva.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
    ],
)
def test_permissions(host, key):
    until = date(2027, 1, 1)
    for day in (until, "2027-01-01"):
        own = {"allow": " by letter ", "until": day, "delay": "2.5"}
        (found,) = read(REP_HOSTS={host: own}).hosts.items()
        assert found == (key, {"allow": "by letter", "until": until, "delay": 2.5})
