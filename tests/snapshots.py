"""Snapshots by the names that their facts have in files and servers."""

from __future__ import annotations

from typing import Any

from scrapy_rep.store import Failures, KeptAnswer, Snapshot

OF_FAILURES = {
    "failures": "count",
    "failing_since": "since",
    "retry_at": "retry_at",
    "failure": "reason",
}
"""Fact -> field of ``Failures``; the fields of a ``KeptAnswer`` are named like their facts."""


def snapshot_of(**facts: Any) -> Snapshot:
    """Return a snapshot with these *facts*; without a ``status`` there is no answer."""
    known: dict[str, Any] = {"failing_since": 0.0, "retry_at": 0.0, "failure": ""}
    known |= facts
    answer = failures = None
    if known.get("status") is not None:
        of_answer = {n: known[n] for n in KeptAnswer._fields if n in known}
        answer = KeptAnswer(**of_answer)
    if known.get("failures"):
        failures = Failures(**{of: known[n] for n, of in OF_FAILURES.items()})
    varies_at = known.get("checked", 0.0) if answer is None else 0.0
    return Snapshot(answer, failures, varies_at)


def facts_of(kept: Snapshot) -> dict[str, Any]:
    """Return the facts of *kept*."""
    facts: dict[str, Any] = {"status": None, "body": b"", "checked": kept.varies_at}
    if kept.answer is not None:
        facts |= kept.answer._asdict()
    if kept.failures is not None:
        own = kept.failures._asdict()
        facts |= {n: own[of] for n, of in OF_FAILURES.items()}
    return facts


def changed(kept: Snapshot, **facts: Any) -> Snapshot:
    """Return *kept* with other *facts*."""
    return snapshot_of(**{**facts_of(kept), **facts})


def answer_of(kept: Any) -> Any:
    """Return the answer of *kept*, which has one."""
    return kept.answer


def failures_of(kept: Any) -> Any:
    """Return the failures of *kept*, which has some."""
    return kept.failures
