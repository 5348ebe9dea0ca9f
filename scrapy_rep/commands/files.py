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
    import argparse
    from collections.abc import Iterator

    from scrapy.settings import Settings as ScrapySettings

MAX_BROKEN_LINES = 20
"""Broken lines that are named here; the page names some more."""


def compare(opts: argparse.Namespace, settings: ScrapySettings, screen: Screen) -> int:
    """Stream the URLs past both files, keeping none; return the exit status."""
    ours, agents = settings_and_agents(opts, settings)
    old, new = (policy_in(name, ours) for name in (opts.old, opts.new))
    changes: Counter[bool] = Counter()  # by what is allowed now
    number = 0
    progress = screen.track(None, "URLs")
    with open_named(opts.urls, "list of URLs") as file:
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
                screen.say(change, words_of_change)
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


def report(opts: argparse.Namespace, settings: object, screen: Screen) -> int:
    """Write it, and say what came of it; return the exit status.

    Raises ``UsageError`` where an audit cannot be read or the output not be written.
    """
    form = "csv" if opts.csv else "json" if opts.json else "html"
    output = opts.output or "-"
    progress = screen.track(size_of([*opts.audit, *opts.against]), "octets")
    how = {"form": form, "against": opts.against, "chosen": opts.host}
    try:
        made = make(opts.audit, output, **how, progress=progress.add)
    except AuditError as error:
        raise UsageError(str(error)) from None
    warnings = made.troubles[:MAX_BROKEN_LINES]
    if made.broken > MAX_BROKEN_LINES:
        more = made.broken - MAX_BROKEN_LINES
        warnings.append(f"and {more:,} more lines that are broken")
    if made.torn:
        of = f"{made.torn:,} of {len(opts.audit):,} files"
        warnings.append(f"{of} end in a torn line, as after a kill; it is ignored")
    for host in made.missing:
        warnings.append(f"--host is {host!r}, expected a host of the audits")
    for warning in warnings:
        complain(f"warning: {warning}")
    if output != "-":
        records, hosts = counted(made.records, "record"), counted(made.hosts, "host")
        screen.sum_up(f"{output}: {records} of {hosts}")
        for sentence in made.conclusion:
            screen.sum_up(sentence)
    return 0
