"""Files of an audit: whole, torn, broken, in gzip, many at once."""

from __future__ import annotations

import gzip
import random

import pytest

from scrapy_rep.report import reader
from scrapy_rep.report.audit import Audit
from scrapy_rep.report.reader import AuditError
from tests.audits import (
    START,
    allowed,
    answered,
    copy,
    dropped,
    end,
    line,
    refused,
    run,
    sent,
    write,
)
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


def random_lines(number: int) -> bytes:
    rnd = random.Random(3)
    times = (START + rnd.random() for _ in range(number))
    return b"".join(line(sent(time, "a.example", "/")) for time in times)


WHOLE = line(run()) + line(SENT)


@pytest.mark.parametrize(
    ("octets", "number", "torn"),
    [
        pytest.param(WHOLE + line(end(START + 2)), 3, False, id="whole"),
        pytest.param(gzip.compress(WHOLE), 2, False, id="gzip, known by what it is"),
        pytest.param(b"\xef\xbb\xbf" + WHOLE, 2, False, id="saved by an editor"),
        pytest.param(WHOLE[:-9], 1, True, id="last line torn"),
        pytest.param(WHOLE[:-1], 2, False, id="last line lacks only its end"),
    ],
)
def test_file_without_trouble(octets, number, torn, tmp_path):
    file = tmp_path / "audit.jsonl"
    file.write_bytes(octets)
    times, audit = read(str(file))
    assert times == [START, START + 1, START + 2][:number]
    (source,) = audit.sources
    assert (source.name, source.lines, source.torn) == (str(file), number + torn, torn)
    assert (source.broken, audit.troubles) == (0, [])


@pytest.mark.parametrize("damage", [b"", random.Random(1).randbytes(99_999)])
def test_gzip_without_its_end_or_damaged(damage, tmp_path):
    file = tmp_path / "audit.jsonl.gz"
    whole = gzip.compress(random_lines(9999))
    file.write_bytes(whole[: len(whole) // 2] + damage)
    times, audit = read(str(file))
    assert len(times) > 1000
    assert audit.sources[0].torn is not bool(damage)
    told = [each.rpartition(": ")[2] for each in audit.troubles]
    assert told == ["the rest is left out"] * bool(damage)


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (b'{"type":"sent","ti', "not a JSON object"),
        (b"\xff\xfe{}", "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b'{"type":"sent","time":1,"slot":"a"}', "url is missing, expected a string"),
        (b'{"type":"' + b"x" * 200_000 + b'"}', "longer than 16 MiB"),
    ],
)
def test_broken_line_is_named_and_the_others_are_read(
    broken, what, tmp_path, monkeypatch
):
    monkeypatch.setattr(reader, "MAX_LINE_BYTES", 150_000)
    file = tmp_path / "audit.jsonl"
    file.write_bytes(line(run()) + broken + b"\n" + line(SENT))
    times, audit = read(str(file))
    assert times == [START, START + 1]
    (trouble,) = audit.troubles
    assert trouble.startswith(f"{file}:2: {what}")
    assert len(trouble) < len(str(file)) + 150
    assert audit.sources[0].broken == 1


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
        (url,) = audit.values("SELECT url FROM decision")
    assert url == "https://a.example/\\ud800\x00ö"


def test_users_and_passwords_are_not_kept():
    """Also of an audit that another program has written."""
    of = START, "me:secret@a.example", "/"
    records = [sent(*of), answered(*of), refused(*of), dropped(*of, "noindex")]
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
    expected = f"audit is '{name}' \\({reason}.*expected a file"
    with pytest.raises(AuditError, match=expected):
        read(name)


def test_a_body_is_kept_once():
    body = "User-agent: *\nDisallow: /\n"
    records = [copy(START, "a.example", body), copy(START + 1, "b.example", body)]
    with audit_of(records) as audit:
        assert len(audit.values("SELECT packed FROM body")) == 1


def test_progress_comes_to_the_size_of_the_files(tmp_path):
    records = [allowed(START + each, "a.example", "/") for each in range(5000)]
    names = [write(tmp_path / name, records) for name in ("a.jsonl", "b.jsonl.gz")]
    read_: list[int] = []
    with Audit(names, read_.append):
        assert sum(read_) == reader.size_of(names)
    assert 4 < len(read_) < 10  # not at each line
    assert reader.size_of([*names, "/dev/stdin"]) is None


def test_a_file_that_is_named_twice_would_count_twice(tmp_path):
    name = write(tmp_path / "audit.jsonl", [run(), SENT])
    again = str(tmp_path / "." / "link")
    (tmp_path / "link").symlink_to("audit.jsonl")
    for second in (name, again):
        with pytest.raises(
            AuditError, match=r"\(given twice\), expected each file once"
        ):
            Audit([name, second])
