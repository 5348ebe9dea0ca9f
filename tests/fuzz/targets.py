"""What is fuzzed, and what must hold for every input.

A target makes an input out of random numbers, and checks it. A check that raises has found
something; one that returns False had nothing to compare the input with.
"""

from __future__ import annotations

import gzip
import math
import pickle
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch
from urllib.parse import urlsplit
from urllib.request import Request as PythonRequest

from scrapy import Request as ScrapyRequest
from scrapy.http.headers import Headers
from scrapy.settings import BaseSettings
from twisted.web.client import URI

from scrapy_rep.compat import RobotExclusionRulesParser
from scrapy_rep.compat import robotexclusionrulesparser as rerp
from scrapy_rep.exceptions import SettingError
from scrapy_rep.gate.robots import sitemap_urls
from scrapy_rep.policies.lifecycle import (
    WAITING_STATES,
    State,
    correct_times,
    fields_of,
    policy_of,
    retry_after,
    snapshot_after,
    standing_of,
)
from scrapy_rep.protocol import (
    CODES,
    GYM2008,
    MK1996,
    RFC9309,
    Dialect,
    parse,
    product_tokens,
)
from scrapy_rep.protocol.access import (
    Answer,
    Exchange,
    Outcome,
    Validators,
    is_private,
    redirect_target,
)
from scrapy_rep.protocol.answers import Access, decode_body, header_fields
from scrapy_rep.protocol.decoding import decode_text
from scrapy_rep.protocol.language import crawl_delay, request_rate, visit_time
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.settings import DEFAULTS, Settings, unknown_names
from tests.protocol import reference

from . import inputs
from . import values as made
from .clock import start, stop

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

NOW = 1_800_000_000.0
RULES = b"User-agent: *\nDisallow: /p\n"
PRIVATE = "https://127.0.0.1/robots.txt"
SETTINGS = Settings.read(BaseSettings())
QUERIES = 17  # one more than are answered before a policy builds its tables
# The reference is slow. It reads a rule once for each of its wildcards.
MOST_COMPARED = 500_000  # characters of a body times those of a URL
MOST_READ = 10_000_000  # wildcards of a line times its characters, of all lines
MOST_WILDCARDS = 8  # of a rule with escapes, of which each may lead into the query


class Target(NamedTuple):
    share: int
    """Percent of the inputs."""
    make: Callable[[Random], tuple[Any, ...]]
    check: Callable[..., bool | None]


# parse, and all that may be asked of a policy


def make_parse(rnd: Random) -> tuple[Any, ...]:
    raw = inputs.body(rnd)
    body: bytes | str = raw
    kind = rnd.random()
    if kind < 0.1:
        body = inputs.text(rnd, 60)
    elif kind < 0.2:
        body = raw.decode("latin-1" if kind < 0.15 else "utf-8", "replace")
    agent = inputs.text(rnd) if kind > 0.95 else inputs.agent(rnd)[0]
    url = inputs.text(rnd) if kind < 0.05 else inputs.url(rnd, raw)
    dialect = rnd.choice((RFC9309, RFC9309, GYM2008, MK1996))
    return body, rnd.choice(inputs.CHARSETS), dialect, url, agent


def check_parse(
    body: bytes | str, encoding: str | None, dialect: Dialect, url: str, agent: Any
) -> None:
    policy = parse(body, encoding=encoding, dialect=dialect)
    verdict = policy.verdict(url, agent)
    start()
    for _ in range(QUERIES):
        assert policy.allowed(url, agent) is verdict.allowed
    assert verdict.allowed or verdict.rule is not None
    matching = policy.matching(url, agent)
    if verdict.rule is not None:
        assert verdict.reason == "rule"
        assert matching[0] == verdict.rule
        assert verdict.rule.allow is verdict.allowed or not verdict.rule.path
    else:
        assert matching == () or verdict.reason == "robots.txt itself"
    assert not (policy.denies_all(agent) and verdict.allowed) or (
        verdict.reason == "robots.txt itself"
    )
    start()
    delay, rate = policy.crawl_delay(agent), policy.request_rate(agent)
    assert delay is None or 0 <= delay < math.inf
    assert rate is None or 0 < rate.seconds / rate.requests < math.inf
    policy.visit_time(agent)
    start()
    groups = policy.groups_for(agent)
    assert set(groups) <= set(policy.groups)
    assert bool(groups) is (verdict.group is not None)
    assert set(matching) <= {rule for group in groups for rule in group.rules}
    assert len(set(matching)) == len(matching)
    start()
    assert all(note.line >= 0 and note.code in CODES for note in policy.notes)
    start()
    for sitemap in sitemap_urls(policy, "https://example.com/"):
        assert origin_of(sitemap) is not None
    assert policy.size_bytes() > 0
    start()
    again = parse(str(policy), dialect=dialect)
    assert again == policy
    start()
    copy = pickle.loads(pickle.dumps(policy))
    assert copy == policy
    assert copy.verdict(url, agent) == verdict
    start()
    # A charset in which octets were read that are not UTF-8 is not in the text.
    if decode_text(body, encoding).charset is None:
        assert again.allowed(url, agent) is verdict.allowed
        assert again.crawl_delay(agent) == delay
        assert again.sitemaps == policy.sitemaps


