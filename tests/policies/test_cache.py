"""The cache of parsed policies: its bound, its weights, and what falls out of it."""

from __future__ import annotations

import asyncio
import gc
import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep.policies import lifecycle
from scrapy_rep.policies.lifecycle import Known, PolicyCache, Standing, State
from scrapy_rep.policies.sharing import LARGE_SIZE
from scrapy_rep.protocol import Policy, parse, ruleset
from scrapy_rep.store import MemoryStore, Snapshot
from scrapy_rep.store.sqlite import SqliteStore
from tests.policies.test_service import AGENT, DAY, HOUR, Answer, Crawl, Site, our_time
from tests.snapshots import snapshot_of
from tests.utils import NO_BOUND, traced

if TYPE_CHECKING:
    from collections.abc import Callable

FRESH = Standing(State.FRESH, 1e9, 1e9)
WORDS = ["admin", "cart", "cgi-bin", "login", "node", "product", "search", "wp-admin"]


def known(number: int, policy: Policy) -> Known:
    copy = (200, "utf-8", 10**15 + number)
    return Known(f"https://site{number}.example.com", policy, FRESH, copy)


def robots_txt(rules: int, rnd: random.Random) -> bytes:
    """Return a file as they are in the wild: some wildcards, some comments."""
    lines = ["User-agent: *"]
    for number in range(rules):
        path = "/".join(rnd.choices(WORDS, k=rnd.randint(1, 3)))
        path += rnd.choice(("", "/", f"/{number}", f"/{rnd.random()}", "/*.pdf$"))
        lines.append(f"{rnd.choice(('Disallow', 'Disallow', 'Allow'))}: /{path}")
        if not number % 10:
            lines.append("# " + path)
    return "\n".join(lines).encode()


# The bound


@pytest.mark.invariant5
def test_what_was_used_last_stays_within_the_bound():
    cache = PolicyCache(100_000)
    entries = cache.entries.values
    rnd = random.Random(9309)
    for number in range(300):
        entry = known(number, parse(robots_txt(rnd.randrange(30), rnd)))
        entry.policy.allowed("/", AGENT)
        cache.keep(entry)
        assert (
            cache.get(known(0, entry.policy).origin) is not None
        )  # in use, so it stays
        assert cache.weight == sum(entry.weight for entry in entries()) <= 100_000
    kept = [entry.origin for entry in entries()]
    assert kept[-1] == "https://site0.example.com"
    assert kept[:-1] == [
        f"https://site{number}.example.com" for number in range(301 - len(kept), 300)
    ]
    assert cache.evictions == 300 - len(cache.entries)


def test_the_last_one_stays_whatever_it_weighs():
    cache = PolicyCache(0)
    for number in range(3):
        entry = known(number, parse(robots_txt(1000, random.Random(number))))
        for _ in range(2):  # it is renewed by a 304, and weighs once
            cache.keep(entry)
            assert [*cache.entries.values()] == [entry]
            assert cache.weight == entry.weight
    assert cache.evictions == 2


def failed(number: int) -> Known:
    entry = known(number, Policy.disallow_all())
    entry.snapshot = snapshot_of(failures=number, failing_since=1.0, retry_at=2.0)
    return entry


def test_what_falls_out_is_remembered_in_less_memory_than_its_policy_takes(monkeypatch):
    monkeypatch.setattr(lifecycle, "LEAST_FALLEN", 0)
    cache = PolicyCache(200_000)
    entries = []
    for number in range(500):
        body = robots_txt(20, random.Random(number))
        entry = known(number, parse(body))
        entry.policy.allowed("/", AGENT)
        entry.snapshot = snapshot_of(status=200, body=body, url=entry.key)
        cache.keep(entry)
        entries.append(entry)
        assert cache.weight <= 200_000
        assert cache.fallen.weight <= 50_000
    kept = [cache.snapshot(entry.key) for entry in entries]
    number = kept.index(entries[kept.count(None)].snapshot)  # the last ones
    assert kept[number:] == [entry.snapshot for entry in entries[number:]]
    assert len(kept) - number > 2.5 * len(cache.entries)
    again = known(number, Policy.allow_all())
    cache.keep(again)  # it is remembered once
    assert cache.snapshot(again.key) is None


def test_what_is_remembered_weighs_honestly():
    cache = PolicyCache(0)
    with traced() as memory:
        for number in range(1000):
            entry = known(number, Policy.allow_all())
            body = robots_txt(5, random.Random(number))
            entry.snapshot = snapshot_of(status=200, body=body, url=entry.key)
            cache.keep(entry)
        held, _ = memory()
    assert 0.7 < cache.fallen.weight / held < 1.3


