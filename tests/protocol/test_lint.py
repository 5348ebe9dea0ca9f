"""What is told to the owner of a robots.txt: each code, where it is raised and where not."""

from __future__ import annotations

import pytest

from scrapy_rep.protocol import CODES, GYM2008, parse
from scrapy_rep.protocol.lint import notes_on_header

# code, a file that raises it, the line (0: the whole file), and the file mended
CASES = [
    (
        "too-long",
        "User-agent: *\n" + "Disallow: /x\n" * 50_000,
        0,
        "User-agent: *\nDisallow: /x\n",
    ),
    (
        "not-utf8",
        b"User-agent: *\n# \xe9\nDisallow: /x\n",
        0,
        "User-agent: *\n# \u00e9\nDisallow: /x\n".encode(),
    ),
    (
        "wrong-mark",
        b"\xff\xfeUser-agent: *\nDisallow: /x\n",
        0,
        "\ufeffUser-agent: *\nDisallow: /x\n".encode(),
    ),
    (
        "wrong-mark",
        b"\xef\xbbUser-agent: *\nDisallow: /x\n",
        0,
        "\ufeffUser-agent: *\nDisallow: /x\n".encode(),
    ),
    (
        "html",
        "<!DOCTYPE html>\n<html><body>Not found</body></html>\n",
        0,
        "# Not found\n",
    ),
    (
        "hidden-character",
        "User-agent: *\u00a0\nDisallow: /x\n",
        1,
        "User-agent: *\nDisallow: /x\n",
    ),
    (
        "hidden-character",
        "User-agent: *\n\u200bDisallow: /\u00a0x\n",
        2,
        "User-agent: *\nDisallow: /\u00a0x\n",
    ),
    (
        "no-colon",
        "User-agent: *\nplease go away\n",
        2,
        "User-agent: *\n# please go away\n",
    ),
    ("no-colon", "robots\n", 1, "# robots\n"),
    (
        "missing-colon",
        "User-agent: *\n\nDisallow /x\n",
        3,
        "User-agent: *\n\nDisallow: /x\n",
    ),
    (
        "missing-colon",
        "User-agent *\nDisallow: /x\n",
        1,
        "User-agent: *\nDisallow: /x\n",
    ),
    (
        "missing-colon",
        "User-agent: *\nDisallow /wiki/Special:Search\n",
        2,
        "User-agent: *\nDisallow: /wiki/Special:Search\n",
    ),
    (
        "missing-colon",
        "Sitemap https://example.com/s.xml\n",
        1,
        "Sitemap: https://example.com/s.xml\n",
    ),
    (
        "bare-url",
        "User-agent: *\nDisallow:\nhttps://example.com/s.xml\n",
        3,
        "User-agent: *\nDisallow:\nSitemap: https://example.com/s.xml\n",
    ),
    (
        "garbled-field",
        "User-agent: *\nDisallows: /x\n",
        2,
        "User-agent: *\nDisallow: /x\n",
    ),
    ("unknown-field", "User-agent: *\nMeta: all\n", 2, "User-agent: *\n# Meta: all\n"),
    ("other-field", "User-agent: *\nHost: example.com\n", 2, "User-agent: *\n"),
    (
        "bad-content-usage",
        "User-agent: *\nContent-Usage: /a Train-AI=n\n",
        2,
        "User-agent: *\nContent-Usage: /a train-ai=n\n",
    ),
    (
        "unknown-preference",
        "User-agent: *\nContent-Usage: tdm=n\n",
        2,
        "User-agent: *\nContent-Usage: search=n, ai-use=y\n",
    ),
    (
        "unknown-preference",
        "User-agent: *\nContent-Usage: train-ai=no\n",
        2,
        "User-agent: *\nContent-Usage: train-ai=n\n",
    ),
    (
        "unknown-preference",
        "User-agent: *\nContent-Signal: train-ai=n\n",
        2,
        "User-agent: *\nContent-Signal: ai-train=no, use=full\n",
    ),
    (
        "unknown-preference",
        "Content-Signal: use=yes\nUser-agent: *\n",
        1,
        "Content-Signal: use=reference\nUser-agent: *\n",
    ),
    (
        "relative-license",
        "License: /license.xml\nUser-agent: *\n",
        1,
        "License: https://example.com/license.xml\nUser-agent: *\n",
    ),
    (
        "rule-outside-group",
        "Content-Usage: train-ai=n\nUser-agent: *\n",
        1,
        "User-agent: *\nContent-Usage: train-ai=n\n",
    ),
    (
        "misspelt-field",
        "User-agent: *\nDisalow: /x\n",
        2,
        "User-agent: *\nDisallow: /x\n",
    ),
    (
        "misspelt-field",
        "Useragent: *\nDisallow: /x\n",
        1,
        "User-agent: *\nDisallow: /x\n",
    ),
    (
        "rule-outside-group",
        "Disallow: /x\nUser-agent: *\n",
        1,
        "User-agent: *\nDisallow: /x\n",
    ),
    ("rule-outside-group", "\nAllow: /x\n", 2, "User-agent: *\nAllow: /x\n"),
    (
        "path-without-slash",
        "User-agent: *\nDisallow: x\n",
        2,
        "User-agent: *\nDisallow: /x\n",
    ),
    (
        "path-without-slash",
        "User-agent: *\nAllow: .gif$\n",
        2,
        "User-agent: *\nAllow: *.gif$\n",
    ),
    (
        "absolute-url",
        "User-agent: *\nDisallow: https://a/x\n",
        2,
        "User-agent: *\nDisallow: /x\n",
    ),
    (
        "dot-segments",
        "User-agent: *\nDisallow: /a/../b\n",
        2,
        "User-agent: *\nDisallow: /b\n",
    ),
    (
        "dot-segments",
        "User-agent: *\nDisallow: /a/.%2e\n",
        2,
        "User-agent: *\nDisallow: /.a/..b\n",
    ),
    (
        "bad-escape",
        "User-agent: *\nDisallow: /a%zz\n",
        2,
        "User-agent: *\nDisallow: /a%2F\n",
    ),
    (
        "bad-escape",
        "User-agent: *\nDisallow: /100%$\n",
        2,
        "User-agent: *\nDisallow: /100%25$\n",
    ),
    (
        "cut-escape",
        "User-agent: *\nDisallow: /a%2\n",
        2,
        "User-agent: *\nDisallow: /a\n",
    ),
    (
        "cut-escape",
        "User-agent: *\nDisallow: /*URL%*x\n",
        2,
        "User-agent: *\nDisallow: /*URL%25*x\n",
    ),
    (
        "reserved-escape",
        "User-agent: *\nDisallow: /wiki/Special%3aSearch\n",
        2,
        "User-agent: *\nDisallow: /wiki/Special:Search\n",
    ),
    (
        "robots-txt-rule",
        "User-agent: *\nDisallow: /robots.txt\n",
        2,
        "User-agent: *\nDisallow: /robots.txt?\n",
    ),
    ("empty-allow", "User-agent: *\nAllow:\n", 2, "User-agent: *\nDisallow:\n"),
    (
        "bad-crawl-delay",
        "User-agent: *\nCrawl-delay: 10s\n",
        2,
        "User-agent: *\nCrawl-delay: 10\n",
    ),
    (
        "bad-crawl-delay",
        "User-agent: *\nCrawl-delay: 1,5\n",
        2,
        "User-agent: *\nCrawl-delay: 1.5\n",
    ),
    (
        "bad-crawl-delay",
        "User-agent: *\nCrawl-delay: -1\n",
        2,
        "User-agent: *\nCrawl-delay: 0\n",
    ),
    (
        "bad-crawl-delay",
        "User-agent: *\nCrawl-delay:\n",
        2,
        "User-agent: *\nCrawl-delay: 1\n",
    ),
    (
        "bad-request-rate",
        "User-agent: *\nRequest-rate: 5\n",
        2,
        "User-agent: *\nRequest-rate: 5/1\n",
    ),
    (
        "bad-request-rate",
        "User-agent: *\nRequest-rate: 1/0\n",
        2,
        "User-agent: *\nRequest-rate: 1/1m\n",
    ),
    (
        "bad-visit-time",
        "User-agent: *\nVisit-time: 6-8\n",
        2,
        "User-agent: *\nVisit-time: 0600-0800\n",
    ),
    (
        "bad-visit-time",
        "User-agent: *\nVisit-time: 2500-0100\n",
        2,
        "User-agent: *\nVisit-time: 2300-0100\n",
    ),
    (
        "between-agents",
        "User-agent: a\nCrawl-delay: 2\nUser-agent: *\nDisallow: /x\n",
        2,
        "User-agent: a\nUser-agent: *\nCrawl-delay: 2\nDisallow: /x\n",
    ),
    (
        "between-agents",
        "User-agent: a\nUser-agent: b\n\nContent-Usage: search=y\nUser-agent: *\n",
        4,
        "User-agent: a\nUser-agent: b\n\nContent-Usage: search=y\nDisallow:\nUser-agent: *\n",
    ),
    (
        "missing-hyphen",
        "User-agent: *\nVisit-time: 0200 0630\n",
        2,
        "User-agent: *\nVisit-time: 0200-0630\n",
    ),
    (
        "missing-hyphen",
        "User-agent: *\nRequest-rate: 1/1m 0900 1700\n",
        2,
        "User-agent: *\nRequest-rate: 1/1m\n",
    ),
    (
        "signal-semicolon",
        "User-agent: *\nContent-Signal: search=yes; ai-train=no\n",
        2,
        "User-agent: *\nContent-Signal: search=yes, ai-train=no\n",
    ),
    (
        "relative-sitemap",
        "Sitemap: /s.xml\n",
        1,
        "Sitemap: https://example.com/s.xml\n",
    ),
    ("empty-sitemap", "Sitemap:\n", 1, "Sitemap: https://example.com/s.xml\n"),
    (
        "empty-user-agent",
        "User-agent:\nDisallow: /\n",
        1,
        "User-agent: *\nDisallow: /\n",
    ),
    (
        "user-agent-browser",
        "User-agent: Mozilla\nDisallow: /\n",
        1,
        "User-agent: foo\nDisallow: /\n",
    ),
    (
        "user-agent-header",
        "User-agent: Mozilla/5.0 (compatible; foo/1.0)\nDisallow: /\n",
        1,
        "User-agent: foo\nDisallow: /\n",
    ),
    (
        "user-agent-grammar",
        "User-agent: foo/1.0\nDisallow: /\n",
        1,
        "User-agent: foo\nDisallow: /\n",
    ),
    (
        "user-agent-grammar",
        "User-agent: foo*\nDisallow: /\n",
        1,
        "User-agent: foo\nDisallow: /\n",
    ),
    ("user-agent-digits", "User-agent: MJ12bot\n", 1, "User-agent: MJbot\n"),
    ("user-agent-digits", "User-agent: 008\n", 1, "User-agent: bot\n"),
    (
        "duplicate-group",
        "User-agent: a\nDisallow: /x\n\nUser-agent: A\nDisallow: /y\n",
        4,
        "User-agent: a\nDisallow: /x\nDisallow: /y\n",
    ),
]


