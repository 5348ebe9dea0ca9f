"""What went wrong where a request was not answered, in words."""

from __future__ import annotations

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


def kind_of(error: BaseException) -> str:
    """Return the kind of a failure; if it is not known, the name of the exception."""
    name = type(error).__name__
    lower = name.lower()
    return next((kind for part, kind in FAILURE_KINDS if part in lower), name)
