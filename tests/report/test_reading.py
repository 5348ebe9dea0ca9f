"""Files of an audit: whole, torn, broken, in gzip, many at once."""

from __future__ import annotations

import gzip
import random

import pytest

from scrapy_rep.report import reader
from scrapy_rep.report.audit import Audit
from scrapy_rep.report.reader import AuditError
from tests.audits import START, allowed, copy, end, line, refused, run, sent, write
from tests.report.reading import audit_of

SENT = sent(START + 1, "a.example", "/")


def read(*names: str) -> tuple[list[float], Audit]:
    """Return the times of the records, in their order, and what came of reading."""
    with Audit(names) as audit:
        times = audit.values(
            "SELECT time FROM crawl UNION ALL SELECT time FROM sent UNION ALL "
            'SELECT time FROM "end" ORDER BY time'
        )
    return times, audit


def said(audit: Audit) -> list[str]:
    return [trouble.partition(".jsonl:")[2] for trouble in audit.troubles]


@pytest.mark.parametrize("name", ["audit.jsonl", "audit.jsonl.gz"])
def test_whole_file(name, tmp_path):
    audit = write(tmp_path / name, [run(), SENT, end(START + 2)])
    times, files = read(audit)
    assert times == [START, START + 1, START + 2]
    (source,) = files.sources
    assert (source.name, source.lines, source.torn, source.broken) == (
        audit,
        3,
        False,
        0,
    )


def test_gzip_is_known_by_what_it_is(tmp_path):
    file = tmp_path / "audit.jsonl"
    file.write_bytes(gzip.compress(line(run()) + line(SENT)))
    assert read(str(file))[0] == [START, START + 1]


def test_torn_last_line_is_no_trouble(tmp_path):
    file = tmp_path / "audit.jsonl"
    file.write_bytes(line(run()) + line(SENT)[:-9])
    times, files = read(str(file))
    assert times == [START]
    assert files.sources[0].torn
    assert files.troubles == []


def test_last_line_that_lacks_only_its_end_counts(tmp_path):
    file = tmp_path / "audit.jsonl"
    file.write_bytes(line(run()) + line(SENT)[:-1])
    times, files = read(str(file))
    assert times == [START, START + 1]
    assert not files.sources[0].torn


