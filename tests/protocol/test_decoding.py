"""From octets to lines, fields and values.

The numbers that begin an id are those of the project's checklist of REP statements, see
tests/README.rst; `D` and a number is a row of its table of decisions where RFC 9309 is silent.
"""

from __future__ import annotations

import pickle

import pytest

from scrapy_rep.protocol import Rule, parse

from . import reference

KIB = 1024
LIMIT = 512 * KIB

# Each body refuses /x to every agent, or does not.
BODIES = [
    # RFC 9309 2.2: white space, case, comments
    ("33-plain", b"User-agent: *\nDisallow: /x\n", False),
    ("34-no-end-of-line-at-the-end", b"User-agent: *\nDisallow: /x", False),
    ("34-D24-CR", b"User-agent: *\rDisallow: /x\r", False),
    ("34-D24-CRLF", b"User-agent: *\r\nDisallow: /x\r\n", False),
    ("34-D24-mixed", b"User-agent: *\r\n\r\n\rDisallow: /x\r", False),
    ("34-D24-LF-CR", b"User-agent: *\n\rDisallow: /x\n\r", False),
    ("34-spaces-at-both-ends", b"  User-agent: *  \n\t Disallow: /x \t \n", False),
    ("34-spaces-around-the-colon", b"User-agent \t:\t *\nDisallow\t : \t/x\n", False),
    ("34-no-space-after-the-colon", b"User-agent:*\nDisallow:/x\n", False),
    ("21-comment-after-values", b"User-agent: * # all\nDisallow: /x # that\n", False),
    ("21-comment-without-space", b"User-agent: *#all\nDisallow: /x#that\n", False),
    ("21-comment-line", b"#a\nUser-agent: *\n # b\nDisallow: /x\n", False),
    ("21-commented-out", b"User-agent: *\n#Disallow: /x\n", True),
    ("21-comment-before-the-colon", b"User-agent: *\nDisallow #: /x\n", True),
    ("36-field-case", b"USER-AGENT: *\ndISALLOW: /x\n", False),
    ("36-value-with-colons", b"User-agent: *\nDisallow: /x\nAllow: :/x\n", False),
    (
        "36-junk-lines",
        b"<html>\n\x00\x01\n:::\nUser-agent: *\n----\nDisallow: /x\n%\n",
        False,
    ),
    ("36-empty-field", b"User-agent: *\n: /x\n", True),
    ("36-blank-lines", b"\n\n\nUser-agent: *\n\n\n\nDisallow: /x\n\n", False),
    # 2.2: these are no ends of a line, though some libraries split there
    ("34-D24-form-feed", b"User-agent: *\nSitemap: https://a/\x0cDisallow: /x\n", True),
    (
        "34-D24-vertical-tab",
        b"User-agent: *\nSitemap: https://a/\x0bDisallow: /x\n",
        True,
    ),
    (
        "34-D24-file-separator",
        b"User-agent: *\nSitemap: https://a/\x1cDisallow: /x\n",
        True,
    ),
    (
        "34-D24-next-line",
        b"User-agent: *\nSitemap: https://a/\xc2\x85Disallow: /x\n",
        True,
    ),
    (
        "34-D24-line-separator",
        b"User-agent: *\nSitemap: https://a/\xe2\x80\xa8Disallow: /x\n",
        True,
    ),
    ("34-D24-NUL", b"User-agent: *\nSitemap: https://a/\x00Disallow: /x\n", True),
    # HTML in place of the file: its valid lines count
    (
        "33-html",
        b"<!DOCTYPE html>\n<html><body>\n<p>User-agent: *\nDisallow: /x</p>\n",
        True,
    ),
    ("33-html-around", b"<pre>\nUser-agent: *\nDisallow: /x\n</pre>\n", False),
    # Byte order marks
    ("33-D17-BOM", b"\xef\xbb\xbfUser-agent: *\nDisallow: /x\n", False),
    ("33-D17-BOM-first-octet", b"\xefUser-agent: *\nDisallow: /x\n", False),
    ("33-D17-BOM-two-octets", b"\xef\xbbUser-agent: *\nDisallow: /x\n", False),
    ("33-D17-BOM-then-blank", b"\xef\xbb\xbf\nUser-agent: *\nDisallow: /x\n", False),
    (
        "33-D17-BOM-then-comment",
        b"\xef\xbb\xbf# a\nUser-agent: *\nDisallow: /x\n",
        False,
    ),
    ("33-D17-D28-BOM-within", b"User-agent: *\n\xef\xbb\xbfDisallow: /x\n", False),
    ("33-D17-BOM-wrong-octet", b"\xef\xbb\xbeUser-agent: *\nDisallow: /x\n", True),
    ("33-D17-BOM-alone", b"\xef\xbb\xbf", True),
    # Beyond RFC 9309: misspellings
    ("14-D12-useragent", b"Useragent: *\nDisallow: /x\n", False),
    ("14-D12-user-space-agent", b"User agent: *\nDisallow: /x\n", False),
    ("14-D12-dissallow", b"User-agent: *\nDissallow: /x\n", False),
    ("14-D12-dissalow", b"User-agent: *\nDissalow: /x\n", False),
    ("14-D12-disalow", b"User-agent: *\nDisalow: /x\n", False),
    ("14-D12-diasllow", b"User-agent: *\nDiasllow: /x\n", False),
    ("14-D12-disallaw", b"User-agent: *\nDisallaw: /x\n", False),
    ("14-D12-misspelt-in-any-case", b"USERAGENT: *\nDISALLAW: /x\n", False),
    ("14-D12-not-a-prefix", b"User-agent: *\nDisallowed: /x\n", True),
    (
        "14-D12-not-a-prefix-of-allow",
        b"User-agent: *\nDisallow: /x\nAllowance: /x\n",
        False,
    ),
    ("14-D12-not-any-misspelling", b"User-agent: *\nDisallo: /x\n", True),
    ("14-D12-not-misspelt-allow", b"User-agent: *\nDisallow: /x\nAlow: /x\n", False),
    ("14-D12-user_agent", b"User_agent: *\nDisallow: /x\n", True),
    # Beyond RFC 9309: two words do without the colon
    ("D13-no-colon", b"User-agent *\nDisallow /x\n", False),
    ("D13-no-colon-tab", b"User-agent\t*\nDisallow \t /x\n", False),
    ("D13-no-colon-controls", b"User-agent\x1f *\nDisallow\x0b \0/x\n", False),
    ("D13-no-colon-comment", b"User-agent * # all\nDisallow /x # that\n", False),
    ("D13-no-colon-misspelt", b"useragent *\ndisalow /x\n", False),
    ("D13-no-colon-three-words", b"User-agent: *\nDisallow /x /y\n", True),
    ("D13-no-colon-one-word", b"User-agent: *\nDisallow\n", True),
    ("D13-no-colon-no-space", b"User-agent: *\nDisallow/x\n", True),
    ("D13-no-colon-user-space-agent", b"User agent *\nDisallow: /x\n", True),
    (
        "D13-colon-later-in-the-line",
        b"User-agent: *\nDisallow /x*:y\nDisallow /x\n",
        False,
    ),
    ("D13-colon-later-alone", b"User-agent: *\nDisallow /*:*\nDisallow /y:\n", True),
    ("D13-unknown-word-and-a-colon-later", b"User-agent: *\nDisallows /x:\n", True),
    ("D13-words-and-a-colon-like-prose", b"User-agent: *\nDisallow /x y: z\n", True),
    ("D13-words-and-a-colon-at-the-end", b"User-agent: *\nDisallow /x y:\n", True),
    (
        "D13-prose-ends-no-run",
        b"User-agent: *\nAllow all of them: a\nUser-agent: b\nDisallow: /\n",
        False,
    ),
    (
        "D13-user-agent-with-a-colon",
        b"User-agent *\nUser-agent b:c\nDisallow: /\n",
        False,
    ),
]


