"""An audit that was read: its sums, causes, hosts and runs, and what they come to in sentences."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections import defaultdict
from datetime import datetime, timedelta, timezone
from difflib import unified_diff
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.protocol.decoding import decode_text, show_octets
from scrapy_rep.protocol.printable import counted
from scrapy_rep.report.reader import AuditError, Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from typing_extensions import Self

Row = dict[str, Any]
MAX_RUNS = 1000
MAX_WARNINGS = 20
RANK = "short DESC, against + dry DESC, not_sent DESC, not_again DESC, urls DESC, name"
"""Hosts in the order of how much there is to see."""
KEPT_PART = 0.99
"""Of the delay; a gap under that is short. The rest may be the clock's doing."""
ROUNDING = 0.001
"""Seconds by which rounding makes times of one request differ."""

AtHost = tuple[str, float, "str | None", "float | None", "float | None"]
"""Host, time, and what happened then: an origin asked for a delay, or the answer came to a request
that began at the last time, or neither, a request was sent."""
Gap = tuple[str, float, float, float, bool]
MAX_CHANGES = 200
MAX_LINES = 40
SITES = "SELECT origin AS name, state, said, digest FROM robots"
HOSTS = "SELECT name, most AS delay, not_sent FROM host"


class Audit:
    """The files of one crawl, in a database until it is closed; chosen hosts come first."""

    def __init__(
        self,
        names: Sequence[str],
        progress: Callable[[int], None] = lambda octets: None,
        chosen: Iterable[str] = (),
    ) -> None:
        """Raise ``AuditError`` where one cannot be read or is no audit."""
        self.chosen = sorted(set(chosen))
        self._database = sqlite3.connect("", isolation_level=None)
        try:
            script = Path(__file__).with_name("tables.sql").read_text(encoding="utf-8")
            of_records, _, of_gaps = script.partition("-- After the gaps\n")
            self._database.executescript(of_records)
            self._database.execute("BEGIN")
            reader = Reader(self._database, progress)
            reader.read(names)
            gaps = gaps_of(self._database.execute("SELECT * FROM pace"))
            sql = "INSERT INTO gap VALUES (?, ?, ?, ?, ?)"
            self._database.executemany(sql, gaps)
            self._database.executescript(of_gaps)
            self.sources, self.troubles = reader.sources, reader.troubles
            self._sum_up()
        except BaseException as error:
            self._database.close()
            if not isinstance(error, sqlite3.OperationalError):
                raise
            why = f"too much for a temporary file: {error}"
            raise AuditError("audit", [*names], why, "more room") from None

    def _sum_up(self) -> None:
        self.records = sum(each.records + each.unknown for each in self.sources)
        (self.span,) = self._database.execute("SELECT * FROM span")
        self.runs = self.rows("SELECT * FROM run ORDER BY time LIMIT ?", MAX_RUNS)
        for run in self.runs:
            run["settings"] = json.loads(run["settings"] or "{}")
        delays = (run["settings"].get("DOWNLOAD_DELAY") for run in self.runs)
        self.own_delay = max((d for d in delays if type(d) in {int, float}), default=0)
        self.causes: dict[str, list[Row]] = defaultdict(list)
        for row in self.rows("SELECT * FROM cause ORDER BY requests DESC, cause"):
            self.causes[row.pop("what")].append(row)
        sql = "SELECT cause, requests FROM unsent ORDER BY requests DESC, cause"
        self.unsent: dict[str, int] = dict(self._database.execute(sql))
        (found,) = self.rows("SELECT * FROM total")
        self.sums = {name: value or 0 for name, value in found.items()}
        self.sums["unsent"] = sum(self.unsent.values())
        self.sums["unfinished"] = sum(run["ended"] is None for run in self.runs)
        self.sums["broken"] = sum(source.broken for source in self.sources)
        self.conclusion = conclusion(self.sums, self.runs, self.causes["exempt"])
        sql = "SELECT 1 FROM host WHERE name = ?"
        self.missing = [name for name in self.chosen if not self.values(sql, name)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def rows(self, sql: str, *values: object) -> list[Row]:
        found = self._database.execute(sql, values)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found]

    def values(self, sql: str, *values: object) -> list[Any]:
        return [row[0] for row in self._database.execute(sql, values)]

    def hosts(self, most: int = -1) -> list[Row]:
        """Return *most* hosts by how much there is to see, after the chosen ones."""
        is_chosen = "name IN (SELECT value FROM json_each(?))"
        return self.rows(
            f"SELECT * FROM host ORDER BY {is_chosen} DESC, {RANK} LIMIT ?",  # noqa: S608
            json.dumps(self.chosen),
            most + len(self.chosen) if most >= 0 else -1,
        )

    @property
    def warnings(self) -> list[str]:
        shown = self.troubles[:MAX_WARNINGS]
        if more := self.sums["broken"] - len(shown):
            shown.append(f"and {more:,} more lines that are broken")
        if torn := sum(source.torn for source in self.sources):
            of = f"{torn:,} of {len(self.sources):,} files"
            shown.append(f"{of} end in a torn line, as after a kill; it is ignored")
        return shown