def test_failures_are_remembered_where_there_is_no_room():
    """Else nobody knew how often an origin has failed, and requests waited for ever."""
    cache = PolicyCache(0)
    entries = [failed(number) for number in range(1, 20_001)]
    for entry in entries:
        cache.keep(entry)
    assert cache.fallen.weight < 8_000_000
    assert cache.snapshot(entries[0].key) == entries[0].snapshot
    good = known(3, Policy.allow_all())
    good.snapshot = snapshot_of(status=404)
    cache.keep(good)
    cache.keep(entries[0])
    # No failure comes back after an answer, and none of own code is remembered.
    assert cache.snapshot(good.key) == good.snapshot
    own: Any = failed(4)
    own.snapshot = Snapshot(failures=own.snapshot.failures._replace(by_own_code=True))
    cache.keep(own)
    cache.keep(good)
    assert cache.snapshot(own.key) is None


# The weights


def touch(policy: Policy) -> None:
    policy.denies_all(AGENT)  # the rules of one agent are compiled


def use_for_all(policy: Policy) -> None:
    for number in range(50):
        policy.allowed(f"https://example.com/product/{number}", AGENT)
    policy.verdict("https://example.com/admin/login", AGENT)
    for number in range(8):
        policy.allowed("/", f"bot{number}/1.0")


MAKERS: dict[str, Callable[[int, random.Random], bytes]] = {
    "usual": robots_txt,
    "prefixes": lambda rules, _: lines_of(rules, "Disallow: /{}"),
    "wildcards": lambda rules, _: lines_of(rules, "Disallow: /{}/*/x"),
    "many wildcards": lambda rules, _: lines_of(rules, "Disallow: /*{}*a*b$"),
    "escapes": lambda rules, _: lines_of(rules, "Disallow: /%2{}*5{}"),
    "index pages": lambda rules, _: lines_of(rules, "Allow: /{}/index.html"),
    "other letters": lambda rules, _: lines_of(rules, "Disallow: /\u4e2d{}"),
}


