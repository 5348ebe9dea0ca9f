"""What is written where: the file, JSON, CSV."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest

from scrapy_rep.report import AuditError, make
from tests.audits import START, crawl, end, run, sent, with_answers, write
from tests.report.test_page import ONE_HOST


def test_json_has_the_sums_and_each_host(tmp_path):
    audit = write(tmp_path / "audit.jsonl", ONE_HOST)
    make([audit], str(tmp_path / "report.json"), form="json", against=[audit])
    text = (tmp_path / "report.json").read_text()
    assert text.endswith("}\n")
    found = json.loads(text)
    assert [each["tone"] for each in found["conclusion"]] == ["good", "bad", ""]
    assert (found["first"], found["last"]) == (START, START + 3)
    assert found["sums"]["urls"] == 2
    assert found["sums"]["measured"] == 2
    assert found["causes"]["refused"] == [{"cause": "rule", "urls": 1, "requests": 1}]
    (host,) = found["hosts"]
    assert (host["name"], host["short"], host["smallest"]) == ("a.example", 1, 0.5)
    assert found["runs"][0]["ended"] == "finished"
    assert found["changes"]["rules"] == {"number": 0, "first": []}
    assert found["changes"]["sums"] == {
        name: {"before": value, "after": value} for name, value in found["sums"].items()
    }
    make([audit], str(tmp_path / "report.json"), form="json")
    assert "changes" not in json.loads((tmp_path / "report.json").read_text())


def test_csv_has_a_line_for_each_host(tmp_path):
    records = [*ONE_HOST, {**sent(START, "x", "/"), "host": "=cmd|x"}]
    audit = write(tmp_path / "audit.jsonl", records)
    make([audit], str(tmp_path / "report.csv"), form="csv")
    with (tmp_path / "report.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["name"], first["urls"], first["short"]) == ("a.example", "2", "1")
    assert (first["smallest"], second["smallest"]) == ("0.5", "")
    assert second["name"] == "'=cmd|x"  # which no spreadsheet computes


@pytest.mark.parametrize("form", ["html", "json", "csv"])
def test_a_crawl_of_nothing(form, tmp_path):
    audit = write(tmp_path / "audit.jsonl", [run(), end(START + 1)])
    made = make([audit], str(tmp_path / "report"), form=form)
    assert (made.records, made.sums["hosts"]) == (2, 0)
    assert (tmp_path / "report").stat().st_size > 100


def test_the_forms_agree(tmp_path):
    audit = write(tmp_path / "audit.jsonl", with_answers(crawl(2000, 40)))
    for form in ("json", "csv", "html"):
        made = make([audit], str(tmp_path / form), form=form)
    hosts = json.loads((tmp_path / "json").read_text())["hosts"]
    assert made.sums["hosts"] == len(hosts) == 40
    with (tmp_path / "csv").open(newline="") as file:
        assert [row["name"] for row in csv.DictReader(file)] == [
            host["name"] for host in hosts
        ]
    sums = json.loads((tmp_path / "json").read_text())["sums"]
    assert sum(host["requests"] for host in hosts) == sums["requests"]
    assert sum(host["short"] > 0 for host in hosts) == sums["hosts_short"]


def test_nothing_is_left_behind_where_it_fails(tmp_path):
    page = tmp_path / "report.html"
    page.write_text("the one before")
    with pytest.raises(AuditError):
        make([str(tmp_path / "missing")], str(page))
    assert page.read_text() == "the one before"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_an_audit_is_not_written_over(tmp_path):
    audit = Path(write(tmp_path / "audit.jsonl", ONE_HOST))
    other = write(tmp_path / "other.jsonl", ONE_HOST)
    for audits, against in (([str(audit)], []), ([other], [str(audit)])):
        with pytest.raises(AuditError, match=r"output is .* \(an audit\)"):
            make(audits, str(tmp_path / "." / "audit.jsonl"), against=against)
    assert len(audit.read_bytes().splitlines()) == len(ONE_HOST)


def test_no_pipe_and_no_link_is_replaced(tmp_path):
    audit = write(tmp_path / "audit.jsonl", ONE_HOST)
    pipe, link, page = (tmp_path / name for name in ("pipe", "link", "page"))
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        make([audit], str(pipe), form="csv")
        assert os.read(reader, 5) == b"name,"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    page.write_text("the one before")
    link.symlink_to("page")
    make([audit], str(link), form="csv")
    assert link.is_symlink()
    assert page.read_text().startswith("name,")


@pytest.mark.parametrize(
    ("page", "reason"), [("missing/report.html", "No such file"), (".", "a directory")]
)
def test_a_page_that_cannot_be_written(page, reason, tmp_path):
    audit = write(tmp_path / "audit.jsonl", ONE_HOST)
    with pytest.raises(AuditError, match=rf"output is .* \({reason}.*expected a file"):
        make([audit], str(tmp_path / page))
