"""Two robots.txt files, and the URLs that they decide differently about."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scrapy_rep.commands import as_text, inputs
from scrapy_rep.commands.answers import agents_of, listed
from scrapy_rep.protocol import parse
from scrapy_rep.protocol.printable import printable, without_user
from scrapy_rep.settings import Settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy.settings import Settings as ScrapySettings

    from scrapy_rep.commands.terminal import Answer, Screen
    from scrapy_rep.protocol import Verdict

URLS_AT_A_TIME = 200  # between two looks at the clock


def tell(
    opts: argparse.Namespace, scrapy_settings: ScrapySettings, screen: Screen
) -> int:
    """Stream the URLs past both files, keeping none; return the exit status."""
    settings = Settings.read(scrapy_settings)
    agents = agents_of(opts, scrapy_settings, settings)
    old, new = (
        parse(inputs.robots_txt(name), dialect=settings.dialect)
        for name in (opts.old, opts.new)
    )
    pairs = [(agent, old.allowed, new.allowed) for agent in agents]
    number = 0
    changes: Counter[bool] = Counter()  # by what is allowed now

    def words(change: Answer) -> Iterator[str]:
        allowed = change["new"]["allowed"]
        colour = as_text.VERDICT_COLOURS[allowed]
        whom = f" for {as_text.agent_name(change)}" if len(agents) > 1 else ""
        verdict = screen.paint(as_text.VERDICT_WORDS[allowed], colour)
        yield f"{verdict}{whom} {printable(change['url'])}"
        for name in ("old", "new"):
            its = change[name]
            why = as_text.rule_line(its["rule"]) if its["rule"] else its["reason"]
            yield f"  {name}: {why}"

    with inputs.open_named(opts.urls, "list of URLs") as file:
        progress = screen.track(None, "URLs")
        for number, url in enumerate(filter(None, map(inputs.url_of, file)), 1):
            if not number % URLS_AT_A_TIME:
                progress.add(URLS_AT_A_TIME)
            for agent, before, after in pairs:
                if before(url, agent) != after(url, agent):
                    verdicts = old.verdict(url, agent), new.verdict(url, agent)
                    changes[verdicts[1].allowed] += 1
                    change = {"url": without_user(url), "agent": listed(agent)}
                    both = dict(zip(("old", "new"), map(told, verdicts), strict=True))
                    screen.say(change | both, words)
    what = "verdicts" if len(agents) > 1 else "URLs"
    screen.sum_up(
        f"{changes.total():,} of {number * len(agents):,} {what} change: "
        f"{changes[True]:,} now allowed, {changes[False]:,} now refused"
    )
    return 1 if changes else 0


def told(verdict: Verdict) -> Answer:
    rule = verdict.rule and verdict.rule._asdict()
    return {"allowed": verdict.allowed, "reason": verdict.reason, "rule": rule}
