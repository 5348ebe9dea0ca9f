"""Audits: sample ones, as a crawl of some hosts would have written them, and how to read any."""

from __future__ import annotations

import gzip
import heapq
import json
import random
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Any

START = 1_793_000_000.0
AGENT = "ExampleBot/1.0 (+https://example.com/bot)"
Record = dict[str, Any]


def run(time: float = START, **more: Any) -> Record:
    return {
        "type": "crawl",
        "format": 1,
        "time": time,
        "spider": "shop",
        "agent": AGENT,
        "worker": "crawler1-4711-a1b2",
        "version": "0.1.0",
        "settings": {"REP_OBEY": ["disallow", "crawl-delay"], "REP_PURPOSE": []},
        **more,
    }


def digest(body: str | bytes) -> str:
    octets = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    return "sha256:" + sha256(octets).hexdigest()


def copy(time: float, host: str, body: str | None, **more: Any) -> Record:
    """A robots.txt that came, or, without a body, that did not."""
    origin = f"https://{host}"
    record: Record = {
        "type": "copy",
        "time": time,
        "origin": origin,
        "state": "fetched" if body is not None else "unreachable",
        "status": 200 if body is not None else 503,
        "url": f"{origin}/robots.txt",
        "fetched": time,
        "digest": None if body is None else digest(body),
    }
    if body is not None:
        record["body"] = body
    return {**record, **more}


def of_url(kind: str, time: float, host: str, path: str, /, **more: Any) -> Record:
    return {"type": kind, "time": time, "url": f"https://{host}{path}", **more}


def allowed(time: float, host: str, path: str, **more: Any) -> Record:
    said = {"agent": AGENT, "allowed": True, "enforced": True, "group": ["*"]}
    said |= {"reason": "no rule matches", "delay": 0, **more}
    return of_url("decision", time, host, path, **said)


def refused(time: float, host: str, path: str, **more: Any) -> Record:
    return {**allowed(time, host, path), "allowed": False, "cause": "rule", **more}


def by_rule(
    time: float, host: str, path: str, body: str, line: int, **more: Any
) -> Record:
    """A refusal by a line of a robots.txt."""
    rule = body.splitlines()[line - 1]
    said = {"rule": rule, "line": line, "digest": digest(body)}
    said["reason"] = f"{rule} (line {line}, user-agent *)"
    return refused(time, host, path, **said, **more)


def sent(time: float, host: str, path: str, **more: Any) -> Record:
    return of_url("sent", time, host, path, **more)


def answered(time: float, host: str, path: str, **more: Any) -> Record:
    """What came of a request: a status, or an error."""
    well = {} if "error" in more else {"octets": 9, "status": 200}
    return of_url("answer", time, host, path, **{"seconds": 0.1, **well, **more})


def back_off(time: float, host: str, seconds: float, **more: Any) -> Record:
    more = {"host": host, "what": "503", "seconds": seconds, **more}
    return of_url("backoff", time, host, "/", **more)


def dropped(time: float, host: str, path: str, cause: str) -> Record:
    """What the rules of a page kept out."""
    return of_url("dropped", time, host, path, cause=cause)


def waiting(time: float, cause: str, requests: int, **more: Any) -> Record:
    """What waits: of one host, or of so many *hosts*."""
    record: Record = {"type": "waiting", "time": time, "cause": cause, **more}
    return {**record, "requests": requests}


def with_answers(records):
    """Return *records* of a crawl whose requests were answered, some of them badly."""
    rnd = random.Random(3)
    last = 0.0
    for count, record in enumerate(records):
        yield record
        time = last = max(last, record["time"])
        if count and not count % 100:
            causes = ("pace", 300), ("parked", 40), ("unreachable", 20), ("asked", 9)
            for cause, most in causes:
                hosts, requests = rnd.randint(1, 9), rnd.randint(0, most)
                yield waiting(time, cause, requests, hosts=hosts)
        if record["type"] != "sent" or record.get("robots"):
            continue
        host = record["url"].split("/")[2]
        result = rnd.choices([200, 404, 503, "timeout"], [90, 6, 3, 1])[0]
        name = "error" if isinstance(result, str) else "status"
        yield answered(time, host, "/", **{name: result})
        if result in {503, "timeout"}:
            until = time + 5
            yield back_off(time, host, 5.0, what=str(result))
            yield waiting(time, "parked", rnd.randint(1, 40), host=host, until=until)


