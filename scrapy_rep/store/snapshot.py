"""What is known of an origin's robots.txt: an answer, and the failures since.

All times are seconds since 1970 in this machine's wall clock.
"""

from __future__ import annotations

from typing import NamedTuple


class KeptAnswer(NamedTuple):
    """A good answer: a 2xx or a 4xx, which settles what may be fetched."""

    status: int
    body: bytes = b""
    """Of a 2xx; at most REP_MAX_SIZE octets."""
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
    """Its header fields on how long it may be used, which a 304 may leave out. Empty: it had none,
    or was kept by a version without these fields."""


class Failures(NamedTuple):
    """All that came of asking since some time: failures."""

    count: int  # type: ignore[assignment]  # tuples have a method of that name
    """How many times in a row; 1 or more."""
    since: float
    """When the first one was."""
    retry_at: float
    """When to ask again."""
    reason: str
    """The last one in words."""
    by_own_code: bool = False
    """The last one was of code on this machine, and is known to nobody else: no store has it."""


class Snapshot(NamedTuple):
    """What is known of an origin. A failure never overwrites an answer."""

    answer: KeptAnswer | None = None
    """The last good answer; ``None``: there never was one."""
    failures: Failures | None = None
    """The failures since; ``None``: none."""
    varies_at: float = 0.0
    """If it ``varies``, when that was last seen."""

    @property
    def varies(self) -> bool:
        """Tell whether answers depend on the User-Agent, each with a key of its own."""
        return self.answer is None and self.failures is None

    @property
    def status(self) -> int | None:
        """Return the status of the answer; ``None``: there is none."""
        return None if self.answer is None else self.answer.status

    @property
    def stands_alone(self) -> bool:
        """Tell whether a touch may keep it although nothing was kept before.

        A touch may come without the body, and an answer kept without its rules would allow
        everything later.
        """
        answer = self.answer
        return answer is None or bool(answer.body) or answer.status >= 400