# What changes no verdict


def make_same(rnd: Random) -> tuple[Any, ...]:
    lines = [f"User-agent: {rnd.choice(inputs.AGENT_LINES)}"]
    lines += [inputs.line(rnd) for _ in range(rnd.randrange(12))]
    rules = [inputs.rule(rnd) for _ in range(rnd.randrange(8))]
    url = inputs.url(rnd, "\n".join([*lines, *rules]).encode())
    dialect = rnd.choice((RFC9309, GYM2008, MK1996))
    orders = rules, rnd.sample(rules, len(rules))
    return lines, orders, url, rnd.choice("abA"), dialect


def check_same(
    lines: list[str],
    orders: tuple[list[str], ...],
    url: str,
    agent: str,
    dialect: Dialect,
) -> None:
    robots = "\n".join(lines)
    policy = parse(robots, dialect=dialect)
    for end in ("\r", "\r\n"):
        again = parse(robots.replace("\n", end), dialect=dialect)
        for asked_before in "cba":
            again.allowed("/a", asked_before)
        assert again.verdict(url, agent) == policy.verdict(url, agent)
        assert again.groups == policy.groups
        assert again.crawl_delay(agent) == policy.crawl_delay(agent)
    before = parse(robots).verdict(url, agent)
    if before.rule is not None:
        assert before.rule.path in lines[before.rule.line - 1]
    swapped = [
        each.swapcase() if each.lower().startswith("user-agent:") else each
        for each in lines
    ]
    assert parse("\n".join(swapped)).allowed(url, agent.swapcase()) is before.allowed
    # In front: a file may end in a user-agent line. With a rule, which ends the run of them.
    more = ["User-agent: unrelated", *orders[0], "Disallow: /", *lines]
    after = parse("\n".join(more)).verdict(url, agent)
    assert after[::2] == before[::2]
    assert after.reason == before.reason
    assert (after.rule and after.rule.path) == (before.rule and before.rule.path)
    found = {
        parse("\n".join(["User-agent: *", *rules])).allowed(url, agent)
        for rules in orders
    }
    assert len(found) == 1


# The verdict beside the naive matcher


def make_verdict(rnd: Random) -> tuple[Any, ...]:
    body = inputs.body(rnd)
    return body, inputs.url(rnd, body), *inputs.agent(rnd)


def check_verdict(body: bytes, url: str, agent: Any, names: list[str]) -> bool:
    policy = parse(body)
    verdict = policy.verdict(url, agent)
    start()
    for _ in range(QUERIES):
        assert policy.allowed(url, agent) is verdict.allowed
    policy.allowed("http://a.example/x", agent)
    assert policy.allowed(url, agent) is verdict.allowed  # another origin is remembered
    read = sum(line.count(b"*") * len(line) for line in body.splitlines())
    if len(body) * len(url) > MOST_COMPARED or read > MOST_READ:
        return False
    stop()
    allowed, rules = reference.verdict(body, url, *names)
    rule = None if verdict.rule is None else tuple(verdict.rule[:2])
    if verdict.allowed is allowed and (rule in rules if rules else rule is None):
        return True
    # What the page of the room protocol says of wildcards that lead into a query.
    assert any(
        path.count("*") > MOST_WILDCARDS
        for _, _, path in reference.path_patterns(tuple(names), body, url)
    ), f"the reference says {allowed}, for {rules}; got {verdict}"
    return False


