"""``scrapy robots report``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.audits import START, allowed, copy, crawl, end, line, run, sent, write
from tests.commands.cli import ROOT, command, environment, robots

BODY = "User-agent: *\n"


def test_page_of_several_audits(tmp_path):
    records = list(crawl(400, 10))
    one = write(tmp_path / "one.jsonl", records[::2])
    two = write(tmp_path / "two.jsonl.gz", records[1::2])
    page = tmp_path / "report.html"
    # Not in the checkout, so that it is the package as it was installed.
    done = robots("report", one, two, "-o", str(page), cwd=tmp_path)
    assert (done.status, done.err) == (0, "")
    assert done.out == f"{page}: {len(records):,} records of 10 hosts\n"
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>\n")


FEW_FILES = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from scrapy.cmdline import execute
execute(["scrapy", *sys.argv[1:]])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no setrlimit")
def test_more_files_than_may_be_open(tmp_path):
    """2000 workers at the same time; each second one compresses. None is one too many."""
    records = [
        copy(START, "a.example", "User-agent: *\nCrawl-delay: 1\n"),
        *(
            record
            for number in range(6000)
            for record in (
                allowed(START + number, "a.example", f"/{number}", delay=1),
                sent(START + number, "a.example", f"/{number}"),
            )
        ),
    ]
    audits = [
        write(
            tmp_path / f"{number}.jsonl{'.gz' if number % 2 else ''}",
            records[number::2000],
        )
        for number in range(2000)
    ]
    page = tmp_path / "report.html"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            FEW_FILES,
            "robots",
            "report",
            *audits,
            "-o",
            str(page),
        ],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{page}: 12,001 records of 1 host\n"
    text = page.read_text(encoding="utf-8")
    # In the order of time: every gap is a whole second.
    one = write(tmp_path / "all.jsonl", records)
    robots("report", one, "-o", str(tmp_path / "one.html"))
    of_one = (tmp_path / "one.html").read_text(encoding="utf-8")
    start, end_ = '<section aria-labelledby="hosts-title">', "</table>"
    assert (
        text.partition(start)[2].partition(end_)[0]
        == (of_one.partition(start)[2].partition(end_)[0])
    )


def test_audit_on_standard_input(tmp_path):
    page = tmp_path / "report.html"
    audit = b"".join(map(line, [run(), sent(START, "a.example", "/"), end(START)]))
    done = robots("report", "-", "--output", str(page), stdin=audit)
    assert (done.status, done.err) == (0, "")
    assert "a.example" in page.read_text(encoding="utf-8")


def test_hosts_that_are_not_in_the_audit(tmp_path):
    audit = write(tmp_path / "audit.jsonl", [sent(START, "a.example", "/")])
    args = ("--host", "a.example", "--host", "b.example")
    done = robots("report", audit, "-o", str(tmp_path / "report.html"), *args)
    assert done.status == 0
    assert done.err == "warning: --host is 'b.example', expected a host of the audits\n"


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


def test_names_cannot_steer_the_terminal(tmp_path):
    audit = tmp_path / "\x1b[31m.jsonl"
    audit.write_bytes(b"?\n")
    done = robots("report", str(audit), "-o", str(tmp_path / "report.html"))
    assert "\x1b" not in done.err
    assert "not a JSON object" in done.err


def test_missing_audit(tmp_path):
    done = robots("report", "missing", "-o", "report.html", cwd=tmp_path)
    assert done.status == 2
    assert "audit is 'missing' (No such file or directory), expected a file" in done.err
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_wrong_settings_are_no_concern(tmp_path):
    audit = write(tmp_path / "audit.jsonl", [copy(START, "a.example", BODY)])
    page = str(tmp_path / "report.html")
    assert robots("report", audit, "-o", page, "-s", "REP_DIALECT=x").status == 0


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
    assert f"{args[0]} needs {missing}, which is not installed" in done.stderr
    assert f'Type pip install "scrapy_rep[{extra}]"' in done.stderr
    assert "Traceback" not in done.stderr