@pytest.mark.parametrize(
    ("body", "expected"), [pytest.param(*case[1:], id=case[0]) for case in BODIES]
)
def test_body(body: bytes, expected: bool) -> None:
    assert parse(body).allowed("/x", "a") is expected
    assert reference.allowed(body, "/x", "a") is expected


HIDDEN = [
    *("\u00a0", "\u200b", "\u200e", "\ufeff", "\u3000", "\u2003", "\u2028", "\u00ad"),
    *("\u0085", "\u202a", "\u2060", "\x01", "\x7f", "\u00a0 \u200b\t\ufeff"),
]


@pytest.mark.parametrize("hidden", HIDDEN, ids=ascii)
def test_d28_what_cannot_be_seen_is_stripped_from_both_ends(hidden: str) -> None:
    for robots in (
        f"User-agent: *{hidden}\nDisallow: /x\n",
        f"User-agent:{hidden}*\nDisallow:{hidden}/x{hidden}\n",
        f"{hidden}User-agent: *\n{hidden}Disallow: /x\n",
        f"User-agent{hidden}: *\nDisallow{hidden}: /x\n",
        f"User-agent: *{hidden}# all\nDisallow: /x{hidden}# that\n",
        f"{hidden}User-agent{hidden}:{hidden}*{hidden}\n{hidden}Disalow{hidden}:/x\n",
    ):
        policy = parse(robots.encode())
        assert policy.allowed("/x", "a") is False
        assert policy.allowed("/y", "a") is True
        assert policy.verdict("/x", "a").rule == Rule(allow=False, path="/x", line=2)
        assert reference.allowed(robots.encode(), "/x", "a") is False