def lines_of(number: int, line: str) -> bytes:
    lines = [line.format(each, each) for each in range(number)]
    return "\n".join(["User-agent: *", *lines]).encode()


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("rules", [1, 20, 150, 2000])
@pytest.mark.parametrize("use", [touch, use_for_all])
def test_a_weight_is_what_a_policy_takes_once_it_is_in_use(make, rules, use):
    """It is known when the policy is made, whatever will be asked.

    What was explained last is kept apart, and bounded for all policies.
    """
    rnd = random.Random(rules)
    entries = max(2, 100 // rules)
    bodies = [MAKERS[make](rules, rnd) for _ in range(entries)]
    octets = sum(map(len, bodies))
    cache = PolicyCache(2**40)
    use(parse(bodies[0]))  # what is made once, such as compiled patterns
    with traced() as memory:
        before, _ = memory()
        for number, body in enumerate(bodies):
            entry = known(number, parse(body))
            entry.snapshot = snapshot_of(status=200, body=body, url=entry.key * 2)
            cache.keep(entry)
            use(entry.policy)
        del entry
        forget_explanations()
        gc.collect()
        held = memory()[0] - before + octets
    assert cache.weight / held > 0.45
    # Of a large file what explains is counted, be it made or not; and comments are as rules.
    assert cache.weight / held < (8 if len(bodies[0]) > LARGE_SIZE else 2.5)


def forget_explanations() -> None:
    ruleset.keep_recent(parse("")._rules_for(AGENT), ruleset.MAX_RECENT)
    ruleset.RECENT.clear()


def test_what_was_explained_is_bounded_for_all_policies():
    policies = [parse(robots_txt(1000, random.Random(number))) for number in range(90)]
    assert all(each.verdict("/admin/login", AGENT).rule for each in policies)
    kept = set(map(id, ruleset.RECENT))
    assert 20 < len(kept) < 40  # of some 1,000 rules each
    first = policies[0]
    assert first.verdict("/admin/login", AGENT).rule is not None  # it is read again
    first.prepare(AGENT)
    forget_explanations()
    assert first.is_prepared(AGENT)
    assert not first.is_prepared("another")


def test_the_rules_of_many_agents_are_bounded_by_the_file():
    """Each has the rules of some groups that others have, too."""
    agents = range(1, 32)
    groups = [[f"a{agent}" for agent in agents if agent >> bit & 1] for bit in range(5)]
    text = "".join(
        "".join(f"User-agent: {agent}\n" for agent in group)
        + "".join(f"Disallow: /{bit}/{number}\n" for number in range(400))
        for bit, group in enumerate(groups)
    )
    with traced() as memory:
        policy = parse(text)
        for agent in agents:
            for bit in range(5):
                allowed = policy.allowed(f"/{bit}/7", f"a{agent}")
                assert allowed is not bool(agent >> bit & 1)
        held, _ = memory()
    assert held < 2 * parse(text).size_bytes()


# Evict under load


class Web:
    """A Fetcher of many sites, each with rules of its own."""

    bound = NO_BOUND

    def __init__(self, answers: list[Answer]) -> None:
        self.sites = [(Site(), answer) for answer in answers]
        self.fate = "good"

    async def fetch(self, origin: str, *how: Any):
        number = int(origin.removeprefix("https://site").partition(".")[0])
        (site, good), kept = self.sites[number], how[2]
        is_kept = kept is not None and kept.etag
        site.answer = {
            "304": Answer(304, b"", good.headers) if is_kept else good,
            "503": Answer(503, b"User-agent: *\nAllow: /\n"),
            "nobody": Answer(None),
        }.get(self.fate, good)
        return await site.fetch(origin, *how)


FILES = [
    b"User-agent: *\nDisallow: /p\n",
    b"User-agent: bot\nDisallow: /p\nUser-agent: *\nAllow: /\n",
    b"User-agent: *\nAllow: /\nDisallow: /p*\n",
    b"User-agent: *\n" + b"Disallow: /some/where/else\n" * 100 + b"Disallow: /p\n",
    b"# " + b"x" * 5000 + b"\nUser-agent: *\nDisallow: /p\n",
    robots_txt(300, random.Random(1)) + b"\nDisallow: /p\n",
]
HEADERS = [{}, {"Cache-Control": "max-age=600"}, {"Cache-Control": "no-store"}]
answers = st.builds(
    lambda body, headers, etag: Answer(
        200, body, {**headers, **({"ETag": '"1"'} if etag else {})}
    ),
    st.sampled_from(FILES),
    st.sampled_from(HEADERS),
    st.booleans(),
)
moves = st.tuples(
    st.integers(0, 7),  # the origin of the first of
    st.integers(1, 4),  # so many that are asked for at once
    st.sampled_from(["good", "good", "304", "503", "nobody"]),
    st.sampled_from([0.0, 1.0, 61.0, HOUR, 23 * HOUR, DAY, 3 * DAY, 20 * DAY]),
    st.booleans(),  # whether the crawl starts anew
)


async def run(
    web: Web, plan: list[Any], cache_bytes: int, store: Callable[[], Any]
) -> None:
    # Thirty days would end what a failing site has forbidden; that is not tried here.
    settings = {"REP_CACHE_BYTES": cache_bytes, "REP_UNREACHABLE_MAX": 10**9}
    with our_time() as clock:
        crawl = Crawl(web, store(), **settings)
        for first, number, web.fate, wait, anew in plan:
            clock.run += wait
            clock.wall += wait
            if anew:
                await crawl.policies.close()
                crawl = Crawl(web, store(), **settings)
            requests = [
                deferred_from_coro(
                    crawl.allows(f"/p{each}", f"https://site{each % 8}.a")
                )
                for each in range(first, first + number)
            ]
            for request in requests:
                assert not await maybe_deferred_to_future(request)
            await crawl.settle()
        await crawl.policies.close()


@pytest.mark.invariant1
@pytest.mark.only_asyncio
@given(
    sites=st.lists(answers, min_size=8, max_size=8),
    plan=st.lists(moves, min_size=1, max_size=30),
    cache_bytes=st.sampled_from([0, 3000, 20_000, 2**26]),
    is_lasting=st.booleans(),
)
@settings(derandomize=True, deadline=None, max_examples=15)
def test_what_is_forbidden_is_never_allowed_for_lack_of_memory(
    sites, plan, cache_bytes, is_lasting
):
    # Hypothesis awaits nothing, and this thread's event loop may be running already.
    with TemporaryDirectory() as folder, ThreadPoolExecutor(1) as thread:
        lasting = partial(SqliteStore, f"{folder}/robots.sqlite")
        crawls = run(
            Web(sites), plan, cache_bytes, lasting if is_lasting else MemoryStore
        )
        thread.submit(asyncio.run, crawls).result()
