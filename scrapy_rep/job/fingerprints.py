"""How a fingerprint stands in the file of a job."""

from __future__ import annotations

from hashlib import blake2b

FINGERPRINT_OCTETS = 16
"""Octets. Among 10**9 URLs, two of the same have a chance of 1 in 10**21."""


def shorten(fingerprint: bytes) -> bytes:
    """Return what stands for *fingerprint*, of FINGERPRINT_OCTETS octets at the most."""
    if len(fingerprint) <= FINGERPRINT_OCTETS:
        return fingerprint
    return blake2b(fingerprint, digest_size=FINGERPRINT_OCTETS).digest()
