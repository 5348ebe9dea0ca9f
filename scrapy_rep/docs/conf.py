"""The guide: ``python -m sphinx -W -b html scrapy_rep/docs FOLDER`` builds it."""

from __future__ import annotations

import ast
import inspect
import re
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from sphinx.util.docutils import SphinxDirective

from scrapy_rep import __version__
from scrapy_rep.events import EVENTS, RECORDS
from scrapy_rep.events.of_hosts import Copy
from scrapy_rep.events.of_requests import Decided
from scrapy_rep.evidence.witness import EVIDENCE, OF_COPY
from scrapy_rep.protocol import CODES
from scrapy_rep.protocol.lint import NUMBERS, SEVERITIES
from scrapy_rep.settings import DEFAULTS, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from docutils import nodes
    from sphinx.application import Sphinx

    from scrapy_rep.events.event import Event

project = "scrapy_rep"
project_copyright = "the developers of scrapy_rep"
version = release = __version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosectionlabel"]
html_theme = "furo"
html_title = f"scrapy_rep {version}"
html_copy_source = False
highlight_language = "none"
smartquotes = False  # quotes are often those of a program
autodoc_member_order = "bysource"
autosectionlabel_maxdepth = 3
# The example's hosts, and the repository until it is public; CI may have no network at all.
linkcheck_ignore = [
    r"https?://([\w.-]+\.)?example(\.com|\.org)?([:/].*)?$",
    "https://github.com/scrapy-rep/.*",
]

Row = tuple[str, ...]


def settings() -> Iterator[Row]:
    yield "setting", "meaning", "default"
    meanings = docstrings_of(Settings)
    for name, default in DEFAULTS.items():
        meaning = meanings[name.removeprefix("REP_").lower()]
        yield f":ref:`{name}`", plain(meaning), plain(repr(default))


def evidence() -> Iterator[Row]:
    yield "key", "value", "what it is"
    for name, kind, meaning in evidence_fields():
        yield f"``{name}``", plain(kind), plain(meaning)


def records() -> Iterator[Row]:
    yield "record", "what it is", "keys"
    for each in audited():
        keys = (
            f"**{name}**" if needed else f"``{name}``"
            for name, (_, needed) in RECORDS[each.audit].items()
        )
        yield f"``{each.audit}``", plain(said(each.__doc__ or "")), ", ".join(keys)


def record_keys() -> Iterator[Row]:
    yield "record", "key", "value", "what it is"
    known = evidence_fields()
    for each in audited():
        for field in fields_of(each):
            if field not in known:
                name, kind, meaning = field
                yield f"``{each.audit}``", f"``{name}``", plain(kind), plain(meaning)


def audited() -> list[type[Event]]:
    """Return the events that have a record, the first and the last line of an audit first."""
    return [each for each in EVENTS if each.audit]


def docstrings_of(kind: type) -> dict[str, str]:
    """Return what the fields of a class are said to be."""
    (declared,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(declared, ast.ClassDef)
    return {
        ast.unparse(field.target): said(ast.literal_eval(text.value))
        for field, text in pairwise(declared.body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }


def fields_of(record: type[Event]) -> list[tuple[str, str, str]]:
    """Return name, kind and meaning of the fields of *record*."""
    meanings: dict[str, str] = {}
    for kind in reversed(record.__mro__[:-1]):
        meanings |= docstrings_of(kind)
    kinds = RECORDS[record.audit].items()
    return [(name, kind.expected, meanings[name]) for name, (kind, _) in kinds]


def evidence_fields() -> list[tuple[str, str, str]]:
    """Return the same of evidence on a request: what is decided, and by which copy."""
    decided, copied = (
        {field[0]: field for field in fields_of(each)} for each in (Decided, Copy)
    )
    copied["robots_url"] = ("robots_url", *copied["url"][1:])
    return [(copied if name in OF_COPY else decided)[name] for name in EVIDENCE]


def said(docstring: str) -> str:
    """Return what a docstring says, as a part of a sentence."""
    words = " ".join(docstring.split()).removesuffix(".")
    return words if words[1:2].isupper() else words[:1].lower() + words[1:]


def events() -> Iterator[Row]:
    yield "event", "what happened", "fields", "counts in", "audit"
    for each in EVENTS:
        event = f"``{each.__module__.rpartition('.')[2]}.{each.__name__}``"
        names: tuple[str, ...] = each.__match_args__
        fields = ", ".join(f"``{name}``" for name in names)
        counts = plain(", ".join(each.counts).replace("{cause}", "CAUSE"))
        yield event, plain(said(each.__doc__ or "")), fields, counts, plain(each.audit)


def notes() -> Iterator[Row]:
    yield "number", "code", "severity", "meaning"
    for code in sorted(CODES, key=NUMBERS.__getitem__):
        yield NUMBERS[code], f"``{code}``", SEVERITIES[code], plain(CODES[code])


def plain(text: str) -> str:
    """Return *text* as reStructuredText in which nothing has a meaning of its own."""
    return re.sub(r"([\\*`|_])", r"\\\1", text)


class Declared(SphinxDirective):
    """``.. declared:: settings``: a table of what the code declares, in its order."""

    required_arguments = 1
    tables: ClassVar[dict[str, Callable[[], Iterator[Row]]]] = {
        table.__name__: table
        for table in (settings, evidence, records, record_keys, events, notes)
    }

    def run(self) -> list[nodes.Node]:
        lines = [".. list-table::", "   :header-rows: 1", ""]
        for row in self.tables[self.arguments[0]]():
            lines += [
                f"   {' ' if at else '*'} - {cell}" for at, cell in enumerate(row)
            ]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> None:
    app.add_directive("declared", Declared)
