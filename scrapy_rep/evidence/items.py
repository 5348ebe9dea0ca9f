"""Evidence on items: REP_EVIDENCE_FIELD."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from itemadapter import ItemAdapter
from scrapy.exceptions import NotConfigured
from scrapy.spidermiddlewares.base import BaseSpiderMiddleware

from scrapy_rep.events.stream import Stream
from scrapy_rep.evidence.witness import META_KEY
from scrapy_rep.settings import Settings

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response


class EvidenceSpiderMiddleware(BaseSpiderMiddleware):
    """Puts the digest of the robots.txt that let a page be fetched on the page's items.

    In a pipeline an item has no response any more, so this is a spider middleware.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = Settings.of(crawler)
        if not crawler.settings.getbool("ROBOTSTXT_OBEY"):
            raise NotConfigured  # without a message: it is what the user wants
        if settings.evidence_field is None:
            raise NotConfigured
        super().__init__(crawler)
        self._field = settings.evidence_field
        self._events = Stream.of(crawler)
        self._warned = False

    def get_processed_item(self, item: Any, response: Response | None) -> Any:
        """Return *item* with the digest in its field; ``None``: no file decided."""
        if response is None:
            return item
        evidence = response.meta.get(META_KEY)
        digest = None if evidence is None else evidence["digest"]
        try:
            ItemAdapter(item)[self._field] = digest
        except (KeyError, TypeError) as error:  # it has no such field, or is no item
            self._events.count("evidence/no_field")
            if not self._warned:
                self._warned = True
                self._events.warn_user(
                    f"Items without a field {self._field!r} (REP_EVIDENCE_FIELD) are not "
                    f"marked: {error}. They are counted in rep/evidence/no_field"
                )
        return item
