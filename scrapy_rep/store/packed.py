"""Snapshots as octets, for a file or a server: zlib's form of a line of JSON and the body.

It is checked when it is read, as other programs may write there, too.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from scrapy_rep.protocol.decoding import MAX_SIZE
from scrapy_rep.store import Failures, KeptAnswer, Snapshot

MAX_UNPACKED = 2 * MAX_SIZE
"""Octets of a body and the line before it: headers are short."""
MAX_NUMBER = 1e18
"""All times and numbers are below this; larger ones, or infinities, break calculations."""
NUMBER = (int, float)
TYPES: dict[str, tuple[type, ...]] = {
    "status": (int,),
    "count": (int,),
    "encoding": (str, type(None)),
    "checked": NUMBER,
    "lifetime": NUMBER,
    "grace": NUMBER,
    "since": NUMBER,
    "retry_at": NUMBER,
    "varies_at": NUMBER,
}
"""Of the fields that are no text."""


def pack(key: str, snapshot: Snapshot, *, ahead: float = 0.0) -> bytes:
    """Return *snapshot*, which is kept under *key*, as octets.

    *ahead* is by how many seconds the clock of whoever keeps it is ahead of this machine's.
    """
    answer, failures, varies_at = _later(snapshot, ahead)
    of_answer = None if answer is None else answer._asdict()
    of_failures = None if failures is None else failures._asdict()
    body = b"" if of_answer is None else of_answer.pop("body")
    if of_failures is not None:
        del of_failures["by_own_code"]
    head = json.dumps([key, of_answer, of_failures, varies_at])
    return zlib.compress(head.encode() + b"\n" + body)


def unpack(key: str, packed: Any, *, ahead: float = 0.0) -> Snapshot:
    """Return the snapshot that ``pack`` has made *packed* of.

    Whatever that is, calculations and requests with the result do not fail. Raises
    ``ValueError``, saying why, if it is not what stores write, or has another *key*.
    """
    unpacker = zlib.decompressobj()
    try:
        head, _, body = unpacker.decompress(packed, MAX_UNPACKED).partition(b"\n")
        if not unpacker.eof or unpacker.unused_data or len(body) > MAX_SIZE:
            raise ValueError("it is too long, or does not end where it should")
        own_key, of_answer, of_failures, varies_at = json.loads(head)
        _checked({"varies_at": varies_at})
        answer = failures = None
        if of_answer is not None:
            answer = KeptAnswer(body=body, **_checked(of_answer))
        if of_failures is not None:
            failures = Failures(**_checked(of_failures))
    except (AttributeError, TypeError, RecursionError, zlib.error) as error:
        raise ValueError(f"it is something else: {error}") from error
    if own_key != key:
        raise ValueError("it belongs to another origin")
    # Else it would have been failing for ever, which may mean that all is allowed.
    if failures is not None and not (failures.count and failures.since):
        raise ValueError("it has failures since no time")
    return _later(Snapshot(answer, failures, varies_at), -ahead)


def _checked(facts: dict[str, Any]) -> dict[str, Any]:
    """Return *facts*; raises ``ValueError`` if one of them is not as its name demands."""
    for name, fact in facts.items():
        is_like = type(fact) in TYPES.get(name, (str,))  # a bool is no number
        if isinstance(fact, str):
            fact.encode()  # JSON may have half of a character
        elif fact is not None:
            is_like = is_like and 0 <= fact < MAX_NUMBER  # NaN is not
        if not is_like:
            raise ValueError(f"its {name} is {ascii(fact)[:60]}")
    return facts


def _later(snapshot: Snapshot, seconds: float) -> Snapshot:
    """Return *snapshot* with its times *seconds* later; 0 means no time, and stays."""

    def later(moment: float) -> float:
        return moment + seconds if moment else moment

    answer, failures, varies_at = snapshot
    if answer is not None:
        answer = answer._replace(checked=later(answer.checked))
    if failures is not None:
        since, retry_at = later(failures.since), later(failures.retry_at)
        failures = failures._replace(since=since, retry_at=retry_at)
    return Snapshot(answer, failures, later(varies_at))
