"""What is told of files: robots.txt compared, and approved (REP_APPROVED); audits reported."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from scrapy_rep.commands.answers import (
    COULD_NOT_TELL,
    VERDICT_COLOURS,
    VERDICT_WORDS,
    Answers,
    decision,
    rule_or_reason,
    settings_and_agents,
    shown_agent,
)
from scrapy_rep.commands.terminal import (
    Answer,
    Row,
    Screen,
    all_urls,
    complain,
    fail,
    open_named,
    policy_in,
    url_of,
)
from scrapy_rep.judging.ruling import Judge
from scrapy_rep.policies.agreed import (
    HEAD,
    INDENT,
    Blocks,
    head_of,
    read_approved,
    terms_of,
)
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.printable import counted, explain, printable, without_user
from scrapy_rep.report import AuditError, make, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.settings import Settings as ScrapySettings

    from scrapy_rep.commands.terminal import Typed
    from scrapy_rep.policies import Known


def compare(typed: Typed, settings: ScrapySettings, screen: Screen) -> int:
    ours, agents = settings_and_agents(typed, settings)
    old, new = (policy_in(name, ours) for name in (typed.old, typed.new))
    changes: Counter[bool] = Counter()  # by what is allowed now
    number = 0
    progress = screen.track(None, "URLs")
    with open_named(typed.urls, "list of URLs") as file:
        for url in filter(None, map(url_of, file)):
            progress.add()
            for agent in agents:
                number += 1
                allowed = new.allowed(url, agent)
                if old.allowed(url, agent) == allowed:
                    continue
                changes[allowed] += 1
                change: Answer = {"url": without_user(url), "agent": agent}
                for name, policy in (("old", old), ("new", new)):
                    change[name] = decision(policy.verdict(url, agent))
                screen.say(words_of_change, change)
    screen.sum_up(
        f"{changes.total():,} of {number:,} verdicts change: "
        f"{changes[True]:,} now allowed, {changes[False]:,} now refused"
    )
    return int(bool(changes))


def words_of_change(change: Answer) -> Iterator[str | Row]:
    allowed = change["new"]["allowed"]
    verdict = VERDICT_WORDS[allowed]
    heading = f"{verdict} for {shown_agent(change['agent'])}: {change['url']}"
    yield Row("", [heading], VERDICT_COLOURS[allowed])
    for name in ("old", "new"):
        yield f"  {name}: {rule_or_reason(change[name])}"


def report(typed: Typed, settings: object, screen: Screen) -> int:
    form = "csv" if typed.csv else "json" if typed.json else "html"
    output = typed.output or "-"
    progress = screen.track(size_of([*typed.audit, *typed.against]), "octets")
    how = {"form": form, "against": typed.against, "chosen": typed.host}
    try:
        audit = make(typed.audit, output, **how, progress=progress.add)
    except AuditError as error:
        raise UsageError(str(error)) from None
    for warning in audit.warnings:
        complain(f"warning: {warning}")
    for host in audit.missing:
        complain(f"warning: --host is {host!r}, expected a host of the audits")
    if output != "-":
        records, hosts = audit.records, audit.sums["hosts"]
        of = f"{counted(records, 'record')} of {counted(hosts, 'host')}"
        for line in (f"{output}: {of}", *(said.text for said in audit.conclusion)):
            screen.sum_up(line)
    return 0


URL_NAMES = ("start_urls", "sitemap_urls")
BLOCK = re.compile(r"(?m)^([^\s#].*)\n((?:(?:[ \t#].*)?\n)*)")
"""A block of the file: its head, and what is below that, comments among it."""


def approve(typed: Typed, settings: ScrapySettings, screen: Screen) -> int:
    named = [url for name in URL_NAMES for url in getattr(typed.kind, name, None) or ()]
    urls = [str(url) for url in named if origin_of(str(url)) is not None]
    urls = list(dict.fromkeys([*urls, *all_urls(typed.url)]))
    if not urls:
        fail("No URL is known. Type one, or --spider NAME of a spider with start_urls.")
    path = Path(typed.file)
    before = read_approved(str(path)) if path.exists() else {}
    text = path.read_text(encoding="utf-8") if before else ""
    blocks: dict[str, str] = defaultdict(str)
    for head, its in BLOCK.findall(f"{text}\n"):
        blocks[head.strip()] += f"{its.rstrip()}\n"
    ours, agents = settings_and_agents(typed, settings)
    approving = Approving(screen, typed, agents, Judge(ours))
    typed.ask(urls, approving)
    if not approving.is_whole:
        return COULD_NOT_TELL
    for head, terms in approving.blocks.items():
        was = before.get(head, terms)
        answer = {
            "block": head,
            "terms": list(terms),
            "gone": [each for each in was if each not in terms],
            "new": [each for each in terms if each not in was],
            "is_new": head not in before,
            "urls": approving.comments[head],
        }
        screen.say(words, answer)
        notes = (f"# {each}" for each in approving.comments[head])
        lines = (f"{INDENT}{each}\n" for each in (*terms, *notes))
        blocks[head] = "".join(lines)
    if approving.blocks:
        parts = (f"\n{head}\n{blocks[head]}" for head in sorted(blocks))
        path.write_text(f"{HEAD}\n{''.join(parts)}", encoding="utf-8")
        screen.sum_up(f"Written to {path}")
    return approving.status


@dataclass
class Approving(Answers):
    blocks: Blocks = field(default_factory=dict)
    comments: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def take(self, url: str, known: Known, copy: Answer) -> None:
        self.screen.progress.add()
        if known.unreachable:
            self.fail(url, f"its robots.txt is unreachable ({copy['failure']})")
            return
        (agent,) = self.agents
        head = head_of(known.origin, agent)
        terms = terms_of(known.policy, known.origin, agent, self.judge.settings)
        self.blocks[head] = terms
        verdict = known.policy.verdict(url, agent)
        comment = f"may fetch {printable(without_user(url))}"
        if not verdict.allowed:
            self.status = max(self.status, 1)
            why = printable(explain(verdict).partition(" (line ")[0])
            comment = f"{comment.replace('may', 'may not', 1)}: {why}"
        self.comments[head].append(comment)

    def fail(self, url: str, problem: str) -> None:
        self.status = COULD_NOT_TELL
        complain(f"{without_user(url)}: {problem}; it is not in the file")


def words(answer: Answer) -> Iterator[str]:
    state = "changed" if answer["new"] or answer["gone"] else "as it was"
    yield f"{answer['block']} ({'new' if answer['is_new'] else state})"
    for each in answer["terms"]:
        yield f"  {'+' if each in answer['new'] else ' '} {each}"
    yield from (f"  - {each}" for each in answer["gone"])
    yield from (f"{INDENT}# {each}" for each in answer["urls"])
