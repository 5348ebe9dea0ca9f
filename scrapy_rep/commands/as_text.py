"""Findings for people: blocks of labelled lines that fit a terminal."""

from __future__ import annotations

from itertools import zip_longest
from math import ceil
from typing import TYPE_CHECKING

from scrapy_rep.commands.terminal import columns, shorten, wrap
from scrapy_rep.exceptions import explain
from scrapy_rep.judging import Action
from scrapy_rep.protocol import product_tokens
from scrapy_rep.protocol.decoding import show_octets
from scrapy_rep.protocol.printable import duration, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import time

    from scrapy_rep.commands.findings import Copy, Finding, Judgement
    from scrapy_rep.commands.terminal import Screen
    from scrapy_rep.protocol import Agent, Group, Policy, Rule

LABEL_COLUMNS = 12  # columns, for labels and the margin before them
GAP_COLUMNS = 2
MIN_AGENT_COLUMNS = 16  # of the columns of agents; more agents go below
LINES_AROUND = 2  # lines that are shown before and after a rule
MAX_LISTED = 5  # lost rules or sitemaps; of the others, the number is given
VERDICT_WORDS = {
    True: ("allowed", "green"),
    False: ("refused", "red"),
}
MEANWHILE_WORDS = {
    True: "nobody knows; allowed meanwhile",
    False: "nobody knows; refused meanwhile",
}
DECIDED_BY_WORDS = {
    "robots.txt itself": "none: a robots.txt may always be fetched",
    "no rule matches": "none matches",
    "no group": "none holds for this agent",
}
SOURCE_WORDS = {
    "network": "fetched now",
    "confirmed": "kept from an earlier crawl, confirmed now",
    "store": "kept from an earlier crawl",
}


def block(finding: Finding, screen: Screen) -> Iterator[str]:
    """Return the lines that say everything about one URL."""
    yield screen.paint(printable(finding.url), "bold")
    copy, policy = finding.copy, finding.policy
    if copy is None or policy is None:
        yield from row("verdict", [finding.problem], screen, colours=["yellow"])
        return
    room = screen.width - LABEL_COLUMNS
    fit = max(1, (room + GAP_COLUMNS) // (MIN_AGENT_COLUMNS + GAP_COLUMNS))
    judgements = finding.judgements
    for start in range(0, len(judgements), fit):
        if start:
            yield ""
        yield from for_agents(judgements[start : start + fit], screen)
    yield from excerpt(policy, judgements, screen)
    yield from about_file(copy, finding.sitemaps, screen)


def for_agents(judgements: Sequence[Judgement], screen: Screen) -> Iterator[str]:
    """Return what differs between agents, a column for each."""
    verdicts = [verdict(each) for each in judgements]
    yield from row("agent", [agent_name(each.agent) for each in judgements], screen)
    yield from row(
        "verdict",
        [words for words, _ in verdicts],
        screen,
        colours=[colour for _, colour in verdicts],
    )
    yield from row("rule", list(map(decided_by, judgements)), screen)
    yield from row("group", list(map(group_and_why, judgements)), screen)
    if any(each.lost for each in judgements):
        yield from row("lost", list(map(lost_rules, judgements)), screen)
    yield from row("pace", list(map(pace, judgements)), screen)
    if any(each.sent_now is not each.allowed for each in judgements):
        yield from row("now", list(map(sent_now, judgements)), screen)


def row(
    label: str,
    cells: Sequence[str],
    screen: Screen,
    *,
    colours: Sequence[str] | None = None,
) -> Iterator[str]:
    """Return a labelled row of cells, each wrapped in its column."""
    width = (screen.width - LABEL_COLUMNS + GAP_COLUMNS) // len(cells) - GAP_COLUMNS
    columns_ = [
        [line for part in cell.split("\n") for line in wrap(part, width)]
        for cell in map(str, cells)
    ]
    for number, lines in enumerate(zip_longest(*columns_, fillvalue="")):
        texts = []
        for column, text in enumerate(lines):
            padding = " " * (width + GAP_COLUMNS - columns(text))
            colour = colours[column] if colours else None
            texts.append((screen.paint(text, colour) if colour else text) + padding)
        name = f"  {label if number == 0 else '':{LABEL_COLUMNS - 2}}"
        yield (screen.paint(name, "dim") + "".join(texts)).rstrip()


def verdict(judgement: Judgement) -> tuple[str, str]:
    """Return the verdict in words, and the colour of it."""
    if judgement.allowed is None:
        return MEANWHILE_WORDS[judgement.verdict.allowed], "yellow"
    return VERDICT_WORDS[judgement.allowed]


def sent_now(judgement: Judgement) -> str:
    """Return what this project would do with a request, and why."""
    ruling = judgement.ruling
    objection = ruling.objection
    if objection is None:
        causes = ", ".join(each.cause for each in ruling.left_out)
        if not causes:
            return "sent"
        return f"sent, although this is against it: {causes} (left out of REP_OBEY)"
    why = printable(explain(objection.verdict))
    if ruling.action is Action.WAIT:
        return f"waits {duration(ruling.seconds)}: {why}"
    return f"refused: {why}"


def agent_name(agent: Agent) -> str:
    if isinstance(agent, str):
        return printable(agent) or "(none)"
    return ", ".join(map(printable, agent))


def rule_line(rule: Rule) -> str:
    kind = "Allow" if rule.allow else "Disallow"
    return printable(f"line {rule.line}, {kind}: {rule.path}")


def decided_by(judgement: Judgement) -> str:
    rule, reason = judgement.verdict.rule, judgement.verdict.reason
    if rule is not None:
        return rule_line(rule)
    return DECIDED_BY_WORDS.get(reason, f"none: {reason}")


def group_and_why(judgement: Judgement) -> str:
    groups = judgement.groups
    if not groups:
        if judgement.verdict.reason != "no group":
            return "none"
        return f"none names {join_with_or(tokens_wanted(judgement.agent))} or *"
    which = " and ".join(map(heading, groups))
    if judgement.by_default:
        return f"{which}, as none names {join_with_or(tokens_wanted(judgement.agent))}"
    merged = ", merged" if len(groups) > 1 else ""
    return f"{which}{merged}, for this agent"


def heading(group: Group) -> str:
    tokens = ", ".join(map(printable, dict.fromkeys(group.tokens)))
    return f"{tokens} (line {group.line})"


def tokens_wanted(agent: Agent) -> list[str]:
    """Return the product tokens by which groups are looked for, most wanted first."""
    agents = (agent,) if isinstance(agent, str) else agent
    tokens = [token for each in agents for token in product_tokens(each) or (each,)]
    return [printable(token) for token in dict.fromkeys(tokens) if token] or ["it"]


def join_with_or(words: Sequence[str]) -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} or {words[-1]}"


