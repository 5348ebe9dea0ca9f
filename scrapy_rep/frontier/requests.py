"""The forms in which a ledger keeps requests and fingerprints."""

from __future__ import annotations

import pickle
from hashlib import blake2b
from typing import TYPE_CHECKING

from scrapy.utils.request import request_from_dict

if TYPE_CHECKING:
    from scrapy import Request, Spider

FINGERPRINT_OCTETS = 16
"""Octets. Among 10**9 URLs, the chance that two collide is 1 in 10**21."""


def packed(request: Request, spider: Spider) -> bytes:
    """Return *request* as octets. Raises whatever comes of what cannot be pickled."""
    return pickle.dumps(request.to_dict(spider=spider), protocol=4)


def unpacked(body: Request | bytes, spider: Spider) -> Request:
    """Return what ``packed`` made *body* of; a request is returned as it is.

    Raises whatever comes of octets that are damaged, or of a callback that *spider* lacks.
    """
    if not isinstance(body, bytes):
        return body
    return request_from_dict(pickle.loads(body), spider=spider)  # noqa: S301


def shortened(fingerprint: bytes) -> bytes:
    """Return what stands for *fingerprint*, of FINGERPRINT_OCTETS octets at the most."""
    if len(fingerprint) <= FINGERPRINT_OCTETS:
        return fingerprint
    return blake2b(fingerprint, digest_size=FINGERPRINT_OCTETS).digest()