@pytest.mark.parametrize(
    ("code", "robots", "line", "mended"),
    [pytest.param(*case, id=f"{case[0]}-{n}") for n, case in enumerate(CASES)],
)
def test_note(code: str, robots: bytes | str, line: int, mended: bytes | str) -> None:
    assert [(note.line, note.code) for note in parse(robots).notes] == [(line, code)]
    assert [note.code for note in parse(mended).notes] == []
    note = parse(robots).notes[0]
    assert note.severity in {"error", "warning", "info"}
    assert note.message.startswith(CODES[code])


def test_every_code_has_a_case() -> None:
    elsewhere = {"raw-octets", "wrong-charset"}
    of_headers = {code for _, codes in HEADERS for code in codes}
    assert {case[0] for case in CASES} | elsewhere | of_headers == set(CODES)


HEADERS = [
    ("ExampleBot/1.0 (+https://example.com/bot)", []),
    ("ExampleBot/v2 (bot@example.com)", []),
    ("Mozilla/5.0 (compatible; ExampleBot/1.0; www.example.com)", []),
    ("ExampleBot (+https://example.com/bot)", ["no-version"]),
    ("ExampleBot/1.0", ["no-contact"]),
    ("ExampleBot", ["no-version", "no-contact"]),
    ("Mozilla/5.0 (X11; Linux x86_64)", ["no-product-token", "no-contact"]),
    ("", ["no-product-token", "no-contact"]),
    ("Scrapy/2.19.0 (+https://scrapy.org)", ["library-token"]),
    ("ExampleBot/1.0 Scrapy/2.19.0 (+https://example.com)", []),
]