@pytest.mark.parametrize("encoding", [None, "iso-8859-1", "utf-8"])
def test_d28_a_no_break_space_of_iso_8859_1(encoding: str | None) -> None:
    body = b"\xa0User-agent: *\xa0\nDisallow:\xa0/x\xa0\n"
    policy = parse(body, encoding=encoding)
    assert policy.allowed("/x", "a") is False
    assert policy.allowed("/y", "a") is True
    assert reference.allowed(body, "/x", "a") is False
    codes = {note.code for note in policy.notes}
    assert codes == {"not-utf8", "hidden-character"}


def test_d28_what_cannot_be_seen_counts_within_a_value() -> None:
    policy = parse("User-agent: *\nDisallow: /a\u00a0b\n")
    assert policy.allowed("/a%C2%A0b", "c") is False
    assert policy.allowed("/ab", "c") is True
    assert policy.notes == ()


def test_d28_what_cannot_be_seen_around_other_records() -> None:
    policy = parse(
        "\u200bUser-agent: *\n\ufeffCrawl-delay:\u00a05\u00a0\n\u00a0Disallow:\n"
        "\u3000Sitemap: https://example.com/s.xml\u200e\n"
        "\u200bContent-Usage: train-ai=n\u00a0\n"
    )
    assert policy.crawl_delay("a") == 5.0
    assert policy.sitemaps == ("https://example.com/s.xml",)
    assert policy.preferences("/", "a").of("train-ai").answer == "no"


@pytest.mark.parametrize(
    ("line", "url"),
    [
        ("Disallow /wiki/Special:Search", "/wiki/Special:Search?x"),
        ("disallow\t/wiki/Special:", "/wiki/Special%3ASearch"),
        ("Disallow /go?u=http://a:80/", "/go?u=http://a:80/b"),
        ("Disallow /a b:c", "/a%20b:c"),
        ("Dissalow /wiki/Special:Search # that", "/wiki/Special:Search"),
    ],
)
def test_a_colon_only_behind_the_white_space_after_a_field(line: str, url: str) -> None:
    # D13
    robots = f"User-agent: *\n{line}\n"
    assert parse(robots).allowed(url, "a") is False
    assert parse(robots).allowed("/b", "a") is True
    assert reference.allowed(robots.encode(), url, "a") is False
    assert parse(robots).notes[0].code == "missing-colon"


def test_other_records_without_their_colon() -> None:
    # D13
    policy = parse(
        "User-agent: *\nCrawl-delay 5\nSitemap https://example.com:80/s.xml\n"
    )
    assert policy.sitemaps == ("https://example.com:80/s.xml",)
    assert policy.crawl_delay("a") == 5.0


def test_str_with_byte_order_mark() -> None:
    assert parse("\ufeffUser-agent: *\nDisallow: /x\n").allowed("/x", "a") is False


