"""What holds in a crawl of this project, and what is off."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError

from scrapy_rep import Addon
from scrapy_rep.holding import NOT_JUDGED, what_holds
from scrapy_rep.judging.mistakes import hints_on_refetching
from scrapy_rep.protocol.lint import notes_on_header

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy.settings import Settings

    from scrapy_rep.commands.terminal import Answer, Screen
    from scrapy_rep.holding import Holding

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


def tell(opts: argparse.Namespace, settings: Settings, screen: Screen) -> int:
    """Tell it; return the exit status: 1 if something is off.

    Raises ``SettingError``, and ``UsageError`` where a setting names something that does not exist.
    """
    crawler, holding = what_would_hold(opts, settings)
    is_enabled = any(isinstance(addon, Addon) for addon in crawler.addons.addons)
    answer = asdict(holding) | {"is_enabled": is_enabled, "says": holding.in_words()}
    del answer["warnings"]
    off = list(what_is_off(holding, is_enabled=is_enabled))
    hints = list(hints_on_refetching(crawler.settings))
    screen.say({**answer, "off": off, "hints": hints}, words)
    return int(bool(off))


def what_would_hold(
    opts: argparse.Namespace, settings: Settings
) -> tuple[Crawler, Holding]:
    """Return a crawler of the project, which does not run, and what would hold in its crawl."""
    crawler = Crawler(opts.kind or Spider, settings)
    try:
        crawler.addons.load_settings(crawler.settings)
        return crawler, what_holds(crawler.settings, opts.kind)
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
