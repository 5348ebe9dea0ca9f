"""The compiled rules of one agent: which of them decides about a path."""

from __future__ import annotations

from bisect import bisect_right
from sys import getsizeof
from typing import TYPE_CHECKING

from scrapy_rep.protocol.groups import rules_in, rules_of
from scrapy_rep.protocol.rules import INDEX_PAGES, USUAL_RULE, Pattern, Rule, readings
from scrapy_rep.protocol.text import MAX_SIZE
from scrapy_rep.protocol.wildcards import Wildcards, joined

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.groups import Section

NO_MATCH = 1  # odd: RFC 9309 2.2.2 allows what no rule matches
MAX_ORDER = MAX_SIZE  # no text has more rules than that
FEW_QUERIES = 16  # answered before the table of prefixes pays for itself


class RuleSet:
    """The merged rules of one agent.

    Every rule has a score (see `readings`). Literal prefixes, exact paths and wildcards are
    kept apart; each gives its highest score that matches, and the highest of all decides.
    """

    __slots__ = (
        "allows_most",
        "base",
        "by_score",
        "exact",
        "fresh",
        "group",
        "literals",
        "parents",
        "prefixes",
        "scores",
        "sections",
        "wildcards",
    )

    def __init__(
        self,
        text: str,
        sections: list[Section],
        dialect: Dialect,
        group: tuple[str, ...] | None,
    ) -> None:
        self.sections = sections
        self.group = group  # its user-agent lines, for verdicts
        self.base = NO_MATCH  # the score of what matches every path
        self.allows_most = NO_MATCH  # the highest score that allows
        self.literals: dict[str, int] | None = None
        self.exact: dict[str, int] | None = None
        self.wildcards: Wildcards | None = None
        self.prefixes: list[str] | None = None
        self.parents: list[int] | None = None
        self.scores: list[int] | None = None
        self.fresh = FEW_QUERIES
        self.by_score: dict[int, list[tuple[Pattern, Rule]]] | None = None
        if sections:
            self.compile(text, dialect)

    def compile(self, text: str, dialect: Dialect) -> None:
        """Score the rules of the sections.

        Rules that are spelt as usual are cut out of the text at once, and what stands
        between them is read line by line. `readings` would score both alike, but slower.
        """
        literals: dict[str, int] = {}
        usual_patterns: dict[str, int] = {}
        others: list[tuple[bool, str, int]] = []
        most_specific = dialect.most_specific
        order = MAX_ORDER
        for section in self.sections:
            body = text[section.start : section.end]
            between, *usual = USUAL_RULE.split(body) if dialect.wildcards else (body,)
            for allow, path, _ in rules_in(between):
                others.append((allow, path, order))
                order -= 1
            rules = iter(usual)
            for is_allow, path, between in zip(rules, rules, rules, strict=True):
                score = 2 * (len(path) if most_specific else order)
                if is_allow:
                    score += 1
                    self.allows_most = max(self.allows_most, score)
                    if path.endswith(INDEX_PAGES):
                        others.append((True, path, order))
                known = usual_patterns if "*" in path or path[-1] == "$" else literals
                if known.get(path, 0) < score:
                    known[path] = score
                order -= 1
                if between:
                    for allow, path, _ in rules_in(between):  # noqa: PLW2901
                        others.append((allow, path, order))
                        order -= 1
        patterns: dict[tuple[tuple[str, ...], bool], int] = {}
        for path, score in usual_patterns.items():
            anchored = path[-1] == "$"
            pieces = (path[:-1] if anchored else path).split("*")
            pattern = joined(pieces, anchored=anchored)
            if patterns.get(pattern, 0) < score:  # /a*b and /a**b are one
                patterns[pattern] = score
        for allow, path, order in others:
            for score, (parts, anchored, _) in readings(allow, path, order, dialect):
                self.allows_most = max(self.allows_most, score if score & 1 else 0)
                if patterns.get((parts, anchored), 0) < score:
                    patterns[parts, anchored] = score
        if patterns:
            self.sort_out(patterns, literals)
        for everything in ("", "/"):  # every path begins with a slash
            self.base = max(self.base, literals.pop(everything, 0))
        self.literals = literals

    def sort_out(
        self,
        patterns: dict[tuple[tuple[str, ...], bool], int],
        literals: dict[str, int],
    ) -> None:
        """File patterns by kind."""
        exact: dict[str, int] = {}
        wildcards: list[tuple[int, tuple[str, ...], bool]] = []
        for (parts, anchored), score in patterns.items():
            if len(parts) > 1:
                wildcards.append((score, parts, anchored))
            else:
                known = exact if anchored else literals
                known[parts[0]] = max(known.get(parts[0], 0), score)
        if exact:
            self.exact = exact
        if wildcards:
            self.wildcards = Wildcards(wildcards)

    def tabulate(self) -> None:
        """Sort the prefixes, and link each to the longest other one that it begins with.

        The prefixes of a path are then the last one that sorts before the path, if it is
        one, else some of those it is linked to. `scores` counts all linked ones in.
        """
        literals = self.literals or {}
        prefixes = sorted(literals)
        parents: list[int] = []
        scores: list[int] = []
        nested: list[int] = []  # the chain of prefixes that the last one begins with
        for index, prefix in enumerate(prefixes):
            while nested and not prefix.startswith(prefixes[nested[-1]]):
                nested.pop()
            inherited = scores[nested[-1]] if nested else self.base
            parents.append(nested[-1] if nested else -1)
            scores.append(max(literals[prefix], inherited))
            nested.append(index)
        self.prefixes, self.parents, self.scores = prefixes, parents, scores
        self.literals = None

    def score(self, path: str) -> int:
        """The score that decides about a comparable path; odd allows."""
        best = self.base
        prefixes = self.prefixes
        if prefixes:
            index = bisect_right(prefixes, path) - 1
            while index >= 0:
                if path.startswith(prefixes[index]):
                    best = self.scores[index]  # type: ignore[index]  # made with prefixes
                    break
                index = self.parents[index]  # type: ignore[index]
        elif self.literals:
            for prefix, score in self.literals.items():
                if score > best and path.startswith(prefix):
                    best = score
            self.fresh -= 1
            if not self.fresh:
                self.tabulate()
        if self.exact is not None:
            best = max(best, self.exact.get(path, 0))
        if self.wildcards is not None:
            return self.wildcards.best(path, best)
        return best

    def rule_for(
        self,
        score: int,
        path: str,
        text: str,
        dialect: Dialect,
    ) -> Rule | None:
        """The first rule that gives the comparable `path` this score, None for NO_MATCH.

        `text` is what the rule set was compiled from, with the same dialect.
        """
        if self.by_score is None:
            self.by_score = {}
            order = MAX_ORDER
            for rule in rules_of(text, self.sections):
                for its_score, pattern in readings(rule[0], rule[1], order, dialect):
                    self.by_score.setdefault(its_score, []).append(
                        (pattern, Rule(*rule))
                    )
                order -= 1
        for pattern, rule in self.by_score.get(score, ()):
            if pattern.matches(path):
                return rule
        return None

    def denies_all(self) -> bool:
        """Whether no path is allowed: all are denied, and no Allow is as specific."""
        return not self.base & 1 and self.allows_most < self.base

    def size_bytes(self) -> int:
        """Octets of memory, estimated from the numbers of what is kept."""
        letters = sum(section.end - section.start for section in self.sections)
        size = 500 + 230 * len(self.sections) + letters
        for table in (
            self.literals,
            self.exact,
            self.prefixes,
            self.parents,
            self.scores,
        ):
            if table is not None:
                size += getsizeof(table) + 24 * len(table)
        if self.wildcards is not None:
            size += self.wildcards.size_bytes()
        if self.by_score is not None:
            size += letters + 450 * sum(map(len, self.by_score.values()))
        return size
