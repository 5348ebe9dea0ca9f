"""What is done with each policy: judge by it, list its sitemaps, say what is wrong."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING, Protocol

from scrapy_rep.commands import as_json, as_text
from scrapy_rep.commands.findings import Finding, exit_status, judgement
from scrapy_rep.judging import Judge
from scrapy_rep.protocol.printable import printable, without_user
from scrapy_rep.robots import sitemap_urls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.commands.findings import Copy
    from scrapy_rep.commands.terminal import Screen
    from scrapy_rep.policies import Known
    from scrapy_rep.protocol import Agent, Policy
    from scrapy_rep.settings import Settings

SEVERITY_COLOURS = {"error": "red", "warning": "yellow"}


class Task(Protocol):
    """Takes one URL after the other, with the policy of its origin."""

    once: bool
    """It is about files: one URL of each origin is enough."""
    status: int
    """The exit status, by what was taken so far."""

    def take(self, url: str, known: Known, copy: Copy) -> None:
        """Take one URL, with what is known of its origin."""

    def fail(self, url: str, problem: str) -> None:
        """Take a URL that nothing can be found out about."""


class Judging:
    once = False

    def __init__(
        self,
        screen: Screen,
        agents: Sequence[Agent],
        settings: Settings,
        *,
        as_json: bool,
        now: bool = False,
    ) -> None:
        self.status = 0
        self._screen = screen
        self._agents = agents
        self._judge = Judge(settings)
        self._now = now
        self._as_json = as_json
        self._first = True

    def take(self, url: str, known: Known, copy: Copy) -> None:
        now = time()
        judgements = tuple(
            judgement(known, url, agent, self._judge, now) for agent in self._agents
        )
        self._say(
            Finding(
                url=without_user(url),
                copy=copy,
                policy=known.policy,
                judgements=judgements,
                sitemaps=sitemaps(known.policy, copy),
            )
        )
        allowed = [each.sent_now if self._now else each.allowed for each in judgements]
        self.status = max(self.status, exit_status(allowed))

    def fail(self, url: str, problem: str) -> None:
        self.status = 2
        self._say(Finding(url=without_user(url), problem=problem))

    def _say(self, finding: Finding) -> None:
        if self._as_json:
            self._screen.write(as_json.line(as_json.finding(finding)))
            return
        if not self._first:
            self._screen.write("")
        self._first = False
        self._screen.write(*as_text.block(finding, self._screen))


class _OfFiles:
    """A task about files rather than URLs."""

    once = True

    def __init__(self, screen: Screen, *, as_json: bool) -> None:
        self.status = 0
        self._screen = screen
        self._as_json = as_json

    def fail(self, url: str, problem: str) -> None:
        self.status = 2
        self._screen.complain(f"{without_user(url)}: {problem}")


class Listing(_OfFiles):
    """Lists sitemaps."""

    def take(self, url: str, known: Known, copy: Copy) -> None:
        if known.unreachable:
            self.fail(copy.asked, f"unreachable ({copy.failure})")
        found = sitemaps(known.policy, copy)
        if self._as_json:
            its = {"robots_txt": as_json.copy(copy), "sitemaps": list(found)}
            self._screen.write(as_json.line(its))
        else:
            self._screen.write(*map(printable, found))


class Linting(_OfFiles):
    """Says what is wrong with files, as compilers say it."""

    def take(self, url: str, known: Known, copy: Copy) -> None:
        if known.unreachable:
            self.fail(copy.asked, f"unreachable ({copy.failure})")
            return
        for note in known.policy.notes:
            if note.severity == "error":
                self.status = max(self.status, 1)
            if self._as_json:
                self._screen.write(as_json.line(as_json.note(copy.asked, note)))
                continue
            colour = SEVERITY_COLOURS.get(note.severity, "dim")
            severity = self._screen.paint(note.severity, colour)
            message = printable(note.message)
            self._screen.write(
                f"{printable(copy.asked)}:{note.line}: {severity} {note.code} {message}"
            )


def sitemaps(policy: Policy, copy: Copy) -> tuple[str, ...]:
    """Return the sitemaps of *policy*, absolute where it has a URL itself."""
    if copy.came_by == "file":
        return policy.sitemaps
    return sitemap_urls(policy, copy.asked)
