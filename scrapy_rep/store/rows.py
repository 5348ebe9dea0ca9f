"""Rows of a store: the form of a snapshot in a file or on a server.

A row is checked when it is read, as other programs may write there, too.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from scrapy_rep.protocol.decoding import MAX_SIZE
from scrapy_rep.store.snapshot import Failures, KeptAnswer, Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

FACTS: dict[str, Any] = {
    "status": None,
    "url": "",
    "etag": "",
    "last_modified": "",
    "checked": 0.0,
    "lifetime": 0.0,
    "grace": 0.0,
    "failures": 0,
    "failing_since": 0.0,
    "retry_at": 0.0,
    "failure": "",
    "cache_control": "",
    "expires": "",
}
"""What a row has besides encoding and body, and what a 304 or a failure changes; each with the
value that counts if a row lacks it. Checksums are computed in this order."""
FAILURE_FACTS = {
    "failures": "count",
    "failing_since": "since",
    "retry_at": "retry_at",
    "failure": "reason",
}
"""Fact -> field of ``Failures``; the fields of a ``KeptAnswer`` are named like their facts."""
ANSWER_FACTS = tuple(name for name in FACTS if name not in FAILURE_FACTS)
TIME_FACTS = ("checked", "failing_since", "retry_at")
"""Points in time, by the clock of the machine that has written the row."""
MAX_NUMBER = 1e18
"""All times and numbers are below this; larger ones, or infinities, break calculations."""
MAX_ROW_SIZE = 2 * MAX_SIZE
"""Octets: a body that does not compress gets a little longer, and headers are short."""


def flatten(
    snapshot: Snapshot, *, ahead: float = 0.0
) -> tuple[dict[str, Any], str | None, bytes]:
    """Return the facts, the encoding and the body of *snapshot*.

    *ahead* is by how many seconds the clock of the row is ahead of this machine's.
    """
    answer, failures = snapshot.answer, snapshot.failures
    facts = {**FACTS, "checked": snapshot.varies_at}
    if failures is not None:
        facts |= {name: getattr(failures, of) for name, of in FAILURE_FACTS.items()}
    if answer is None:
        return _shift(facts, ahead), None, b""
    facts |= {name: getattr(answer, name) for name in ANSWER_FACTS}
    return _shift(facts, ahead), answer.encoding, answer.body


def build(facts: Mapping[str, Any], encoding: str | None, body: bytes) -> Snapshot:
    """Return the snapshot that ``flatten`` has taken apart; facts may be missing."""
    facts = {**FACTS, **facts}
    answer = failures = None
    if facts["status"] is not None:
        known = {name: facts[name] for name in ANSWER_FACTS}
        answer = KeptAnswer(body=body, encoding=encoding, **known)
    if facts["failures"]:
        failures = Failures(**{of: facts[name] for name, of in FAILURE_FACTS.items()})
    varies_at = facts["checked"] if answer is None else 0.0
    return Snapshot(answer=answer, failures=failures, varies_at=varies_at)


def read_row(
    facts: Mapping[str, Any], encoding: Any, packed_body: Any, *, ahead: float = 0.0
) -> Snapshot:
    """Return the snapshot of a row with these *facts*; *ahead* is as for ``flatten``.

    Whatever is in the row, calculations and requests with the result do not fail. Facts may
    be missing, as earlier versions did not have all of them. Raises ``ValueError``, saying
    why, if it is no row as stores write it.
    """
    if encoding is not None and not _is_text(encoding):
        raise ValueError("its encoding is no text")
    known = {name: facts[name] for name in FACTS if name in facts}
    for name, fact in known.items():
        if not _is_like(fact, FACTS[name]) and (name, fact) != ("status", None):
            raise ValueError(f"its {name} is {ascii(fact)[:60]}")
    # Else it would have been failing for ever, which may mean that all is allowed.
    if known.get("failures") and not known.get("failing_since"):
        raise ValueError("it has failures since no time")
    return build(_shift(known, -ahead), encoding, unpack_body(packed_body))


def _shift(facts: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return *facts* with their times *seconds* later; 0 means no time, and stays."""
    if not seconds:
        return facts
    return facts | {n: facts[n] + seconds for n in TIME_FACTS if facts.get(n)}


def _is_like(fact: Any, default: Any) -> bool:
    kinds = {str: (str,), float: (float, int)}.get(type(default), (int,))
    if type(fact) not in kinds:  # which a bool would be an instance of
        return False
    return _is_text(fact) if kinds == (str,) else 0 <= fact < MAX_NUMBER  # NaN is not


def _is_text(value: object) -> bool:
    """Tell whether *value* is a str that can be sent: JSON may have half of a character."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def pack_body(body: bytes) -> bytes:
    return zlib.compress(body)


def unpack_body(data: Any) -> bytes:
    """Return the body that ``pack_body`` has packed into *data*.

    Raises ``ValueError`` if *data* is something else, or the body is longer than any that is
    kept.
    """
    unpacker = zlib.decompressobj()
    try:
        body = unpacker.decompress(data, MAX_SIZE + 1)
    except (TypeError, zlib.error) as error:
        raise ValueError(f"its body: {error}") from error
    if len(body) > MAX_SIZE:
        raise ValueError(f"its body has more than {MAX_SIZE} octets")
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("its body does not end where it should")
    return body