# Headers


def make_headers(rnd: Random) -> tuple[Any, ...]:
    names = rnd.choices(made.HEADERS, k=rnd.randrange(5))
    headers = [(name, made.header_value(rnd, name)) for name in names]
    location = made.location(rnd)
    user_agent = inputs.text(rnd) if rnd.random() < 0.5 else inputs.header(rnd)
    return headers, location, user_agent, made.pace(rnd)


def check_headers(
    headers: list[tuple[bytes, bytes]], location: str, user_agent: str, pace: str
) -> None:
    scrapys, pythons = Headers(), []
    for name, value in headers:
        scrapys.appendlist(name, value)
        # One line, as they come out of http.client.
        line = b" ".join(value.split(b"\r\n")).decode("latin-1")
        pythons.append((name.decode(), line))
    rules = b"User-agent: *\nDisallow: /\n"
    for fields in (header_fields(pythons), fields_of(scrapys)):
        exchange = Exchange("https://example.com/robots.txt")
        exchange.receive(Answer(200, fields, rules))
        outcome = exchange.outcome
        assert outcome is not None
        assert outcome.access is Access.SUCCESSFUL
        assert not outcome.policy().allowed("/x", "a")
        read_by_another(outcome)
        snapshot = snapshot_after(None, outcome, NOW, SETTINGS)
        answer = snapshot.answer
        assert answer is not None
        assert SETTINGS.min_age <= answer.lifetime <= answer.grace
        assert answer.grace <= SETTINGS.max_age
        assert not policy_of(snapshot, State.FRESH, SETTINGS).allowed("/x", "a")
        assert 0 <= retry_after(fields, NOW) < math.inf
    for base in ("http://example.com/robots.txt", PRIVATE):
        try:
            target = redirect_target(base, location)
        except ValueError:
            continue
        assert target.isascii()
        parts = urlsplit(target)
        assert is_private(parts.hostname or "") <= (base == PRIVATE)
        for read in (
            urlsplit(ScrapyRequest(target).url).netloc,
            PythonRequest(target).host,
            URI.fromBytes(target.encode()).netloc.decode(),
        ):
            assert read == parts.netloc
    assert all(token in user_agent for token in product_tokens(user_agent))
    delay, rate = crawl_delay(pace), request_rate(pace)
    assert delay is None or 0 <= delay < math.inf
    assert rate is None or 0 < rate.seconds / rate.requests < math.inf
    visit_time(pace)


# A whole exchange


def make_exchange(rnd: Random) -> tuple[Any, ...]:
    def answer() -> Answer:
        pairs = [("Location", made.location(rnd)) for _ in range(rnd.randrange(2))]
        pairs += [("Content-Encoding", rnd.choice(made.CODINGS))] * rnd.randrange(2)
        for name in rnd.choices(made.HEADERS, k=rnd.randrange(4)):
            pairs.append(
                (name.decode(), made.header_value(rnd, name).decode("latin-1"))
            )
        status = rnd.choice(
            (200, 200, 301, 304, 404, 429, 503, rnd.randrange(-9, 10**4))
        )
        body = rnd.choice(
            (RULES, gzip.compress(RULES), gzip.compress(RULES)[:-3], b"\0")
        )
        return Answer(status, header_fields(pairs), body, rnd.random() < 0.5)

    return [answer() for _ in range(6)], rnd.choice((None, '"1"', "\xff"))


def check_exchange(answers: list[Answer], etag: str | None) -> None:
    """Nothing raises, from the first request to the policy that decides by it."""
    url = "https://example.com/robots.txt"
    exchange = Exchange(url, validators=Validators(url, etag) if etag else None)
    for each in answers:
        ScrapyRequest(exchange.request.url)
        exchange.receive(each)
        if exchange.outcome is not None:
            break
    outcome = exchange.outcome
    assert outcome is not None
    assert (outcome.access is Access.UNREACHABLE) is bool(outcome.reason)
    outcome.reason.encode()  # as stores keep it
    copy = None
    if etag:
        first = Exchange(url)
        first.receive(Answer(200, header_fields([("ETag", etag)]), RULES))
        assert first.outcome is not None
        copy = snapshot_after(None, first.outcome, NOW - 9, SETTINGS)
    snapshot = snapshot_after(copy, outcome, NOW, SETTINGS)
    assert correct_times(snapshot, NOW, SETTINGS) == snapshot
    stands = standing_of(snapshot, NOW, SETTINGS)
    assert stands.state not in WAITING_STATES
    policy = policy_of(snapshot, stands.state, SETTINGS)
    assert outcome.access is not Access.UNREACHABLE or not policy.allowed("/p", "a")


