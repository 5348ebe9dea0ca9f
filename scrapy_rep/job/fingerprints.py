"""The form that a fingerprint has in the file of a job."""

from __future__ import annotations

from hashlib import blake2b

FINGERPRINT_OCTETS = 16
"""Octets. Among 10**9 URLs, the chance that two collide is 1 in 10**21."""


def shorten(fingerprint: bytes) -> bytes:
    """Return what stands for *fingerprint*, of FINGERPRINT_OCTETS octets at the most."""
    if len(fingerprint) <= FINGERPRINT_OCTETS:
        return fingerprint
    return blake2b(fingerprint, digest_size=FINGERPRINT_OCTETS).digest()
