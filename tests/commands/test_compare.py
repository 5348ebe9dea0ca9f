"""Two robots.txt files, and the URLs that they decide differently about."""

from __future__ import annotations

import random

import pytest

from scrapy_rep.protocol import parse
from tests.commands.cli import robots

OLD = (
    "User-agent: *\nDisallow: /cart/\nAllow: /cart/help\n\nUser-agent: B\nDisallow: /\n"
)
NEW = "User-agent: *\nDisallow: /cart\nDisallow: /*.pdf$\n"


@pytest.fixture
def files(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text(OLD)
    new.write_text(NEW)
    return str(old), str(new)


def test_says_which_change(files):
    urls = "https://example.com/cart/\n/cart/help\n/a.pdf\n\n/a.pdf?x\n/\n"
    done = robots("compare", *files, "-", "--agent", "A", stdin=urls)
    assert done.status == 1
    assert done.err == ""
    assert done.out.splitlines() == [
        "refused for A: /cart/help",
        "  old: line 3, Allow: /cart/help",
        "  new: line 2, Disallow: /cart",
        "refused for A: /a.pdf",
        "  old: no rule matches",
        "  new: line 3, Disallow: /*.pdf$",
        "2 of 5 verdicts change: 0 now allowed, 2 now refused",
    ]


def test_several_agents(files):
    agents = ("--agent", "A", "--agent", "B")
    done = robots("compare", *files, "-", *agents, stdin="/a.pdf\n/b\n")
    assert done.out.splitlines() == [
        "refused for A: /a.pdf",
        "  old: no rule matches",
        "  new: line 3, Disallow: /*.pdf$",
        "allowed for B: /b",
        "  old: line 6, Disallow: /",
        "  new: no rule matches",
        "2 of 4 verdicts change: 1 now allowed, 1 now refused",
    ]


def test_nothing_changes(files, tmp_path):
    urls = tmp_path / "urls"
    urls.write_text("/\n/cart/\n")
    done = robots("compare", *files, str(urls))
    assert done.status == 0
    assert done.out == "0 of 2 verdicts change: 0 now allowed, 0 now refused\n"


def test_old_or_new_from_stdin(files, tmp_path):
    urls = tmp_path / "urls"
    urls.write_text("/cart/help\n")
    done = robots("compare", "-", files[1], str(urls), stdin=OLD)
    assert done.status == 1
    done = robots("compare", files[0], "-", str(urls), stdin=OLD)
    assert done.status == 0


def test_equals_verdicts_one_by_one(files):
    rnd = random.Random(9309)
    parts = ["/cart", "/cart/", "help", ".pdf", "?x", "/a", "%63art", "é", "$"]
    urls = ["/" + "".join(rnd.choices(parts, k=rnd.randint(0, 4))) for _ in range(5000)]
    args = (
        "compare",
        *files,
        "-",
        "--agent",
        "A",
        "--agent",
        "B",
        "--json",
    )
    done = robots(*args, stdin="\n".join(urls))
    old, new = parse(OLD), parse(NEW)
    expected = [
        (url, agent, old.allowed(url, agent), new.allowed(url, agent))
        for url in urls
        for agent in ("A", "B")
    ]
    assert [
        (each["url"], each["agent"], each["old"]["allowed"], each["new"]["allowed"])
        for each in done.objects
    ] == [each for each in expected if each[2] != each[3]]
    assert len(done.objects) > 1000
    first = done.objects[0]
    assert set(first) == {"url", "agent", "old", "new"}
    assert set(first["old"]) == {"allowed", "reason", "rule"}
