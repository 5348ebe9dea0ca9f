"""The guide: ``python -m sphinx -W -b html scrapy_rep/docs FOLDER`` builds it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, ClassVar

from sphinx.util.docutils import SphinxDirective

from scrapy_rep import __version__
from scrapy_rep.evidence.format import EVIDENCE, RECORD_TYPES
from scrapy_rep.protocol import CODES
from scrapy_rep.protocol.lint import NUMBERS, SEVERITIES
from scrapy_rep.settings import DECLARATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from docutils import nodes
    from sphinx.application import Sphinx

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
    for each in DECLARATIONS:
        default, value = each.otherwise, each.default
        if not default:
            shown = repr(value) if isinstance(value, bool) else json.dumps(value)
            default = f"{shown} {each.unit}".strip()
        yield f":ref:`{each.name}`", plain(each.meaning), plain(default)


def evidence() -> Iterator[Row]:
    yield "key", "value", "what it is"
    for field in EVIDENCE:
        yield f"``{field.name}``", plain(field.kind.expected), plain(field.meaning)


def records() -> Iterator[Row]:
    yield "record", "what it is", "keys"
    for each in RECORD_TYPES.values():
        keys = (f"**{f.name}**" if f.needed else f"``{f.name}``" for f in each.fields)
        yield f"``{each.name}``", plain(each.meaning), ", ".join(keys)


def record_keys() -> Iterator[Row]:
    yield "record", "key", "value", "what it is"
    for each in RECORD_TYPES.values():
        for field in each.fields:
            if field not in EVIDENCE:
                kind = plain(field.kind.expected)
                yield (
                    f"``{each.name}``",
                    f"``{field.name}``",
                    kind,
                    plain(field.meaning),
                )


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
        for table in (settings, evidence, records, record_keys, notes)
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
