"""What is known of each origin's robots.txt, and the places where it can be kept."""

from __future__ import annotations

import json
import zlib
from abc import ABC, abstractmethod
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol.decoding import MAX_SIZE
from scrapy_rep.protocol.printable import describe_error, mask_uri

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from scrapy.crawler import Crawler
    from typing_extensions import Self

MAX_UNPACKED = 2 * MAX_SIZE
MAX_NUMBER = 1e18
"""Larger ones, or infinities, break calculations."""
NUMBER = (int, float)
TYPES: dict[str, tuple[type, ...]] = {
    "status": (int,),
    "count": (int,),
    "encoding": (str, type(None)),
    "checked": NUMBER,
    "lifetime": NUMBER,
    "grace": NUMBER,
    "since": NUMBER,
    "retry_at": NUMBER,
    "varies_at": NUMBER,
}
"""Of the fields that are no text."""


class KeptAnswer(NamedTuple):
    """A good answer: a 2xx or a 4xx, which settles what may be fetched.

    All times are seconds since 1970 in this machine's wall clock.
    """

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
    """Its header fields on how long it may be used, which a 304 may leave out. Empty: it had none."""


class Failures(NamedTuple):
    """The failures in a row since the last good answer. Times are as in ``KeptAnswer``."""

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
    def has_failed_here(self) -> bool:
        """Tell whether code on this machine has failed last, which no other crawl gets to know."""
        return self.failures is not None and self.failures.by_own_code

    @property
    def stands_alone(self) -> bool:
        """Tell whether a touch may keep it although nothing was kept before.

        A touch may come without the body, and an answer kept without its rules would allow
        everything later.
        """
        answer = self.answer
        return answer is None or bool(answer.body) or answer.status >= 400

    def touching(self, kept: Snapshot | None) -> Snapshot | None:
        """Return what ``Store.touch`` puts in the place of *kept*; ``None``: nothing."""
        if kept is None:
            return self if self.stands_alone else None
        if kept.status != self.status:
            return None
        if self.answer is None or kept.answer is None:
            return self
        body, encoding = kept.answer.body, kept.answer.encoding
        return self._replace(answer=self.answer._replace(body=body, encoding=encoding))


def variant(origin: str, user_agent: str) -> str:
    """Return the key of the answer that *origin* gives to that User-Agent."""
    return f"{origin} {user_agent}"


def origin_of_key(key: str) -> str:
    return key.partition(" ")[0]


class Store(ABC):
    """Where snapshots live, by origin (``https://example.com``); derive your own store from it.

    If the answers of an origin depend on the User-Agent, each has a snapshot under the key
    that ``variant`` returns, and the snapshot of the origin itself ``varies``.

    A store remembers and never decides: what it does not know is fetched again. A method
    may raise anything when it fails; that is logged, counted and treated as "not known".
    Methods are coroutines so that a store may do I/O.

    You write ``get``, ``put`` and ``close``. The others have defaults, described below; that of
    ``touch`` is for a store that only one crawl writes to at a time.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the store of *crawler*, which has the settings; by default ``cls()``."""
        return cls()

    @abstractmethod
    async def get(self, origin: str) -> Snapshot | None:
        """Return what is known of *origin*; ``None``: nothing."""

    @abstractmethod
    async def put(self, origin: str, snapshot: Snapshot) -> None:
        """Keep *snapshot* in place of what was known."""

    async def touch(self, origin: str, snapshot: Snapshot) -> None:
        """Keep *snapshot*, whose body and encoding are those already kept, if any.

        If nothing is kept, keep it if it ``stands_alone``. If an answer with another status is
        kept, change nothing: another crawl that shares the store has put it there since.
        """
        touched = snapshot.touching(await self.get(origin))
        if touched is not None:
            await self.put(origin, touched)

    @abstractmethod
    async def close(self) -> None:
        """Write what is not written yet; the crawl is over."""

    def claim(self, origin: str) -> AbstractAsyncContextManager[bool]:
        """Let nobody else who shares the store ask *origin* within the block.

        The block is given whether another process may have asked meanwhile, so that the
        store may know more. By default any process may ask, and the value is False.
        """
        return nullcontext(False)


class MemoryStore(Store):
    """Keeps nothing besides: ``Policies`` has each snapshot with its policy, and so bounded."""

    async def get(self, origin: str) -> Snapshot | None:
        return None

    async def put(self, origin: str, snapshot: Snapshot) -> None:
        pass

    async def close(self) -> None:
        pass


# Chosen by REP_STORE

STORES = {
    "memory": "scrapy_rep.store.MemoryStore",
    "sqlite": "scrapy_rep.store.sqlite.SqliteStore",
}
STORE_METHODS = [
    name for name in vars(Store) if not name.startswith("_") and name != "from_crawler"
]


