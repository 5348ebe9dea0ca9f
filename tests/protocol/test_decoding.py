"""From octets to text: byte order marks, charsets, octets that are not UTF-8, the limit of size."""

from __future__ import annotations

import pickle

import pytest

from scrapy_rep.protocol import Rule, parse
from scrapy_rep.protocol.decoding import MAX_SIZE as LIMIT

from . import reference

KIB = 1024
BODY = b"User-agent: *\nDisallow: /x\n"
TSU = "Disallow: /\u30c4\n".encode()
MARK = b"\xef\xbb\xbf"

HIDDEN = [
    *("\u00a0", "\u200b", "\u200e", "\ufeff", "\u3000", "\u2003", "\u2028", "\u00ad"),
    *("\u0085", "\u202a", "\u2060", "\x01", "\x7f", "\u00a0 \u200b\t\ufeff"),
]


def refuses(body: bytes, *urls: str, encoding: str | None = None) -> bool:
    """Whether the parser, and the slow one where it knows the encoding, refuse all *urls*."""
    answers = [parse(body, encoding=encoding).allowed(url, "a") for url in urls]
    if encoding is None:
        answers += [reference.allowed(body, url, "a") for url in urls]
    return not any(answers)


def codes(body: bytes, encoding: str | None = None) -> set[str]:
    return {note.code for note in parse(body, encoding=encoding).notes}


@pytest.mark.parametrize("hidden", HIDDEN, ids=ascii)
def test_d28_what_cannot_be_seen_is_stripped_from_both_ends(hidden):
    for robots in (
        f"User-agent: *{hidden}\nDisallow: /x\n",
        f"User-agent:{hidden}*\nDisallow:{hidden}/x{hidden}\n",
        f"{hidden}User-agent: *\n{hidden}Disallow: /x\n",
        f"User-agent{hidden}: *\nDisallow{hidden}: /x\n",
        f"User-agent: *{hidden}# all\nDisallow: /x{hidden}# that\n",
        f"{hidden}User-agent{hidden}:{hidden}*{hidden}\n{hidden}Disalow{hidden}:/x\n",
    ):
        assert refuses(robots.encode(), "/x")
        policy = parse(robots.encode())
        assert policy.allowed("/y", "a")
        assert policy.verdict("/x", "a").rule == Rule(False, "/x", 2)


@pytest.mark.parametrize("encoding", [None, "iso-8859-1", "utf-8"])
def test_d28_a_no_break_space_of_iso_8859_1(encoding):
    body = b"\xa0User-agent: *\xa0\nDisallow:\xa0/x\xa0\n"
    assert refuses(body, "/x", encoding=encoding)
    assert codes(body, encoding) == {"not-utf8", "hidden-character"}
    for each, url in ((body, "/y"), (BODY.replace(b"x", b"x\xae"), "/x")):
        assert parse(each, encoding=encoding).allowed(url, "a")


def test_d28_what_cannot_be_seen_counts_within_a_value():
    policy = parse("User-agent: *\nDisallow: /a\u00a0b\n")
    assert not policy.allowed("/a%C2%A0b", "c")
    assert policy.allowed("/ab", "c")
    assert policy.notes == ()


def test_d28_what_cannot_be_seen_around_other_records_and_d13_no_colon():
    policy = parse(
        "\u200bUser-agent: *\n\ufeffCrawl-delay\u00a05\u00a0\nCrawl-delay 6\n\u00a0Disallow:\n"
        "\u3000Sitemap: https://example.com/s.xml\u200e\nSitemap https://example.com:80/\n"
        "\u200bContent-Usage: train-ai=n\u00a0\n"
    )
    assert policy.crawl_delay("a") == 6.0
    assert policy.sitemaps == ("https://example.com/s.xml", "https://example.com:80/")
    assert policy.preferences("/", "a").of("train-ai").answer == "no"


# 33, D17, D27, D29: byte order marks, and charsets

