"""Two robots.txt files, and the URLs that they decide differently about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.commands import as_json, as_text
from scrapy_rep.commands.files import url_of
from scrapy_rep.protocol.printable import printable, without_user

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_rep.commands.terminal import Progress, Screen
    from scrapy_rep.protocol import Agent, Policy, Verdict

LINES_AT_A_TIME = 200  # lines between two looks at the clock


class Comparing:
    """Streams URLs past two policies; keeps none of them."""

    def __init__(
        self,
        old: Policy,
        new: Policy,
        agents: Sequence[Agent],
        screen: Screen,
        *,
        as_json: bool,
    ) -> None:
        self._old = old
        self._new = new
        self._agents = agents
        self._screen = screen
        self._as_json = as_json
        self._urls = 0
        self._now_allowed = 0
        self._now_refused = 0

    @property
    def status(self) -> int:
        """Return the exit status; 0: no verdict changes, 1: some do."""
        return 1 if self._now_allowed or self._now_refused else 0

    def run(self, lines: Iterable[bytes], progress: Progress) -> None:
        pairs = [
            (agent, self._old.allowed, self._new.allowed) for agent in self._agents
        ]
        read = 0
        for number, line in enumerate(lines, 1):
            read += len(line)
            if not number % LINES_AT_A_TIME:
                progress.add(read)
                read = 0
            url = url_of(line)
            if not url:
                continue
            self._urls += 1
            for agent, before, after in pairs:
                if before(url, agent) != after(url, agent):
                    self._changed(url, agent)

    def _changed(self, url: str, agent: Agent) -> None:
        old, new = self._old.verdict(url, agent), self._new.verdict(url, agent)
        url = without_user(url)
        if new.allowed:
            self._now_allowed += 1
        else:
            self._now_refused += 1
        if self._as_json:
            self._screen.write(as_json.line(as_json.change(url, agent, old, new)))
            return
        verdict = self._screen.paint(*as_text.VERDICT_WORDS[new.allowed])
        whom = f" for {as_text.agent_name(agent)}" if len(self._agents) > 1 else ""
        self._screen.write(
            f"{verdict}{whom} {printable(url)}",
            f"  old: {reason(old)}",
            f"  new: {reason(new)}",
        )

    def summarise(self) -> None:
        """Write how many URLs change; programs count their lines themselves."""
        if self._as_json:
            return
        changed = self._now_allowed + self._now_refused
        what = "verdicts" if len(self._agents) > 1 else "URLs"
        of = self._urls * len(self._agents)
        self._screen.write(
            f"{changed:,} of {of:,} {what} change: {self._now_allowed:,} now allowed, "
            f"{self._now_refused:,} now refused"
        )


def reason(verdict: Verdict) -> str:
    if verdict.rule is None:
        return verdict.reason
    return as_text.rule_line(verdict.rule)
