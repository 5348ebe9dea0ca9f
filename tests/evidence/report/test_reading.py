"""Files of an audit: whole, torn, broken, in gzip, many at once."""

from __future__ import annotations

import gzip
import random

import pytest

from scrapy_rep.evidence.report import reader
from scrapy_rep.evidence.report.reader import AuditError, Files
from tests.audits import START, allowed, copy, end, line, run, sent, write

SENT = sent(START + 1, "a.example", "/")


def read(*names: str) -> tuple[list[float], Files]:
    """Return the times of the records, in their order, and what came of reading."""
    files = Files(names, lambda digest, body: None)
    return [time for time, _, _ in files.records()], files


def said(files: Files) -> list[str]:
    return [f"{trouble.line}: {trouble.what}" for trouble in files.troubles]


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
    assert trouble.what.endswith("the rest is left out")


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
    alien = {"body": 5, "digest": [1], "more": [1]}
    records = [{"type": "later", "time": START, "url": 7, **alien}, {**SENT, **alien}]
    times, files = read(write(tmp_path / "audit.jsonl", records))
    assert len(times) == 2
    assert files.troubles == []


def test_empty_file_and_blank_lines(tmp_path):
    file = tmp_path / "audit.jsonl"
    file.write_bytes(b"")
    assert read(str(file))[0] == []
    file.write_bytes(b"\n \n" + line(SENT))
    times, files = read(str(file))
    assert len(times) == 1
    assert files.troubles == []


@pytest.mark.parametrize(
    ("name", "reason"), [("missing", "No such file"), (".", "Is a directory")]
)
def test_file_that_cannot_be_opened(name, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        AuditError, match=f"audit is '{name}' \\({reason}.*expected a file"
    ):
        read(name)


def test_files_are_merged_by_time(tmp_path):
    rnd = random.Random(5)
    files: list[list[float]] = [[], [], []]
    for time in range(3000):
        files[rnd.randrange(3)].append(START + time)
    names = [
        write(
            tmp_path / f"{number}.jsonl{'.gz' * (number == 2)}",
            [sent(time, "a.example", "/") for time in times],
        )
        for number, times in enumerate(files)
    ]
    assert read(*names)[0] == [START + time for time in range(3000)]


def test_records_a_little_out_of_order_are_put_in_order(tmp_path):
    rnd = random.Random(6)
    times = [START + each for each in range(5000)]
    shuffled = sorted(times, key=lambda time: time + rnd.uniform(0, 900))
    assert shuffled != times
    name = write(
        tmp_path / "a.jsonl", [sent(each, "a.example", "/") for each in shuffled]
    )
    assert read(name)[0] == times


def test_bodies_go_aside(tmp_path):
    body = "User-agent: *\nDisallow: /\n"
    records = [copy(START, "a.example", body), copy(START + 1, "b.example", None)]
    name = write(tmp_path / "audit.jsonl", records)
    bodies: dict[str, bytes] = {}
    files = Files([name], bodies.__setitem__)
    read_ = [record for _, _, record in files.records()]
    assert bodies == {read_[0]["digest"]: body.encode()}
    assert not any("body" in record for record in read_)


def test_progress_comes_to_the_size_of_the_files(tmp_path):
    names = [
        write(
            tmp_path / name,
            [allowed(START + each, "a.example", "/") for each in range(5000)],
        )
        for name in ("a.jsonl", "b.jsonl.gz")
    ]
    read_: list[int] = []
    list(Files(names, lambda digest, body: None, read_.append).records())
    assert sum(read_) == reader.size_of(names)
    assert len(read_) > 4
    assert reader.size_of([*names, "/dev/stdin"]) is None