def gaps_of(moments: Iterable[AtHost]) -> Iterator[Gap]:
    """Return host, time, gap, delay and whether it is short, of each request but a host's first.

    A gap begins when the headers of the request before are here, or it has failed; where the
    audit does not say when, as at hosts without a delay, when that request was sent. The delay is
    the longest that the origins of the host have asked for by then.
    """
    for host, its in groupby(moments, itemgetter(0)):
        last: float | None = None
        sent = delay = 0.0
        gap: Gap | None = None  # of the last request
        delays: dict[str | None, float] = {}
        for _, time, origin, asked, began in its:
            if asked is not None:
                if delays.get(origin) != asked:
                    delays[origin] = asked
                    delay = max(delays.values())
            elif began is not None:
                if gap is not None and began < sent - ROUNDING:
                    # It was sent although the one before was under way.
                    gap = (*gap[:2], 0.0, gap[3], gap[3] > 0)
                last = time
            else:
                if gap is not None:
                    yield gap
                if last is not None:
                    short = time - last < delay * KEPT_PART
                    gap = host, time, time - last, delay, short
                last = sent = time
        if gap is not None:
            yield gap


def texts_of(audit: Audit, digest: str | None) -> list[str] | None:
    """Return the lines of a robots.txt as the parser splits it; ``None``: it is not there."""
    packed = audit.values("SELECT packed FROM body WHERE digest = ?", digest)
    if not packed:
        return None
    text = decode_text(zlib.decompress(packed[0])).lines
    return show_octets(text).removesuffix("\n").split("\n")[1:]


def changes(before: Audit, after: Audit) -> dict[str, Any]:
    """Return what is different *after*; lists are of what both crawls have seen."""
    hosts = _pairs(before, after, HOSTS)
    rules = [
        {"name": old["name"], "before": old["said"], "after": new["said"]}
        | _lines(texts_of(before, old["digest"]), texts_of(after, new["digest"]))
        for old, new in _pairs(before, after, SITES)
        if (old["state"], old["digest"]) != (new["state"], new["digest"])
    ]
    return {
        "sums": {
            name: {"before": was, "after": after.sums[name]}
            for name, was in before.sums.items()
        },
        "hosts": {
            "both": len(hosts),
            "only_before": before.sums["hosts"] - len(hosts),
            "only_after": after.sums["hosts"] - len(hosts),
        },
        "rules": _first(rules),
        "refusals": _differences(hosts, "not_sent"),
        "delays": _differences(hosts, "delay"),
    }


def _first(found: list[Row]) -> dict[str, Any]:
    return {"number": len(found), "first": found[:MAX_CHANGES]}


def _pairs(before: Audit, after: Audit, sql: str) -> list[tuple[Row, Row]]:
    old = {row["name"]: row for row in before.rows(sql)}
    rows = after.rows(f"{sql} ORDER BY 1")
    return [(old[row["name"]], row) for row in rows if row["name"] in old]


def _differences(pairs: list[tuple[Row, Row]], name: str) -> dict[str, Any]:
    """Return where the figures *name* differ, the largest difference first."""
    found = [
        {"name": old["name"], "before": old[name], "after": new[name]}
        for old, new in pairs
        if old[name] != new[name]
    ]
    found.sort(key=lambda its: -abs((its["after"] or 0) - (its["before"] or 0)))
    return _first(found)


def _lines(gone: list[str] | None, came: list[str] | None) -> dict[str, list[str]]:
    if gone is None or came is None:
        gone = came = []
    found = list(unified_diff(gone, came, n=0, lineterm=""))[2:]
    return {
        name: [line[1:] for line in found if line[0] == sign][:MAX_LINES]
        for name, sign in (("removed", "-"), ("added", "+"))
    }


# In words


NO_VALUE = "–"  # noqa: RUF001 - a dash as wide as a figure
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MAX_CHARACTERS = 200
"""Shown of a text from the web."""

