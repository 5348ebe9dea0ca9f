"""What went wrong where a request was not answered, and whether it may be sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy import Request

REFUSED, NOT_FOUND, TIMEOUT = (
    "connection refused",
    "host name not found",
    "timeout",
)
CUT_SHORT, LOST = "cut short", "connection lost"
FAILURE_KINDS = (
    ("refused", REFUSED),
    ("resolvehost", NOT_FOUND),
    ("lookup", NOT_FOUND),
    ("timeout", TIMEOUT),
    ("timedout", TIMEOUT),
    ("dataloss", CUT_SHORT),
    ("connect", LOST),
    ("failed", LOST),
    ("neverreceived", LOST),
)
"""A part of the name of an exception, and its kind; the first match counts. Twisted, Scrapy and
each of its download handlers have exceptions of their own, but the names tell the kind."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE", "TRACE"})
"""Those of requests that may be sent twice (RFC 9110 9.2.2), without bodies."""
UNANSWERED = frozenset(
    {
        "ResponseNeverReceived",
        "RequestTransmissionFailed",
        "RequestNotSent",
        "ServerDisconnectedError",
        "ClientOSError",
        "RemoteProtocolError",
        "ReadError",
        "WriteError",
    }
)
"""What clients raise when a connection is closed before an octet of the answer has come."""


def kind_of(error: BaseException) -> str:
    """Return the kind of a failure; if it is not known, the name of the exception."""
    name = type(error).__name__
    lower = name.lower()
    return next((kind for part, kind in FAILURE_KINDS if part in lower), name)


def may_send_again(request: Request, error: BaseException) -> bool:
    """Tell whether *request* may be sent again, as its connection was closed unanswered."""
    kinds = {type(error).__name__, type(error.__cause__).__name__}
    return (
        not kinds.isdisjoint(UNANSWERED)
        and "download_latency" not in request.meta  # no headers have come
        and request.method in SAFE_METHODS
        and not request.body
    )
