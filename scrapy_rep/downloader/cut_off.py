"""How a download ends that was broken off."""

from __future__ import annotations

import asyncio
from typing import Any

from scrapy import exceptions
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

CUT_OFF: tuple[type[BaseException], ...] = (
    asyncio.CancelledError,
    CancelledError,
    getattr(exceptions, "DownloadCancelledError", CancelledError),  # Scrapy >= 2.15
)


def is_cut_off(result: Any) -> bool:
    """Tell whether *result*, of a request, is that its download was broken off."""
    return isinstance(result, Failure) and bool(result.check(*CUT_OFF))
