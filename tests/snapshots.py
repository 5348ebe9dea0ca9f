"""Snapshots by the names that their facts have in files and servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_rep.store.rows import build, flatten

if TYPE_CHECKING:
    from scrapy_rep.store import Failures, KeptAnswer, Snapshot


def snapshot_of(**facts: Any) -> Snapshot:
    """Return a snapshot with these *facts*, ``body`` and ``encoding`` among them."""
    known = {"encoding": None, "body": b"", **facts}
    return build(known, known["encoding"], known["body"])


def facts_of(kept: Snapshot) -> dict[str, Any]:
    """Return the facts of *kept*, ``body`` and ``encoding`` among them."""
    facts, encoding, body = flatten(kept)
    return {**facts, "encoding": encoding, "body": body}


def changed(kept: Snapshot, **facts: Any) -> Snapshot:
    """Return *kept* with other *facts*."""
    return snapshot_of(**{**facts_of(kept), **facts})


def answer_of(kept: Snapshot | None) -> KeptAnswer:
    """Return the answer of *kept*, which has one."""
    assert kept is not None
    assert kept.answer is not None
    return kept.answer


def failures_of(kept: Snapshot | None) -> Failures:
    """Return the failures of *kept*, which has some."""
    assert kept is not None
    assert kept.failures is not None
    return kept.failures
