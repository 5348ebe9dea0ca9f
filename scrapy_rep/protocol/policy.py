"""A robots.txt, parsed, and the verdicts it gives."""

from __future__ import annotations

import sys
from operator import attrgetter
from typing import TYPE_CHECKING

from scrapy_rep.protocol.decoding import Text, decode_text
from scrapy_rep.protocol.groups import (
    agents_given,
    chosen_for,
    groups_as_written,
    groups_for,
    groups_of,
    paces_among,
    statements,
)
from scrapy_rep.protocol.language import RFC9309, Dialect, paces_from, sitemaps_in
from scrapy_rep.protocol.lint import notes_on
from scrapy_rep.protocol.paths import (
    COMPARABLE_PATH,
    ORIGIN,
    Reading,
    Rule,
    Verdict,
    path_of,
    without_dot_segments,
)
from scrapy_rep.protocol.preferences import stated_in
from scrapy_rep.protocol.ruleset import FEW_QUERIES, NO_MATCH, RuleSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_rep.protocol.groups import Group
    from scrapy_rep.protocol.language import Paces, RequestRate, VisitTime
    from scrapy_rep.protocol.lint import Note
    from scrapy_rep.protocol.preferences import Preferences

MAX_AGENTS = 32  # of one policy, besides the first, whose rules stay compiled
EMPTY_SIZE, LINE_SIZE, WILDCARD_SIZE, EXPLAINED_SIZE = 1000, 70, 220, 350
"""Octets of memory, measured: of a policy besides its text, of a line, of a wildcard, and of a line of
a large file, whose explanation stays."""

ROBOTS_TXT = "/robots.txt"  # RFC 9309 2.2.2: implicitly allowed, not with a query

is_final = COMPARABLE_PATH.fullmatch


def parse(
    body: bytes | str, *, dialect: Dialect = RFC9309, encoding: str | None = None
) -> Policy:
    """The policy that the content of a robots.txt states.

    `encoding` is the charset that its Content-Type declared; an unknown one is ignored.
    Only the first 512 KiB of `body` count, without the line that the limit cuts.

    No content makes it raise. Raises TypeError when an argument has another type.
    """
    if not isinstance(dialect, Dialect):
        msg = f"dialect must be a Dialect, not {type(dialect).__name__}"
        raise TypeError(msg)
    return Policy(decode_text(body, encoding), dialect)


