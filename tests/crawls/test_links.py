"""The recipes of the guide for links: refused before they are requests, and counted."""

from __future__ import annotations

import pytest

from tests import documents
from tests.site import Reply, Site
from tests.test_readme import items_of, spider
from tests.utils import coroutine_test


def page(*urls: str) -> Reply:
    return Reply("<html>" + "".join(f'<a href="{url}">x</a>' for url in urls))


@pytest.mark.parametrize(
    ("name", "own"),
    [
        pytest.param("process_value", "follow", id="LinkExtractor(process_value)"),
        pytest.param("process_request", "ruled", id="Rule(process_request)"),
    ],
)
@coroutine_test
async def test_recipes(name, own, tmp_path):
    rules = "User-agent: *\nDisallow: /private/\n"
    other = Site({"/robots.txt": "User-agent: *\nDisallow: /"}, host="127.0.0.2")
    with other, Site({"/robots.txt": rules}) as site:
        site.replies["/"] = page(
            "/a", "private/1", site.url("/private/2"), other.url("/b")
        )
        crawler, items = await items_of(
            spider(name, documents.page("spider"), site, tmp_path)
        )
        assert sorted(site.paths) == ["/", "/a", "/robots.txt"]
        assert other.paths == ["/robots.txt"]
    assert {"url": site.url("/a")} in items
    stats = crawler.stats.get_stats()
    assert stats[f"{own}/refused"] == 2
    # They were never scheduled, nor judged by the gate; the unknown origin's link was.
    assert stats["scheduler/enqueued"] == 3
    assert stats["rep/forbidden/rule"] == 1
