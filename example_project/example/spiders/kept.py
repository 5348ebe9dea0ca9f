"""The same tour, which keeps something of each page, and what let it be fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from example.spiders.tour import Tour

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response


class Kept(Tour):
    name = "kept"

    custom_settings = {"REP_EVIDENCE": True}

    def parse(self, response: Response) -> Iterator[Any]:
        # A pipeline has the item, and no response; see pipelines.py.
        yield {"url": response.url, "rep_evidence": response.meta.get("rep_evidence")}
        yield from super().parse(response)
