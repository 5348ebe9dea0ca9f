"""The documents of the repository, as docutils reads them.

The pages of the guide are Sphinx's; that its roles lead somewhere, and what its directives make, is
tested in ``tests/test_guide.py``. Here the text of a role is what is written in it, and a directive
that only Sphinx knows makes nothing.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Directive, directives, roles

ROOT = Path(__file__).parent.parent
README = ROOT / "README.rst"
PACKAGE = ROOT / "scrapy_rep"
GUIDE = PACKAGE / "docs"
DOCUMENTS = [
    README,
    *sorted(
        path
        for folder in ("scrapy_rep", "tests", "example_project")
        for path in (ROOT / folder).rglob("*.rst")
    ),
]


class Transparent(Directive):  # type: ignore[misc]
    """What is inside, as if it stood alone: ``.. glossary::``."""

    has_content = True
    option_spec = None

    def run(self) -> list[nodes.Node]:
        inside = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, inside)
        return list(inside.children)


class Nothing(Directive):  # type: ignore[misc]
    """A directive whose work only Sphinx can do."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        return []


directives.register_directive("glossary", Transparent)
for name in (
    *("toctree", "index", "include", "currentmodule"),
    *("autoclass", "autodata", "autoexception", "autofunction"),
):
    directives.register_directive(name, Nothing)
for name in ("ref", "doc", "term"):
    roles.register_local_role(name, roles.GenericRole(name, nodes.inline))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def page(name: str) -> Path:
    """Return a page of the guide."""
    return GUIDE / f"{name}.rst"


@cache
def document(path: Path = README) -> nodes.document:
    """Return a document as docutils reads it, without what PyPI does not render."""
    return publish_doctree(
        path.read_text(encoding="utf-8"),
        settings_overrides={
            "report_level": 1,
            "halt_level": 1,
            "file_insertion_enabled": False,
            "raw_enabled": False,
        },
    )


def blocks(language: str, path: Path = README) -> list[str]:
    return [
        block.astext()
        for block in document(path).findall(nodes.literal_block)
        if language in block["classes"]
    ]


def plain_blocks(path: Path = README) -> list[str]:
    """Return the literal blocks that name no language."""
    return [
        block.astext()
        for block in document(path).findall(nodes.literal_block)
        if "code" not in block["classes"]
    ]


def snippet(part: str, path: Path = README) -> str:
    """Return the one Python snippet of a document that has *part*."""
    (code,) = [block for block in blocks("python", path) if part in block]
    return code


def section(title: str, path: Path) -> nodes.section:
    (found,) = [
        each
        for each in document(path).findall(nodes.section)
        if each[0].astext() == title
    ]
    return found
