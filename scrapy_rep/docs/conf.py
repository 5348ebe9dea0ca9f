"""The guide: ``python -m sphinx -W -b html scrapy_rep/docs FOLDER`` builds it."""

from __future__ import annotations

from typing import Any

from scrapy_rep.protocol import __version__

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
autodoc_preserve_defaults = True  # RFC9309, not all that it consists of
autosectionlabel_maxdepth = 3
# The example's hosts, and the repository until it is public; CI may have no network at all.
linkcheck_ignore = [
    r"https?://([\w.-]+\.)?example(\.com|\.org)?([:/].*)?$",
    "https://github.com/scrapy-rep/.*",
]


def clear_made_up(*event: Any) -> None:
    """Remove what Python itself says of a field of a named tuple that has no docstring."""
    lines = event[-1]
    if lines and lines[0].startswith("Alias for field number"):
        lines.clear()


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", clear_made_up)