def end(time: float, **more: Any) -> Record:
    return {"type": "end", "time": time, "reason": "finished", **more}


def line(record: Record) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def write(path: Path, records) -> str:
    """Write an audit, in gzip where its name says so; return its name."""
    with gzip.open(path, "wb") if path.suffix == ".gz" else path.open("wb") as file:
        file.writelines(map(line, records))
    return str(path)


def lines_of(path: Path | str) -> list[str]:
    """Return the lines of an audit as far as it can be read, but for a last, torn one."""
    octets = Path(path).read_bytes()
    if str(path).endswith(".gz"):
        octets = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(octets)
    return octets[: octets.rfind(b"\n") + 1].decode().splitlines()


def records_of(path: Path | str) -> list[Record]:
    return [json.loads(each) for each in lines_of(path)]


def of_type(kind: str, records) -> list[Record]:
    return [record for record in records if record["type"] == kind]


# A whole crawl


def robots_txt(rnd: random.Random, delay: float) -> str:
    lines = ["# What crawlers may have", "User-agent: *"]
    if delay:
        lines.append(f"Crawl-delay: {delay:g}")
    lines += [f"Disallow: /{word}/" for word in ("cart", "account", "search", "print")]
    lines += [f"Disallow: /section/{rnd.random()}" for _ in range(rnd.randint(0, 120))]
    return "\n".join([*lines, "Disallow: /*?sort=", "Allow: /search/help", ""])


def crawl(requests: int, hosts: int, *, seed: int = 1, start: float = START):
    """The records of a crawl that sends some *requests*, in the order of time.

    Of the hosts some have a delay, some cannot be reached and some share their robots.txt;
    one in forty is sent a request too early now and then.
    """
    rnd = random.Random(seed)
    common = robots_txt(rnd, 0)
    yield run(start, worker=f"crawler1-4711-{seed:04x}")
    streams = [
        _of_host(
            random.Random(f"{seed} {number}"),
            number,
            # A few hosts have most of the pages.
            max(3, int(requests / hosts * rnd.paretovariate(1.2) / 3)),
            start,
            common,
        )
        for number in range(hosts)
    ]
    last = start
    for count, record in enumerate(
        heapq.merge(*streams, key=lambda each: each["time"])
    ):
        if count >= requests * 2:
            break
        last = record["time"]
        yield record
    yield end(last + 1)


def _of_host(rnd: random.Random, number: int, pages: int, start: float, common: str):
    host = f"www{number}.shop{number % 7}.example"
    delay = rnd.choice([0, 0, 0, 0.5, 1, 2, 5])
    hurries = number % 40 == 7
    if hurries:
        delay = delay or 1
    now = start + rnd.uniform(0, 30)
    yield sent(now, host, "/robots.txt", robots=True)
    now += rnd.uniform(0.05, 0.4)
    if number % 23 == 11:
        yield copy(now, host, None)
        for page in range(pages):
            now += rnd.uniform(0.01, 1)
            why = {"reason": "robots.txt unreachable (503)", "group": None}
            yield refused(now, host, f"/page/{page}", cause="unreachable", **why)
        return
    body = common if not delay and number % 3 else robots_txt(rnd, delay)
    rules = body.splitlines()
    lines = {
        path: 1 + rules.index(f"Disallow: /{path}/") for path in ("cart", "search")
    }
    yield copy(now, host, body)
    for page in range(pages):
        gap = delay * rnd.uniform(1.001, 1.05) if delay else rnd.expovariate(2)
        if delay and rnd.random() < 0.05:
            gap *= rnd.uniform(1, 6)
        path = rnd.choice(["page", "page", "page", "product", "cart", "search"])
        if hurries and page < 3:
            path = "page"
        if hurries and (page == 2 or rnd.random() < 0.02):
            gap *= rnd.uniform(0.1, 0.9) if page > 2 else 0.4
        now += max(gap, 0.001)
        if path in lines:
            yield by_rule(now, host, f"/{path}/{page}", body, lines[path], delay=delay)
        else:
            yield allowed(now - 0.0005, host, f"/{path}/{page}", delay=delay)
            yield sent(now, host, f"/{path}/{page}")