@pytest.mark.parametrize(
    "encoding", ["utf-8", "iso-8859-1", "ascii", "windows-1252", None]
)
def test_byte_order_mark_under_any_charset(encoding: str | None) -> None:
    # D17
    for mark in (b"\xef\xbb\xbf", b"\xef\xbb", b"\xef"):
        policy = parse(mark + b"User-agent: *\nDisallow: /x\n", encoding=encoding)
        assert policy.allowed("/x", "a") is False
        codes = [note.code for note in policy.notes]
        assert codes == ["wrong-mark"] * (len(mark) < 3)


@pytest.mark.parametrize("first", ["\uff03", "\uffee", "\ufb01", "\ufefe"], ids=ascii)
def test_a_character_that_begins_as_a_mark_does_is_none(first: str) -> None:
    # D17
    body = f"{first} shop\nUser-agent: *\nDisallow: /\u00e9\n".encode()
    policy = parse(body, encoding="iso-8859-1")
    assert policy.allowed("/\u00e9", "a") is False
    assert policy.verdict("/\u00e9", "a").rule == Rule(False, "/\u00e9", 3)
    assert "wrong-mark" not in {note.code for note in policy.notes}


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("encoding", [None, "utf-8", "utf-16"])
def test_utf_16_with_byte_order_mark(codec: str, encoding: str | None) -> None:
    # D17
    body = "\ufeffUser-agent: *\nDisallow: /\u30c4\n".encode(codec)
    policy = parse(body, encoding=encoding)
    assert policy.allowed("/\u30c4", "a") is False
    assert policy.allowed("/x", "a") is True


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"], ids=["LE", "BE"])
@pytest.mark.parametrize("encoding", [None, "utf-8", "utf-16", "iso-8859-1"])
@pytest.mark.parametrize("line", [b"", b"# \0\n", b"\xef\xbb\xbf\n", b"# \xe9\n"])
def test_a_mark_of_utf_16_before_what_is_not(
    mark: bytes, encoding: str | None, line: bytes
) -> None:
    # D17
    body = mark + line + b"User-agent: *\nDisallow: /x\nDisallow: /\xe3\x83\x84\n"
    policy = parse(body, encoding=encoding)
    assert policy.allowed("/x", "a") is False
    assert policy.allowed("/%E3%83%84", "a") is False
    assert policy.allowed("/y", "a") is True
    assert reference.allowed(body, "/x", "a") is False


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_utf_16_cut_within_a_character_does_not_raise(codec: str) -> None:
    body = "\ufeffUser-agent: *\nDisallow: /x\n".encode(codec)
    for length in range(len(body)):
        parse(body[:length]).allowed("/x", "a")


@pytest.mark.parametrize(
    ("charset", "cut"),
    [
        ("utf-16", 1),
        ("utf-16-le", 1),
        ("utf-16-be", 1),
        ("shift_jis", 1),
    ],
)
def test_a_character_that_is_cut_at_the_end_undoes_no_rule(
    charset: str, cut: int
) -> None:
    body = "User-agent: *\nDisallow: /x\nDisallow: /\u30c4\n# \u30c4".encode(charset)[
        :-cut
    ]
    policy = parse(body, encoding=charset)
    for url in ("/x", "/\u30c4"):
        assert policy.allowed(url, "a") is False
    body = "\ufeffUser-agent: *\nDisallow: /x\n".encode("utf-16-be")[:-1]
    assert parse(body).allowed("/x", "a") is False


@pytest.mark.parametrize("order", ["le", "be"])
def test_d26_a_line_of_utf_16_that_is_cut_at_the_limit_is_not_used(order: str) -> None:
    line = "Disallow: /x\n" + "#" * 1000 + "\n"
    text = f"\ufeffUser-agent: *\n{line * 400}"
    assert len(text) * 2 > LIMIT
    for body in (text.encode(f"utf-16-{order}"), text[1:].encode(f"utf-16-{order}")):
        policy = parse(body, encoding=f"utf-16-{order}")
        assert policy.allowed("/x", "a") is False
        assert len(policy.groups[0].rules) > 200
        assert {rule.path for rule in policy.groups[0].rules} == {"/x"}


