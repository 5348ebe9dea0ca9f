"""Answers about URLs in words: blocks of labelled rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.commands.terminal import Answer, Row, left
from scrapy_rep.protocol import product_tokens
from scrapy_rep.protocol.printable import duration, first_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_rep.protocol import Agent

MAX_LISTED = 5  # lost rules or sitemaps; of the others, the number is given
MAX_CHARACTERS = 200  # of a line of the file
SEVERITY_COLOURS = {"error": "red", "warning": "yellow", "info": "dim"}
VERDICT_WORDS = {True: "allowed", False: "refused"}
VERDICT_COLOURS = {True: "green", False: "red", None: "yellow"}
SOURCE_WORDS = {
    "network": "{status}, fetched now",
    "confirmed": "{status}, kept from an earlier crawl, confirmed now",
    "store": "{status}, kept from an earlier crawl",
    "none": "none: it could not be fetched",
    "file": "",
}


def block(answer: Answer) -> Iterator[Row]:
    """Return the rows that say everything about one URL, and each agent in turn."""
    yield Row("", [answer["url"]], "bold")
    if answer["problem"]:
        yield Row("verdict", [answer["problem"]], "yellow")
        return
    for each in answer["verdicts"]:
        yield from of_agent(each)
    yield from excerpt(answer["lines"])
    yield from about_file(answer["robots_txt"], answer["sitemaps"])


def of_agent(judged: Answer) -> Iterator[Row]:
    allowed = judged["allowed"]
    yield Row("agent", [name_of(judged["agent"])])
    yield Row("verdict", [verdict(judged)], VERDICT_COLOURS[allowed])
    yield Row("rule", [rule_or_reason(judged)])
    yield Row("group", [group_and_why(judged)])
    if judged["lost"]:
        yield Row("lost", first_of([*map(rule_line, judged["lost"])], MAX_LISTED))
    yield Row("pace", list(pace(judged)) or ["none asked for"])
    if sent_now(judged) is not allowed:
        yield Row("now", [what_now(judged)])


def note(its: Answer) -> Iterator[Row]:
    """Return what is said of a mistake."""
    line = "{file}:{line}: {severity} {code} {message} [{number}]".format(**its)
    yield Row("", [line], SEVERITY_COLOURS[its["severity"]])


def verdict(judged: Answer) -> str:
    if judged["allowed"] is None:
        return f"not known: {VERDICT_WORDS[judged['meanwhile']]} until its robots.txt can be read"
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
        permission = now["permission"]
        return f"sent, as REP_HOSTS allows it: {permission}" if permission else "sent"
    what = f"waits {left(now['wait'])}" if now["action"] == "wait" else "refused"
    return f"{what}: {now['reason']}"


def name_of(agent: Agent) -> str:
    return (agent if isinstance(agent, str) else ", ".join(agent)) or "(none)"


def rule_line(rule: Answer) -> str:
    kind = "Allow" if rule["allow"] else "Disallow"
    return f"line {rule['line']}, {kind}: {rule['path']}"


def rule_or_reason(judged: Answer) -> str:
    return rule_line(judged["rule"]) if judged["rule"] else str(judged["reason"])


def group_and_why(judged: Answer) -> str:
    agent, groups = judged["agent"], judged["groups"]
    tokens = product_tokens(agent) if isinstance(agent, str) else agent
    whom = " or ".join(tokens) or "it"
    if not groups:
        return f"none names {whom} or *" if judged["reason"] == "no group" else "none"
    which = " and ".join(
        f"{', '.join(dict.fromkeys(each['tokens']))} (line {each['line']})"
        for each in groups
    )
    if judged["by_default"]:
        return f"{which}, as none names {whom}"
    return f"{which}{', merged' if len(groups) > 1 else ''}, for this agent"


def pace(judged: Answer) -> Iterator[str]:
    if judged["crawl_delay"] is not None:
        yield f"Crawl-delay: {judged['crawl_delay']:g} s"
    if rate := judged["request_rate"]:
        during = ", {start} to {end} UTC".format(**rate) if rate["start"] else ""
        yield f"Request-rate: {rate['requests']} in {rate['seconds']:g} s{during}"
    if judged["visit_time"]:
        yield "Visit-time: {start} to {end} UTC".format(**judged["visit_time"])
    if judged["too_slow"]:
        yield "slower than REP_CRAWL_DELAY_MAX, so nothing is sent"


def excerpt(lines: Sequence[Answer]) -> Iterator[Row]:
    """Return the lines around each rule that decided, and those that head its group."""
    digits = len(str(lines[-1]["line"])) if lines else 0
    before = lines[0]["line"] if lines else 0
    label = "lines"
    for each in lines:
        line, text = each["line"], each["text"][:MAX_CHARACTERS]
        if line > before + 1:
            yield Row(label, [" " * digits + "   ..."])
        mark, colour = (">", "bold") if each["decides"] else (" ", "")
        yield Row(label, [f"{line:{digits}} {mark} {text}"], colour)
        before, label = line, " "


def about_file(copy: Answer, sitemaps: Sequence[str]) -> Iterator[Row]:
    """Return what holds for all agents: the sitemaps, and where the copy came from."""
    yield Row("sitemaps", first_of(sitemaps, MAX_LISTED, " (--sitemaps)") or ["none"])
    how = SOURCE_WORDS[copy["came_by"]].format(**copy)
    yield Row("copy", [copy["asked"], *filter(None, [how])])
    hops = [f"{hop['status']} {hop['url']}" for hop in copy["hops"]]
    if len(hops) > 1:
        yield Row("redirects", hops)
    elif copy["url"] not in {None, copy["asked"]}:
        yield Row("redirects", [f"to {copy['url']}"])
    if copy["failure"]:
        yield Row("failure", [copy["failure"]])
    if copy["age"] is not None:
        yield Row("age", [f"{duration(round(copy['age']))} ({copy['state']})"])
    if copy["ask_in"] is not None:
        due = copy["ask_in"] <= 0
        yield Row("refresh", ["now" if due else f"in {left(copy['ask_in'])}"])
