"""The drop-ins: found by their names, and without Scrapy but for the one that is Scrapy's."""

from __future__ import annotations

import subprocess
import sys

import pytest

from scrapy_rep import compat


def test_all_names_can_be_imported():
    for name in compat.__all__:
        assert getattr(compat, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = compat.no_such_name


@pytest.mark.parametrize(
    "statement",
    [
        "from scrapy_rep.compat import RobotFileParser",
        "from scrapy_rep.compat import RobotExclusionRulesParser, MK1996, GYM2008",
        "from scrapy_rep.compat import get, get_allowed, parse",
        "import scrapy_rep.compat.urllib_robotparser",
        "import scrapy_rep.compat.robotexclusionrulesparser",
        "import scrapy_rep.compat.robotstxt",
    ],
)
def test_no_scrapy_is_needed(statement):
    # A module that is None in sys.modules cannot be imported: as if not installed.
    code = f"import sys; sys.modules.update(scrapy=None, twisted=None); {statement}"
    subprocess.run([sys.executable, "-c", code], check=True)
