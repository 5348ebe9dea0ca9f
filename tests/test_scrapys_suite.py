"""The command that runs Scrapy's own tests, but for running them, which takes minutes."""

from __future__ import annotations

import pytest

from tests.scrapys_suite.differences import (
    TABLE,
    Difference,
    outdated,
    read,
    unexplained,
)
from tests.scrapys_suite.suite import PARTS, REST, outcomes_of, part_of

TABLE_TEXT = """\
# What is said here is left out.

The first reason
goes on.
    tests/test_a.py::test_one[*]
    tests/test_a.py::Test::*

The second one.
    tests/test_b.py::test_two
    ? tests/test_b.py::test_three
"""

REPORT = """\
<testsuites><testsuite>
<testcase classname="tests.test_a.TestIt" name="test_one[x-1]"/>
<testcase classname="tests.test_a" name="test_two"><failure/></testcase>
<testcase classname="tests.test_b.__init__.TestIt.In" name="test">
<error/></testcase>
<testcase classname="tests.test_a" name="test_three"><skipped/></testcase>
</testsuite></testsuites>
"""


def test_a_table_has_a_reason_for_each_test():
    first, second = "The first reason goes on.", "The second one."
    assert read(TABLE_TEXT) == [
        Difference("tests/test_a.py::test_one[*]", first),
        Difference("tests/test_a.py::Test::*", first),
        Difference("tests/test_b.py::test_two", second),
        Difference("tests/test_b.py::test_three", second, always=False),
    ]


def test_a_test_without_a_reason_is_an_error():
    with pytest.raises(ValueError, match="line 2 is a test, expected a reason"):
        read("\n    tests/test_a.py::test_one\n")


def test_what_differs_and_what_no_longer_does():
    table = read(TABLE_TEXT)
    one, new = "tests/test_a.py::test_one[a[0]]", "tests/test_a.py::test_one"
    assert unexplained({one, new, "tests/test_b.py::test_two"}, table) == [new]
    assert outdated({one}, {one, new}, table) == []
    in_class = "tests/test_a.py::Test::test"
    assert outdated({one}, {one, in_class}, table) == [table[1]]  # two did not run
    sometimes = "tests/test_b.py::test_three"
    assert not unexplained({sometimes}, table)
    assert not outdated(set(), {sometimes}, table)


def test_our_table_names_no_test_twice():
    patterns = [each.pattern for each in read(TABLE.read_text())]
    assert patterns
    assert len(patterns) == len(set(patterns))
    assert all(pattern.startswith("tests/") for pattern in patterns)


def test_a_report_of_pytest_is_read(tmp_path):
    for file in ("tests/test_a.py", "tests/test_b/__init__.py"):
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    outcomes = outcomes_of(report, tmp_path)
    assert outcomes.passed == {"tests/test_a.py::TestIt::test_one[x-1]"}
    assert outcomes.failed == {
        "tests/test_a.py::test_two",
        "tests/test_b/__init__.py::TestIt::In::test",
    }
    assert outcomes.skipped == {"tests/test_a.py::test_three"}


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ("tests/test_downloadermiddleware_robotstxt.py", "robots"),
        ("tests/test_scheduler.py", "scheduler"),
        ("tests/test_engine_loop.py", "engine"),
        ("tests/test_cmdline/__init__.py", "commands"),
        ("tests/test_http_request.py", REST),
    ],
)
def test_each_file_is_in_one_part(file, part):
    assert part_of(file) == part
    assert part in {*PARTS, REST}
