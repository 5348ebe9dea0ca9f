"""What is told of URLs and of robots.txt files. The keys are documented, and stay."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import time as ClockTime
from functools import lru_cache
from operator import itemgetter
from time import time
from typing import TYPE_CHECKING, Any

from scrapy_rep.commands.terminal import (
    STDIN_NAME,
    Answer,
    Row,
    Screen,
    all_urls,
    complain,
    left,
    policy_in,
)
from scrapy_rep.gate.robots import sitemap_urls
from scrapy_rep.judging.ruling import CRAWL_DELAY, Action, Judge, objection_to_pace
from scrapy_rep.judging.target import Agents, Chooser
from scrapy_rep.policies import Known
from scrapy_rep.protocol import product_tokens
from scrapy_rep.protocol.decoding import show_octets
from scrapy_rep.protocol.lint import NUMBERS, notes_on_header
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.printable import (
    duration,
    explain,
    first_of,
    lines_around,
    without_user,
)
from scrapy_rep.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy.settings import Settings as ScrapySettings

    from scrapy_rep.commands.terminal import Typed
    from scrapy_rep.judging.ruling import Ruling
    from scrapy_rep.protocol import Agent, Note, Policy, Verdict

COULD_NOT_TELL = 2
STATUSES = {True: 0, False: 1, None: COULD_NOT_TELL}
LINES_AROUND = 2  # lines that are shown before and after a rule
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
OF_A_FILE = ("status", "url", "state", "failure", "checked", "age", "ask_in")


def tell(typed: Typed, settings: ScrapySettings, screen: Screen) -> int:
    ours, agents = settings_and_agents(typed, settings)
    # What a crawl would do, which may wait as this command does not.
    answers = Answers(screen, typed, agents, Judge(replace(ours, wait=True)))
    screen.track(None, "URLs")
    for header in typed.agent if typed.is_lint else ():
        answers.take_notes("User-Agent", notes_on_header(header))
    what = "robots.txt"
    if typed.word == "lint":
        what += ", a URL with its https://"
    for name in typed.files:
        known = Known("", policy_in(name, ours, what))
        shown = "(standard input)" if name == STDIN_NAME else name
        copy: Answer = {"asked": shown, "came_by": "file", "hops": []}
        for url in [""] if typed.whole else all_urls(typed.url):
            answers.take(url, known, copy | dict.fromkeys(OF_A_FILE))
    if typed.asked:
        # All at once: to wait for standard input would hold up the event loop.
        urls = list(all_urls(typed.asked))
        if typed.whole:
            urls = list({origin_of(url) or url: url for url in urls}.values())
        typed.ask(urls, answers)
    return answers.status if answers.is_whole else COULD_NOT_TELL


@dataclass
class Answers:
    screen: Screen
    typed: Typed
    agents: Sequence[Agent]
    judge: Judge
    status: int = 0
    is_whole: bool = True
    error: BaseException | None = None
    """What writing to standard output raised, or Ctrl-C, where that is not known otherwise."""
    gap: Sequence[str] = ()
    """What is written before the next block."""

    def take(self, url: str, known: Known, copy: Answer) -> None:
        self.screen.progress.add()
        policy, typed = known.policy, self.typed
        if typed.whole and known.unreachable:
            self.fail(copy["asked"], f"unreachable ({copy['failure']})")
        if typed.is_lint:
            if not known.unreachable:
                self.take_notes(copy["asked"], policy.notes)
            return
        answer: Answer = {"robots_txt": copy, "sitemaps": sitemaps(policy, copy)}
        if typed.sitemaps:
            self.screen.say(itemgetter("sitemaps"), answer)
            return
        now = time()
        verdicts = [verdict(known, url, each, self.judge, now) for each in self.agents]
        answer |= {"verdicts": verdicts, "lines": excerpt(policy, verdicts)}
        self._tell(url, answer)
        says = is_sent_now if typed.now else itemgetter("allowed")
        self.status = max(self.status, *(STATUSES[says(each)] for each in verdicts))

    def fail(self, url: str, problem: str) -> None:
        self.status = COULD_NOT_TELL
        if self.typed.whole:
            complain(f"{without_user(url)}: {problem}")
        else:
            nothing: Answer = {"verdicts": [], "lines": [], "sitemaps": []}
            self._tell(url, {**nothing, "problem": problem, "robots_txt": None})

    def _tell(self, url: str, answer: Answer) -> None:
        gap, self.gap = self.gap, [""]
        answer = {"url": without_user(url), "problem": None, **answer}
        self.screen.say(lambda its: [*gap, *block(its)], answer)

    def take_notes(self, file: str, notes: Iterable[Note]) -> None:
        wrong = {"error", "warning"} if self.typed.strict else {"error"}
        counted = [
            {"file": file, **note._asdict(), "number": NUMBERS[note.code]}
            for note in notes
            if not {note.code, NUMBERS[note.code]} & {*self.typed.ignore}
        ]
        for note in counted:
            self.status = max(self.status, int(note["severity"] in wrong))
            self.screen.say(note_rows, note)
        if not counted:
            self.screen.sum_up(f"{file}: no mistakes")


def settings_and_agents(
    typed: Typed, settings: ScrapySettings
) -> tuple[Settings, list[Agent]]:
    """Return by what to judge, and for whom: for --agent, else the spider or project."""
    ours = Settings.read(settings)
    return ours, typed.agent or [Agents(Chooser(settings, typed.kind), ours).of()]


def verdict(known: Known, url: str, agent: Agent, judge: Judge, now: float) -> Answer:
    policy = known.policy
    found = policy.verdict(url, agent)
    objection = objection_to_pace(known.pace_for(agent, judge.settings), now)
    lost = (each for each in policy.matching(url, agent) if each != found.rule)
    groups = policy.groups_for(agent)
    return {
        "agent": agent,
        **decision(found),
        "allowed": None if known.unreachable else found.allowed,
        "meanwhile": found.allowed if known.unreachable else None,
        "lost": [each._asdict() for each in lost],
        "groups": [{"tokens": each.tokens, "line": each.line} for each in groups],
        "by_default": found.group == ("*",),
        "crawl_delay": policy.crawl_delay(agent),
        "request_rate": times(policy.request_rate(agent)),
        "visit_time": times(policy.visit_time(agent)),
        "too_slow": objection is not None and objection.cause == CRAWL_DELAY,
        "now": ruling(judge.rule(url, known, agent, now, found.allowed)),
    }


def decision(its: Verdict) -> Answer:
    rule = its.rule and its.rule._asdict()
    return {"allowed": its.allowed, "reason": its.reason, "rule": rule}


def ruling(its: Ruling) -> Answer:
    objection = its.objection
    return {
        "action": its.action.value,
        "cause": objection and objection.cause,
        "reason": objection and explain(objection.verdict),
        "wait": its.seconds if its.action is Action.WAIT else None,
        "left_out": [each.cause for each in its.left_out],
        "permission": its.permission and its.permission.in_words(),
    }


def times(its: Any) -> Answer | None:
    """Return the fields of *its*, a rate or visit time, the times of day as "HH:MM"."""
    return its and {
        name: f"{value:%H:%M}" if isinstance(value, ClockTime) else value
        for name, value in its._asdict().items()
    }


def excerpt(policy: Policy, verdicts: Iterable[Answer]) -> list[Answer]:
    """Return the lines around each rule that decided, and those that head its group."""
    decided = {each["rule"]["line"] for each in verdicts if each["rule"]}
    heads = [group["line"] for each in verdicts for group in each["groups"]]
    text = lines_of(policy) if decided else []
    return [
        {"line": line, "text": text[line - 1], "decides": line in decided}
        for line in lines_around(decided, heads, LINES_AROUND, len(text))
    ]


@lru_cache(1)  # there may be many URLs of one file
def lines_of(policy: Policy) -> list[str]:
    return show_octets(str(policy)).removesuffix("\n").split("\n")


def sitemaps(policy: Policy, copy: Answer) -> list[str]:
    of_file = copy["came_by"] == "file"
    return list(policy.sitemaps if of_file else sitemap_urls(policy, copy["asked"]))


# The same in words: blocks of labelled rows.


def block(answer: Answer) -> Iterator[Row]:
    yield Row("", [answer["url"]], "bold")
    if answer["problem"]:
        yield Row("verdict", [answer["problem"]], "yellow")
        return
    for each in answer["verdicts"]:
        yield from of_agent(each)
    yield from excerpt_rows(answer["lines"])
    yield from about_file(answer["robots_txt"], answer["sitemaps"])


def of_agent(judged: Answer) -> Iterator[Row]:
    allowed = judged["allowed"]
    yield Row("agent", [shown_agent(judged["agent"])])
    yield Row("verdict", [verdict_words(judged)], VERDICT_COLOURS[allowed])
    yield Row("rule", [rule_or_reason(judged)])
    yield Row("group", [group_and_why(judged)])
    if judged["lost"]:
        yield Row("lost", first_of([*map(rule_line, judged["lost"])], MAX_LISTED))
    yield Row("pace", list(pace_words(judged)) or ["none asked for"])
    if is_sent_now(judged) is not allowed:
        yield Row("now", [what_now(judged)])


def note_rows(its: Answer) -> Iterator[Row]:
    line = "{file}:{line}: {severity} {code} {message} [{number}]".format(**its)
    yield Row("", [line], SEVERITY_COLOURS[its["severity"]])


def verdict_words(judged: Answer) -> str:
    if judged["allowed"] is None:
        return f"not known: {VERDICT_WORDS[judged['meanwhile']]} until its robots.txt can be read"
    return VERDICT_WORDS[judged["allowed"]]


def is_sent_now(judged: Answer) -> bool | None:
    """Tell whether the request would be sent now; ``None``: not known."""
    if judged["allowed"] is None and judged["now"]["cause"]:
        return None
    return bool(judged["now"]["action"] == "send")


def what_now(judged: Answer) -> str:
    now = judged["now"]
    if now["left_out"] and not now["cause"]:
        causes = ", ".join(now["left_out"])
        return f"sent, although this is against it: {causes} (left out of REP_OBEY)"
    if not now["cause"]:
        permission = now["permission"]
        return f"sent, as REP_HOSTS allows it: {permission}" if permission else "sent"
    what = f"waits {left(now['wait'])}" if now["action"] == "wait" else "refused"
    return f"{what}: {now['reason']}"


def shown_agent(agent: Agent) -> str:
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


def pace_words(judged: Answer) -> Iterator[str]:
    if judged["crawl_delay"] is not None:
        yield f"Crawl-delay: {judged['crawl_delay']:g} s"
    if rate := judged["request_rate"]:
        during = ", {start} to {end} UTC".format(**rate) if rate["start"] else ""
        yield f"Request-rate: {rate['requests']} in {rate['seconds']:g} s{during}"
    if judged["visit_time"]:
        yield "Visit-time: {start} to {end} UTC".format(**judged["visit_time"])
    if judged["too_slow"]:
        yield "slower than REP_CRAWL_DELAY_MAX, so nothing is sent"


def excerpt_rows(lines: Sequence[Answer]) -> Iterator[Row]:
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