@pytest.mark.parametrize(
    ("encoding", "url"),
    [
        ("utf-8", "/caf%C3%A9"),
        ("UTF8", "/caf%C3%A9"),
        ("iso-8859-1", "/caf%C3%A9"),
        ("windows-1252", "/caf%C3%A9"),
        ("utf-16-le", "/caf%C3%A9"),
    ],
)
def test_charset_of_the_response(encoding: str, url: str) -> None:
    # 33
    body = "User-agent: *\nDisallow: /caf\u00e9\n".encode(encoding)
    policy = parse(body, encoding=encoding)
    assert policy.allowed(url, "a") is False
    assert policy.verdict(url, "a").rule == Rule(allow=False, path="/caf\u00e9", line=2)


@pytest.mark.parametrize(
    "encoding", ["iso-8859-1", "windows-1252", "us-ascii", "utf-16", "koi8-r", "big5"]
)
def test_d27_utf_8_under_another_charset(encoding: str) -> None:
    body = "User-agent: *\nDisallow: /caf\u00e9\n".encode()
    policy = parse(body, encoding=encoding)
    assert policy.allowed("/caf%C3%A9", "a") is False
    assert policy.verdict("/caf\u00e9", "a").rule == Rule(False, "/caf\u00e9", 2)


def test_d29_octets_that_are_not_utf_8() -> None:
    # 33, D29: as they are, and as ISO-8859-1
    body = (
        b"User-agent: *\nDisallow: /caf\xe9\nDisallow: /v3/\xf0$\nAllow: /*\xe8*.gif\n"
    )
    policy = parse(body)
    for url, expected in {
        "/caf%E9": False,
        "/caf%e9/x": False,
        "/caf%C3%A9": False,
        "/caf\u00e9": False,
        "/cafe": True,
        "/caf%C3": True,
        "/v3/%F0": False,
        "/v3/%C3%B0": False,
        "/v3/%F0x": True,
        "/caf%E9/%E8x.gif": True,
        "/caf%E9/%C3%A8x.gif": True,
        "/caf%E9/%E9x.gif": False,
    }.items():
        assert policy.allowed(url, "a") is expected, url
        assert policy.verdict(url, "a").allowed is expected, url
        assert reference.allowed(body, url, "a") is expected, url
    assert policy.verdict("/caf%E9", "a").rule == Rule(False, "/caf\u00e9", 2)
    assert policy.matching("/v3/%F0", "a") == (Rule(False, "/v3/\u00f0$", 3),)
    assert policy.groups[0].rules[0].path == "/caf\u00e9"


def test_d29_octets_that_are_not_utf_8_outlive_the_text() -> None:
    body = b"User-agent: *\nDisallow: /v3/\xf0\n"
    policy = parse(body)
    assert str(policy).encode("utf-8", "surrogateescape") == body
    for again in (parse(str(policy)), pickle.loads(pickle.dumps(policy))):
        assert again == policy
        assert again.allowed("/v3/%F0", "a") is False
        assert again.allowed("/v3/%C3%B0", "a") is False
    assert parse("User-agent: *\nDisallow: /v3/\u00f0\n") != policy


def test_d29_octets_that_are_not_utf_8_are_shown_as_iso_8859_1() -> None:
    policy = parse(
        b"User-agent: caf\xe9bot\nDisallow: /\xe9\n"
        b"Sitemap: https://example.com/\xe9.xml\nLicense: https://example.com/\xe9\n"
    )
    assert policy.allowed("/%E9", "caf\u00e9bot") is False
    assert policy.groups[0].tokens == ("caf\u00e9bot",)
    assert policy.sitemaps == ("https://example.com/\u00e9.xml",)
    (license_,) = policy.preferences("/", "caf\u00e9bot").licenses
    assert license_.url == "https://example.com/\u00e9"
    for note in policy.notes:
        note.message.encode()


@pytest.mark.parametrize(
    ("charset", "letter"),
    [("iso-8859-1", "\u00e9"), ("koi8-r", "\u0434"), ("shift_jis", "\u30c4")],
)
def test_d27_octets_in_a_charset_that_was_declared(charset: str, letter: str) -> None:
    # D27, D29: read in that charset, and as they are
    octets = letter.encode(charset)
    policy = parse(b"User-agent: *\nDisallow: /%s/\n" % octets, encoding=charset)
    rule = Rule(allow=False, path=f"/{letter}/", line=2)
    for url in (f"/{letter}/", f"/{octets.hex('%', -1).join(['%', ''])}/"):
        assert policy.verdict(url, "a").rule == rule
    assert policy.allowed("/x/", "a") is True
    again = pickle.loads(pickle.dumps(policy))
    assert again.allowed(f"/%{octets.hex('%')}/", "a") is False


