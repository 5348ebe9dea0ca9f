"""What is told of files: two robots.txt files beside each other, and the audits of a crawl."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from scrapy_rep.commands.answers import (
    VERDICT_COLOURS,
    VERDICT_WORDS,
    decision,
    name_of,
    rule_or_reason,
    settings_and_agents,
)
from scrapy_rep.commands.terminal import Answer, Row, Screen, complain
from scrapy_rep.commands.typed import open_named, policy_in, url_of
from scrapy_rep.protocol.printable import counted, without_user
from scrapy_rep.report import AuditError, make, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.settings import Settings as ScrapySettings

    from scrapy_rep.commands.typed import Typed


def compare(typed: Typed, settings: ScrapySettings, screen: Screen) -> int:
    """Stream the URLs past both files, keeping none; return the exit status."""
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
    heading = f"{verdict} for {name_of(change['agent'])}: {change['url']}"
    yield Row("", [heading], VERDICT_COLOURS[allowed])
    for name in ("old", "new"):
        yield f"  {name}: {rule_or_reason(change[name])}"


def report(typed: Typed, settings: object, screen: Screen) -> int:
    """Write it, and say what came of it; return the exit status.

    Raises ``UsageError`` where an audit cannot be read or the output not be written.
    """
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
