"""The life of a policy: what decides for an origin now, and when it is asked again.

Pure: the time comes in as an argument, in seconds since 1970.

==============  ====================================  ============  ====================
state           when                                  what decides  asked again
==============  ====================================  ============  ====================
unknown         never asked                           wait for it   now
fresh           a good answer, younger than 90 % of   the copy      at 90 %
                its lifetime
aging           the rest of its lifetime              the copy      now, meanwhile
stale           older, within its grace               the copy      now, meanwhile
expired         older than that                       wait for it   now
holding         failing, but a file (2xx) younger     the copy      at the retry time,
                than REP_UNREACHABLE_MAX, or another                meanwhile
                good answer within its lifetime
unreachable     failing, no such answer               disallow      at the retry time
given up        failing for REP_UNREACHABLE_MAX       allow         at the retry time
==============  ====================================  ============  ====================

A good answer (2xx or 4xx) leads from every state to fresh, and so does a 304 where there
is a copy. A failure leads to holding, unreachable or given up, and never takes a copy
away. When a retry time comes, holding goes on deciding while the origin is asked; the
other two wait for the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from w3lib.encoding import resolve_encoding

from scrapy_rep.access.results import REDIRECTS, Access, access_of, policy_after
from scrapy_rep.policies.freshness import Terms, lifetime_and_grace, retry_after
from scrapy_rep.protocol import Policy
from scrapy_rep.store import Snapshot

if TYPE_CHECKING:
    from scrapy_rep.access import Outcome
    from scrapy_rep.settings import Settings

REFRESH_AT = 0.9
"""The part of its lifetime after which a copy is asked for again, ahead of need."""
CLOCKS_AGREE = 2.0
"""Seconds by which what processes of a fleet take for the same time may differ: they know
the server's clock by calls that take up to a second."""
RETRY_JITTER = 0.1
"""The part by which retry times vary, so that origins that fail together part."""


class State(Enum):
    UNKNOWN = "unknown"
    FRESH = "fresh"
    AGING = "aging"
    STALE = "stale"
    EXPIRED = "expired"
    HOLDING = "holding"
    UNREACHABLE = "unreachable"
    GIVEN_UP = "given up"


WAITING = frozenset({State.UNKNOWN, State.EXPIRED})
"""In these states nothing decides until the origin has been asked."""
MEANWHILE = {
    State.UNREACHABLE: "nothing is fetched from there until it is asked again",
    State.HOLDING: "its last good copy serves until it is asked again",
    State.GIVEN_UP: "it has been for so long that it is taken for missing",
}
"""What is done in the states of failure, for the log."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How an origin stands at one moment."""

    state: State
    ask_at: float
    """When it should be asked again."""
    until: float
    """When this standing ends, asked or not."""


def standing(snapshot: Snapshot | None, now: float, settings: Settings) -> Standing:
    """Return how the origin of *snapshot* stands; see the table of this module."""
    if snapshot is None or (snapshot.status is None and not snapshot.failures):
        return Standing(State.UNKNOWN, now, now)
    checked = snapshot.checked
    if snapshot.failures:
        copy_ends = checked + _held(snapshot, settings)
        if now < copy_ends:
            return Standing(State.HOLDING, snapshot.retry_at, copy_ends)
        if now >= snapshot.retry_at:
            return Standing(State.EXPIRED, now, now)
        given_up = now - snapshot.failing_since >= settings.unreachable_max
        state = State.GIVEN_UP if given_up else State.UNREACHABLE
        return Standing(state, snapshot.retry_at, snapshot.retry_at)
    grace_ends = checked + max(snapshot.grace, snapshot.lifetime)
    if now >= grace_ends:
        return Standing(State.EXPIRED, now, now)
    if now >= checked + snapshot.lifetime:
        return Standing(State.STALE, now, grace_ends)
    refresh_at = checked + REFRESH_AT * snapshot.lifetime
    state = State.FRESH if now < refresh_at else State.AGING
    return Standing(state, refresh_at, grace_ends)


def _held(snapshot: Snapshot, settings: Settings) -> float:
    """Return for how many seconds an answer decides while its origin is failing."""
    if snapshot.status is None:
        return 0.0
    # RFC 9309 2.4 excuses the use of a cached file beyond its time, and only of that: after
    # a 404 nobody knows whether there is one now.
    is_file = 200 <= snapshot.status < 300
    return settings.unreachable_max if is_file else snapshot.lifetime


