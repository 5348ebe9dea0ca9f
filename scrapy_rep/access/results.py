"""What the answer to a robots.txt request means (RFC 9309 2.3.1)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from scrapy_rep.protocol import RFC9309, Policy, parse

if TYPE_CHECKING:
    from scrapy_rep.protocol import Dialect


class Access(Enum):
    """The result of asking for a robots.txt."""

    SUCCESSFUL = "successful"
    """There is a file, and its rules hold (RFC 9309 2.3.1.1)."""
    UNAVAILABLE = "unavailable"
    """There is none: everything may be fetched (RFC 9309 2.3.1.3)."""
    UNREACHABLE = "unreachable"
    """Nobody knows: nothing may be fetched until somebody does (RFC 9309 2.3.1.4)."""
    NOT_MODIFIED = "not modified"
    """The answer at hand is still right (RFC 9110 15.4.5)."""
    DENIED = "denied"
    """A 4xx that this crawl takes to mean disallow-all (REP_DENY_STATUSES)."""


REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
"""Statuses whose Location is followed (RFC 9309 2.3.1.2)."""
INDECISIVE_STATUSES = frozenset({407, 408, 425, 429})
"""4xx that tell of a proxy's password, a time that ran out, a request that came too early or
too many of them, and not of a missing file."""


def access_of(
    status: int | None,
    *,
    conditional: bool = False,
    deny_statuses: frozenset[int] = frozenset(),
) -> Access:
    """Return what the final *status* of a robots.txt request means.

    *status* is ``None`` where there was no whole answer: name not found, refused, timed
    out, reset, TLS failure, cut short (RFC 9309 2.3.1.4). *conditional* tells whether the
    request was conditional, the only case in which a 304 says something.
    *deny_statuses* are the 4xx that mean disallow-all to this crawl. Redirects have
    been followed already: one that is left led nowhere.
    """
    if status is None:
        return Access.UNREACHABLE
    if status in deny_statuses:
        return Access.DENIED
    if status == 304:
        return Access.NOT_MODIFIED if conditional else Access.UNREACHABLE
    # 206 is a part that nobody asked for: the rest of the rules is not there.
    # 204 and 205 have no body, which is an empty file.
    if 200 <= status < 300 and status != 206:
        return Access.SUCCESSFUL
    # Beyond RFC 9309: some 4xx do not say whether there is a file.
    if 400 <= status < 500 and status not in INDECISIVE_STATUSES:
        return Access.UNAVAILABLE
    return Access.UNREACHABLE


def policy_after(
    access: Access,
    status: int | None,
    *,
    body: bytes = b"",
    encoding: str | None = None,
    failure: str = "",
    dialect: Dialect = RFC9309,
) -> Policy:
    """Return the policy that holds after an answer (RFC 9309 2.3.1).

    *body* and *encoding* are those of a file; *failure* says in words why there was no
    answer.
    """
    if access is Access.SUCCESSFUL:
        return parse(body, dialect=dialect, encoding=encoding)
    if access is Access.UNAVAILABLE:
        why = "too many redirects" if status in REDIRECT_STATUSES else str(status)
        return Policy.allow_all(f"no robots.txt ({why})", dialect=dialect)
    if access is Access.UNREACHABLE:
        reason = f"robots.txt unreachable ({failure})"
    else:
        reason = f"robots.txt answered {status}"
    return Policy.disallow_all(reason, dialect=dialect)
