"""The service: the policy of each origin is fetched once, kept, refreshed, expired."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.defer import maybe_deferred_to_future

from scrapy_rep.events.kinds import StoreFailed
from scrapy_rep.events.stream import Stream
from scrapy_rep.pacing.hosts import FREE, Asking
from scrapy_rep.policies.agreed import News, tell_of_parsed
from scrapy_rep.policies.lifecycle import (
    STATES_WITHOUT_ANSWER,
    WAITING_STATES,
    Known,
    PolicyCache,
    Standing,
    State,
    correct_times,
    policy_of,
    requests_wait,
    snapshot_after,
    standing_of,
)
from scrapy_rep.policies.sharing import (
    LARGE_SIZE,
    Learned,
    OneAtATime,
    Sharing,
    validators_of,
)
from scrapy_rep.protocol import Policy
from scrapy_rep.protocol.answers import Access
from scrapy_rep.protocol.origins import origin_of, robots_url
from scrapy_rep.store import Snapshot, Store, origin_of_key, variant

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from scrapy_rep.engine.inner import Engine
    from scrapy_rep.policies.agreed import Approval, Permissions
    from scrapy_rep.policies.fetcher import Fetcher
    from scrapy_rep.policies.sharing import Likeness
    from scrapy_rep.protocol import Agent
    from scrapy_rep.settings import Settings

ACCESS_WITHOUT_ANSWER = Access.NOT_MODIFIED, Access.UNREACHABLE


@dataclass(eq=False, kw_only=True)
class Policies:
    """Knows what decides for an origin, and asks the origin if it does not know.

    Everything is kept by origin. If answers depend on the User-Agent (RFC 9111 4.1), each has a
    key of its own (``variant``), and the origin only the fact that they depend.
    """

    crawler: Crawler
    settings: Settings
    agent_of: Callable[[Request | None], Agent]
    user_agent_of: Callable[[Request], str]
    fetcher: Fetcher
    store: Store
    keep: Callable[[str, float], None]
    """Called with an origin and the interval, in seconds, that it asks for."""
    engine: Engine
    permissions: Permissions
    approval: Approval

    def __post_init__(self) -> None:
        settings, is_ending = self.settings, self.engine.is_ending
        self._sharing = Sharing(self.crawler, settings, is_ending)
        self._events = events = Stream.of(self.crawler)
        self._news = News(events, settings, self.permissions, self.approval)
        self._cache = PolicyCache(settings.cache_bytes)
        self.errands = OneAtATime(self._find, self._broken_off, is_ending, events)
        self.bound = self.fetcher.bound

    def is_ending(self) -> bool:
        return self.engine.is_ending()

    def now(self) -> float:
        """In seconds since 1970, by a clock that never steps."""
        return self._events.wall_at_zero + monotonic()

    def peek(
        self,
        origin: str,
        page: Callable[[], Request | None] = lambda: None,
        now: float | None = None,
    ) -> Known | None:
        """*page* is called for the request, if it matters; ``None``: one with the usual User-Agent."""
        known = self._last_known(origin, page)
        if known is None or (now or self.now()) >= known.standing.until:
            return None
        if known.is_large and not self._is_read(known, page()):
            return None
        return known

    def remembers(self, origin: str) -> bool:
        """What is known may be out of date."""
        return origin in self._cache.entries

    def is_away(
        self, origin: str, page: Callable[[], Request | None] = lambda: None
    ) -> bool:
        """Whether we only know of it that its robots.txt could not be fetched, some time ago.

        *page* is as for ``peek``.
        """
        known = self._last_known(origin, page)
        return known is not None and known.unreachable

    def _last_known(
        self, origin: str, page: Callable[[], Request | None]
    ) -> Known | None:
        known = self._cache.get(origin)
        if known is not None and known.varies:
            known = self._cache.get(self._variant(origin, page() or Request(origin)))
        return known

    def known(self, origin: str, page: Request, now: float) -> Known | None:
        """``None``: the *origin* must be asked. A refresh that is due begins on behalf of *page*."""
        known = self._cache.get(origin)
        if known is not None and known.varies:
            known = self._last_known(origin, lambda: page)
        if known is None or (known.is_large and not self._is_read(known, page)):
            return None
        _, ask_at, until = known.standing
        # Either may come first.
        if (now >= ask_at or now >= until) and known.key not in self.errands.under_way:
            self.errands.ask(known.key, page, ahead=True)
        return known if now < until else None

    async def get(self, origin: str, page: Request) -> Known:
        """What decides for *page*; all who want the same share one fetch."""
        known = self.known(origin, page, self.now())
        if known is not None:
            return known
        return await maybe_deferred_to_future(self.ask(origin, page))

    def ask(
        self, origin: str, page: Request, *, ahead: bool = False
    ) -> Deferred[Known]:
        """*ahead*: *page* waits in a queue, and may do so when the crawl ends."""
        cached = self._cache.get(origin)
        varies = cached is not None and cached.varies
        key = self._variant(origin, page) if varies else origin
        asking = self.errands.ask(key, page, ahead=ahead)
        return asking.addCallback(self._for_page, origin, page, ahead)

    def _for_page(
        self, known: Known, origin: str, page: Request, ahead: bool
    ) -> Known | Deferred[Known]:
        varies = known.varies or known.key != origin
        key = self._variant(origin, page) if varies else origin
        if known.key == key and self._is_read(known, page):
            return known
        return self.ask(origin, page, ahead=ahead)  # it was for another agent

    def _variant(self, origin: str, page: Request) -> str:
        return variant(origin, self.user_agent_of(page))

    async def snapshot(self, key: str) -> Snapshot | None:
        """The store may know more than this crawl, but not of failures of code on this machine."""
        own = self._cache.snapshot(key)
        kept: Snapshot | None = await self._with_store("read", self.store.get, key)
        if own is None or kept is None:
            return kept or own
        return kept._replace(failures=own.failures) if own.has_failed_here else kept

    async def close(self) -> None:
        self.errands.close()
        self.bound.close()
        self._sharing.leave()
        await self._with_store("close", self.store.close)
        if self._cache.evictions:
            self._events.count("cache/evictions", self._cache.evictions)

    # Asking

    async def _find(self, key: str, page: Request) -> Known:
        known = self._cache.get(key)
        if known is not None and self.now() < min(known.standing[1:]):
            await self._read(known, page)  # it was for another agent
            return known
        snapshot, known = await self._recall(key, page)
        if known is not None:
            if self.now() < known.standing.ask_at:
                return known
            self.errands.under_way[key].tell(known)  # they need not wait for a refresh
        origin, sharing, bound = origin_of_key(key), self._sharing, self.bound
        likeness = sharing.likeness(origin, page, self.user_agent_of(page))
        async with AsyncExitStack() as claims:
            with bound.waiting_aside(bound.patience):
                since = await claims.enter_async_context(sharing.claim(likeness))
                entering = claims.enter_async_context(self.store.claim(key))
                others_asked = await entering
            if others_asked or since < inf:
                newer, known = await self._recall(key, page)
                if known is not None and self.now() < known.standing.ask_at:
                    return known
                snapshot = newer or snapshot  # the store may be away now
            learned = sharing.recall(likeness, snapshot, since, self.now())
            if learned is None:
                return await self._fetch(key, page, snapshot, likeness)
            self._events.count("shared")
            return await self._take(key, snapshot, learned, page)

    async def _fetch(
        self, key: str, page: Request, before: Snapshot | None, likeness: Likeness
    ) -> Known:
        asking, kept = Asking(), None if before is None else before.answer
        try:
            origin, user_agent, *_ = likeness
            outcome = await self.fetcher.fetch(origin, page, user_agent, kept, asking)
            learned = Learned(outcome, monotonic(), validators_of(kept))
            self._sharing.keep(likeness, learned)
            return await self._take(key, before, learned, page)
        finally:
            asking.over = True

    async def _recall(
        self, key: str, page: Request
    ) -> tuple[Snapshot | None, Known | None]:
        snapshot = await self.snapshot(key)
        if snapshot is None:
            return None, None
        if snapshot.varies:
            return None, self._note_variants(key)
        now = self.now()
        snapshot = correct_times(snapshot, now, self.settings)
        stands = standing_of(snapshot, now, self.settings)
        if stands.state in WAITING_STATES:
            return snapshot, None
        return snapshot, await self._learn(key, snapshot, stands, page)

    async def _take(
        self, asked: str, before: Snapshot | None, learned: Learned, page: Request
    ) -> Known:
        """Keep what was *learned* by asking for *asked*, under the key it belongs to."""
        outcome, at = learned.outcome, self._events.at(learned.at)
        snapshot = snapshot_after(before, outcome, at, self.settings)
        new_answer = outcome.access not in ACCESS_WITHOUT_ANSWER
        origin = origin_of_key(asked)
        key = origin if new_answer else asked
        if outcome.varies and not (snapshot.failures and snapshot.answer):
            key = self._variant(origin, page)  # else it is a failure beside an answer
        if not outcome.by_own_code:
            write = self.store.put if new_answer or key != asked else self.store.touch
            await self._with_store("write", write, key, snapshot)
        if key != origin:
            varies = Snapshot(varies_at=at)
            await self._with_store("write", self.store.put, origin, varies)
            self._note_variants(origin)
        if outcome.access is Access.NOT_MODIFIED:
            self._events.count("cache/revalidated")
        # At the time of learning: writing to the store may take longer than a lifetime.
        stands = standing_of(snapshot, at, self.settings)
        known = await self._learn(key, snapshot, stands, page)
        is_bug = outcome.by_own_code and not isinstance(outcome.fault, IgnoreRequest)
        # In a crawl, that of a download would hold many frames for long.
        known.fault = outcome.fault if is_bug or not self.settings.wait else None
        self._keep_pace(known, page)
        if outcome.access is Access.SUCCESSFUL:
            await tell_of_parsed(self.crawler, known.policy, page)
        return known

    async def _learn(
        self, key: str, snapshot: Snapshot, stands: Standing, page: Request
    ) -> Known:
        before, answer_id, now = self._cache.get(key), None, self.now()
        state_before = None if before is None else before.standing.state
        answer = snapshot.answer
        if answer is not None and stands.state not in STATES_WITHOUT_ANSWER:
            answer_id = (answer.status, answer.encoding, hash(answer.body))
        if before and answer_id and before.answer_id == answer_id:
            known = before  # the same file: nothing to parse
            known.standing = stands
        else:
            parsing = partial(policy_of, snapshot, stands.state, self.settings)
            is_large = answer is not None and len(answer.body) > LARGE_SIZE
            policy = await self.bound.aside(parsing) if is_large else parsing()
            known = Known(origin_of_key(key), policy, stands, answer_id, key)
            if is_large:
                known.is_large = True
                await self._read(known, page)
            self._news.tell_of_file(known, before, self.agent_of(page), now)
        known.snapshot = snapshot
        known.requests_wait = requests_wait(snapshot, stands.state, self.settings)
        if before is None and key == known.origin:
            self._events.count("origins")
        self._news.tell_of(known, state_before, self.agent_of, now)
        self._cache.keep(known)
        return known

    def _is_read(self, known: Known, page: Request | None) -> bool:
        return not known.is_large or known.policy.is_prepared(self.agent_of(page))

    async def _read(self, known: Known, page: Request) -> None:
        if not self._is_read(known, page):
            url = known.origin + "/:?"  # which meets what only some paths do
            agent = self.agent_of(page)
            await self.bound.aside(partial(known.policy.prepare, agent, url))

    def _keep_pace(self, known: Known, page: Request) -> None:
        """Before anybody acts on *known*."""
        asked = known.pace_for(self.agent_of(page), self.settings)
        if asked is FREE and not self.permissions:
            return
        now = self.now()
        origins = {known.origin}
        # If the file came from another origin, that origin asks for the same.
        if known.snapshot is not None and (answer := known.snapshot.answer) is not None:
            other = origin_of(answer.url)
            if other is not None and answer.url == robots_url(other):
                origins.add(other)
        for origin in origins:
            pace = self.permissions.pace(origin, asked, now)
            interval = pace.interval(now)
            if interval and not pace.refuses(now):
                self.keep(origin, interval)

    def _note_variants(self, origin: str) -> Known:
        """The answers of *origin* depend on the User-Agent."""
        if self._cache.get(origin) is None:
            self._events.count("origins")
        policy = Policy.disallow_all("robots.txt depends on the User-Agent")
        known = Known(origin, policy, Standing(State.UNKNOWN), varies=True)
        known.snapshot = Snapshot(varies_at=self.now())
        self._cache.keep(known)
        return known

    def _broken_off(self, key: str) -> Known:
        """Nothing is allowed if asking for *key* was broken off."""
        policy = Policy.disallow_all("robots.txt unreachable (asking was broken off)")
        stands = Standing(State.UNREACHABLE, self.now(), self.now())
        return Known(origin_of_key(key), policy, stands)

    async def _with_store(
        self, doing: str, method: Callable[..., Any], origin: str = "", *rest: Snapshot
    ) -> Snapshot | None:
        """``None`` if the store fails."""
        try:
            found: Any = await (method(origin, *rest) if origin else method())
            if doing != "read" or found is None or isinstance(found, Snapshot):
                return found  # type: ignore[no-any-return]
            raise TypeError(f"it returned {found!r:.100}, expected a Snapshot or None")
        except Exception as error:  # noqa: BLE001 - whatever a store may raise
            self._events.tell(StoreFailed(doing, origin, repr(error)))
            return None
