"""Rows of a store, checked before they are believed: others may write there, too."""

from __future__ import annotations

import zlib
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from scrapy_rep.protocol.decoding import MAX_SIZE
from scrapy_rep.store import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS: dict[str, tuple[type, ...]] = {
    field.name: {str: (str,), float: (float, int)}.get(type(field.default), (int,))
    for field in fields(Snapshot)
    if field.name not in {"encoding", "body"}
}
FACTS = tuple(KINDS)
"""What a 304 or a failure changes."""
MOST = 1e18
"""More than any time or number is; with more, or with infinities, reckoning fails."""
MOST_OCTETS = 2 * MAX_SIZE
"""Of a row: a body that cannot be packed is a little longer, and headers are short."""


def packed(body: bytes) -> bytes:
    return zlib.compress(body)


def unpacked(data: Any) -> bytes:
    """Return the body that ``packed`` has made *data* of.

    Raises ``ValueError`` where it was not, or is longer than any robots.txt is kept.
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


def snapshot_of(facts: Mapping[str, Any], encoding: Any, body: Any) -> Snapshot:
    """Return the snapshot of a row with these *facts* and this packed *body*.

    Whatever is in the row, what is returned can be reckoned with, and used in a request.
    Facts may be missing, as earlier versions did not have all of them. Raises
    ``ValueError``, saying why, where it is not a row as stores write it.
    """
    if encoding is not None and not _is_text(encoding):
        raise ValueError("its encoding is no text")
    known = {name: facts[name] for name in FACTS if name in facts}
    for name, fact in known.items():
        if not _is_right(fact, KINDS[name]) and (name, fact) != ("status", None):
            raise ValueError(f"its {name} is {ascii(fact)[:60]}")
    # Else it would have been failing for ever, which may mean that all is allowed.
    if known.get("failures") and not known.get("failing_since"):
        raise ValueError("it has failures since no time")
    return Snapshot(encoding=encoding, body=unpacked(body), **known)


def _is_right(fact: Any, kinds: tuple[type, ...]) -> bool:
    if type(fact) not in kinds:  # which a bool would be an instance of
        return False
    return _is_text(fact) if kinds == (str,) else 0 <= fact < MOST  # NaN is not


def _is_text(value: object) -> bool:
    """Tell whether it can be sent: JSON may have half of a character."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False