def store_kind(name: Any) -> Any:
    """Return what makes the store of REP_STORE; raises ``SettingError`` where nothing does."""
    path = STORES.get(name, name) if isinstance(name, str) else name
    try:
        kind = load_object(path)
        if not callable(kind):
            raise TypeError(f"{type(kind).__name__!r} object is not callable")
    except (ImportError, NameError, ValueError, TypeError) as error:
        _raise_wrong(name, error)
    return kind


def made_store(name: Any, crawler: Crawler) -> Store:
    """Return the store of REP_STORE for *crawler*; raises ``SettingError`` if it cannot be had."""
    kind = store_kind(name)
    try:
        if isinstance(kind, type) and not issubclass(kind, Store):
            # It has the methods, and now the defaults of those that it lacks.
            kind = type(kind.__name__, (kind, Store), {})
        made: Store = build_from_crawler(kind, crawler)
        if missing := [name for name in STORE_METHODS if not hasattr(made, name)]:
            raise TypeError(f"what it makes has no {', '.join(missing)}")
    except SettingError:
        raise
    except (ImportError, NameError, ValueError, TypeError, OSError) as error:
        _raise_wrong(name, error)
    return made


def _raise_wrong(name: Any, error: Exception) -> NoReturn:
    fault = describe_error(error, str(name))
    expected = f"{', '.join(STORES)} or the import path of a store ({fault})"
    # Where the error may tell a secret, so may its traceback.
    cause = error if mask_uri(str(name)) == str(name) else None
    raise SettingError("REP_STORE", name, expected) from cause


# As octets, for a file or a server: zlib's form of a line of JSON and the body. Other programs
# may write there, too, so it is checked when it is read.


def pack(key: str, snapshot: Snapshot, *, ahead: float = 0.0) -> bytes:
    """*ahead*: by how many seconds the clock of whoever keeps it is ahead of this machine's."""
    answer, failures, varies_at = _later(snapshot, ahead)
    of_answer = None if answer is None else answer._asdict()
    of_failures = None if failures is None else failures._asdict()
    body = b"" if of_answer is None else of_answer.pop("body")
    if of_failures is not None:
        del of_failures["by_own_code"]
    head = json.dumps([key, of_answer, of_failures, varies_at])
    return zlib.compress(head.encode() + b"\n" + body)


def unpack(key: str, packed: Any, *, ahead: float = 0.0) -> Snapshot:
    """Raises ``ValueError``, saying why, if *packed* is not what stores write, or has another *key*.

    Calculations and requests with the result do not fail.
    """
    unpacker = zlib.decompressobj()
    try:
        head, _, body = unpacker.decompress(packed, MAX_UNPACKED).partition(b"\n")
        if not unpacker.eof or unpacker.unused_data or len(body) > MAX_SIZE:
            raise ValueError("it is too long, or does not end where it should")
        own_key, of_answer, of_failures, varies_at = json.loads(head)
        _checked({"varies_at": varies_at})
        answer = failures = None
        if of_answer is not None:
            answer = KeptAnswer(body=body, **_checked(of_answer))
        if of_failures is not None:
            failures = Failures(**_checked(of_failures))
    except (AttributeError, TypeError, RecursionError, zlib.error) as error:
        raise ValueError(f"it is something else: {error}") from error
    if own_key != key:
        raise ValueError("it belongs to another origin")
    # Else it would have been failing for ever, which may mean that all is allowed.
    if failures is not None and not (failures.count and failures.since):
        raise ValueError("it has failures since no time")
    return _later(Snapshot(answer, failures, varies_at), -ahead)


def _checked(facts: dict[str, Any]) -> dict[str, Any]:
    """Raises ``ValueError`` if one of them is not as its name demands."""
    for name, fact in facts.items():
        is_like = type(fact) in TYPES.get(name, (str,))  # a bool is no number
        if isinstance(fact, str):
            fact.encode()  # JSON may have half of a character
        elif fact is not None:
            is_like = is_like and 0 <= fact < MAX_NUMBER  # NaN is not
        if not is_like:
            raise ValueError(f"its {name} is {ascii(fact)[:60]}")
    return facts


def _later(snapshot: Snapshot, seconds: float) -> Snapshot:
    """0 means no time, and stays."""

    def later(moment: float) -> float:
        return moment + seconds if moment else moment

    answer, failures, varies_at = snapshot
    if answer is not None:
        answer = answer._replace(checked=later(answer.checked))
    if failures is not None:
        since, retry_at = later(failures.since), later(failures.retry_at)
        failures = failures._replace(since=since, retry_at=retry_at)
    return Snapshot(answer, failures, later(varies_at))
