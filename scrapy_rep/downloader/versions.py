"""What differs between the download slots of Scrapy's versions."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy.core import downloader as scrapys

if TYPE_CHECKING:
    from collections.abc import Callable

# What Slot.lastseen is told by: the wall clock before Scrapy 2.16.
slot_clock: Callable[[], float] = (
    vars(scrapys).get("monotonic") or vars(scrapys).get("time") or monotonic
)


def is_usable(slot: Any) -> bool:
    """Tell whether *slot* has the attributes that we read and set."""
    try:
        for name in ("lastseen", "delay", "concurrency"):
            setattr(slot, name, getattr(slot, name))
        jitter_of(slot)
        return hasattr(slot, "queue") and hasattr(slot, "active")
    except (AttributeError, TypeError):
        return False


def jitter_of(slot: Any) -> float:
    """Return the part of its delay by which *slot* varies it at random, from 0 to 1."""
    if hasattr(slot, "jitter"):  # Scrapy >= 2.19
        return float(slot.jitter)
    return 0.5 if slot.randomize_delay else 0.0
