"""Objects in memory, each packed into one string of octets."""

from __future__ import annotations

import pickle
import zlib
from collections import OrderedDict
from sys import getsizeof
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable

ZLIB_LEVEL = 1
"""The event loop waits while zlib compresses. Level 6 saves a quarter of 512 KiB more, but takes
10 ms instead of 4."""


class PackedCache:
    """Keeps the objects last used, in at most ``max_bytes`` octets.

    Each is pickled into one object, for which the garbage collector has no work.
    """

    def __init__(
        self, max_bytes: int, *, entry_octets: int, compress_from: int
    ) -> None:
        """*entry_octets* are those of an entry besides its key and its object.

        Objects of more than *compress_from* octets are compressed.
        """
        self.max_bytes = max_bytes
        self.bytes = 0
        self._entry_octets = entry_octets
        self._compress_from = compress_from
        self._packed: OrderedDict[Hashable, bytes] = OrderedDict()  # oldest use first

    def get(self, key: Hashable) -> Any:
        """Return the object of *key*, which then is the one last used; ``None``: none."""
        packed = self._packed.get(key)
        if packed is None:
            return None
        self._packed.move_to_end(key)
        if not packed.startswith(pickle.PROTO):
            packed = zlib.decompress(packed)
        return pickle.loads(packed)  # noqa: S301 - our own

    def put(self, key: Hashable, value: object) -> None:
        """Keep *value*, and drop the objects that were not used for longest."""
        self.discard(key)
        packed = pickle.dumps(value)
        if len(packed) > self._compress_from:
            packed = zlib.compress(packed, ZLIB_LEVEL)
        self._packed[key] = packed
        self.bytes += self._weight(key, packed)
        while self.bytes > self.max_bytes:
            self.discard(next(iter(self._packed)))

    def discard(self, key: Hashable) -> None:
        packed = self._packed.pop(key, None)
        if packed is not None:
            self.bytes -= self._weight(key, packed)

    def clear(self) -> None:
        self._packed.clear()
        self.bytes = 0

    def _weight(self, key: Hashable, packed: bytes) -> int:
        return getsizeof(key) + getsizeof(packed) + self._entry_octets
