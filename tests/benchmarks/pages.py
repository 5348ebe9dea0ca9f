"""What reading page rules costs, beside what a spider does with the page.

Run it with ``python -m tests.benchmarks.pages``; it takes a minute. The pages are
generated: from 2 KB to some 300 KB, a head of metadata, styles and scripts, a body of
sections and links. Three kinds of them: without any rule, with a robots meta tag, and with
an ``X-Robots-Tag``. Three callbacks: one takes the title and nothing else, which is the least
that a callback may do; one takes it and follows all links; one takes the text, too, and
finds the links with a LinkExtractor. For each page rules and callback are timed one after
the other, on a new response; the share is that of all time spent on rules to all time spent
in the callback, a median over rounds. Its limit is held by callbacks that follow links.
"""

from __future__ import annotations

import gc
import random
import sys
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.utils.test import get_crawler

from scrapy_rep import RepSpiderMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable

PAGES = 200
ROUNDS = 7
LIMIT = 0.03  # of the callback's time, for pages without rules
AGENT = "ExampleBot/1.0 (+https://example.com/bot)"
META = '<meta name="robots" content="max-image-preview:large">'
WORDS = [
    "the",
    "of",
    "and",
    "that",
    "for",
    "with",
    "this",
    "from",
    "have",
    "which",
    "page",
]

links = LinkExtractor()


def text(rnd: random.Random, words: int) -> str:
    return " ".join(rnd.choices(WORDS, k=words))


def page(rnd: random.Random, extra: str) -> bytes:
    """Return a page whose size is drawn as those of the web are: many small, few huge."""
    scale = min(rnd.lognormvariate(0, 0.9), 6)
    head = [f"<title>{text(rnd, 6)}</title>", '<meta charset="utf-8">', extra]
    for number in range(rnd.randint(5, 25)):
        head.append(f'<meta property="og:{number}" content="{text(rnd, 8)}">')
        head.append(f'<link rel="stylesheet" href="/static/{number}.css">')
    head += [
        f"<script>var x = '{text(rnd, int(800 * scale))}'</script>"
        for _ in range(rnd.randint(0, 4))
    ]
    body = []
    for number in range(int(60 * scale)):
        body.append(f'<div class="s"><h2>{text(rnd, 5)}</h2><p>{text(rnd, 60)}</p>')
        body.append(
            f'<a href="/page/{number}?q={rnd.random()}">{text(rnd, 3)}</a></div>'
        )
    return (
        f"<!DOCTYPE html><html><head>{''.join(head)}</head>"
        f"<body>{''.join(body)}</body></html>"
    ).encode()


def title(response: HtmlResponse) -> Any:
    return response.css("title::text").get()


def follow(response: HtmlResponse) -> Any:
    return title(response), list(response.follow_all(css="a"))


def everything(response: HtmlResponse) -> Any:
    found = title(response), response.css("p::text").getall()
    return found, list(response.follow_all(links.extract_links(response)))


CALLBACKS = (("title", title), ("follow", follow), ("all of it", everything))


def share(
    middleware: RepSpiderMiddleware,
    callback: Callable[[HtmlResponse], Any],
    bodies: list[bytes],
    headers: dict[str, str],
) -> tuple[float, float, float]:
    """Return the seconds a page of rules and callback, and the share of the former."""
    rules, calls = [], []
    for _ in range(ROUNDS):
        ruled = called = 0.0
        gc.collect()
        for body in bodies:
            request = Request("https://example.com/")
            response = HtmlResponse(
                request.url, body=body, headers=headers, request=request
            )
            begun = perf_counter()
            middleware.process_spider_input(response)
            middle = perf_counter()
            callback(response)
            called += perf_counter() - middle
            ruled += middle - begun
        rules.append(ruled)
        calls.append(called)
    shares = [one / other for one, other in zip(rules, calls, strict=True)]
    return median(rules) / len(bodies), median(calls) / len(bodies), median(shares)


def main() -> int:
    crawler = get_crawler(settings_dict={"ROBOTSTXT_OBEY": True, "USER_AGENT": AGENT})
    middleware = RepSpiderMiddleware.from_crawler(crawler)
    failed = False
    print(
        f"{'pages':<16}{'KB':>6}  {'callback':<12}{'rules':>10}{'callback':>11}{'share':>8}"
    )
    for kind, extra, headers in (
        ("without rules", "", {}),
        ("robots meta tag", META, {}),
        ("X-Robots-Tag", "", {"X-Robots-Tag": "noindex, otherbot: nofollow"}),
    ):
        rnd = random.Random(8)
        bodies = [page(rnd, extra) for _ in range(PAGES)]
        size = sum(map(len, bodies)) / PAGES / 1000
        for name, callback in CALLBACKS:
            ruled, called, part = share(middleware, callback, bodies, headers)
            print(
                f"{kind:<16}{size:>6.0f}  {name:<12}{ruled * 1e6:>7.1f} us"
                f"{called * 1e6:>8.0f} us{part:>8.2%}"
            )
            failed |= kind == "without rules" and callback is not title and part > LIMIT
    return failed


if __name__ == "__main__":
    sys.exit(main())
