"""What holds in a crawl of this project, what is off, and who crawls (the Signature Agent Card).

The card is that of draft-meunier-webbotauth-registry-04 (2026-10), a draft, as far as it follows from
the settings. It has a format for neither ``purpose`` nor ``rate-control``: both are in words here.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError

from scrapy_rep.commands.terminal import Answer, Screen, complain
from scrapy_rep.gate.addon import Addon
from scrapy_rep.gate.holding import NOT_JUDGED, what_holds
from scrapy_rep.judging.mistakes import hints_on_refetching
from scrapy_rep.pages.tdm_files import TDM
from scrapy_rep.protocol import RFC9309, product_tokens
from scrapy_rep.protocol.lint import notes_on_header
from scrapy_rep.protocol.preferences import WELL_KNOWN
from scrapy_rep.settings import PACE_DIRECTIVES, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.settings import Settings as ScrapySettings

    from scrapy_rep.commands.typed import Typed
    from scrapy_rep.gate.holding import Holding

NOT_ENABLED = (
    'The add-on is not enabled. Put ADDONS = {"scrapy_rep.Addon": 500} into the settings of '
    "the project, and run this in its folder"
)
WAITS_ELSEWHERE = (
    "Requests that may not be sent yet wait in the downloader, where they hold up other "
    "hosts. Leave SCHEDULER and SCHEDULER_PRIORITY_QUEUE to the add-on"
)
WHO_WE_ARE = (
    'Say in USER_AGENT who you are: "ExampleBot/1.0 (+https://example.com/bot)"'
)
PAGE = re.compile(r"https?://[^\s)>;,\"]+")
ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")


def doctor(typed: Typed, settings: ScrapySettings, screen: Screen) -> int:
    """Tell it; return the exit status: 1 if something is off.

    Raises ``SettingError``, and ``UsageError`` where a setting names something that does not exist.
    """
    crawler, holding = what_would_hold(typed, settings)
    is_enabled = any(isinstance(addon, Addon) for addon in crawler.addons.addons)
    answer = asdict(holding) | {"is_enabled": is_enabled, "says": holding.in_words()}
    del answer["warnings"]
    off = list(what_is_off(holding, is_enabled=is_enabled))
    hints = list(hints_on_refetching(crawler.settings))
    screen.say(words, {**answer, "off": off, "hints": hints})
    return int(bool(off))


def what_would_hold(typed: Typed, settings: ScrapySettings) -> tuple[Crawler, Holding]:
    """Return a crawler of the project, which does not run, and what would hold in its crawl."""
    crawler = Crawler(typed.kind or Spider, settings)
    try:
        crawler.addons.load_settings(crawler.settings)
        return crawler, what_holds(crawler.settings, typed.kind)
    except (ImportError, NameError, AttributeError) as error:
        raise UsageError(
            f"A setting names something that does not exist: {error}."
        ) from error


def what_is_off(holding: Holding, *, is_enabled: bool) -> Iterator[str]:
    """Yield a sentence for each thing that should be put right."""
    if not holding.judge and not is_enabled:
        yield NOT_ENABLED
    yield from (each for each in holding.warnings if is_enabled or each != NOT_JUDGED)
    if holding.judge and not holding.waits_in_scheduler:
        yield WAITS_ELSEWHERE
    sent = holding.user_agent
    if holding.unsent_tokens:
        yield (
            f"The product token {', '.join(holding.unsent_tokens)}, whose rules hold, is "
            f"not in the User-Agent that is sent, {sent!r}. Put it into USER_AGENT"
        )
    for note in notes_on_header(sent):
        yield f"{note.message[0].upper()}{note.message[1:]}. {WHO_WE_ARE}"


def words(answer: Answer) -> Iterator[str]:
    yield from answer["says"].split("; ")
    yield f"User-Agent: {answer['user_agent'] or 'none'}"
    yield from (f"off: {each}." for each in answer["off"])
    yield from (f"hint: {each}." for each in answer["hints"])
    if not answer["off"]:
        yield "All is well."


def card(typed: Typed, settings: ScrapySettings, screen: Screen) -> int:
    """Write the card; return the exit status: 1 if the crawl does not obey RFC 9309."""
    crawler, holding = what_would_hold(typed, settings)
    values = Settings.read(crawler.settings)
    why_not = list(departures(holding, values))
    answer = card_of(holding, values, complies=not why_not)
    screen.write(*json.dumps(answer, indent=2).splitlines())
    for why in why_not:
        complain(f"rfc9309-compliance is false: {why}.")
    return int(bool(why_not))


def departures(holding: Holding, values: Settings) -> list[str]:
    """Return why a crawl does not do what RFC 9309 demands; empty: it does."""
    whys = {
        "no request is judged": not holding.judge,
        "REP_OBEY leaves disallow out": holding.is_dry_run,
        "REP_UNREACHABLE is allow": values.unreachable == "allow",
        "REP_DIALECT is an older one": values.dialect is not RFC9309,
    }
    return [why for why, holds in whys.items() if holds]


def card_of(holding: Holding, values: Settings, *, complies: bool) -> Answer:
    """Return the card, without what no setting tells."""
    sent, agent = holding.user_agent, holding.agent
    tokens = agent if isinstance(agent, tuple) else product_tokens(agent)
    page, address = PAGE.search(sent), ADDRESS.search(sent)
    as_bot = {
        "expected-user-agent": sent,
        "rfc9309-product-token": tokens[0] if tokens else None,
        "rfc9309-compliance": complies,
        "trigger": "crawler",
        "purpose": ", ".join(values.purpose),
        "rate-control": rate_control(values.obey),
        "known-urls": ["/robots.txt", *([WELL_KNOWN] if TDM in values.purpose else ())],
    }
    return _told(
        {
            "client_name": tokens[0] if tokens else None,
            "client_uri": page and page[0],
            "contacts": [f"mailto:{address[0]}"] if address else None,
            "web_bot_auth": _told(as_bot),
        }
    )


def rate_control(obey: frozenset[str]) -> str:
    """Return, in words, how a site makes us slower."""
    named = [name.capitalize() for name in sorted(PACE_DIRECTIVES & obey)]
    ways = [f"{', '.join(named)} in robots.txt"] if named else []
    if "retry-after" in obey:
        ways.append("429 or 503 with Retry-After")
    elif "back-off" in obey:
        ways.append("429 or 503")
    return "; ".join(ways)


def _told(answer: Answer) -> Answer:
    return {name: value for name, value in answer.items() if value not in (None, "")}
