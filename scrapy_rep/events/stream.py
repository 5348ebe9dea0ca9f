"""The stream of what happens in one crawl: whoever wants to know of it listens."""

from __future__ import annotations

from collections import defaultdict
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from scrapy_rep.engine.tools import OneForEachCrawler
from scrapy_rep.events.kinds import Counted, Failed, Told, Warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy.crawler import Crawler

    from scrapy_rep.events import Event


class Stream(OneForEachCrawler):
    """Tells whoever listens what happens in one crawl."""

    def __init__(self, crawler: Crawler) -> None:
        self._listeners: defaultdict[type[Event], list[Callable[[Any], object]]] = (
            defaultdict(list)
        )
        self.wall_at_zero = time() - monotonic()
        """Seconds since 1970 when ``time.monotonic()`` was 0: no step of the clock alters it."""

    def at(self, moment: float) -> float:
        """Return a *moment* of ``time.monotonic()`` in seconds since 1970."""
        return self.wall_at_zero + moment

    def listen(
        self, listener: Callable[[Any], object], kinds: Iterable[type[Event]]
    ) -> None:
        for kind in kinds:
            self._listeners[kind].append(listener)

    def listeners(self, kind: type[Event]) -> list[Callable[[Any], object]]:
        """Return who listens to *kind*, now and later: nobody needs to make what nobody hears."""
        return self._listeners[kind]

    def tell(self, event: Event) -> None:
        event.time = event.time or self.at(monotonic())
        for listener in self._listeners[type(event)]:
            listener(event)

    def count(self, name: str, number: int = 1) -> None:
        """Count what only a stat, ``rep/NAME``, knows of."""
        self.tell(Counted(name, number))

    def tell_user(self, sentence: str) -> None:
        """Tell what is so, or could be better."""
        self.tell(Told(sentence))

    def warn_user(self, sentence: str, raised: BaseException | None = None) -> None:
        """Tell what must be changed; of what was *raised*, the traceback."""
        self.tell(Warned(sentence, raised))

    def tell_failure(self, sentence: str, raised: BaseException | None = None) -> None:
        """Tell what has failed; of what was *raised*, the traceback."""
        self.tell(Failed(sentence, raised))