# Content codings


def make_coding(rnd: Random) -> tuple[Any, ...]:
    body = inputs.pumped(rnd, b"a") if rnd.random() < 0.001 else inputs.robots_txt(rnd)
    whole = True
    coding = rnd.choice(made.CODINGS)
    coded = body
    kind = rnd.random()
    if "gzip" in coding.lower():
        coded = gzip.compress(body[:9] if kind < 0.2 else body, 1)
        coded += gzip.compress(body[9:], 1) if kind < 0.2 else b""
    elif coding == "deflate":
        coded = zlib.compress(body, 1)
        coded = coded[2:-4] if kind < 0.5 else coded
    if kind < 0.3:
        coded, whole = coded[: rnd.randrange(len(coded) + 1)], False
    elif kind < 0.4:
        coded, whole = inputs.damaged(rnd, coded), False
    if kind > 0.9:
        coding = f"{rnd.choice(made.CODINGS)},{coding}"
        whole = False
    return coded, coding, rnd.choice((100, 2**19)), rnd.random() < 0.2, whole and body


def check_coding(
    coded: bytes, coding: str, limit: int, cut: bool, whole: bytes | bool
) -> bool:
    try:
        body = decode_body(coded, coding, limit=limit, cut=cut)
    except ValueError:
        assert whole is False or coding.strip().lower() not in {
            *("gzip", "x-gzip", "deflate", "identity", ""),
        }
        return False
    assert len(body) <= limit
    if isinstance(whole, bytes):
        assert body == whole if len(whole) <= limit else whole.startswith(body)
    return True


def read_by_another(outcome: Outcome) -> None:
    """Have robotexclusionrulesparser's interface take *outcome* as what it has fetched."""
    parser = RobotExclusionRulesParser()
    with patch.object(rerp, "fetch", lambda *_, **__: outcome), suppress(UnicodeError):
        parser.fetch("https://example.com/robots.txt")
    assert math.isfinite(parser.expiration_date)


# Settings

SETTING_NAMES = [*DEFAULTS, "ROBOTSTXT_USER_AGENT"]


LEASTS = {"REP_MIN_AGE", "REP_BACK_OFF_FIRST", "REP_LATENCY_DELAY_MIN"}
"""Those that another setting may be below."""


def make_settings(rnd: Random) -> tuple[Any, ...]:
    names = rnd.choices(SETTING_NAMES, k=rnd.choice((1, 1, 1, 2, 3)))
    given = {name: made.setting(rnd) for name in names}
    if rnd.random() < 0.01:
        given[f"REP_{inputs.text(rnd)}"] = 1
    return (given,)


def check_settings(given: dict[str, Any]) -> None:
    settings = BaseSettings(given)
    for sentence in unknown_names(settings):
        assert sentence
    wrong: SettingError | None = None
    try:
        read = Settings.read(settings)
    except SettingError as error:
        wrong = error
    if wrong is not None:
        assert wrong.name in {*given, *LEASTS}
        assert str(wrong).startswith(f"{wrong.name} is ")
        return
    assert 0 <= read.min_age <= read.max_age < math.inf
    assert read.max_age > 0 < read.timeout < math.inf
    assert all(0 <= delay < math.inf for delay in read.unreachable_retry_delays)
    assert read.unreachable in {"allow", "disallow"}
    assert all(400 <= status < 500 for status in read.deny_statuses)
    assert 1 <= read.max_size <= 2**19
    assert read.fetch_concurrency >= 1


TARGETS: dict[str, Target] = {
    "parse": Target(20, make_parse, check_parse),
    "same": Target(18, make_same, check_same),
    "verdict": Target(25, make_verdict, check_verdict),
    "headers": Target(25, make_headers, check_headers),
    "exchange": Target(10, make_exchange, check_exchange),
    "coding": Target(5, make_coding, check_coding),
    "settings": Target(7, make_settings, check_settings),
}
