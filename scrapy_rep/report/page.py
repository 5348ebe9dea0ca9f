"""Makes one HTML page of bounded size of an audit. Its words are in the template."""

from __future__ import annotations

import json
from base64 import b64encode
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from scrapy_rep.protocol import __version__, parse
from scrapy_rep.protocol.printable import counted, first_of, lines_around, printable
from scrapy_rep.report import sentences
from scrapy_rep.report.audit import KEPT_PART, changes, texts_of
from scrapy_rep.report.charts import charts, host_chart

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

    from scrapy_rep.report.audit import Audit, Row

MAX_WHOLE_LINES = 40
"""Lines up to which a file is shown as a whole."""
LINES_AROUND = 3
"""Lines shown before and after one that decided, where a file is longer than that."""
MAX_MARKED_LINES = 15
"""Lines that decided which are shown of one file; of the others, the number is given."""
TEMPLATES = Path(__file__).parent / "templates"
DETAILS = {
    "copies": "SELECT * FROM site WHERE host = ? ORDER BY origin LIMIT 9",
    "results": "SELECT * FROM result WHERE host = ? ORDER BY answers DESC, result LIMIT 6",
    "pauses_by": "SELECT * FROM pause WHERE host = ? ORDER BY answers DESC, result LIMIT 6",
    "waits": "SELECT * FROM waiting WHERE host = ? ORDER BY time DESC LIMIT 3",
    "reasons": "SELECT * FROM reason WHERE host = ? ORDER BY requests DESC LIMIT 12",
}
"""What stands below a host."""
STATES = "SELECT * FROM site_state WHERE host = ? ORDER BY number DESC"
EXAMPLES = """
    SELECT DISTINCT url FROM decision WHERE host = ? AND NOT allowed
    AND cause IS ? AND rule IS ? AND line IS ? AND digest IS ? LIMIT 3
"""


class Shows(NamedTuple):
    """How much a page shows; what is left out is counted, and said on the page."""

    hosts: int = 2000
    detailed: int = 150
    """Hosts with a chart and their refusals."""
    files: int = 100
    """robots.txt files."""
    runs: int = 50
    sources: int = 50


def write(
    out: TextIO,
    audit: Audit,
    before: Audit | None = None,
    shows: Shows | None = None,
) -> None:
    """Write the page."""
    shows = shows or Shows()
    files = files_of(audit, shows.files)
    hosts = audit.hosts(shows.hosts)
    anchors = {
        (file["digest"], line["number"]): f"{file['id']}-{line['number']}"
        for file in files
        for line in file["lines"]
    }
    for number, host in enumerate(hosts):
        host["states"] = audit.rows(STATES, host["name"])
        host["id"] = f"h{number}" if number < shows.detailed + len(audit.chosen) else ""
        if host["id"]:
            _detail(audit, host, anchors)
    template = _environment().get_template("report.html")
    page = template.generate(
        audit=audit,
        before=before,
        changes=changes(before, audit) if before else None,
        charts=charts(audit),
        files=files,
        hosts=hosts,
        peaks=audit.rows("SELECT * FROM peak ORDER BY most DESC LIMIT 6"),
        number_of_files=audit.values("SELECT COUNT(*) FROM refusing_file")[0],
        script=_asset("report.js"),
        shows=shows,
        style=_asset("report.css"),
    )
    out.writelines(page)


def _asset(name: str) -> Markup:
    """Return a file that is put into the page; nothing from outside is put into it."""
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704


@cache
def _environment() -> Environment:
    """Return what renders the page: all that is put into it is visible, and escaped."""
    env = Environment(
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
        loader=FileSystemLoader(TEMPLATES),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    filters = ("number", "seconds", "gap", "moment", "shortened")
    env.filters.update({name: getattr(sentences, name) for name in filters})
    env.filters.update(as_json=json.dumps, hash=_hash, names=_names)
    env.globals.update(
        plural=counted, kept=KEPT_PART, version=__version__, EXEMPT=sentences.EXEMPT
    )
    return env


def _detail(audit: Audit, host: Row, anchors: dict[tuple[str, int], str]) -> None:
    """Add to *host* what stands below it."""
    host["chart"] = host_chart(audit, host)
    for what, sql in DETAILS.items():
        host[what] = audit.rows(sql, host["name"])
    for each in host["reasons"]:
        of = (each[part] for part in ("host", "cause", "rule", "line", "digest"))
        each["examples"] = audit.values(EXAMPLES, *of)
        tokens = json.loads(each["tokens"] or "[]")[:20]
        each["tokens"] = ", ".join(map(str, tokens))
        each["anchor"] = anchors.get((each["digest"], each["line"]), "")


def _names(names: Iterable[str | None]) -> str:
    """Return the names that differ, the first few of them."""
    found = list(dict.fromkeys(filter(None, names)))
    return sentences.shortened(", ".join(first_of(found, 5)))


def _hash(asset: str) -> str:
    """Return what a Content-Security-Policy knows an inline style or script by."""
    return "sha256-" + b64encode(sha256(asset.encode()).digest()).decode()


def files_of(audit: Audit, most: int) -> list[Row]:
    """Return the robots.txt files that refused most requests, each with its lines."""
    sql = "SELECT * FROM refusing_file ORDER BY refused DESC, digest LIMIT ?"
    files = audit.rows(sql, most)
    for number, file in enumerate(files):
        digest = file["digest"]
        file["id"] = f"f{number}"
        sql = "SELECT DISTINCT origin FROM copy WHERE digest = ? ORDER BY 1"
        file["origins"] = audit.values(sql, digest)
        lines = audit.rows("SELECT * FROM refusing_line WHERE digest = ?", digest)
        refused = {row["line"]: row["refused"] for row in lines}
        file.update(_excerpt(texts_of(audit, digest) or [], refused))
    return files


def _excerpt(texts: list[str], refused: dict[int, int]) -> Row:
    """Return the lines of a file that are shown, and how many that decided are not.

    *refused* are the lines that decided, with how many requests. ``skipped`` are those left out
    before one, and at the end; ``missing`` stand in the audit only.
    """
    there = {number for number in refused if number and number <= len(texts)}
    often = sorted(there, key=lambda number: (-refused[number], number))
    shown = _shown_lines(texts, often[:MAX_MARKED_LINES])
    return {
        "lines": [
            {
                "number": number,
                "text": texts[number - 1],
                "refused": refused.get(number, 0),
                "skipped": number - before - 1,
            }
            for before, number in pairwise([0, *shown])
        ],
        "skipped": len(texts) - max(shown, default=0),
        "unmarked": len(there - set(shown)),
        "missing": sorted(refused.keys() - there) if texts else [],
    }


def _shown_lines(texts: list[str], marked: list[int]) -> list[int]:
    """Return the lines around those *marked*, and those that head their groups."""
    if len(texts) <= MAX_WHOLE_LINES:
        return list(range(1, len(texts) + 1))
    starts = [group.line for group in parse("\n".join(texts)).groups]
    return lines_around(marked, starts, LINES_AROUND, len(texts))