CODECS = ["utf-8", "iso-8859-1", "ascii", "windows-1252", None]
BEFORE_UTF_16 = [None, "utf-8", "utf-16", "iso-8859-1"]
NO_CHARSETS = [
    *("", " ", "nonsense", "utf-8; charset=utf-8", "\x00", "a" * 1000, "\u30c4", "../../etc"),
    # text to text, octets to octets, or made to fail: no charsets of a text at all
    *("utf-7", "utf-8-sig", "cp037", "rot13", "hex", "base64", "zlib", "bz2", "idna", "punycode"),
    *("undefined", "unicode_escape", "raw_unicode_escape", "mbcs", "mbcs\x00", "us-ascii"),
]  # fmt: skip
UNDOES_NO_RULE = {
    **{f"D17-{n}-octets-of-a-mark": (MARK[:n], CODECS) for n in (1, 2, 3)},
    **{
        f"D17-{mark.hex()}-before-{line!r}": (mark + line, BEFORE_UTF_16)
        for mark in (b"\xff\xfe", b"\xfe\xff")
        for line in (b"", b"# \0\n", b"\xef\xbb\xbf\n", b"# \xe9\n")
    },
    "33-no-charset": (b"", NO_CHARSETS),
    "33-not-this-charset": (
        b"# \0\n",
        ["utf-16", "utf-16-le", "utf-32-le", "cp037", "cp500"],
    ),
}


@pytest.mark.invariant1
@pytest.mark.parametrize(
    ("start", "encodings"), UNDOES_NO_RULE.values(), ids=UNDOES_NO_RULE
)
def test_neither_a_mark_nor_a_charset_undoes_a_rule(start, encodings):
    for encoding in encodings:
        body = start + BODY + TSU
        assert refuses(body, "/x", "/%E3%83%84", encoding=encoding), encoding
        assert refuses(start + BODY, "/x", encoding=encoding), encoding
        assert parse(body, encoding=encoding).allowed("/y", "a"), encoding
        for body in (b"", bytes(range(256)) * 4, b"\\x \\u12 +A-\xff"):
            parse(body, encoding=encoding).allowed("/x", "a")


@pytest.mark.parametrize("mark", ["\ufeff", "\u00ef\u00bb\u00bf", "\ufeff\ufeff\u00ef\u00bb\u00bf"])  # fmt: skip
def test_d17_marks_of_a_str(mark):
    policy = parse(f"{mark}User-agent: *\nDisallow: /x\n{mark}Disallow: /y")
    assert str(policy).startswith("User-agent")
    assert not policy.allowed("/x", "a")


@pytest.mark.parametrize("first", ["\uff03", "\uffee", "\ufb01", "\ufefe"], ids=ascii)
def test_d17_a_character_that_begins_as_a_mark_does_is_none(first):
    body = f"{first} shop\nUser-agent: *\nDisallow: /\u00e9\n".encode()
    policy = parse(body, encoding="iso-8859-1")
    assert policy.verdict("/\u00e9", "a").rule == Rule(False, "/\u00e9", 3)
    assert "wrong-mark" not in codes(body, "iso-8859-1")


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("encoding", [None, "utf-8", "utf-16", "utf-32", "cp037"])
@pytest.mark.parametrize("mark", ["\ufeff", "", "# \u00e9\n"], ids=ascii)
def test_d17_utf_16_and_utf_32(codec, encoding, mark):
    body = f"{mark}User-agent: *\nDisallow: /\u30c4\n".encode(codec)
    assert refuses(body, "/\u30c4", encoding=encoding)
    assert parse(body, encoding=encoding).allowed("/x", "a")
    for length in range(len(body)):
        parse(body[:length], encoding=encoding).allowed("/x", "a")


@pytest.mark.parametrize(
    "mark", [b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"\0\0\xfe\xff"], ids=repr
)
@pytest.mark.parametrize("encoding", [None, "utf-8", "utf-16", "iso-8859-1"])
@pytest.mark.parametrize("line", [b"", b"# \0\n", b"\xef\xbb\xbf\n", b"# \xe9\n"])
def test_d17_a_mark_of_utf_16_or_utf_32_before_what_is_not(mark, encoding, line):
    body = mark + line + BODY + b"Disallow: /\xe3\x83\x84\n"
    assert refuses(body, "/x", "/%E3%83%84", encoding=encoding)
    assert parse(body, encoding=encoding).allowed("/y", "a")


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "utf-16-be", "shift_jis"])
def test_a_character_that_is_cut_at_the_end_undoes_no_rule(charset):
    text = "User-agent: *\nDisallow: /x\nDisallow: /\u30c4\n# \u30c4"
    assert refuses(text.encode(charset)[:-1], "/x", "/\u30c4", encoding=charset)
    assert refuses(f"\ufeff{text}".encode("utf-16-be")[:-1], "/x")


