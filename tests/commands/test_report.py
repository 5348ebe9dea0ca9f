"""``scrapy robots report``."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.audits import START, crawl, end, line, run, sent, write
from tests.commands.cli import ROOT, command, environment, robots


def test_page_of_several_audits(tmp_path):
    records = list(crawl(400, 10))
    one = write(tmp_path / "one.jsonl", records[:300])
    two = write(tmp_path / "two.jsonl.gz", records[300:])
    page = tmp_path / "report.html"
    # Not in the checkout, so that it is the package as it was installed.
    done = robots("report", one, two, "-o", str(page), cwd=tmp_path)
    assert (done.status, done.err) == (0, "")
    first, *conclusion = done.out.splitlines()
    assert first == f"{page}: {len(records):,} records of 10 hosts"
    # All of it: where delays were not kept, that is not left to the page.
    assert conclusion[0] == "No URL that a rule disallows was requested."
    assert re.match("[0-9,]+ of [0-9,]+ gaps between requests were", conclusion[1])
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>\n")


def test_audit_on_standard_input(tmp_path):
    page = tmp_path / "report.html"
    audit = b"".join(map(line, [run(), sent(START, "a.example", "/"), end(START)]))
    args = ("--output", str(page), "--host", "a.example", "--host", "b.example")
    done = robots("report", "-", *args, "-s", "REP_DIALECT=x", stdin=audit)
    assert done.status == 0  # the settings of a crawl are no concern
    assert done.err == "warning: --host is 'b.example', expected a host of the audits\n"
    assert "a.example" in page.read_text(encoding="utf-8")


def test_broken_lines_are_warned_about_and_torn_ones(tmp_path):
    audit = tmp_path / "audit.jsonl"
    audit.write_bytes(
        line(run()) + b"?\n" * 30 + line(sent(START, "a.example", "/"))[:-3]
    )
    done = robots("report", str(audit), "-o", str(tmp_path / "report.html"))
    assert done.status == 0
    warnings = done.err.splitlines()
    assert warnings[0] == f"warning: {audit}:2: not a JSON object"
    assert warnings[20] == "warning: and 10 more lines that are broken"
    assert warnings[21].startswith("warning: 1 of 1 files end in a torn line")
    assert len(warnings) == 22


def test_sums_on_standard_output(tmp_path):
    records = list(crawl(400, 10))
    audit = write(tmp_path / "audit.jsonl", records)
    old = [write(tmp_path / f"{number}.jsonl", records[:300]) for number in range(2)]
    done = robots("report", audit, "--json", "--against", *old)
    assert (done.status, done.err) == (0, "")
    found = json.loads(done.out)
    assert len(found["hosts"]) == 10
    assert found["changes"]["hosts"]["both"] == 10
    done = robots("report", audit, "--csv", "-o", "-")
    assert (done.status, done.err) == (0, "")
    assert len(done.out.splitlines()) == 11


@pytest.mark.parametrize(
    ("args", "missing", "extra"),
    [
        (["report", "audit.jsonl", "-o", "report.html"], "jinja2", "report"),
        (["fleet", "spider"], "redis", "redis"),
    ],
)
def test_where_an_extra_is_not_installed(args, missing, extra, tmp_path):
    write(tmp_path / "audit.jsonl", [run()])
    code = (
        f"import sys; sys.modules[{missing!r}] = None; "
        "from scrapy.cmdline import execute; execute(['scrapy', *sys.argv[1:]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command(*args)[3:]],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(ROOT)),
    )
    assert done.returncode == 2
    assert f"{args[0]} needs {missing}. " in done.stderr
    assert f'Type pip install "scrapy_rep[{extra}]"' in done.stderr
    assert "Traceback" not in done.stderr
