"""The drop-ins: found by their names, and without Scrapy but for the one that is Scrapy's."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "statement",
    [
        "from scrapy_rep.compat import *",
        "import scrapy_rep.compat.robotexclusionrulesparser",
    ],
)
def test_no_scrapy_is_needed(statement):
    # A module that is None in sys.modules cannot be imported: as if not installed.
    code = f"import sys; sys.modules.update(scrapy=None, twisted=None); {statement}"
    subprocess.run([sys.executable, "-c", code], check=True)