@pytest.mark.parametrize(
    ("charset", "written", "letter"),
    [
        *((name, name, "\u00e9") for name in ("UTF8", "iso-8859-1", "windows-1252", "utf-16-le", "cp037")),
        ("koi8-r", "koi8-r", "\u0434"), ("shift_jis", "shift_jis", "\u30c4"),
        # UTF-8 under another charset
        *((name, "utf-8", "\u00e9") for name in ("iso-8859-1", "us-ascii", "utf-16", "koi8-r", "big5")),
    ],
)  # fmt: skip
def test_33_d27_the_charset_of_the_response(charset, written, letter):
    """Octets of rules are read in it, and as they are."""
    octets = letter.encode(written)
    body = f"User-agent: *\nDisallow: /{letter}/\n".encode(written)
    policy = parse(body, encoding=charset)
    urls = [f"/{letter}/", f"/%{letter.encode().hex('%')}/"]
    if written not in {"utf-16-le", "cp037"}:  # where "/" is another octet
        urls.append(f"/%{octets.hex('%')}/")
    for again in (policy, pickle.loads(pickle.dumps(policy))):
        for url in urls:
            assert again.verdict(url, "a").rule == Rule(False, f"/{letter}/", 2)
        assert again.allowed("/x/", "a")


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "utf-32-le", "cp037", "cp500"])  # fmt: skip
def test_33_a_charset_that_the_octets_are_meant_in(charset):
    assert refuses(BODY.decode().encode(charset), "/x", encoding=charset)
    assert codes(BODY + b"# \0\n", charset) == set()


LATIN = b"User-agent: *\nDisallow: /caf\xe9\nDisallow: /v3/\xf0$\nAllow: /*\xe8*.gif\n"


def test_d29_octets_that_are_not_utf_8_outlive_the_text_and_are_shown_as_latin_1():
    policy = parse(LATIN)
    assert policy.verdict("/caf%E9", "a").rule == Rule(False, "/caf\u00e9", 2)
    assert policy.matching("/v3/%F0", "a") == (Rule(False, "/v3/\u00f0$", 3),)
    assert str(policy).encode("utf-8", "surrogateescape") == LATIN
    for again in (parse(str(policy)), pickle.loads(pickle.dumps(policy))):
        assert again == policy
        assert not again.allowed("/v3/%F0", "a")
        assert not again.allowed("/v3/%C3%B0", "a")
    assert parse(LATIN.decode("latin-1")) != policy
    policy = parse(
        b"User-agent: caf\xe9bot\nDisallow: /\xe9\n"
        b"Sitemap: https://example.com/\xe9.xml\nLicense: https://example.com/\xe9\n"
    )
    assert not policy.allowed("/%E9", "caf\u00e9bot")
    assert policy.groups[0].tokens == ("caf\u00e9bot",)
    assert policy.sitemaps == ("https://example.com/\u00e9.xml",)
    (license_,) = policy.preferences("/", "caf\u00e9bot").licenses
    assert license_.url == "https://example.com/\u00e9"
    for note in policy.notes:
        note.message.encode()


@pytest.mark.invariant1
def test_36_an_octet_upsets_no_other_line():
    body = b"User-agent: *\nDisallow: /x\nDisallow: /y%cz\n%cSitemap: x\nDisallow: /z"
    for octet in range(256):
        policy = parse(body % (octet, octet))
        answers = [policy.allowed(url, "a") for url in ("/x", "/z", "/a")]
        assert answers == [False, False, True], octet
        assert refuses(b"# %c\n" % octet + BODY + TSU, "/%E3%83%84"), octet


# 35, D26: RFC 9309 2.5 permits a limit of 500 KiB or more


