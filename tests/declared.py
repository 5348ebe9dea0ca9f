"""The tables of the guide that list what the code declares: `python -m tests.declared` writes them anew."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sphinx.pycode import ModuleAnalyzer

from scrapy_rep.events.kinds import EVENTS, Copy, Decided
from scrapy_rep.gate.evidence import EVIDENCE, OF_COPY
from scrapy_rep.protocol import CODES
from scrapy_rep.protocol.lint import NUMBERS, SEVERITIES
from scrapy_rep.report.reader import RECORDS
from scrapy_rep.settings import DEFAULTS, Settings
from tests.documents import page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.events import Event

Row = tuple[str, ...]

AUDITED = [each for each in EVENTS if each.audit]
"""The events that have a record, the first and the last line of an audit first."""


def settings() -> Iterator[Row]:
    yield "setting", "meaning", "default"
    meanings = meanings_of(Settings)
    for name, default in DEFAULTS.items():
        meaning = meanings[name.removeprefix("REP_").lower()]
        yield f":ref:`{name}`", plain(meaning), plain(repr(default))


def evidence() -> Iterator[Row]:
    yield "key", "value", "what it is"
    yield from evidence_fields()


def records() -> Iterator[Row]:
    yield "record", "what it is", "keys"
    for each in AUDITED:
        keys = (
            f"**{name}**" if needed else f"``{name}``"
            for name, (_, needed) in RECORDS[each.audit].items()
        )
        yield f"``{each.audit}``", plain(said(each.__doc__)), ", ".join(keys)


def record_keys() -> Iterator[Row]:
    yield "record", "key", "value", "what it is"
    known = evidence_fields()
    for each in AUDITED:
        for field in fields_of(each):
            if field not in known:
                yield f"``{each.audit}``", *field


def events() -> Iterator[Row]:
    yield "event", "what happened", "fields", "counts in", "audit"
    for each in EVENTS:
        names: Row = each.__match_args__
        fields = ", ".join(f"``{name}``" for name in names)
        counts = plain(", ".join(each.counts).replace("{cause}", "CAUSE"))
        said_of = plain(said(each.__doc__))
        yield f"``{each.__name__}``", said_of, fields, counts, plain(each.audit)


def notes() -> Iterator[Row]:
    yield "number", "code", "severity", "meaning"
    for code in sorted(CODES, key=NUMBERS.__getitem__):
        yield NUMBERS[code], f"``{code}``", SEVERITIES[code], plain(CODES[code])


TABLES = {
    settings: "settings",
    evidence: "audit",
    records: "audit",
    record_keys: "audit",
    events: "events",
    notes: "lint",
}
"""And the page that each is in."""


def meanings_of(kind: type) -> dict[str, str]:
    """Return what the fields of a class are said to be, here and where they are inherited from."""
    found = {}
    for each in reversed(kind.__mro__[:-1]):
        docs = ModuleAnalyzer.for_module(each.__module__).find_attr_docs()
        for (owner, name), lines in docs.items():
            if owner == each.__name__:
                found[name] = said(" ".join(lines))
    return found


def fields_of(record: type[Event]) -> list[Row]:
    """Return name, kind and meaning of the fields of *record*."""
    meanings = meanings_of(record)
    return [
        (f"``{name}``", plain(kind.expected), plain(meanings[name]))
        for name, (kind, _) in RECORDS[record.audit].items()
    ]


def evidence_fields() -> list[Row]:
    """Return the same of evidence on a request: what is decided, and by which copy."""
    decided, copied = (
        {field[0].strip("`"): field for field in fields_of(each)}
        for each in (Decided, Copy)
    )
    copied["robots_url"] = ("``robots_url``", *copied["url"][1:])
    return [(copied if name in OF_COPY else decided)[name] for name in EVIDENCE]


def said(docstring: str | None) -> str:
    """Return what a docstring says, as a part of a sentence."""
    words = " ".join((docstring or "").split()).removesuffix(".")
    return words if words[1:2].isupper() else words[:1].lower() + words[1:]


def plain(text: str) -> str:
    """Return *text* as reStructuredText in which nothing has a meaning of its own."""
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def written() -> Iterator[tuple[str, str, str]]:
    """Yield the page of each table, as it is and as it should be, and the table's name."""
    for table, name in TABLES.items():
        lines = [".. list-table::", "   :header-rows: 1", ""]
        for row in table():
            lines += [
                f"   {' ' if at else '*'} - {it}".rstrip() for at, it in enumerate(row)
            ]
        text = page(name).read_text(encoding="utf-8")
        start, end = f".. {table.__name__}: tests/declared.py\n\n", "\n\n.. end\n"
        assert text.count(start) == 1, start
        before, _, after = text.partition(start)
        after = after.partition(end)[2]
        yield name, text, f"{before}{start}" + "\n".join(lines) + f"{end}{after}"


if __name__ == "__main__":
    for name, _, text in written():
        page(name).write_text(text, encoding="utf-8")
