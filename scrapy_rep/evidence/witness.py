"""The witness keeps what decided about each request, so that it can be shown later.

REP_EVIDENCE puts that on ``request.meta``, REP_AUDIT_URI writes it down. Without one of these
settings there is no witness.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scrapy_rep.evidence.audit import Audit
from scrapy_rep.evidence.decision import (
    MAX_CHARACTERS,
    Copy,
    Decision,
    copy_of,
    name_of,
    shorten,
)
from scrapy_rep.evidence.format import BACK_OFF, BROWSER, DEMAND, DROPPED, META_KEY
from scrapy_rep.evidence.waiting import WaitingLines
from scrapy_rep.judging.purposes import stated_answers
from scrapy_rep.pacing import FREE, pace_of
from scrapy_rep.policies.lifecycle import State
from scrapy_rep.protocol.fields import CONTENT_USAGE
from scrapy_rep.protocol.printable import without_user
from scrapy_rep.settings import PACE_DIRECTIVES
from scrapy_rep.signals import dropped

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.access.demands import Demand
    from scrapy_rep.engine import Engine
    from scrapy_rep.exceptions import RobotsRefused
    from scrapy_rep.judging import Agents, Objection
    from scrapy_rep.judging.symptoms import BackedOff
    from scrapy_rep.log import Waits
    from scrapy_rep.pacing import Pace
    from scrapy_rep.policies.cache import Known
    from scrapy_rep.policies.service import Policies
    from scrapy_rep.protocol import Agent, Verdict
    from scrapy_rep.settings import Settings
    from scrapy_rep.store import Snapshot

MAX_DECISIONS = 4096
"""Decisions that are kept, each for many requests."""


class Witness:
    """Sees every decision of the gate, and every copy of a robots.txt."""

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings,
        policies: Policies,
        agents: Agents,
        engine: Engine,
        *,
        waits: Waits,
        host_of: Callable[[Request], str],
    ) -> None:
        """*host_of* returns the host whose pace a request keeps."""
        self._settings = settings
        self._on_meta = settings.evidence
        self._policies = policies
        self._agents = agents
        self._engine = engine
        self._waits = waits
        self._host_of = host_of
        self._origin_tells_host = not callable(settings.pace_by)
        self._all_kept = settings.obey >= PACE_DIRECTIVES
        self._all_paces = replace(settings, obey=PACE_DIRECTIVES)
        # All three are emptied when they are full.
        self._asked: dict[
            tuple[Copy, Agent], tuple[Pace, dict[str, str] | None]
        ] = {}  # as reading them takes long
        self._decisions: dict[tuple[object, ...], Decision] = {}
        # The last decision of each verdict, by the verdict's id: policies return the same
        # verdicts again and again, and looking one up by its contents takes longer.
        self._latest: dict[int, Decision] = {}
        self._audit: Audit | None = None
        policies.on_learned(self._note_learned)
        if settings.audit_uri is not None:
            self._audit = Audit(
                crawler,
                settings.audit_uri,
                now=policies.now,
                at=policies.at,
                agent=lambda: name_of(agents.of()),
            )
            engine.starts.on_start(self._audit.write_sent)
            engine.starts.on_answer(self._audit.write_answer)
            engine.starts.on_failure(self._audit.write_failure)
            self._waiting_lines = WaitingLines(crawler, self._audit, waits, policies.at)
            crawler.signals.connect(self._note_dropped, dropped)

    async def close(self, reason: str) -> None:
        if self._audit is not None:
            self._waiting_lines.close()
            self._waits.close_all()
            await self._audit.close(reason, dict(self._waits.left))

    def note_back_off(self, told: BackedOff) -> None:
        """Write that a host is left alone."""
        if self._audit is None:
            return
        more: dict[str, object] = {"down": True} if told.is_down else {}
        if told.asked is not None:
            more["asked"] = told.asked
        self._audit.write(
            BACK_OFF,
            host=told.host,
            url=without_user(told.url),
            what=told.what,
            seconds=round(told.seconds, 3),
            **more,
        )

    def note_demand(self, host: str, url: str, status: int, demand: Demand) -> None:
        """Write that a page is had only with a licence or for a payment."""
        if self._audit is not None:
            named = {name: its for name, its in demand._asdict().items() if its}
            self._audit.write(
                DEMAND, host=host, url=without_user(url), status=status, **named
            )

    def _note_learned(self, known: Known, snapshot: Snapshot) -> None:
        copy = known.evidence = copy_of(known, snapshot, self._settings)
        if self._audit is not None:
            answer = snapshot.answer
            self._audit.write_copy(copy, b"" if answer is None else answer.body)

    def _note_dropped(
        self, what: str, url: str, response: Response, cause: str, reason: str
    ) -> None:
        """Write what page rules have decided about a request or an item."""
        assert self._audit is not None
        assert response.request is not None
        self._audit.write(
            DROPPED,
            url=url,
            page=without_user(response.url),
            what=what,
            agent=name_of(self._agents.of(response.request)),
            cause=cause,
            reason=shorten(reason),
        )

    def note_browser_request(
        self, url: str, origin: str, verdict: Verdict, cause: str, enforced: bool
    ) -> None:
        """Write what was decided about a request of a page in a browser."""
        if self._audit is None:
            return
        known = self._policies.peek(origin)
        copy = known.evidence if known is not None else None
        agent = self._agents.of()
        decision = Decision(
            copy or Copy(origin, State.UNKNOWN.value),
            agent,
            verdict,
            cause or None,
            enforced,
        )
        values = decision.evidence
        names = {name for name in BROWSER.kinds if values.get(name) is not None}
        self._audit.write(
            BROWSER, url=url, **{name: values[name] for name in names - {"url", "time"}}
        )

    # What becomes of a request

    def note_exemption(self, request: Request) -> None:
        """Note that *request* is not judged; drop evidence of another page from its meta."""
        request.meta.pop(META_KEY, None)

    def note_allowed(
        self,
        request: Request,
        url: str,
        known: Known,
        agent: Agent,
        verdict: Verdict,
        *,
        now: float,
        left_out: tuple[Objection, ...],
    ) -> None:
        """Note that *request*, judged by *url* at the time *now*, may be sent.

        *left_out* are objections that REP_OBEY leaves out; the first one is the cause.
        """
        cause = None
        if left_out:
            cause, verdict = left_out[0]
        decision = self._decision_of(
            known, agent, verdict, cause, enforced=cause is None
        )
        self._keep(request, url, known, decision, now)

    def note_refusal(
        self, request: Request, refusal: RobotsRefused, cause: str, known: Known | None
    ) -> None:
        """Note that *request* is not sent; *known* is ``None``: nothing is known yet."""
        agent, verdict = self._agents.of(request), refusal.verdict
        if known is None:
            copy = Copy(refusal.origin, State.UNKNOWN.value)
            decision = Decision(copy, agent, verdict, cause, enforced=True)
        else:
            decision = self._decision_of(known, agent, verdict, cause, enforced=True)
        self._keep(request, refusal.url, known, decision, self._policies.now())

    def _decision_of(
        self,
        known: Known,
        agent: Agent,
        verdict: Verdict,
        cause: str | None,
        *,
        enforced: bool,
    ) -> Decision:
        copy = known.evidence
        latest = self._latest.get(id(verdict))
        if (
            latest is not None
            and latest.verdict is verdict
            and latest.copy is copy
            and latest.agent == agent
            and latest.cause == cause
            and latest.enforced is enforced
        ):
            return latest
        key = copy, agent, verdict, cause, enforced
        decision = self._decisions.get(key)
        if decision is None:
            if copy is None:  # asking was broken off
                copy = Copy(known.origin, known.standing.state.value)
            asked = self._wishes_of(known, copy, agent)
            decision = Decision(copy, agent, verdict, cause, enforced, *asked)
            long = len(decision.evidence["reason"]) >= MAX_CHARACTERS
            if long or copy is not known.evidence:
                return decision  # not kept: many such would hold too much memory
            if len(self._decisions) >= MAX_DECISIONS:
                self._decisions.clear()
            self._decisions[key] = decision
        if len(self._latest) >= MAX_DECISIONS:
            self._latest.clear()
        self._latest[id(verdict)] = decision
        return decision

    def _wishes_of(
        self, known: Known, copy: Copy, agent: Agent
    ) -> tuple[Pace, dict[str, str] | None]:
        """Return the ``pace`` and the ``preferences`` of decisions by *copy*."""
        asked = self._asked.get((copy, agent))
        if asked is None:
            policy = known.policy
            preferences = None
            if CONTENT_USAGE not in str(policy).lower():
                preferences = stated_answers(policy.preferences(known.origin, agent))
            if self._all_kept:
                pace = known.pace_for(agent, self._settings)
            else:
                pace = pace_of(policy, agent, self._all_paces)
            asked = pace, preferences
            if len(self._asked) >= MAX_DECISIONS:
                self._asked.clear()
            self._asked[copy, agent] = asked
        return asked

    def _keep(
        self,
        request: Request,
        url: str,
        known: Known | None,
        decision: Decision,
        now: float,
    ) -> None:
        pace, preferences = decision.pace, decision.preferences
        delay = 0.0 if pace is FREE else pace.asked(now)
        if preferences is None:
            assert known is not None
            agent = self._agents.of(request)
            preferences = stated_answers(known.policy.preferences(url, agent))
        if self._audit is not None:
            host = decision.host
            if not host:
                host = self._host_of(request)
                if self._origin_tells_host:
                    decision.host = host
            slot = self._engine.slot_of(request)
            self._audit.put((now, url, host, slot, decision, delay, preferences))
        if self._on_meta:
            # Each request has its own: nothing that a spider does to one alters another.
            evidence = decision.evidence.copy()
            evidence["url"] = url
            evidence["time"] = now
            evidence["delay"] = delay
            evidence["preferences"] = preferences.copy()
            if evidence["group"] is not None:
                evidence["group"] = evidence["group"].copy()
            request.meta[META_KEY] = evidence