def test_gzip_without_its_end(tmp_path):
    file = tmp_path / "audit.jsonl.gz"
    records = b"".join(
        line(sent(START + each, "a.example", "/")) for each in range(9999)
    )
    whole = gzip.compress(records)
    file.write_bytes(whole[: len(whole) // 2])
    times, files = read(str(file))
    assert len(times) > 1000
    assert files.sources[0].torn
    assert files.troubles == []


def test_gzip_that_is_damaged(tmp_path):
    file = tmp_path / "audit.jsonl.gz"
    rnd = random.Random(3)
    records = b"".join(
        line(sent(START + rnd.random(), "a.example", "/")) for _ in range(9999)
    )
    whole = bytearray(gzip.compress(records))
    whole[len(whole) // 2 :] = rnd.randbytes(len(whole) // 2)
    file.write_bytes(bytes(whole))
    times, files = read(str(file))
    assert len(times) > 1000
    (trouble,) = files.troubles
    assert trouble.endswith("the rest is left out")


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (b'{"type":"sent","ti', "not a JSON object"),
        (b"\xff\xfe{}", "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b'{"type":"sent","time":1,"slot":"a"}', "url is missing, expected a string"),
    ],
)
def test_broken_line_is_named_and_the_others_are_read(broken, what, tmp_path):
    file = tmp_path / "audit.jsonl"
    file.write_bytes(line(run()) + broken + b"\n" + line(SENT))
    times, files = read(str(file))
    assert times == [START, START + 1]
    (trouble,) = files.troubles
    assert str(trouble).startswith(f"{file}:2: {what}")
    assert len(str(trouble)) < len(str(file)) + 150
    assert files.sources[0].broken == 1


def test_line_too_long_to_hold(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MAX_LINE_BYTES", 1000)
    file = tmp_path / "audit.jsonl"
    file.write_bytes(line(run()) + b'{"type":"' + b"x" * 4321 + b'"}\n' + line(SENT))
    times, files = read(str(file))
    assert times == [START, START + 1]
    assert said(files) == ["2: longer than 16 MiB"]


def test_many_broken_lines_are_counted(tmp_path):
    file = tmp_path / "audit.jsonl"
    file.write_bytes(b"?\n" * 5000 + line(SENT))
    _, files = read(str(file))
    assert len(files.troubles) == reader.MAX_TROUBLES
    assert files.sources[0].broken == 5000


def test_unknown_types_and_keys_are_no_trouble(tmp_path):
    alien = {"body": 5, "digest": [1], "more": [1], "origin": {}}
    records = [{"type": "later", "time": START, "url": 7, **alien}, {**SENT, **alien}]
    times, files = read(write(tmp_path / "audit.jsonl", records))
    assert times == [START + 1]
    assert files.troubles == []
    assert (files.records, files.sources[0].unknown) == (2, 1)


def test_halves_of_characters_are_written_out():
    with audit_of([refused(START, "a.example", "/\ud800\x00ö")]) as audit:
        assert audit.values("SELECT url FROM decision") == [
            "https://a.example/\\ud800\x00ö"
        ]


def test_users_and_passwords_are_not_kept():
    records = [
        sent(START, "me:secret@a.example", "/"),
        refused(START, "a.example", "/"),
    ]
    records[1]["url"] = "https://me:secret@a.example/"
    with audit_of(records) as audit:
        assert audit.values("SELECT url FROM decision") == ["https://a.example/"]
        assert audit.values("SELECT origin FROM sent") == ["https://a.example"]
        assert "secret" not in "\n".join(audit._database.iterdump())


@pytest.mark.parametrize(
    ("octets", "what"),
    [
        (b"", "no record of an audit in it"),
        (b"\n \n", "no record of an audit in it"),
        (b'{"type":"sent","ti', "no record of an audit in it"),
        (b"hello\n", "not a JSON object"),
        (b'{"url":"https://a.example/"}\n', "type is missing"),
        (b'{"type":"later","time":1}\n', "no record of an audit in it"),
    ],
)
def test_a_file_that_is_no_audit(octets, what, tmp_path):
    file = tmp_path / "audit.jsonl"
    file.write_bytes(octets)
    expected = rf"audit is '.*audit.jsonl' \({what}.*\), expected a file that a crawl"
    with pytest.raises(AuditError, match=expected):
        read(str(file))


@pytest.mark.parametrize("octets", [b"", b'{"type":"sent","ti'])
def test_a_worker_that_was_killed_at_once(octets, tmp_path):
    """Its file is one of several, which are an audit."""
    killed = tmp_path / "killed.jsonl"
    killed.write_bytes(octets)
    whole = write(tmp_path / "audit.jsonl", [SENT])
    times, files = read(str(killed), whole)
    assert times == [START + 1]
    assert [source.records for source in files.sources] == [0, 1]


@pytest.mark.parametrize(
    ("name", "reason"), [("missing", "No such file"), (".", "Is a directory")]
)
def test_file_that_cannot_be_opened(name, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        AuditError, match=f"audit is '{name}' \\({reason}.*expected a file"
    ):
        read(name)


def test_a_body_is_kept_once():
    body = "User-agent: *\nDisallow: /\n"
    records = [copy(START, "a.example", body), copy(START + 1, "b.example", body)]
    with audit_of(records) as audit:
        assert len(audit.values("SELECT packed FROM body")) == 1


def test_progress_comes_to_the_size_of_the_files(tmp_path):
    names = [
        write(
            tmp_path / name,
            [allowed(START + each, "a.example", "/") for each in range(5000)],
        )
        for name in ("a.jsonl", "b.jsonl.gz")
    ]
    read_: list[int] = []
    with Audit(names, read_.append):
        assert sum(read_) == reader.size_of(names)
    assert len(read_) > 4
    assert reader.size_of([*names, "/dev/stdin"]) is None
