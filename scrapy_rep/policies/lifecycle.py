"""What is known of an origin: what decides now, when it is asked again, how much memory it takes.

Pure: the time comes in as an argument, in seconds since 1970.

==============  ====================================  ============  ====================
state           when                                  what decides  asked again
==============  ====================================  ============  ====================
unknown         never asked                           wait for it   now
fresh           a good answer, younger than 90 % of   the answer    at 90 %
                its lifetime
aging           the rest of its lifetime              the answer    now, meanwhile
stale           older, within its grace               the answer    now, meanwhile
expired         older than that                       wait for it   now
holding         failing, but a file (2xx) younger     the answer    at the retry time,
                than REP_UNREACHABLE_MAX, or another                meanwhile
                good answer within its lifetime
unreachable     failing, no such answer               disallow      at the retry time
given up        failing for REP_UNREACHABLE_MAX       allow         at the retry time
==============  ====================================  ============  ====================

A good answer (2xx, 4xx, 304) leads from every state to fresh; a failure to holding, unreachable or given
up. It never discards an answer.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar
from zlib import crc32

from w3lib.encoding import resolve_encoding

from scrapy_rep.events.kinds import Copy
from scrapy_rep.pacing.hosts import FREE, Pace, pace_of
from scrapy_rep.protocol import Policy
from scrapy_rep.protocol.answers import (
    REDIRECT_STATUSES,
    Access,
    access_of,
    all_values,
    first_value,
    policy_after,
)
from scrapy_rep.protocol.language import DAY
from scrapy_rep.store import Failures, KeptAnswer, Snapshot, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from scrapy.http.headers import Headers

    from scrapy_rep.protocol import Agent
    from scrapy_rep.protocol.access import Outcome
    from scrapy_rep.protocol.answers import HeaderFields
    from scrapy_rep.settings import Settings

T = TypeVar("T")
REFRESH_SHARE = 0.9
MAX_CLOCK_DIFFERENCE = 2.0
"""Seconds, between processes of a fleet: asking the server for its clock takes up to one."""
RETRY_JITTER_SHARE = 0.1
"""By the address of what failed: origins that failed together are not asked together, and one is asked
by all crawls at the same time."""
STRICT_DIRECTIVES = frozenset({"no-store", "no-cache", "must-revalidate"})
"""No grace after these."""
UNCACHED_DIRECTIVES = frozenset({"no-store", "no-cache"})
DIRECTIVE = r'([^\s,="]+)\s*(?:=\s*("(?:\\.|[^"\\])*"|[^,]*))?'
"""RFC 9111 5.2."""
MAX_FIELD_LENGTH = 1000
"""Of a Cache-Control or an Expires."""
MAX_SECONDS = 2.0**31
"""RFC 9111 1.2.2."""


class State(Enum):
    UNKNOWN = "unknown"
    FRESH = "fresh"
    AGING = "aging"
    STALE = "stale"
    EXPIRED = "expired"
    HOLDING = "holding"
    UNREACHABLE = "unreachable"
    GIVEN_UP = "given up"


WAITING_STATES = State.UNKNOWN, State.EXPIRED
STATES_WITHOUT_ANSWER = State.UNREACHABLE, State.GIVEN_UP


class Standing(NamedTuple):
    """How an origin stands at one moment."""

    state: State
    ask_at: float = inf
    until: float = inf
    """When this standing ends, asked or not."""


FOR_EVER = Standing(State.FRESH)


def standing_of(snapshot: Snapshot | None, now: float, settings: Settings) -> Standing:
    snapshot = snapshot or Snapshot()
    answer, failures = snapshot.answer, snapshot.failures
    if failures is not None:
        return _standing_while_failing(answer, failures, now, settings)
    if answer is None:
        return Standing(State.UNKNOWN, now, now)
    refresh_at = answer.checked + REFRESH_SHARE * answer.lifetime
    lifetime_ends = answer.checked + answer.lifetime
    grace_ends = answer.checked + max(answer.grace, answer.lifetime)
    if now >= grace_ends:
        return Standing(State.EXPIRED, now, now)
    if now >= lifetime_ends:
        return Standing(State.STALE, now, grace_ends)
    state = State.FRESH if now < refresh_at else State.AGING
    return Standing(state, refresh_at, grace_ends)


def _standing_while_failing(
    answer: KeptAnswer | None, failures: Failures, now: float, settings: Settings
) -> Standing:
    if answer is not None:
        # RFC 9309 2.4 excuses a cached file only: after a 404 there may be one now.
        is_file = 200 <= answer.status < 300
        held = settings.unreachable_max if is_file else answer.lifetime
        if now < answer.checked + held:
            return Standing(State.HOLDING, failures.retry_at, answer.checked + held)
    if now >= failures.retry_at:
        return Standing(State.EXPIRED, now, now)
    given_up = now - failures.since >= settings.unreachable_max
    state = State.GIVEN_UP if given_up else State.UNREACHABLE
    return Standing(state, failures.retry_at, failures.retry_at)


def snapshot_after(
    snapshot: Snapshot | None, outcome: Outcome, now: float, settings: Settings
) -> Snapshot:
    snapshot = snapshot or Snapshot()
    if outcome.access is Access.UNREACHABLE:
        failures = _count_failure(snapshot.failures, outcome, now, settings)
        return snapshot._replace(failures=failures)
    if outcome.access is Access.NOT_MODIFIED:
        assert snapshot.answer is not None
        answer = snapshot.answer
    else:
        assert outcome.status is not None
        answer = KeptAnswer(
            status=outcome.status,
            body=outcome.body if outcome.access is Access.SUCCESSFUL else b"",
            encoding=outcome.encoding and resolve_encoding(outcome.encoding),
            url=outcome.url,
        )
    fields = outcome.fields
    cache_control, expires = terms_of(fields)
    # RFC 9111 3.2, 4.3.4: what was stored stays, unless the 304 has it.
    terms = cache_control or answer.cache_control, expires or answer.expires
    lifetime, grace = lifetime_and_grace(terms, fields, now, settings)
    answer = answer._replace(
        etag=first_value(fields, "etag") or answer.etag,
        last_modified=first_value(fields, "last-modified") or answer.last_modified,
        checked=now,
        lifetime=lifetime,
        grace=grace,
        cache_control=terms[0],
        expires=terms[1],
    )
    return Snapshot(answer=answer)


def _count_failure(
    failures: Failures | None, outcome: Outcome, now: float, settings: Settings
) -> Failures:
    delays = settings.unreachable_retry_delays
    earlier = 0 if failures is None else failures.count
    delay = delays[earlier] if earlier < len(delays) else settings.unreachable_ttl
    part = crc32(outcome.url.encode("utf-8", "replace")) / 2**31 - 1
    delay *= 1 + RETRY_JITTER_SHARE * part
    wished = min(retry_after(outcome.fields, now), settings.retry_after_max)
    return Failures(
        count=earlier + 1,
        since=now if failures is None else failures.since,
        retry_at=now + max(delay, wished),
        reason=outcome.reason,
        by_own_code=outcome.by_own_code,
    )


def correct_times(snapshot: Snapshot, now: float, settings: Settings) -> Snapshot:
    """The wall clock may have been set back between two runs.

    So an answer from the future counts as old, and a retry that is farther away than any delay
    allows is due now. What another crawl has kept lasts for REP_MAX_AGE at the most. Failures
    after which nobody asked for REP_UNREACHABLE_MAX and a day, as a store forgets them by then,
    last since now: it may have been reachable in between, and the clock may have been wrong.
    """
    answer, failures = snapshot.answer, snapshot.failures
    if answer is not None:
        of_future = answer.checked > now + MAX_CLOCK_DIFFERENCE
        longest = 0.0 if of_future else settings.max_age
        answer = answer._replace(
            checked=min(answer.checked, now),
            lifetime=min(answer.lifetime, longest),
            grace=min(answer.grace, longest),
        )
    if failures is not None:
        delays = settings.unreachable_ttl, *settings.unreachable_retry_delays
        delay = (1 + RETRY_JITTER_SHARE) * max(settings.retry_after_max, *delays)
        too_late = failures.retry_at > now + MAX_CLOCK_DIFFERENCE + delay
        unasked_since = now - settings.unreachable_max - DAY
        failures = failures._replace(
            since=now
            if failures.retry_at < unasked_since
            else min(failures.since, now),
            retry_at=now if too_late else failures.retry_at,
        )
    return snapshot._replace(answer=answer, failures=failures)


def requests_wait(snapshot: Snapshot, state: State, settings: Settings) -> bool:
    """Tell whether requests wait for the next retry, rather than be judged now."""
    if state is not State.UNREACHABLE or snapshot.failures is None:
        return False
    if settings.unreachable == "allow" or "disallow" not in settings.obey:
        return False  # they are sent all the same
    if snapshot.failures.by_own_code:
        return False  # waiting mends no code
    return snapshot.failures.count <= len(settings.unreachable_retry_delays)


def policy_of(snapshot: Snapshot, state: State, settings: Settings) -> Policy:
    """*state* is not a waiting one."""
    if state in STATES_WITHOUT_ANSWER:
        assert snapshot.failures is not None
        told = f"robots.txt unreachable ({snapshot.failures.reason})"
        if state is State.GIVEN_UP:
            return Policy.allow_all(f"{told} for too long to be waited for")
        allows = settings.unreachable == "allow"
        return Policy.allow_all(told) if allows else Policy.disallow_all(told)
    answer = snapshot.answer
    assert answer is not None
    access = access_of(answer.status, deny_statuses=settings.deny_statuses)
    if answer.status in REDIRECT_STATUSES:
        # RFC 9309 2.3.1.2: one redirect too many may be taken for unavailable.
        access = Access.UNAVAILABLE
    body, encoding, dialect = answer.body, answer.encoding, settings.dialect
    return policy_after(access, answer.status, body, encoding, dialect=dialect)


# For how long an answer may be used, from its header fields (RFC 9309 2.4, RFC 9111)


def terms_of(fields: HeaderFields) -> tuple[str, str]:
    """The Cache-Control and the Expires; "": there is none."""
    cache_control = all_values(fields, "cache-control")[:MAX_FIELD_LENGTH].strip()
    if "expires" not in fields:
        return cache_control, ""
    # RFC 9111 5.3: what is no date is in the past, "0" especially.
    return cache_control, first_value(fields, "expires")[
        :MAX_FIELD_LENGTH
    ].strip() or "0"


def lifetime_and_grace(
    terms: tuple[str, str], fields: HeaderFields, now: float, settings: Settings
) -> tuple[float, float]:
    """For how many seconds an answer that came *now* is fresh, and may serve while a refresh runs.

    ``s-maxage`` is for shared caches, and ignored. By default the second number is the 24 hours
    of RFC 9309 2.4.
    """
    cache_control, expires = terms
    directives = _directives(cache_control)
    asked = _lifetime_asked_for(directives, expires, fields, now)
    if asked is None:
        asked = settings.max_age
    lifetime = min(max(asked, settings.min_age), settings.max_age)
    is_strict = bool(directives.keys() & STRICT_DIRECTIVES)
    return lifetime, lifetime if is_strict else settings.max_age


def _directives(cache_control: str) -> dict[str, str]:
    """Of one that comes twice the first counts, as RFC 9111 4.2.1 allows."""
    found: dict[str, str] = {}
    if cache_control:
        for name, argument in re.findall(DIRECTIVE, cache_control):
            found.setdefault(name.lower(), argument.strip(' \t"'))
    return found


def _lifetime_asked_for(
    directives: dict[str, str], expires: str, fields: HeaderFields, now: float
) -> float | None:
    if directives.keys() & UNCACHED_DIRECTIVES:
        return 0.0
    if "max-age" in directives:
        max_age = _seconds(directives["max-age"])
        # RFC 9111 4.2.1: what is no number of seconds makes the answer stale.
        return 0.0 if max_age is None else max_age - _age(fields)
    if not expires:
        return None
    expires_at = _epoch(expires)
    if expires_at is None:
        return 0.0
    return expires_at - _site_time(fields, now) - _age(fields)


def retry_after(fields: HeaderFields, now: float) -> float:
    """In seconds; 0: it asks for none (RFC 9110 10.2.3). A date is read by the clock of the site."""
    value = first_value(fields, "retry-after")
    seconds = _seconds(value)
    if seconds is None:
        at = _epoch(value)
        if at is None:
            return 0.0
        seconds = at - _site_time(fields, now) - _age(fields)
    return max(0.0, seconds)


def _age(fields: HeaderFields) -> float:
    # RFC 9111 5.1: of a list the first counts, and what is no number is ignored.
    return _seconds(first_value(fields, "age").partition(",")[0]) or 0.0


def _site_time(fields: HeaderFields, now: float) -> float:
    dated = _epoch(first_value(fields, "date"))
    return now if dated is None else dated


def _epoch(date: str) -> float | None:
    if not date:
        return None
    from scrapy.extensions.httpcache import rfc1123_to_epoch  # noqa: PLC0415 - few need it

    at: float | None = rfc1123_to_epoch(date)
    return at


def _seconds(value: str) -> float | None:
    """RFC 9111 1.2.2; ``None``: it is no such number."""
    digits = value.strip()
    if not (digits.isascii() and digits.isdigit()):
        return None
    return min(float(digits.lstrip("0")[:11] or "0"), MAX_SECONDS)


def fields_of(headers: Headers) -> dict[str, list[str]]:
    return {
        name.decode("latin-1").lower(): [value.decode("latin-1") for value in values]
        for name, values in dict.items(headers)
        if values
    }


# In memory, bounded in octets

ENTRY_BYTES, ANSWER_BYTES, COPY_BYTES = 660, 700, 320
"""Octets of an entry besides its policy, of its answer besides the body, of its copy; measured."""
FALLEN_DIVISOR, LEAST_FALLEN, FALLEN_BYTES = 4, 8_000_000, 180
"""What falls out is remembered in a part of REP_CACHE_BYTES, but at least of 20,000 origins that fail:
requests would wait for ever for one if nobody knew how often it has failed."""


@dataclass(slots=True, eq=False)
class Known:
    origin: str
    policy: Policy
    standing: Standing = FOR_EVER
    answer_id: object = None
    """``None``: no answer decides."""
    key: str = ""
    """As in the store: the origin, or its ``variant`` for a User-Agent."""
    varies: bool = False
    """With the User-Agent, so that this entry decides nothing."""
    copy: Copy | None = None
    """``None``: nobody wanted to know it."""
    is_large: bool = False
    """A thread reads it for each agent, or it would hold the event loop."""
    requests_wait: bool = False
    fault: Exception | None = None
    """What asking for it has raised, if whoever asks for a page is to get that."""
    snapshot: Snapshot | None = None
    """With failures that no store is told of."""
    weight: int = 0
    _agent: Agent | None = None
    _pace: Pace = FREE

    def __post_init__(self) -> None:
        self.key = self.key or self.origin

    @property
    def unreachable(self) -> bool:
        return self.standing.state is State.UNREACHABLE

    def as_copy(self) -> Copy:
        """Also where asking was broken off."""
        return self.copy or Copy(self.origin, self.standing.state.value)

    def pace_for(self, agent: Agent, settings: Settings) -> Pace:
        """That of the last agent is kept."""
        if agent != self._agent:
            self._agent, self._pace = agent, pace_of(self.policy, agent, settings)
        return self._pace


def weight_of(known: Known) -> int:
    """In octets, once it is in use; true within a third or so."""
    copy = 0 if known.copy is None else COPY_BYTES
    answer = None if known.snapshot is None else known.snapshot.answer
    body = 0 if answer is None else len(answer.body)
    own = ENTRY_BYTES + ANSWER_BYTES + len(known.key) + body + copy
    return own + known.policy.size_bytes()


class Bounded(Generic[T]):
    """Keeps what was last used, up to a weight of *most*; but *least* entries at any weight."""

    def __init__(self, most: int, weigh: Callable[[T], int], least: int = 0) -> None:
        self.most, self._weigh, self._least = most, weigh, least
        self.weight = 0
        self.entries: OrderedDict[Hashable, T] = OrderedDict()  # oldest use first

    def get(self, key: Hashable) -> T | None:
        entry = self.entries.get(key)
        if entry is not None:
            self.entries.move_to_end(key)
        return entry

    def put(self, key: Hashable, entry: T) -> list[T]:
        """Keep *entry*, and return what falls out for it."""
        self.pop(key)
        self.entries[key] = entry
        self.weight += self._weigh(entry)
        fallen = []
        while self.weight > self.most and len(self.entries) > self._least:
            oldest = self.pop(next(iter(self.entries)))
            assert oldest is not None
            fallen.append(oldest)
        return fallen

    def pop(self, key: Hashable) -> T | None:
        entry = self.entries.pop(key, None)
        if entry is not None:
            self.weight -= self._weigh(entry)
        return entry


class PolicyCache(Bounded[Known]):
    """Keeps the policies last used, in *max_bytes* by their own estimate; one at the least.

    Of those that fall out the snapshots are remembered, packed; what falls out there is known
    to the store, or asked for again.
    """

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes, attrgetter("weight"), least=1)
        self.evictions = 0
        most = max(max_bytes // FALLEN_DIVISOR, LEAST_FALLEN)
        self.fallen: Bounded[bytes] = Bounded(
            most, lambda packed: FALLEN_BYTES + len(packed)
        )

    def snapshot(self, key: str) -> Snapshot | None:
        known = self.entries.get(key)
        if known is not None:
            return known.snapshot
        packed = self.fallen.entries.get(key)
        return None if packed is None else unpack(key, packed)

    def keep(self, known: Known) -> None:
        for kept in (self, self.fallen):
            kept.pop(known.key)  # before it is weighed anew
        known.weight = weight_of(known)
        for fallen in self.put(known.key, known):
            self.evictions += 1
            snapshot = fallen.snapshot
            if snapshot is not None and not snapshot.has_failed_here:
                self.fallen.put(fallen.key, pack(fallen.key, snapshot))