class Policy:
    """What a robots.txt states, for every agent. Made by `parse`; it does not change.

    Only the text is kept at first. The rules of an agent are compiled when the agent is
    first asked about.

    Where a method takes `url`, it is an absolute URL or a path with its query, any str;
    scheme, host and port are not looked at. Where it takes `agent`, it is a product token,
    a whole User-Agent header, or a sequence of either, most wanted first. Both raise
    TypeError for other types.
    """

    __slots__ = (
        "_first",
        "_origin",
        "_others",
        "_reason",
        "_text",
        "dialect",
    )

    dialect: Dialect

    def __init__(self, text: Text, dialect: Dialect, reason: str | None = None) -> None:
        self.dialect = dialect
        self._text = text
        self._reason = reason
        self._origin = ""  # scheme and authority of the URL asked about last
        # Of the agent that was asked about first, mostly the only one, and of others, as given.
        self._first: RuleSet | None = None
        self._others: dict[str | tuple[str, ...], RuleSet] | None = None

    @classmethod
    def allow_all(
        cls, reason: str = "allow all", *, dialect: Dialect = RFC9309
    ) -> Policy:
        """A policy that allows everything; `reason` becomes the reason of its verdicts."""
        return cls(decode_text(""), dialect, reason)

    @classmethod
    def disallow_all(
        cls, reason: str = "disallow all", *, dialect: Dialect = RFC9309
    ) -> Policy:
        """A policy that allows /robots.txt alone; `reason` as in `allow_all`."""
        return cls(decode_text("User-agent: *\nDisallow: /\n"), dialect, reason)

    def allowed(self, url: str, agent: str | Sequence[str]) -> bool:
        """Whether `agent` may fetch `url`."""
        rules = self._first
        if rules is None or agent != rules.agent:
            rules = self._rules_for(agent)
        try:
            path = url.removeprefix(self._origin)
            # What a URI may not hold, but for "%", only meets a wildcard or an escape.
            if (
                path[:1] != "/"
                or "%" in path
                or "/." in path
                or "#" in path
                or not path.isascii()
                or (rules.picky and (rules.has_urls or not is_final(path)))
            ):
                rules, path = self._judged(url, rules)
        except (TypeError, AttributeError):
            check_url(url)
            raise
        return rules.score(path) & 1 == 1 or path == ROBOTS_TXT

    def verdict(self, url: str, agent: str | Sequence[str]) -> Verdict:
        """Whether `agent` may fetch `url`, and the rule that says so."""
        rules = self._first
        if rules is None or agent != rules.agent:
            rules = self._rules_for(agent)
        try:
            rules, path = self._judged(url, rules)
        except (TypeError, AttributeError):
            check_url(url)
            raise
        if path == ROBOTS_TXT:
            group = rules.chosen.tokens if self._reason is None else None
            return Verdict(True, None, group, "robots.txt itself")
        score = rules.score(path)
        return rules.verdicts.get(score) or self._verdict_by(score, path, rules)

    def _verdict_by(self, score: int, path: str, rules: RuleSet) -> Verdict:
        allowed = score & 1 == 1
        if self._reason is not None:
            verdict = Verdict(allowed, None, None, self._reason)
        elif rules.chosen.tokens is None:
            verdict = Verdict(allowed, None, None, "no group")
        elif score == NO_MATCH and not self.dialect.blank_rules_count:
            # An empty rule may have that score, too. Else nothing is compiled for it.
            verdict = Verdict(True, None, rules.chosen.tokens, "no rule matches")
        else:
            rule, is_only = rules.rule_for(score, path)
            if rule is None:
                return Verdict(allowed, None, rules.chosen.tokens, "no rule matches")
            verdict = Verdict(allowed, rule, rules.chosen.tokens, "rule")
            if not is_only:
                return verdict
        rules.verdicts[score] = verdict
        return verdict

    def matching(self, url: str, agent: str | Sequence[str]) -> tuple[Rule, ...]:
        """Every rule for `agent` that matches `url`, in the order in which they decide: the
        first is the rule of the verdict (but for /robots.txt, which no rule decides about).
        """
        rules = self._rules_for(agent)
        check_url(url)
        if self._reason is not None:
            return ()
        rules, path = self._judged(url, rules)
        return rules.matching(path)

    def denies_all(self, agent: str | Sequence[str]) -> bool:
        """Whether `agent` may fetch nothing but /robots.txt."""
        return self._rules_for(agent).denies_all()

    def crawl_delay(self, agent: str | Sequence[str]) -> float | None:
        """Seconds between two requests that the site asks of `agent`; the most, where it
        names several. None: the site does not say.
        """
        # Beyond RFC 9309: 2.2.4 allows to interpret other records.
        return self._paces(agent).delay

    def request_rate(self, agent: str | Sequence[str]) -> RequestRate | None:
        """The rate of requests that the site asks of `agent`; the slowest, where it names
        several. None: the site does not say.
        """
        return self._paces(agent).rate

    def visit_time(self, agent: str | Sequence[str]) -> VisitTime | None:
        """The time of day in which the site welcomes `agent`; the first, where it names
        several. None: the site does not say.
        """
        return self._paces(agent).visit

    def preferences(self, url: str, agent: str | Sequence[str]) -> Preferences:
        """What the site says about the use that `agent` may make of `url`."""
        rules = self._rules_for(agent)
        check_url(url)
        if rules.stated is None:
            rules.stated = stated_in(self._text.lines, rules.chosen.asked, self.dialect)
        # attach-05 3.1: what may not be fetched has no Content-Usage.
        if not rules.stated.rules or not self.allowed(url, agent):
            return rules.stated.everywhere
        return rules.stated.at(path_of(url, self.dialect))

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """Sitemap values as written, in file order, in whatever group they stand."""
        return tuple(sitemaps_in(self._text.lines))

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups as written, in file order and not merged."""
        return groups_as_written(
            self._text.lines, groups_of(self._text.lines, self.dialect)
        )

    def groups_for(self, agent: str | Sequence[str]) -> tuple[Group, ...]:
        """Those of `groups` whose rules hold for `agent`: its own, else those of `*`."""
        agents = agents_given(agent)
        if self._reason is not None:
            return ()
        groups = groups_of(self._text.lines, self.dialect)
        return groups_as_written(
            self._text.lines, groups_for(agents, groups, self.dialect)[0]
        )

    @property
    def notes(self) -> tuple[Note, ...]:
        """What its owner should know about the file, by line. Computed on every access."""
        return tuple(sorted(notes_on(self._text, self.dialect), key=attrgetter("line")))

    def size_bytes(self) -> int:
        """By the text that is meant for the agent asked about first, or by all of it. What that agent
        asks does not change it; others add no more than all of it.
        """
        text, first = self._text.lines, self._first
        spans = [(0, len(text))]
        of_line = LINE_SIZE
        if first is not None:
            spans = [(start, end) for _, _, start, end in first.chosen.sections]
            of_line += EXPLAINED_SIZE * first.is_prepared
        size = EMPTY_SIZE + sys.getsizeof(self._text.kept)
        for start, end in spans:
            size += end - start + of_line * text.count("\n", start, end)
            size += WILDCARD_SIZE * text.count("*", start, end)
        return size

    def is_prepared(self, agent: str | Sequence[str]) -> bool:
        """Whether `prepare` was called for `agent`, and its work is still there."""
        key = agent if isinstance(agent, str) else agents_given(agent)
        rules = self._compiled_for(key)
        return rules is not None and rules.is_prepared

    def prepare(self, agent: str | Sequence[str], url: str = "/:?") -> None:
        """Do all slow work for `agent`, and for a `url` that meets what only some do."""
        self.crawl_delay(agent)
        for _ in range(FEW_QUERIES + 1):  # the last one has the tables that serve many
            self.allowed(url, agent)
        self.matching(url, agent)
        self.preferences(url, agent)
        rules = self._rules_for(agent)
        rules.is_prepared = True
        rules.scored()  # which may be forgotten by now

    def __str__(self) -> str:
        """A robots.txt, the text that was read, which parses to an equal policy. Octets
        that are not UTF-8 are lone surrogates in it, as ``surrogateescape`` makes them.
        """
        return self._text.lines[1:]

    def __repr__(self) -> str:
        reason = "" if self._reason is None else f", {self._reason!r}"
        return f"<Policy {self.dialect.name}{reason}, {len(self._text.lines) - 1} characters>"

    def __eq__(self, other: object) -> bool:
        """Whether both state the same groups, pace and sitemaps in the same dialect."""
        if not isinstance(other, Policy):
            return NotImplemented
        return self.dialect == other.dialect and (
            self._text.lines == other._text.lines
            or statements(self._text.lines, self.dialect)
            == statements(other._text.lines, other.dialect)
        )

    def __hash__(self) -> int:
        return hash((self.dialect, statements(self._text.lines, self.dialect)))

    def __reduce__(self) -> tuple[type[Policy], tuple[Text, Dialect, str | None]]:
        return Policy, (self._text, self.dialect, self._reason)

    def _paces(self, agent: str | Sequence[str]) -> Paces:
        rules = self._rules_for(agent)
        if rules.paces is None:
            asked = rules.chosen.asked
            rules.paces = paces_from(paces_among(self._text.lines, asked))
        return rules.paces

    def _judged(self, url: str, rules: RuleSet) -> tuple[RuleSet, str]:
        """What decides about a URL: its comparable path, and `rules`, or those of its origin.

        What `path_of` cuts off is remembered: URLs of one site share it. `allowed` does the same
        for the usual URL without a call.
        """
        path = url.removeprefix(self._origin)
        if path[:1] != "/":
            origin = ORIGIN.match(url)
            if origin is not None:
                self._origin = origin[0]
                path = url[origin.end() :]
        if not (
            path[:1] != "/"
            or "%" in path
            or "/." in path
            or "#" in path
            or not path.isascii()
            or (rules.picky and (rules.has_urls or not is_final(path)))
        ):
            return rules, path
        if rules.has_urls:
            rules = rules.at(url)
        path = path_of(url, self.dialect)
        if "/." in path and self.dialect.resolves_dots and not refuses(rules, path):
            # Beyond RFC 9309: a server resolves it, so a refusal of either form holds.
            resolved = without_dot_segments(path)
            if refuses(rules, resolved):
                return rules, resolved
        return rules, path

    def _rules_for(self, agent: str | Sequence[str]) -> RuleSet:
        key = agent if isinstance(agent, str) else agents_given(agent)
        first, others = self._first, self._others
        if first is not None and (known := self._compiled_for(key)) is not None:
            return known
        text = self._text.lines
        chosen = chosen_for(agents_given(key), text, self.dialect)
        reading = Reading(self.dialect, self._text)
        if first is None:
            self._first = first = RuleSet(chosen, reading, key).compile()
            return first  # another thread may have put its own there since
        if others is None:
            others = self._others = {}
        elif len(others) >= MAX_AGENTS or letters_of(others.values()) > len(text):
            others.clear()
        for rules in (first, *others.values()):
            if rules.chosen == chosen:
                break  # another agent that shares the groups
        else:
            rules = RuleSet(chosen, reading, key).compile()
        others[key] = rules
        return rules

    def _compiled_for(self, key: str | tuple[str, ...]) -> RuleSet | None:
        first, others = self._first, self._others
        if first is not None and key == first.agent:
            return first
        return None if others is None else others.get(key)


def letters_of(rule_sets: Iterable[RuleSet]) -> int:
    """One of them may serve several agents."""
    chosen = [rules.chosen.sections for rules in set(rule_sets)]
    return sum(end - start for sections in chosen for _, _, start, end in sections)


def refuses(rules: RuleSet, path: str) -> bool:
    return rules.score(path) & 1 == 0 and path != ROBOTS_TXT


def check_url(url: object) -> None:
    if not isinstance(url, str):
        raise TypeError(f"url must be str, not {type(url).__name__}")
