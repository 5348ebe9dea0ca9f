"""What there is one of for each crawler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ReferenceType, WeakKeyDictionary, ref

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self


class OneForEachCrawler:
    """Made when first asked for, and lives for as long as anything holds it."""

    # Weak on both sides: what is here may hold its crawler.
    _known: ClassVar[WeakKeyDictionary[Crawler, ReferenceType[Any]]]

    def __init_subclass__(cls) -> None:
        cls._known = WeakKeyDictionary()

    @classmethod
    def made_for(cls, crawler: Crawler) -> Self:
        """Return a new one for *crawler*."""
        return cls(crawler)  # type: ignore[call-arg]

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """Return the one of *crawler*. Raises what making it raises."""
        known = cls._known.get(crawler)
        one: Self | None = None if known is None else known()
        if one is None:
            one = cls.made_for(crawler)
            cls._known[crawler] = ref(one)
        return one