def after(
    snapshot: Snapshot | None,
    outcome: Outcome,
    now: float,
    settings: Settings,
    jitter: float = 0.0,
) -> Snapshot:
    """Return what is known once *outcome* has come in. *jitter* is from -1 to 1."""
    if outcome.access is Access.UNREACHABLE:
        return _after_failure(snapshot or Snapshot(), outcome, now, settings, jitter)
    fields = outcome.fields
    terms = Terms.of(fields)
    if outcome.access is Access.NOT_MODIFIED:
        assert snapshot is not None
        answer = snapshot
        terms = Terms(snapshot.cache_control, snapshot.expires).renewed(terms)
    else:
        answer = Snapshot(
            status=outcome.status,
            body=outcome.body if outcome.access is Access.SUCCESSFUL else b"",
            encoding=outcome.encoding and resolve_encoding(outcome.encoding),
            url=outcome.url,
        )
    lifetime, grace = lifetime_and_grace(terms, fields, now, settings)
    return Snapshot(
        status=answer.status,
        body=answer.body,
        encoding=answer.encoding,
        url=answer.url,
        etag=fields.get("ETag") or answer.etag,
        last_modified=fields.get("Last-Modified") or answer.last_modified,
        checked=now,
        lifetime=lifetime,
        grace=grace,
        cache_control=terms.cache_control,
        expires=terms.expires,
    )


def _after_failure(
    snapshot: Snapshot, outcome: Outcome, now: float, settings: Settings, jitter: float
) -> Snapshot:
    delays = settings.unreachable_retry_delays
    tried = snapshot.failures
    delay = delays[tried] if tried < len(delays) else settings.unreachable_ttl
    delay *= 1 + RETRY_JITTER * jitter
    asked = min(retry_after(outcome.fields, now), settings.retry_after_max)
    return replace(
        snapshot,
        failures=tried + 1,
        failing_since=snapshot.failing_since if tried else now,
        retry_at=now + max(delay, asked),
        failure=outcome.reason,
    )


def rebased(snapshot: Snapshot, now: float, settings: Settings) -> Snapshot:
    """Return *snapshot* as it may be used where the wall clock now says *now*.

    A clock that went back between two runs makes a copy old, and a retry that is
    farther away than any can be due now: nothing that comes from the future lasts, but
    for what another process has learned just now. Nor does what another crawl has kept
    last for longer than REP_MAX_AGE.
    """
    if snapshot.checked > now + CLOCKS_AGREE:
        snapshot = replace(snapshot, checked=now, lifetime=0.0, grace=0.0)
    elif snapshot.checked > now:
        snapshot = replace(snapshot, checked=now)
    if max(snapshot.lifetime, snapshot.grace) > settings.max_age:
        snapshot = replace(
            snapshot,
            lifetime=min(snapshot.lifetime, settings.max_age),
            grace=min(snapshot.grace, settings.max_age),
        )
    if snapshot.failures:
        longest = CLOCKS_AGREE + (1 + RETRY_JITTER) * max(
            settings.retry_after_max,
            settings.unreachable_ttl,
            *settings.unreachable_retry_delays,
        )
        snapshot = replace(
            snapshot,
            failing_since=min(snapshot.failing_since, now),
            retry_at=snapshot.retry_at if snapshot.retry_at <= now + longest else now,
        )
    return snapshot


def patient(snapshot: Snapshot, settings: Settings) -> bool:
    """Tell whether requests wait for the next retry, rather than being judged now."""
    if settings.unreachable == "allow" or "disallow" not in settings.obey:
        return False  # they are sent all the same
    return 0 < snapshot.failures <= len(settings.unreachable_retry_delays)


def policy_of(snapshot: Snapshot, state: State, settings: Settings) -> Policy:
    """Return the policy that decides in *state*, which is not a waiting one."""
    if state is State.GIVEN_UP:
        return Policy.allow_all(
            f"robots.txt unreachable ({snapshot.failure}) for too long to be waited for"
        )
    if state is State.UNREACHABLE:
        if settings.unreachable == "allow":
            return Policy.allow_all(f"robots.txt unreachable ({snapshot.failure})")
        return policy_after(Access.UNREACHABLE, None, failure=snapshot.failure)
    status = snapshot.status
    if status in REDIRECTS:
        # RFC 9309 2.3.1.2: one redirect too many may be taken for unavailable.
        access = Access.UNAVAILABLE
    else:
        access = access_of(status, deny_statuses=settings.deny_statuses)
    return policy_after(
        access,
        status,
        body=snapshot.body,
        encoding=snapshot.encoding,
        dialect=settings.dialect,
    )
