"""Two robots.txt files, and the URLs that they decide differently about."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scrapy_rep.commands import as_text, forms
from scrapy_rep.commands.answers import decision, settings_and_agents
from scrapy_rep.commands.terminal import Answer, Row, Screen
from scrapy_rep.protocol.printable import without_user

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy.settings import Settings as ScrapySettings


def tell(opts: argparse.Namespace, settings: ScrapySettings, screen: Screen) -> int:
    """Stream the URLs past both files, keeping none; return the exit status."""
    ours, agents = settings_and_agents(opts, settings)
    old, new = (forms.policy_in(name, ours) for name in (opts.old, opts.new))
    changes: Counter[bool] = Counter()  # by what is allowed now
    number = 0
    progress = screen.track(None, "URLs")
    with forms.open_named(opts.urls, "list of URLs") as file:
        for url in filter(None, map(forms.url_of, file)):
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
                screen.say(change, words)
    screen.sum_up(
        f"{changes.total():,} of {number:,} verdicts change: "
        f"{changes[True]:,} now allowed, {changes[False]:,} now refused"
    )
    return int(bool(changes))


def words(change: Answer) -> Iterator[str | Row]:
    allowed = change["new"]["allowed"]
    verdict = as_text.VERDICT_WORDS[allowed]
    heading = f"{verdict} for {as_text.name_of(change['agent'])}: {change['url']}"
    yield Row("", [heading], as_text.VERDICT_COLOURS[allowed])
    for name in ("old", "new"):
        yield f"  {name}: {as_text.rule_or_reason(change[name])}"