def filled(size: int, after: bytes = BODY) -> bytes:
    """BODY and a comment, in *size* octets."""
    return after + b"#" * (size - len(after) - 1) + b"\n"


@pytest.mark.parametrize("size", [500 * KIB, LIMIT])
@pytest.mark.parametrize("more", [b"", b"\n", b"\nDisallow: /z\n" * 1000])
def test_d26_a_whole_line_up_to_the_limit_counts(size, more):
    rule = b"Disallow: /y"
    body = filled(size - len(rule) - (more != b"")) + rule + more
    assert len(body.removesuffix(more)) + (more != b"") == size
    assert refuses(body, "/y")
    for policy in (parse(body), parse(body.decode())):
        assert not policy.allowed("/y", "a")
        assert size < LIMIT or policy.allowed("/z", "a")


@pytest.mark.invariant1
@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"], ids=["LF", "CR", "CRLF"])
@pytest.mark.parametrize("kept", range(1, 16))
def test_d26_a_line_cut_at_the_limit_is_not_used(kept, end):
    # "Allow: /x/open" cut after "Allow: /x" would allow more than the site does.
    body = filled(LIMIT - kept).replace(b"\n", end)[: LIMIT - kept - len(end)] + end
    body += b"Allow: /x/open/y" + end
    assert refuses(body, "/x/open/y", "/x")
    assert not parse(body.decode()).allowed("/x/open/y", "a")


@pytest.mark.parametrize(
    ("cut", "line", "agent", "url", "expected"),
    [
        (b"Disallow: /", b"Disallow: /y\n", "a", "/z", True),  # would close the whole site
        (b"User-agent: Foo", b"User-agent: FooBar\n", "Foo", "/x", False),  # is not Foo's
        (b"", b"Allow: /x\n", "a", "/x", False),
    ],
)  # fmt: skip
def test_d26_what_the_limit_would_make_of_a_line(cut, line, agent, url, expected):
    beyond = b"Crawl-delay: 5\nSitemap: https://a/\n"
    policy = parse(filled(LIMIT - len(cut)) + line + beyond)
    assert policy.allowed(url, agent) is expected
    assert (policy.crawl_delay("a"), policy.sitemaps) == (None, ())


def test_a_character_cut_at_the_limit_does_not_change_the_encoding():
    # The octets before the limit are UTF-8; only the character at the limit is not whole.
    body = filled(LIMIT - 4, BODY + TSU) + ("# " + "\u30c4" * 9).encode()
    assert body[:LIMIT].endswith(b"\xe3\x83")
    assert not parse(body).allowed("/%E3%83%84", "a")


@pytest.mark.parametrize("order", ["le", "be"])
def test_d26_a_line_of_utf_16_that_is_cut_at_the_limit_is_not_used(order):
    line = "Disallow: /x\n" + "#" * 1000 + "\n"
    text = f"\ufeffUser-agent: *\n{line * 400}"
    assert len(text) * 2 > LIMIT
    for start in (0, 1):  # with the mark, and without
        body = text[start:].encode(f"utf-16-{order}")
        (group,) = parse(body, encoding=f"utf-16-{order}").groups
        assert len(group.rules) > 200
        assert {rule.path for rule in group.rules} == {"/x"}


def test_d26_no_other_limit_on_lines():
    path = "/" + "x" * (400 * KIB)
    policy = parse(f"User-agent: *\nDisallow: {path}\n")
    assert not policy.allowed(path, "a")
    assert policy.allowed(path[:-1], "a")
    assert parse(b"User-agent: *\nDisallow: /" + b"x" * LIMIT).groups[0].rules == ()


@pytest.mark.parametrize("letter", ["\u4e2d", "\U0001f916", "\udcff"])
def test_a_wide_letter_does_not_widen_all_others(letter):
    rules = "".join(f"Disallow: /{n}\n" for n in range(1000))
    policy = parse(f"User-agent: *\n# {letter}\n{rules}")
    narrow = parse(f"User-agent: *\n# x\n{rules}")
    assert policy.size_bytes() < narrow.size_bytes() + 100
    assert str(policy) == f"User-agent: *\n# {letter}\n{rules}"
    assert policy.verdict("/7", "bot").rule == (False, "/7", 10)
