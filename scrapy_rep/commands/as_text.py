"""Answers in words: blocks of labelled lines that fit a terminal."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from scrapy_rep.commands.terminal import columns, left, shorten, wrap
from scrapy_rep.protocol import product_tokens
from scrapy_rep.protocol.printable import duration, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_rep.commands.terminal import Answer, Screen

LABEL_COLUMNS = 12  # columns, for labels and the margin before them
GAP_COLUMNS = 2
MIN_AGENT_COLUMNS = 16  # of the columns of agents; more agents go below
MAX_LISTED = 5  # lost rules or sitemaps; of the others, the number is given
VERDICT_WORDS = {True: "allowed", False: "refused"}
VERDICT_COLOURS = {True: "green", False: "red", None: "yellow"}
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


def block(answer: Answer, screen: Screen) -> Iterator[str]:
    """Return the lines that say everything about one URL."""
    yield screen.paint(printable(answer["url"]), "bold")
    if answer["problem"]:
        yield from row("verdict", [answer["problem"]], screen, colours=["yellow"])
        return
    verdicts = answer["verdicts"]
    room = screen.width - LABEL_COLUMNS
    fit = max(1, (room + GAP_COLUMNS) // (MIN_AGENT_COLUMNS + GAP_COLUMNS))
    for start in range(0, len(verdicts), fit):
        if start:
            yield ""
        yield from for_agents(verdicts[start : start + fit], screen)
    yield from excerpt(answer["lines"], screen)
    yield from about_file(answer["robots_txt"], answer["sitemaps"], screen)


def for_agents(verdicts: Sequence[Answer], screen: Screen) -> Iterator[str]:
    """Return what differs between agents, a column for each."""
    colours = [VERDICT_COLOURS[each["allowed"]] for each in verdicts]
    yield from row("agent", list(map(agent_name, verdicts)), screen)
    yield from row("verdict", list(map(verdict, verdicts)), screen, colours=colours)
    yield from row("rule", list(map(decided_by, verdicts)), screen)
    yield from row("group", list(map(group_and_why, verdicts)), screen)
    if any(each["lost"] for each in verdicts):
        lost = [list_some(list(map(rule_line, each["lost"]))) for each in verdicts]
        yield from row("lost", lost, screen)
    yield from row("pace", list(map(pace, verdicts)), screen)
    if any(sent_now(each) is not each["allowed"] for each in verdicts):
        yield from row("now", list(map(what_now, verdicts)), screen)


def row(
    label: str, cells: Sequence[str], screen: Screen, *, colours: Sequence[str] = ()
) -> Iterator[str]:
    """Return a labelled row of cells, each wrapped in its column."""
    width = (screen.width - LABEL_COLUMNS + GAP_COLUMNS) // len(cells) - GAP_COLUMNS
    wrapped = [
        [line for part in cell.split("\n") for line in wrap(part, width)]
        for cell in cells
    ]
    lines = []
    for texts in zip_longest(*wrapped, fillvalue=""):
        line = ""
        for text, colour in zip_longest(texts, colours, fillvalue=""):
            padding = " " * (width + GAP_COLUMNS - columns(text))
            line += (screen.paint(text, colour) if colour else text) + padding
        lines.append(line.rstrip())
    return labelled(label, lines, screen)


def labelled(label: str, lines: Iterable[str], screen: Screen) -> Iterator[str]:
    """Return *lines* as they are, which may be copied, with *label* before the first."""
    for line in lines:
        name = f"  {label:{LABEL_COLUMNS - 2}}"
        yield (screen.paint(name, "dim") + line).rstrip()
        label = ""


def verdict(judged: Answer) -> str:
    if judged["allowed"] is None:
        return f"nobody knows; {VERDICT_WORDS[judged['meanwhile']]} meanwhile"
    return VERDICT_WORDS[judged["allowed"]]


def sent_now(judged: Answer) -> bool | None:
    """Tell whether the request would be sent now; ``None``: not known."""
    if judged["allowed"] is None and judged["now"]["cause"]:
        return None
    return bool(judged["now"]["action"] == "send")


def what_now(judged: Answer) -> str:
    """Return what this project would do with a request, and why."""
    now = judged["now"]
    if now["left_out"] and not now["cause"]:
        causes = ", ".join(now["left_out"])
        return f"sent, although this is against it: {causes} (left out of REP_OBEY)"
    if not now["cause"]:
        return "sent"
    waits = now["action"] == "wait"
    what = f"waits {left(now['wait'])}" if waits else "refused"
    return f"{what}: {printable(now['reason'])}"


def agents_of(judged: Answer) -> list[str]:
    agent = judged["agent"]
    return [agent] if isinstance(agent, str) else agent


def agent_name(judged: Answer) -> str:
    return ", ".join(map(printable, agents_of(judged))) or "(none)"


def rule_line(rule: Answer) -> str:
    kind = "Allow" if rule["allow"] else "Disallow"
    return printable(f"line {rule['line']}, {kind}: {rule['path']}")


def decided_by(judged: Answer) -> str:
    if judged["rule"]:
        return rule_line(judged["rule"])
    return DECIDED_BY_WORDS.get(judged["reason"], f"none: {judged['reason']}")


def group_and_why(judged: Answer) -> str:
    tokens = (
        token for each in agents_of(judged) for token in product_tokens(each) or (each,)
    )
    wanted = [printable(token) for token in dict.fromkeys(tokens) if token] or ["it"]
    whom = " or ".join(filter(None, [", ".join(wanted[:-1]), wanted[-1]]))
    if not judged["groups"]:
        return f"none names {whom} or *" if judged["reason"] == "no group" else "none"
    which = " and ".join(
        f"{', '.join(map(printable, dict.fromkeys(group['tokens'])))} (line {group['line']})"
        for group in judged["groups"]
    )
    if judged["by_default"]:
        return f"{which}, as none names {whom}"
    merged = ", merged" if len(judged["groups"]) > 1 else ""
    return f"{which}{merged}, for this agent"


def list_some(lines: Sequence[str], hint: str = "") -> str:
    shown = list(lines[:MAX_LISTED])
    if len(lines) > MAX_LISTED:
        shown.append(f"and {len(lines) - MAX_LISTED} more{hint}")
    return "\n".join(shown) or "none"


def pace(judged: Answer) -> str:
    asked = []
    delay, rate, visit = (
        judged[name] for name in ("crawl_delay", "request_rate", "visit_time")
    )
    if delay is not None:
        asked.append(f"Crawl-delay: {delay:g} s")
    if rate:
        during = f", {span(rate)}" if rate["start"] and rate["end"] else ""
        asked.append(
            f"Request-rate: {rate['requests']} in {rate['seconds']:g} s{during}"
        )
    if visit:
        asked.append(f"Visit-time: {span(visit)}")
    if judged["too_slow"]:
        asked.append("slower than REP_CRAWL_DELAY_MAX, so nothing is sent")
    return "\n".join(asked) or "none asked for"


def span(times: dict[str, Any]) -> str:
    return f"{times['start']} to {times['end']} UTC"


def excerpt(lines: Sequence[Answer], screen: Screen) -> Iterator[str]:
    """Return the lines around each rule that decided, and those that head its group."""
    digits = len(str(lines[-1]["line"])) if lines else 0
    shown = []
    before = 0
    for each in lines:
        if before and each["line"] > before + 1:
            shown.append(" " * digits + "   ...")
        before = each["line"]
        mark = ">" if each["decides"] else " "
        text = f"{before:{digits}} {mark} {printable(each['text'])}".rstrip()
        text = shorten(text, screen.width - LABEL_COLUMNS)
        shown.append(screen.paint(text, "bold") if each["decides"] else text)
    return labelled("lines", shown, screen)


def about_file(copy: Answer, sitemaps: Sequence[str], screen: Screen) -> Iterator[str]:
    """Return what holds for all agents: the sitemaps, and where the copy came from."""
    rows = {
        "sitemaps": list_some(list(map(printable, sitemaps)), " (--sitemaps)"),
        "copy": printable(copy["asked"]),
    }
    if copy["came_by"] == "none":
        rows["copy"] += "\nnone: it could not be had"
    elif copy["came_by"] != "file":
        rows["copy"] += f"\n{copy['status']}, {SOURCE_WORDS[copy['came_by']]}"
    if len(copy["hops"]) > 1:
        steps = (f"{hop['status']} {printable(hop['url'])}" for hop in copy["hops"])
        rows["redirects"] = "\n".join(steps)
    elif copy["url"] and copy["url"] != copy["asked"]:
        rows["redirects"] = f"to {printable(copy['url'])}"
    if copy["failure"]:
        rows["failure"] = printable(copy["failure"])
    if copy["age"] is not None:
        rows["age"] = f"{duration(round(copy['age']))} ({copy['state']})"
    if copy["ask_in"] is not None:
        due = copy["ask_in"] <= 0
        rows["refresh"] = "now" if due else f"in {left(copy['ask_in'])}"
    for label, text in rows.items():
        yield from labelled(label, text.split("\n"), screen)