@pytest.mark.parametrize(("header", "codes"), HEADERS)
def test_notes_on_a_user_agent_that_is_sent(header: str, codes: list[str]) -> None:
    found = list(notes_on_header(header))
    assert [note.code for note in found] == codes
    assert {note.line for note in found} <= {0}


def test_octets_of_rules_that_are_not_utf8() -> None:
    body = b"User-agent: *\nDisallow: /\xe9\nSitemap: \xe9\nDisallow: /x # \xe9\n"
    codes = [(note.line, note.code) for note in parse(body).notes]
    assert codes == [(0, "not-utf8"), (2, "raw-octets"), (3, "relative-sitemap")]
    assert parse(body).notes[1].message.endswith(": /\u00e9")


@pytest.mark.parametrize("charset", ["iso-8859-1", "us-ascii", "shift_jis"])
def test_a_charset_that_is_not_that_of_the_file(charset: str) -> None:
    body = "User-agent: *\nDisallow: /\u00e9\n".encode()
    assert [note.code for note in parse(body, encoding=charset).notes] == [
        "wrong-charset"
    ]
    assert parse(body, encoding="utf-8").notes == ()
    assert parse(b"User-agent: *\n", encoding=charset).notes == ()


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


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"], ids=["LF", "CR", "CRLF"])
def test_a_tidy_file_has_no_notes(end: str) -> None:
    robots = TIDY.replace("\n", end)
    assert parse(robots).notes == ()
    assert parse(robots.encode()).notes == ()
    assert parse(b"\xef\xbb\xbf" + robots.encode()).notes == ()


