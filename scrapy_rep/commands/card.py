"""Who crawls: the Signature Agent Card, as far as it follows from the settings.

draft-meunier-webbotauth-registry-04 (2026-10), a draft. It has a format for neither
``purpose`` nor ``rate-control``: both are in words here.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from scrapy_rep.commands.doctor import what_would_hold
from scrapy_rep.commands.terminal import Answer, Screen, complain
from scrapy_rep.pages.tdm_files import TDM
from scrapy_rep.protocol import RFC9309, product_tokens
from scrapy_rep.protocol.preferences import WELL_KNOWN
from scrapy_rep.settings import Settings

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import Settings as ScrapySettings

    from scrapy_rep.holding import Holding

PAGE = re.compile(r"https?://[^\s)>;,\"]+")
ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
IN_ROBOTS_TXT = {
    "crawl-delay": "Crawl-delay",
    "request-rate": "Request-rate",
    "visit-time": "Visit-time",
}
"""What REP_OBEY calls it -> what a site writes into its robots.txt."""


def tell(opts: argparse.Namespace, settings: ScrapySettings, screen: Screen) -> int:
    """Write the card; return the exit status: 1 if the crawl does not obey RFC 9309."""
    crawler, holding = what_would_hold(opts, settings)
    values = Settings.read(crawler.settings)
    why_not = list(departures(holding, values))
    card = card_of(holding, values, complies=not why_not)
    screen.write(*json.dumps(card, indent=2).splitlines())
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
    named = [field for name, field in IN_ROBOTS_TXT.items() if name in obey]
    ways = [f"{', '.join(named)} in robots.txt"] if named else []
    if "retry-after" in obey:
        ways.append("429 or 503 with Retry-After")
    elif "back-off" in obey:
        ways.append("429 or 503")
    return "; ".join(ways)


def _told(answer: Answer) -> Answer:
    return {name: value for name, value in answer.items() if value not in (None, "")}
