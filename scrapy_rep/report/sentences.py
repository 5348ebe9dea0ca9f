"""What an audit comes to, in sentences; figures, times and causes, as people are shown them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.protocol.printable import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    Row = dict[str, Any]

NO_VALUE = "–"  # noqa: RUF001 - a dash as wide as a figure
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MAX_CHARACTERS = 200
"""Characters that are shown of a text from the web."""

# fmt: off
RULES = (
    ("dry", "request", "", "bad",
     "went out against robots.txt, as REP_OBEY leaves that out"),
    ("against", "request", "", "bad",
     "went out although a rule had refused it, and nothing tells that it was exempt"),
    ("unjudged", "request was", "requests were", "unsure",
     "not, and the audit does not tell why"),
)
"""The first that is not 0 is said of rules: the name of a sum; who did, one or more; and what."""
REST = (
    ("unfinished", "run has", "runs have", "unsure",
     "no end (killed, or still running): what came last may be missing here"),
    ("broken", "line is", "lines are", "unsure",
     "left out, as nobody can read what stands there"),
    ("exempt", "request was", "requests were", "", "exempt"),
    ("not_sent", "URL was", "URLs were", "", "refused and never requested"),
    ("not_again", "URL was", "URLs were", "", "requested, and refused at another try"),
    ("hosts_left_alone", "host was", "hosts were", "", "left alone for a time"),
    ("sites_silent", "site", "sites", "", "did not answer when asked for robots.txt"),
    ("sites_failing", "site", "sites", "", "answered with an error when asked for robots.txt"),
    ("unsent", "request was", "requests were", "", "still waiting at the end"),
)
"""What is said of all that are not 0."""
# fmt: on
CLEAN = "No URL that a rule disallows was requested"
EXEMPT = {
    "on_the_way": "that a robots.txt waited for",
    "no_origin": "neither http nor https",
}
"""Why requests are exempt, where the name of the reason does not say it."""


class Said(NamedTuple):
    """A sentence, and whether it is ``"good"``, ``"bad"``, ``"unsure"`` or neither (``""``)."""

    text: str
    tone: str = ""


def conclusion(sums: Row, runs: list[Row], exempt: list[Row]) -> list[Said]:
    """Return what an audit comes to: first whether rules and delays were kept."""
    rules, delays = _of_rules(sums), _of_delays(sums, runs)
    if rules.tone == delays.tone == "good":
        delay = delays.text[0].lower() + delays.text[1:]
        proof = [Said(f"{rules.text}; {delay}.", "good")]
    else:
        proof = [Said(f"{each.text}.", each.tone) for each in (rules, delays)]
    return [*proof, *_rest(sums, exempt)]


def _of_rules(sums: Row) -> Said:
    for name, one, more, tone, what in RULES:
        if sums[name]:
            text = f"{counted(sums[name], one, more)} {what}"
            judged = f"{CLEAN}, as far as requests were judged: "
            return Said(judged + text if name == "unjudged" else text, tone)
    return Said(f"{CLEAN}, but for what is exempt" if sums["exempt"] else CLEAN, "good")


def _of_delays(sums: Row, runs: list[Row]) -> Said:
    gaps = counted(sums["measured"], "gap")
    if sums["short"]:
        were = "was" if sums["short"] == 1 else "were"
        text = (
            f"{sums['short']:,} of {gaps} between requests {were} shorter than the delay "
            f"asked for, at {counted(sums['hosts_short'], 'host')}"
        )
        given = [run["settings"].get("REP_OBEY") for run in runs]
        if any(isinstance(each, list) and "crawl-delay" not in each for each in given):
            text += ", as REP_OBEY leaves crawl-delay out"
        return Said(text, "bad")
    if sums["measured"]:
        return Said(f"Every delay was kept ({gaps}, none short)", "good")
    if sums["longest_delay"]:
        return Said("No host with a delay was asked twice", "good")
    return Said("No host asked for a delay", "good")


def _rest(sums: Row, exempt: list[Row]) -> Iterator[Said]:
    never, by_rule = sums["not_sent"], sums["not_sent_by_rule"]
    for name, one, more, tone, what in REST:
        text = f"{counted(sums[name], one, more)} {what}"
        if name == "not_sent" and by_rule:
            of_them = f" for {by_rule:,} of them" if by_rule < never else ""
            text += f", as a rule says{of_them}"
        if name == "exempt":
            reasons = (
                f"{each['requests']:,} {EXEMPT.get(each['cause'], shortened(each['cause']))}"
                for each in exempt
            )
            text += f": {'; '.join(reasons)}"
        if sums[name]:
            yield Said(f"{text}.", tone)


number = "{:,}".format


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