def test_a_bad_octet_elsewhere_does_not_undo_a_rule() -> None:
    # Invariant: no bad octet turns a Disallow into an allow.
    body = b"# \xe9\nUser-agent: *\nDisallow: /ascii\nDisallow: /\xe3\x83\x84\n"
    policy = parse(body)
    assert policy.allowed("/ascii", "a") is False
    assert policy.allowed("/%E3%83%84", "a") is False
    assert reference.allowed(body, "/%E3%83%84", "a") is False


@pytest.mark.parametrize(
    "encoding",
    [
        "",
        " ",
        "nonsense",
        "utf-8; charset=utf-8",
        "\x00",
        "a" * 1000,
        "\u30c4",
        "../../etc",
        "utf-7",
        "utf-8-sig",
        "cp037",
        # text to text, octets to octets, or made to fail: no charsets of a text at all
        "rot13",
        "hex",
        "base64",
        "zlib",
        "bz2",
        "idna",
        "punycode",
        "undefined",
        "unicode_escape",
        "raw_unicode_escape",
        "mbcs",
    ],
)
def test_no_charset_makes_parse_raise(encoding: str) -> None:
    for body in (
        b"",
        b"User-agent: *\nDisallow: /x\n",
        bytes(range(256)) * 4,
        b"\\x \\u12 +A-\xff",
    ):
        parse(body, encoding=encoding).allowed("/x", "a")


@pytest.mark.parametrize(
    "encoding", ["", "nonsense", "hex", "zlib", "rot13", "undefined", "mbcs\x00"]
)
def test_what_is_no_charset_is_passed_over(encoding: str) -> None:
    body = "User-agent: *\nDisallow: /\u30c4\n".encode()
    assert parse(body, encoding=encoding).allowed("/%E3%83%84", "a") is False


def test_a_charset_that_does_not_fit_does_not_undo_rules() -> None:
    # US-ASCII is declared, UTF-8 is sent.
    body = "# \u30c4\nUser-agent: *\nDisallow: /x\n".encode()
    assert parse(body, encoding="us-ascii").allowed("/x", "a") is False


def test_every_octet_within_a_rule() -> None:
    # 36. Neither the line it stands in nor its neighbours may upset the others.
    for octet in range(256):
        policy = parse(
            b"User-agent: *\nDisallow: /x\nDisallow: /y%cz\nDisallow: /z\n" % octet
        )
        decided = [policy.allowed(url, "a") for url in ("/x", "/z", "/a")]
        assert decided == [False, False, True], hex(octet)


def test_every_octet_before_a_field() -> None:
    for octet in range(256):
        policy = parse(
            b"User-agent: *\nDisallow: /x\n%cSitemap: x\nDisallow: /z" % octet
        )
        decided = [policy.allowed(url, "a") for url in ("/x", "/z", "/a")]
        assert decided == [False, False, True], hex(octet)


def filled(size: int) -> bytes:
    """A comment line of `size` octets, its end of line included."""
    return b"#" * (size - 1) + b"\n"


HEAD = b"User-agent: *\nDisallow: /x\n"


def test_rules_within_500_kib_count() -> None:
    # 35: the least that RFC 9309 2.5 permits as a limit
    rule = b"Disallow: /y\n"
    body = HEAD + filled(500 * KIB - len(HEAD) - len(rule)) + rule
    assert len(body) == 500 * KIB
    assert parse(body).allowed("/y", "a") is False
    assert reference.allowed(body, "/y", "a") is False


def test_d26_a_whole_line_up_to_the_limit_counts() -> None:
    # 35, D26
    rule = b"Disallow: /y\n"
    body = HEAD + filled(LIMIT - len(HEAD) - len(rule)) + rule
    assert len(body) == LIMIT
    for more in (b"", b"Disallow: /z\n" * 1000):
        policy = parse(body + more)
        assert policy.allowed("/y", "a") is False
        assert policy.allowed("/z", "a") is True


