"""What is told to the owner of a robots.txt: each code, where it is raised and where not."""

from __future__ import annotations

import pytest

from scrapy_rep.protocol import CODES, GYM2008, parse
from scrapy_rep.protocol.lint import notes_on_header
from tests.conformance import params, table

TOO_LONG = pytest.param(
    "too-long", "User-agent: *\n" + "Disallow: /x\n" * 50_000, "0", "User-agent: *\n"
)


def told(robots: bytes | str, **options: str) -> list[tuple[int, str]]:
    return [(note.line, note.code) for note in parse(robots, **options).notes]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "octets", "line", "mended"),
    [*params("lint", "name", "octets", "line", "mended"), TOO_LONG],
)
def test_note(code, octets, line, mended):
    for end in ("", "\n"):
        robots = (octets + end).encode("latin-1")
        (note,) = parse(robots).notes
        assert (note.line, note.code) == (int(line), code)
        assert note.message.startswith(CODES[code])
        assert told((mended + end).encode("latin-1")) == []


def test_every_code_has_a_case() -> None:
    elsewhere = {"raw-octets", "wrong-charset", "too-long"}
    elsewhere |= {
        code for row in table("lint") if "codes" in row for code in row["codes"].split()
    }
    assert {row["name"] for row in table("lint") if "mended" in row} | elsewhere == set(
        CODES
    )


@pytest.mark.parametrize(
    ("octets", "severity", "code", "says"),
    params("lint", "octets", "severity", "code", "says"),
)
def test_what_a_note_says(octets, severity, code, says):
    note = parse(octets.encode("latin-1")).notes[-1]
    assert (note.severity, note.code) == (severity, code)
    assert says in note.message
    note.message.encode()


@pytest.mark.parametrize(("header", "codes"), params("lint", "header", "codes"))
def test_notes_on_a_user_agent_that_is_sent(header, codes):
    found = list(notes_on_header(header))
    assert [note.code for note in found] == codes.split()
    assert {note.line for note in found} <= {0}


def test_d29_octets_of_rules_that_are_not_utf8() -> None:
    body = b"User-agent: *\nDisallow: /\xe9\nSitemap: \xe9\nDisallow: /x # \xe9\n"
    assert told(body) == [(0, "not-utf8"), (2, "raw-octets"), (3, "relative-sitemap")]
    assert parse(body).notes[1].message.endswith(": /\u00e9")


@pytest.mark.parametrize("charset", ["iso-8859-1", "us-ascii", "shift_jis"])
def test_d27_a_charset_that_is_not_that_of_the_file(charset: str) -> None:
    body = "User-agent: *\nDisallow: /\u00e9\n".encode()
    assert told(body, encoding=charset) == [(0, "wrong-charset")]
    assert (
        told(body, encoding="utf-8") == told(b"User-agent: *\n", encoding=charset) == []
    )


TIDY = """\
# https://example.com/robots.txt
User-agent: *
Disallow: /private/ # all of it
Allow: /private/index.html
Disallow: /*?sort=
Disallow: *.gif$
Disallow: /caf%C3%A9/\u30c4
Crawl-delay: 2.5
Request-rate: 30/60m 0900-1700

User-agent: FooBot
User-agent: bar_bot-news
Visit-time: 2200-0400
Disallow:

Sitemap: https://cdn.example.net/sitemap.xml
"""


@pytest.mark.parametrize(
    "robots", [TIDY, "", "# only a comment\n\n", "# <html>\nUser-agent: *\n"]
)
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"], ids=["LF", "CR", "CRLF"])
def test_a_tidy_file_has_no_notes(robots: str, end: str) -> None:
    robots = robots.replace("\n", end)
    for body in (robots, robots.encode(), b"\xef\xbb\xbf" + robots.encode()):
        assert told(body) == []


def test_several_notes_come_by_line_whatever_was_asked_before() -> None:
    policy = parse(
        "Disallow: /x\nUser-agent: *\nDisallow: /%\nplease go away\nCrawl-delay: soon\nSitemap: s"
    )
    wanted = "rule-outside-group - cut-escape no-colon bad-crawl-delay relative-sitemap"
    expected = [each for each in enumerate(wanted.split(), 1) if each[1] != "-"]
    for _ in range(2):
        assert [(note.line, note.code) for note in policy.notes] == expected
        policy.verdict("/x", "a")


def test_notes_on_records_between_user_agent_lines_come_by_line() -> None:
    robots = (
        "User-agent: a\nCrawl-delay: soon\nSitemap: s\nUser-agent: b\n"
        "Visit-time: 0600-0700\nContent-Signal: search=yes\nUser-agent: c\n"
        "Crawl-delay: 1\nDisallow: /x\nCrawl-delay: 2\nUser-agent: d\nCrawl-delay: 3\n"
    )
    between = [(line, "between-agents") for line in (2, 5, 6)]
    assert told(robots) == [
        (2, "bad-crawl-delay"),
        between[0],
        (3, "relative-sitemap"),
        *between[1:],
    ]
    # There such a record begins another group.
    assert {note.line for note in parse(robots, dialect=GYM2008).notes} == {2, 3}


@pytest.mark.parametrize("before", ["Noindex: /x\n", "Disallows: /y\n"])
def test_a_garbled_field_is_an_error_after_many_fields_too(before: str) -> None:
    notes = parse("User-agent: *\n" + before * 300 + "Disallows: /x\n").notes
    assert (notes[-1].severity, notes[-1].code) == ("error", "garbled-field")


def test_guesses_at_garbled_fields_are_bounded() -> None:
    found = told("".join(f"Disallow{n}: /x\n" for n in range(300)))
    assert [code for _, code in found] == ["garbled-field"] * 100 + [
        "unknown-field"
    ] * 200


@pytest.mark.parametrize(
    "start",
    ["", "\n  ", "<!-- one --> <!-- two -->\n", '<?xml version="1.0"?>\n', '<div class="error">'],
)  # fmt: skip
def test_a_web_page_is_one_note_not_hundreds(start: str) -> None:
    page = "<!DOCTYPE html>\n<html>\n<p>some text here\n<a style='color: red'>x</a>\n"
    assert told(start + page * 100) == [(0, "html")]
    robots = "<!-- robots.txt of the web team -->\nUser-agent: *\nDisallow: /x\n"
    assert "html" not in {code for _, code in told(robots)}


def test_messages_stay_short() -> None:
    (note,) = parse("User-agent: *\nDisallow: " + "x" * 10_000 + "\n").notes
    assert len(note.message) < 200
