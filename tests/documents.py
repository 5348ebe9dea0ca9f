"""The documents of the repository, as docutils reads them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from docutils import nodes
from docutils.core import publish_doctree

ROOT = Path(__file__).parent.parent
README = ROOT / "README.rst"
PACKAGE = ROOT / "scrapy_rep"
DOCUMENTS = [
    README,
    *sorted(
        path
        for folder in ("scrapy_rep", "tests", "example_project")
        for path in (ROOT / folder).rglob("*.rst")
    ),
]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room(name: str) -> Path:
    return PACKAGE / name / "README.rst"


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
