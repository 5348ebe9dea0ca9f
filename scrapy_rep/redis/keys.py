"""How a fleet's queue lies in Redis; ``lua/common.lua`` says what is under which key."""

from __future__ import annotations

import re
from struct import pack
from time import time_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMES = ("due", "later", "pace", "count", "workers", "clock", "idle", "epoch")
ID_LENGTH = 16
"""Octets before a request that make it one of its kind."""


def queue_keys(key: str) -> tuple[str, list[str]]:
    """Return what the keys of the queue *key* begin with, and those that are fixed.

    The braces have a cluster keep them together.
    """
    prefix = f"{{{key}}}:"
    return prefix, [prefix + name for name in NAMES]


def parts_of(key: str) -> list[tuple[str, list[str]]]:
    """Return the parts of the queue *key*, each as ``queue_keys`` does; there is one."""
    return [queue_keys(key)]


def pattern(prefix: str, name: str = "*") -> str:
    """Return the pattern by which SCAN finds keys that begin with *prefix*."""
    return literally(prefix) + name


def literally(text: str) -> str:
    """Return *text* as a pattern that matches it alone."""
    return re.sub(r"([\\*?\[\]])", r"\\\1", text)


def hosts_and_workers(names: Iterable[bytes]) -> list[bytes | int]:
    """Return how many hosts *names* of keys tell of, those, and the workers.

    The prefix is not part of a name.
    """
    all_ = list(names)
    hosts = [name[5:] for name in all_ if name.startswith(b"host:")]
    workers = (name[4:] for name in all_ if name.startswith(b"out:"))
    return [len(hosts), *hosts, *workers]


def as_member(request: bytes | str, serial: int) -> bytes:
    """Return *request*, serialized, as it is queued.

    Among equals the first comes first: the clocks of the workers order them well enough.
    """
    data = request.encode() if isinstance(request, str) else request
    return pack(">QQ", time_ns(), serial) + data