def test_notes_on_records_between_user_agent_lines_come_by_line() -> None:
    robots = (
        "User-agent: a\nCrawl-delay: soon\nSitemap: s\nUser-agent: b\n"
        "Visit-time: 0600-0700\nContent-Signal: search=yes\nUser-agent: c\n"
        "Crawl-delay: 1\nDisallow: /x\nCrawl-delay: 2\nUser-agent: d\nCrawl-delay: 3\n"
    )
    assert [(note.line, note.code) for note in parse(robots).notes] == [
        (2, "bad-crawl-delay"),
        (2, "between-agents"),
        (3, "relative-sitemap"),
        (5, "between-agents"),
        (6, "between-agents"),
    ]
    # There such a record begins another group.
    assert {note.line for note in parse(robots, dialect=GYM2008).notes} == {2, 3}


def test_an_empty_file_has_no_notes() -> None:
    assert parse(b"").notes == ()
    assert parse("# only a comment\n\n").notes == ()


def test_several_notes_come_by_line() -> None:
    robots = "Disallow: /x\nUser-agent: *\nDisallow: /%\nplease go away\nCrawl-delay: soon\nSitemap: s"
    assert [(note.line, note.code) for note in parse(robots).notes] == [
        (1, "rule-outside-group"),
        (3, "cut-escape"),
        (4, "no-colon"),
        (5, "bad-crawl-delay"),
        (6, "relative-sitemap"),
    ]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("Disallows", "disallow"),
        ("Disalllow", "disallow"),
        ("Alow", "allow"),
        ("User_agent", "user-agent"),
        ("Usr-agent", "user-agent"),
        ("Sitemaps", "sitemap"),
        ("Crawl_delay", "crawl-delay"),
        ("Request-rates", "request-rate"),
        ("Visit-times", "visit-time"),
    ],
)
def test_a_garbled_field_names_the_nearest_known(name: str, nearest: str) -> None:
    notes = [
        note for note in parse(f"User-agent: *\n{name}: 1\n").notes if note.line == 2
    ]
    assert [(note.severity, note.code) for note in notes] == [
        ("error", "garbled-field")
    ]
    assert name in notes[0].message
    assert nearest in notes[0].message


