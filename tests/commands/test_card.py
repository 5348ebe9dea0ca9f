"""``scrapy robots card``: who crawls, as the settings tell."""

from __future__ import annotations

import json

import pytest

from tests.commands.cli import robots
from tests.commands.test_doctor import ADDON
from tests.commands.test_online import project

WHO = "USER_AGENT = 'ExampleBot/1.0 (+https://example.com/bot; bot@example.com)'\n"


def test_what_the_settings_tell(tmp_path):
    settings = ADDON + WHO + "REP_PURPOSE = ['search', 'train-ai']\n"
    done = robots("card", cwd=project(tmp_path, settings))
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out) == {
        "client_name": "ExampleBot",
        "client_uri": "https://example.com/bot",
        "contacts": ["mailto:bot@example.com"],
        "web_bot_auth": {
            "expected-user-agent": (
                "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)"
            ),
            "rfc9309-product-token": "ExampleBot",
            "rfc9309-compliance": True,
            "trigger": "crawler",
            "purpose": "search, train-ai",
            "rate-control": (
                "Crawl-delay, Request-rate, Visit-time in robots.txt; "
                "429 or 503 with Retry-After"
            ),
            "known-urls": ["/robots.txt"],
        },
    }


def test_what_no_setting_tells_is_left_out(tmp_path):
    settings = ADDON + "USER_AGENT = 'ExampleBot'\nREP_OBEY = ['disallow']\n"
    (card,) = [json.loads(robots("card", cwd=project(tmp_path, settings)).out)]
    assert set(card) == {"client_name", "web_bot_auth"}
    assert not {"purpose", "rate-control"} & set(card["web_bot_auth"])


def test_what_it_fetches_by_itself(tmp_path):
    settings = ADDON + WHO + "REP_PURPOSE = ['tdm']\n"
    card = json.loads(robots("card", cwd=project(tmp_path, settings)).out)
    urls = ["/robots.txt", "/.well-known/tdmrep.json"]
    assert card["web_bot_auth"]["known-urls"] == urls


def test_of_a_spider(tmp_path):
    folder = project(tmp_path, ADDON + WHO + "SPIDER_MODULES = ['its_spiders']\n")
    (folder / "its_spiders.py").write_text(
        "import scrapy\n"
        "class Mine(scrapy.Spider):\n"
        "    name = 'mine'\n"
        "    user_agent = 'MineBot/1.0 (+https://example.com/mine)'\n"
        "    custom_settings = {'REP_OBEY': ['disallow', 'back-off']}\n"
    )
    card = json.loads(robots("card", "--spider", "mine", cwd=folder).out)
    assert card["client_name"] == "MineBot"
    assert card["web_bot_auth"]["rate-control"] == "429 or 503"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (WHO, "no request is judged"),
        (ADDON + WHO + "ROBOTSTXT_OBEY = False\n", "no request is judged"),
        (ADDON + WHO + "REP_OBEY = ['crawl-delay']\n", "REP_OBEY leaves disallow out"),
        (ADDON + WHO + "REP_UNREACHABLE = 'allow'\n", "REP_UNREACHABLE is allow"),
        (ADDON + WHO + "REP_DIALECT = 'mk1996'\n", "REP_DIALECT is an older one"),
    ],
)
def test_whoever_does_not_comply_does_not_say_so(settings, why, tmp_path):
    done = robots("card", cwd=project(tmp_path, settings))
    assert done.status == 1
    assert json.loads(done.out)["web_bot_auth"]["rfc9309-compliance"] is False
    assert done.err == f"rfc9309-compliance is false: {why}.\n"


def test_a_wrong_setting(tmp_path):
    done = robots("card", cwd=project(tmp_path, ADDON + "REP_TIMEOUT = 'x'\n"))
    assert (done.status, done.out) == (2, "")
    assert "REP_TIMEOUT is 'x', expected" in done.err
