"""What is known of an origin's robots.txt: an answer, and the failures since.

All times are seconds since 1970 in this machine's wall clock.
"""

from __future__ import annotations

from typing import NamedTuple


class KeptAnswer(NamedTuple):
    """A good answer: a 2xx or a 4xx, anything that settles what may be fetched."""

    status: int
    body: bytes = b""
    """Where it was a 2xx; at most REP_MAX_SIZE octets."""
    encoding: str | None = None
    """The charset of its Content-Type."""
    url: str = ""
    """Where it came from, redirects followed."""
    etag: str = ""
    last_modified: str = ""
    """Its validators, to be sent back as they are."""
    checked: float = 0.0
    """When it came, or was last confirmed by a 304."""
    lifetime: float = 0.0
    """For how many seconds from then it is fresh."""
    grace: float = 0.0
    """For how many seconds from then it may serve while it is asked for again."""
    cache_control: str = ""
    expires: str = ""
    """Its header fields on how long it may be used. They are kept so that a 304 without them
    changes nothing. Empty: it had none, or is older than this field."""


class Failures(NamedTuple):
    """Asking has failed, and nothing else came of it since."""

    count: int  # type: ignore[assignment]  # tuples have a method of that name
    """How many times in a row; 1 or more."""
    since: float
    """When the first of them was."""
    retry_at: float
    """When to ask again."""
    reason: str
    """What the last one was, in words."""


class Snapshot(NamedTuple):
    """What is known of an origin. A failure never overwrites an answer."""

    answer: KeptAnswer | None = None
    """The last good one; ``None``: there never was one."""
    failures: Failures | None = None
    """Those since; ``None``: asking has not failed since."""
    varies_at: float = 0.0
    """Where it ``varies``, when that was last seen."""

    @property
    def varies(self) -> bool:
        """There is no answer to keep here, as answers depend on the User-Agent.

        Each is kept under a key of its own.
        """
        return self.answer is None and self.failures is None

    @property
    def status(self) -> int | None:
        """The status of the answer; ``None``: there is none."""
        return None if self.answer is None else self.answer.status

    @property
    def stands_alone(self) -> bool:
        """Whether a touch may keep it where nothing was kept before.

        It may come without its body. An answer that had rules, kept without them, would
        allow everything later.
        """
        answer = self.answer
        return answer is None or bool(answer.body) or answer.status >= 400
