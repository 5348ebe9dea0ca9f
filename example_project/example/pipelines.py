"""What is shown of each page that was kept: the robots.txt that let it be fetched."""

from __future__ import annotations

from typing import Any

from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem


class Evidence:
    """Puts the robots.txt's digest on items, whose spider hands on what decided."""

    def process_item(self, item: Any) -> Any:
        adapter = ItemAdapter(item)
        evidence = adapter.pop("rep_evidence", None)
        if evidence is None:
            raise DropItem("Nothing shows that its page might be fetched")
        adapter["robots_txt"] = evidence["digest"]  # None where the site has none
        adapter["allowed_by"] = evidence["rule"] or evidence["reason"]
        return item