def lost_rules(judgement: Judgement) -> str:
    return list_some(list(map(rule_line, judgement.lost))) or "none"


def list_some(lines: Sequence[str], hint: str = "") -> str:
    shown = list(lines[:MAX_LISTED])
    if len(lines) > MAX_LISTED:
        shown.append(f"and {len(lines) - MAX_LISTED} more{hint}")
    return "\n".join(shown)


def pace(judgement: Judgement) -> str:
    asked = []
    if judgement.crawl_delay is not None:
        asked.append(f"Crawl-delay: {judgement.crawl_delay:g} s")
    rate = judgement.request_rate
    if rate is not None:
        during = f", {span(rate.start, rate.end)}" if rate.start and rate.end else ""
        asked.append(f"Request-rate: {rate.requests} in {rate.seconds:g} s{during}")
    visit = judgement.visit_time
    if visit is not None:
        asked.append(f"Visit-time: {span(visit.start, visit.end)}")
    if judgement.too_slow:
        asked.append("slower than REP_CRAWL_DELAY_MAX, so nothing is sent")
    return "\n".join(asked) or "none asked for"


def span(start: time, end: time) -> str:
    return f"{start:%H:%M} to {end:%H:%M} UTC"


def excerpt(
    policy: Policy, judgements: Iterable[Judgement], screen: Screen
) -> Iterator[str]:
    """Return the lines around each rule that decided, and those that head its group."""
    decided = {each.verdict.rule.line for each in judgements if each.verdict.rule}
    if not decided:
        return
    text = show_octets(str(policy)).split("\n")
    if text[-1] == "":
        text.pop()
    heads = {
        max((group.line for group in each.groups if group.line < rule.line), default=1)
        for each in judgements
        if (rule := each.verdict.rule)
    }
    shown = {
        number
        for line in decided
        for number in range(line - LINES_AROUND, line + LINES_AROUND + 1)
        if 1 <= number <= len(text)
    }
    digits = len(str(max(shown)))
    lines = []
    before = 0
    for number in sorted(shown | heads):
        if before and number > before + 1:
            lines.append(" " * digits + "   ...")
        before = number
        mark = ">" if number in decided else " "
        line = f"{number:{digits}} {mark} {printable(text[number - 1])}".rstrip()
        lines.append(shorten(line, screen.width - LABEL_COLUMNS))
    for number, line in enumerate(lines):
        name = screen.paint(
            f"  {'lines' if not number else '':{LABEL_COLUMNS - 2}}", "dim"
        )
        is_decided = line[digits + 1 : digits + 2] == ">"
        yield name + (screen.paint(line, "bold") if is_decided else line)


def about_file(copy: Copy, sitemaps: Sequence[str], screen: Screen) -> Iterator[str]:
    """Return what holds for all agents: the sitemaps, and where the copy came from."""
    listed = list(map(printable, sitemaps))
    yield from unwrapped_row(
        "sitemaps", list_some(listed, " (--sitemaps)") or "none", screen
    )
    yield from unwrapped_row("copy", origin_of_copy(copy), screen)
    if len(copy.hops) > 1:
        steps = [f"{hop.status} {printable(hop.url)}" for hop in copy.hops]
        yield from unwrapped_row("redirects", "\n".join(steps), screen)
    elif copy.url and copy.url != copy.asked and copy.came_by != "file":
        yield from unwrapped_row("redirects", f"to {printable(copy.url)}", screen)
    if copy.failure:
        yield from unwrapped_row("failure", printable(copy.failure), screen)
    if copy.age is not None:
        yield from unwrapped_row(
            "age", f"{duration(round(copy.age))} ({copy.state})", screen
        )
    if copy.ask_in is not None:
        due = "now" if copy.ask_in <= 0 else f"in {duration(ceil(copy.ask_in))}"
        yield from unwrapped_row("refresh", due, screen)


def unwrapped_row(label: str, text: str, screen: Screen) -> Iterator[str]:
    """Return a row whose lines are not wrapped: a URL is there to be copied."""
    for number, line in enumerate(text.split("\n")):
        name = f"  {label if number == 0 else '':{LABEL_COLUMNS - 2}}"
        yield screen.paint(name, "dim") + line


def origin_of_copy(copy: Copy) -> str:
    name = printable(copy.asked)
    if copy.came_by == "file":
        return name
    if copy.came_by == "none":
        return f"{name}\nnone: it could not be had"
    return f"{name}\n{copy.status}, {SOURCE_WORDS[copy.came_by]}"
