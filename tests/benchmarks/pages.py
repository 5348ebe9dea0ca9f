"""What reading page rules costs, beside what a spider does with the page.

Run it with ``python -m tests.benchmarks.pages``; it takes a minute. The pages are
generated: from 2 KB to some 300 KB, a head of metadata, styles and scripts, a body of
sections and links. Three kinds of them: without any rule, with a robots meta tag, and with
an ``X-Robots-Tag``. Three callbacks: one takes the title and nothing else, which is the least
that a callback may do; one takes it and follows all links; one takes the text, too, and
finds the links with a LinkExtractor. The rules of all pages are timed, in new responses, and
then the callback for all of them, both in time of the processor; the share is that of the one
to the other, a median over rounds. Its limit is held by callbacks that follow links, and by
the spider of the example project on the pages of its little web, which come first.
"""

from __future__ import annotations

import gc
import random
import sys
from pathlib import Path
from statistics import median
from time import thread_time
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.utils.test import get_crawler

from scrapy_rep import RepMiddleware, RepSpiderMiddleware

EXAMPLE = Path(__file__).parents[2] / "example_project"

if TYPE_CHECKING:
    from collections.abc import Callable

PAGES = 100
ROUNDS = 7
DEMO_TIMES = 20  # the demo has some thirty small pages
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
        request = Request("https://example.com/")
        responses = [
            HtmlResponse(
                request.url, body=body, headers=headers, request=request.copy()
            )
            for body in bodies
        ]
        gc.collect()
        begun = thread_time()
        for response in responses:
            middleware.process_spider_input(response)
        middle = thread_time()
        for response in responses:
            callback(response)
        calls.append(thread_time() - middle)
        rules.append(middle - begun)
    shares = [one / other for one, other in zip(rules, calls, strict=True)]
    return median(rules) / len(bodies), median(calls) / len(bodies), median(shares)


def show(kind: str, size: float, name: str, found: tuple[float, float, float]) -> None:
    ruled, called, part = found
    print(
        f"{kind:<16}{size:>6.1f}  {name:<12}{ruled * 1e6:>7.1f} us"
        f"{called * 1e6:>8.0f} us{part:>8.2%}"
    )


def demo() -> tuple[list[bytes], Callable[[HtmlResponse], Any]]:
    """Return the pages of the example's web, and what its spider does with them."""
    sys.path.insert(0, str(EXAMPLE))
    from example.spiders.tour import Tour
    from example.web import HOSTS, Web

    settings = {"ROBOTSTXT_OBEY": True, "USER_AGENT": AGENT}
    crawler = get_crawler(Tour, settings)
    crawler.spider = spider = Tour()
    spider.web = Web()
    RepMiddleware.from_crawler(crawler)  # sets spider.robots
    bodies = [
        answer.body.encode()
        for host in HOSTS.values()
        for answer in host.pages.values()
        if answer.body
    ]
    return bodies * DEMO_TIMES, lambda response: list(spider.parse(response))


def main() -> int:
    crawler = get_crawler(settings_dict={"ROBOTSTXT_OBEY": True, "USER_AGENT": AGENT})
    middleware = RepSpiderMiddleware.from_crawler(crawler)
    failed = False
    print(
        f"{'pages':<16}{'KB':>6}  {'callback':<12}{'rules':>10}{'callback':>11}{'share':>8}"
    )
    bodies, callback = demo()
    size = sum(map(len, bodies)) / len(bodies) / 1000
    found = share(middleware, callback, bodies, {})
    show("demo", size, "tour", found)
    failed |= found[2] > LIMIT
    for kind, extra, headers in (
        ("without rules", "", {}),
        ("robots meta tag", META, {}),
        ("X-Robots-Tag", "", {"X-Robots-Tag": "noindex, otherbot: nofollow"}),
    ):
        rnd = random.Random(8)
        bodies = [page(rnd, extra) for _ in range(PAGES)]
        size = sum(map(len, bodies)) / PAGES / 1000
        for name, callback in CALLBACKS:
            found = share(middleware, callback, bodies, headers)
            show(kind, size, name, found)
            held = kind == "without rules" and callback is not title
            failed |= held and found[2] > LIMIT
    return failed


if __name__ == "__main__":
    sys.exit(main())
