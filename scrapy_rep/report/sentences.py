"""What an audit comes to, in sentences; figures, times and causes, as people are shown them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.protocol.printable import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.report.audit import Audit

NO_VALUE = "–"  # noqa: RUF001 - a dash as wide as a figure
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MAX_CHARACTERS = 200
"""Characters that are shown of a text from the web."""

COUNTED = (
    ("not_again", "URL was", "URLs were", "requested, and refused at another try"),
    ("hosts_left_alone", "host was", "hosts were", "left alone for a time"),
    ("sites_silent", "site", "sites", "did not answer when asked for robots.txt"),
    (
        "sites_failing",
        "site",
        "sites",
        "answered with an error when asked for robots.txt",
    ),
    ("unsent", "request was", "requests were", "still waiting at the end"),
)
"""What is said of sums that are not 0: who did, one or more, and what."""


class Said(NamedTuple):
    """A sentence, and whether it is ``"good"``, ``"bad"``, ``"unsure"`` or neither (``""``)."""

    text: str
    tone: str = ""


def conclusion(audit: Audit) -> list[Said]:
    """Return what an audit comes to: first whether rules and delays were kept."""
    return [*_proof(audit), *_rest(audit, audit.sums)]


def _proof(audit: Audit) -> list[Said]:
    """Return whether rules and delays were kept: one sentence where both were."""
    rules, delays = _of_rules(audit.sums), _of_delays(audit, audit.sums)
    if rules.tone == delays.tone == "good":
        delay = delays.text[0].lower() + delays.text[1:]
        return [Said(f"{rules.text}; {delay}.", "good")]
    return [Said(f"{each.text}.", each.tone) for each in (rules, delays)]


def _of_rules(sums: dict[str, Any]) -> Said:
    if sums["dry"]:
        went = counted(sums["dry"], "request")
        return Said(
            f"{went} went out against robots.txt, as REP_OBEY leaves that out", "bad"
        )
    if sums["against"]:
        return Said(
            f"{counted(sums['against'], 'request')} went to URLs that a rule had refused "
            "before: the audit does not tell whether they were exempt "
            "(dont_obey_robotstxt)",
            "unsure",
        )
    if sums["exempt"]:
        exempt = counted(sums["exempt"], "request was", "requests were")
        return Said(
            "No URL that a rule disallows was requested, as far as requests were judged: "
            f"{exempt} not, being exempt (dont_obey_robotstxt) or judged by another URL "
            "(robotstxt_url)",
            "unsure",
        )
    return Said("No URL that a rule disallows was requested", "good")


def _of_delays(audit: Audit, sums: dict[str, Any]) -> Said:
    gaps = counted(sums["measured"], "gap")
    if sums["short"]:
        text = (
            f"{sums['short']:,} of {gaps} between requests "
            f"{'was' if sums['short'] == 1 else 'were'} shorter than the delay asked for, "
            f"at {counted(sums['hosts_short'], 'host')}"
        )
        given = [run["settings"].get("REP_OBEY") for run in audit.runs]
        if any(isinstance(each, list) and "crawl-delay" not in each for each in given):
            text += ", as REP_OBEY leaves crawl-delay out"
        return Said(text, "bad")
    if sums["measured"]:
        return Said(f"Every delay was kept ({gaps}, none short)", "good")
    if sums["longest_delay"]:
        return Said("No host with a delay was asked twice", "good")
    return Said("No host asked for a delay", "good")


def _rest(audit: Audit, sums: dict[str, Any]) -> Iterator[Said]:
    unfinished = sum(run["ended"] is None for run in audit.runs)
    if unfinished:
        runs = counted(unfinished, "run has", "runs have")
        yield Said(
            f"{runs} no end (killed, or still running): what came last may be missing here.",
            "unsure",
        )
    if audit.broken:
        lines = counted(audit.broken, "line is", "lines are")
        yield Said(f"{lines} left out, as nobody can read what stands there.", "unsure")
    if sums["not_sent"]:
        urls = counted(sums["not_sent"], "URL was", "URLs were")
        by_rule, of_them = sums["not_sent_by_rule"], ""
        if by_rule < sums["not_sent"]:
            of_them = f" for {by_rule:,} of them"
        because = f", as a rule says{of_them}" if by_rule else ""
        yield Said(f"{urls} refused and never requested{because}.")
    for name, one, more, what in COUNTED:
        if sums[name]:
            yield Said(f"{counted(sums[name], one, more)} {what}.")


def number(value: int) -> str:
    return f"{value:,}"


def seconds(value: float | None) -> str:
    """Return a delay or a gap with as many digits as tell something."""
    if value is None:
        return NO_VALUE
    if 0 < value < 0.001:
        return "< 0.001 s"
    if value < 10:
        return f"{value:.3f}".rstrip("0").rstrip(".") + " s"
    if value < 100:
        return f"{value:.1f}".removesuffix(".0") + " s"
    return f"{value:,.0f} s" if value < 7200 else f"{value / 3600:,.1f} h"


def gap(value: float | None) -> str:
    """Return a gap for a column, in which all have as many decimals."""
    return seconds(value) if value is None or value >= 100 else f"{value:.3f} s"


def moment(time: float | None) -> str:
    """Return a time as a date and a time of day, in UTC."""
    if time is None:
        return NO_VALUE
    return f"{EPOCH + timedelta(seconds=time):%Y-%m-%d %H:%M:%S}"


def shortened(text: object) -> str:
    """Return as much of a text from the web as is shown of it."""
    text = "" if text is None else str(text)
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}… ({len(text) - MAX_CHARACTERS:,} more characters)"