# fmt: off
RULES = (
    ("dry", "request", "", "bad",
     "went out against robots.txt, as REP_OBEY leaves that out"),
    ("against", "request", "", "bad",
     "went out although a rule had refused it, and nothing tells that it was exempt"),
    ("unjudged", "request was", "requests were", "unsure",
     "not, and the audit does not tell why"),
)
"""The first that is not 0 is said: the name of a sum; who did, one or more; and what."""
REST = (
    ("unfinished", "run has", "runs have", "unsure",
     "no end (killed, or still running): what came last may be missing here"),
    ("broken", "line is", "lines are", "unsure",
     "left out, as nobody can read what stands there"),
    ("exempt", "request was", "requests were", "", "exempt"),
    ("not_sent", "URL was", "URLs were", "", "refused and never requested"),
    ("not_again", "URL was", "URLs were", "", "requested, and refused at another try"),
    ("hosts_left_alone", "host was", "hosts were", "", "left alone for a time"),
    ("sites_silent", "site", "sites", "", "did not answer when asked for robots.txt"),
    ("sites_failing", "site", "sites", "", "answered with an error when asked for robots.txt"),
    ("unsent", "request was", "requests were", "", "still waiting at the end"),
)
# fmt: on
CLEAN = "No URL that a rule disallows was requested"
EXEMPT = {
    "on_the_way": "that a robots.txt waited for",
    "no_origin": "neither http nor https",
}


class Said(NamedTuple):
    """*tone* is ``"good"``, ``"bad"``, ``"unsure"`` or ``""``."""

    text: str
    tone: str = ""


def conclusion(sums: Row, runs: list[Row], exempt: list[Row]) -> list[Said]:
    rules, delays = _of_rules(sums), _of_delays(sums, runs)
    if rules.tone == delays.tone == "good":
        delay = delays.text[0].lower() + delays.text[1:]
        proof = [Said(f"{rules.text}; {delay}.", "good")]
    else:
        proof = [Said(f"{each.text}.", each.tone) for each in (rules, delays)]
    return [*proof, *_rest(sums, exempt)]


def _of_rules(sums: Row) -> Said:
    for name, one, more, tone, what in RULES:
        if sums[name]:
            text = f"{counted(sums[name], one, more)} {what}"
            judged = f"{CLEAN}, as far as requests were judged: "
            return Said(judged + text if name == "unjudged" else text, tone)
    return Said(f"{CLEAN}, but for what is exempt" if sums["exempt"] else CLEAN, "good")


def _of_delays(sums: Row, runs: list[Row]) -> Said:
    gaps = counted(sums["measured"], "gap")
    if sums["short"]:
        were = "was" if sums["short"] == 1 else "were"
        text = (
            f"{sums['short']:,} of {gaps} between requests {were} shorter than the delay "
            f"asked for, at {counted(sums['hosts_short'], 'host')}"
        )
        given = [run["settings"].get("REP_OBEY") for run in runs]
        if any(isinstance(each, list) and "crawl-delay" not in each for each in given):
            text += ", as REP_OBEY leaves crawl-delay out"
        return Said(text, "bad")
    if sums["measured"]:
        return Said(f"Every delay was kept ({gaps}, none short)", "good")
    if sums["longest_delay"]:
        return Said("No host with a delay was asked twice", "good")
    return Said("No host asked for a delay", "good")


def _rest(sums: Row, exempt: list[Row]) -> Iterator[Said]:
    never, by_rule = sums["not_sent"], sums["not_sent_by_rule"]
    for name, one, more, tone, what in REST:
        text = f"{counted(sums[name], one, more)} {what}"
        if name == "not_sent" and by_rule:
            of_them = f" for {by_rule:,} of them" if by_rule < never else ""
            text += f", as a rule says{of_them}"
        if name == "exempt":
            reasons = (
                f"{each['requests']:,} {EXEMPT.get(each['cause'], shortened(each['cause']))}"
                for each in exempt
            )
            text += f": {'; '.join(reasons)}"
        if sums[name]:
            yield Said(f"{text}.", tone)


def seconds(value: float | None) -> str:
    """Return a delay or a gap with as many digits as tell something."""
    if value is None:
        return NO_VALUE
    if 0 < value < 0.001:
        return "< 0.001 s"
    if value < 10:
        return f"{value:.3f}".rstrip("0").rstrip(".") + " s"
    if value < 100:
        return f"{value:.1f}".removesuffix(".0") + " s"
    return f"{value:,.0f} s" if value < 7200 else f"{value / 3600:,.1f} h"


def gap(value: float | None) -> str:
    return seconds(value) if value is None or value >= 100 else f"{value:.3f} s"


def moment(time: float | None) -> str:
    if time is None:
        return NO_VALUE
    return f"{EPOCH + timedelta(seconds=time):%Y-%m-%d %H:%M:%S}"


def shortened(text: object) -> str:
    text = "" if text is None else str(text)
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}… ({len(text) - MAX_CHARACTERS:,} more characters)"
