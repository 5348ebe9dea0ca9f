"""The dialects of robots.txt: one engine reads them all and branches on these fields."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one specification of robots.txt says where the specifications differ."""

    name: str

    most_specific: bool = True
    """The matching rule with the most octets decides, allow among equals (RFC 9309 2.2.2).
    False: the first matching rule in file order decides."""

    wildcards: bool = True
    """`*` and a final `$` are special in paths (RFC 9309 2.2.3). False: literal."""

    agents_as_substrings: bool = False
    """A user-agent line matches any agent that contains it. False: product tokens are
    compared whole (RFC 9309 2.2.1). Letter case never matters."""

    merges_groups: bool = True
    """All groups of an agent are one (RFC 9309 2.2.1). False: only the first counts."""

    blank_line_ends_group: bool = False
    """What follows a blank line belongs to no group until the next user-agent line."""

    any_record_ends_agents: bool = False
    """Crawl-delay or Sitemap between two user-agent lines separates them, as a rule does.
    False: only rules do (RFC 9309 2.2.4)."""

    empty_groups: bool = True
    """A group without rules counts, and allows everything. False: as if not written."""

    blank_rules_count: bool = False
    """An empty Disallow allows everything, an empty Allow nothing. False: no effect."""

    absolute_rules: bool = True
    """A rule that is a whole URL counts for the URLs of its origin, by its path and query."""

    resolves_dots: bool = True
    """A path with dot segments is also judged as a server resolves it, and refused if either
    form is."""

    index_is_directory: bool = True
    """`Allow: /a/index.html` allows `/a/` as well."""

    kept_apart: str = "/?#"
    """Characters of a path that differ from their percent-escapes; all others that may stand
    in a URI equal theirs."""

    kept_apart_in_query: str = "&=#"
    """The same after the first question mark."""

    compares_octets: bool = True
    """A rule may end, or go on behind a wildcard, within an escape: `/*%` matches `/a:`,
    which is `/a%3A` (RFC 9309 2.2.2). False: an escape is one character."""

    default_lifetime: float | None = None
    """Seconds a robots.txt stays fresh when its response does not say; None: the caller's
    choice."""

    deny_statuses: frozenset[int] = frozenset()
    """Response codes of the 4xx class that forbid the whole site."""

    def __reduce__(self) -> tuple[type[Dialect], tuple[object, ...]]:
        # Compiled, too: what dataclasses has for a frozen class with slots sets attributes.
        return Dialect, tuple(getattr(self, each.name) for each in fields(self))


RFC9309 = Dialect("rfc9309")
"""RFC 9309, with the leniencies that are marked `Beyond RFC 9309` in this package."""

GYM2008 = Dialect(
    "gym2008",
    most_specific=False,
    agents_as_substrings=True,
    merges_groups=False,
    blank_line_ends_group=True,
    any_record_ends_agents=True,
    empty_groups=False,
    blank_rules_count=True,
    absolute_rules=False,
    resolves_dots=False,
    index_is_directory=False,
    kept_apart="/",
    kept_apart_in_query="/",
    compares_octets=False,
)
"""What Google, Yahoo and Microsoft agreed on in 2008: the older protocol plus wildcards."""

MK1996 = replace(
    GYM2008,
    name="mk1996",
    wildcards=False,
    default_lifetime=7 * 24 * 3600.0,
    deny_statuses=frozenset({401, 403}),
)
"""Martijn Koster's Internet-Draft of 1996, "A Method for Web Robots Control"."""