@pytest.mark.parametrize("before", ["Noindex: /x\n", "Disallows: /y\n"])
def test_a_garbled_field_is_an_error_after_many_fields_too(before: str) -> None:
    notes = parse("User-agent: *\n" + before * 300 + "Disallows: /x\n").notes
    assert (notes[-1].severity, notes[-1].code) == ("error", "garbled-field")


def test_guesses_at_garbled_fields_are_bounded() -> None:
    notes = parse("".join(f"Disallow{n}: /x\n" for n in range(300))).notes
    codes = [note.code for note in notes]
    assert codes == ["garbled-field"] * 100 + ["unknown-field"] * 200


def test_an_unknown_field_like_no_other_names_none() -> None:
    (note,) = parse("User-agent: *\nQwertz: 1\n").notes
    assert note.message == CODES["unknown-field"] + ": Qwertz"


def test_a_web_page_is_one_note_not_hundreds() -> None:
    page = (
        "<!DOCTYPE html>\n<html>\n<p>some text here\n<a style='color: red'>x</a>\n"
        * 100
    )
    assert [note.code for note in parse(page).notes] == ["html"]


@pytest.mark.parametrize(
    "start",
    [
        "\n  ",
        "<!-- one --> <!-- two -->\n",
        '<?xml version="1.0" encoding="UTF-8"?>\n',
        '<div class="error">',
    ],
)
def test_a_web_page_may_begin_with_other_markup(start: str) -> None:
    page = f"{start}<!DOCTYPE html>\n<html>\n<p>some text here\n</html>\n"
    assert [note.code for note in parse(page).notes] == ["html"]


def test_a_robots_txt_with_markup_is_no_web_page() -> None:
    robots = "<!-- robots.txt of the web team -->\nUser-agent: *\nDisallow: /x\n"
    assert "html" not in {note.code for note in parse(robots).notes}
    robots = "# <html>\nUser-agent: *\nDisallow: /<html>\n"
    assert parse(robots).notes == ()


@pytest.mark.parametrize("name", ["Host", "Noindex", "Noarchive", "ACAP-crawler"])
def test_fields_of_other_conventions_are_no_mistakes(name: str) -> None:
    (note,) = parse(f"User-agent: *\n{name}: x\n").notes
    assert (note.severity, note.code) == ("info", "other-field")


@pytest.mark.parametrize("name", ["MJ12bot", "360Spider", "008", "R6_Feed-1"])
def test_nobody_is_warned_of_how_a_crawler_is_called(name: str) -> None:
    (note,) = parse(f"User-agent: {name}\nDisallow: /\n").notes
    assert note.severity == "info"


@pytest.mark.parametrize("name", ["foo/1.0", "foo 2", "archive.org_bot", "foo2*"])
def test_an_agent_that_others_read_differently_is_a_warning(name: str) -> None:
    (note,) = parse(f"User-agent: {name}\nDisallow: /\n").notes
    assert (note.severity, note.code) == ("warning", "user-agent-grammar")


def test_two_user_agent_lines_of_one_group_are_no_duplicates_of_another() -> None:
    robots = "User-agent: a\nUser-agent: b\nDisallow: /x\n"
    assert parse(robots).notes == ()


def test_notes_do_not_change_with_what_was_asked() -> None:
    policy = parse("Disallow: /x\nUser-agent: *\nDisallow: y\n")
    before = policy.notes
    policy.verdict("/x", "a")
    assert policy.notes == before


def test_messages_stay_short() -> None:
    (note,) = parse("User-agent: *\nDisallow: " + "x" * 10_000 + "\n").notes
    assert len(note.message) < 200