def test_a_file_of_just_the_limit_is_not_cut() -> None:
    rule = b"Disallow: /y"
    body = HEAD + filled(LIMIT - len(HEAD) - len(rule)) + rule
    assert len(body) == LIMIT
    assert parse(body).allowed("/y", "a") is False


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"], ids=["LF", "CR", "CRLF"])
@pytest.mark.parametrize("kept", range(1, 16))
def test_d26_a_line_cut_at_the_limit_is_not_used(kept: int, end: bytes) -> None:
    # 35, D26. "Allow: /x/open" cut after "Allow: /x" would allow more than the site does.
    rule = b"Allow: /x/open/y"
    body = HEAD.replace(b"\n", end)
    body += filled(LIMIT - len(body) - kept).replace(b"\n", end)[
        -(LIMIT - len(body) - kept) :
    ]
    assert len(body) == LIMIT - kept
    body += rule + end
    assert parse(body).allowed("/x/open/y", "a") is False
    assert parse(body).allowed("/x", "a") is False
    assert reference.allowed(body, "/x/open/y", "a") is False


def test_a_disallow_cut_at_the_limit_is_not_used() -> None:
    # "Disallow: /" would close the whole site.
    body = HEAD + filled(LIMIT - len(HEAD) - len(b"Disallow: /")) + b"Disallow: /y\n"
    assert parse(body).allowed("/z", "a") is True


def test_a_user_agent_line_cut_at_the_limit_is_not_used() -> None:
    # The group "Foo", cut from "FooBar", is not Foo's; Foo keeps to the default group.
    body = (
        HEAD
        + filled(LIMIT - len(HEAD) - len(b"User-agent: Foo"))
        + b"User-agent: FooBar\n"
    )
    assert parse(body).allowed("/x", "Foo") is False


def test_what_comes_after_the_limit_has_no_say() -> None:
    body = (
        HEAD
        + filled(LIMIT - len(HEAD))
        + b"Allow: /x\nCrawl-delay: 5\nSitemap: https://a/\n"
    )
    policy = parse(body)
    assert policy.allowed("/x", "a") is False
    assert policy.crawl_delay("a") is None
    assert policy.sitemaps == ()


def test_a_character_cut_at_the_limit_does_not_change_the_encoding() -> None:
    # The octets before the limit are UTF-8; only the character at the limit is not whole.
    start = "User-agent: *\nDisallow: /\u30c4\n".encode()
    body = start + filled(LIMIT - len(start) - 4) + ("# " + "\u30c4" * 9).encode()
    assert body[:LIMIT].endswith(b"\xe3\x83")
    assert parse(body).allowed("/%E3%83%84", "a") is False


def test_one_line_longer_than_the_limit() -> None:
    assert parse(b"User-agent: *\nDisallow: /" + b"x" * LIMIT).groups[0].rules == ()


def test_d26_no_other_limit_on_lines() -> None:
    path = "/" + "x" * (400 * KIB)
    policy = parse(f"User-agent: *\nDisallow: {path}\n")
    assert policy.allowed(path, "a") is False
    assert policy.allowed(path[:-1], "a") is True


@pytest.mark.parametrize(
    "charset", ["utf-16", "utf-16-le", "utf-32-le", "cp037", "cp500"]
)
def test_33_a_charset_that_the_octets_cannot_be_meant_in_is_ignored(charset):
    body = b"User-agent: *\nDisallow: /x \n"
    assert not parse(body, encoding=charset).allowed("/x", "a")
    assert not parse(body + b"# \0\n", encoding=charset).allowed("/x", "a")
    assert not parse(body.decode().encode(charset), encoding=charset).allowed("/x", "a")


@pytest.mark.parametrize("letter", ["\u4e2d", "\U0001f916", "\ud83e\udd16", "\udcff"])
def test_a_wide_letter_does_not_widen_all_others(letter: str) -> None:
    rules = "".join(f"Disallow: /{n}\n" for n in range(1000))
    policy = parse(f"User-agent: *\n# {letter}\n{rules}")
    narrow = parse(f"User-agent: *\n# x\n{rules}")
    assert policy.size_bytes() < narrow.size_bytes() + 100
    assert str(policy) == f"User-agent: *\n# {letter}\n{rules}"
    assert policy.verdict("/7", "bot").rule == (False, "/7", 10)
