"""How a fleet's queue lies in Redis; ``lua/common.lua`` says what is under which key."""

from __future__ import annotations

from struct import pack
from time import time_ns

NAMES = ("due", "later", "pace", "count", "workers", "clock", "idle", "epoch")
ID_LENGTH = 16
"""Octets before a request that make it one of its kind."""


def queue_keys(key: str) -> tuple[str, list[str]]:
    """Return what the keys of the queue *key* begin with, and those that are fixed.

    The braces have a cluster keep them together.
    """
    prefix = f"{{{key}}}:"
    return prefix, [prefix + name for name in NAMES]


def as_member(request: bytes | str, serial: int) -> bytes:
    """Return *request*, serialized, as it is queued.

    Among equals the first comes first: the clocks of the workers order them well enough.
    """
    data = request.encode() if isinstance(request, str) else request
    return pack(">QQ", time_ns(), serial) + data
