"""Which URLs a rule matches, and which rule decides.

The numbers that begin an id are those of the project's checklist of REP statements, see
tests/README.rst; `D` and a number is a row of its table of decisions where RFC 9309 is silent.
"""

from __future__ import annotations

import random

import pytest

from scrapy_rep.protocol import Rule, parse

from . import reference

# One rule on its own, and whether it matches a URL (a path, which every origin shares).
MATCHES = [
    # RFC 9309 2.2.2: from the first octet, case-sensitive, to the end of the rule
    ("15-prefix", "/fish", "/fish", True),
    ("15-prefix-of-a-name", "/fish", "/fish.html", True),
    ("15-prefix-of-a-folder", "/fish", "/fish/salmon.html", True),
    ("15-28-prefix-before-a-query", "/fish", "/fish?id=1", True),
    ("15-case", "/fish", "/Fish", False),
    ("15-first-octet", "/fish", "/catfish", False),
    ("15-not-in-the-query", "/fish", "/?id=/fish", False),
    ("15-longer-than-the-url", "/fish", "/fis", False),
    ("15-folder", "/fish/", "/fish/", True),
    ("15-folder-without-slash", "/fish/", "/fish", False),
    ("15-folder-is-no-file", "/fish/", "/fish.html", False),
    ("15-all", "/", "/anything?at#all", True),
    # 2.2.3: special characters
    ("21-star-none", "/a*b", "/ab", True),
    ("21-star-one", "/a*b", "/axb", True),
    ("21-star-many", "/a*b", "/a/x/y/b/z", True),
    ("21-star-missing-end", "/a*b", "/axc", False),
    ("21-star-over-the-query", "/a*b", "/a?b", True),
    ("21-this-exactly", "/this/*/exactly", "/this/path/exactly", True),
    ("21-this-exactly-over-slashes", "/this/*/exactly", "/this/a/b/exactly", True),
    ("21-this-exactly-nothing-between", "/this/*/exactly", "/this//exactly", True),
    ("21-this-exactly-one-slash", "/this/*/exactly", "/this/exactly", False),
    # 2.2.2: what no URI may hold counts as its escape, of which a part may be a letter
    ("25-21-escape-of-the-url", "/a*2B", "/a b", False),
    ("25-21-digits-of-an-escape", "/a*20b", "/a b", True),
    ("25-21-digits-of-an-escape-at-the-end", "/a*0$", "/a ", True),
    ("25-21-letter-of-an-escape", "/*C3", "/\u00e9", True),
    ("25-21-letter-of-an-escape-of-ascii", "/*x*Cy", "/x|y", True),
    ("25-21-no-letter-of-an-escape", "/*x*cy", "/x|y", False),
    ("25-escape-of-a-bar", "/x%7C", "/x|y", True),
    ("25-bar", "/x|", "/x%7cy", True),
    ("25-21-bar-behind-a-star", "/*|y", "/x|y", True),
    ("25-21-bar-is-no-matter", "/*y$", "/x|y", True),
    ("21-star-first", "*.gif", "/a/b.gif?c", True),
    ("21-star-first-folder", "*/b", "/a/b", True),
    ("21-star-first-matches-the-slash-too", "*", "/", True),
    ("21-stars-in-order", "/*b*a", "/xaxb", False),
    ("21-stars-in-order-met", "/*b*a", "/xbxa", True),
    ("21-two-stars-are-one", "/a**b", "/ab", True),
    ("21-stars-may-not-overlap", "/*aa*aa$", "/aaa", False),
    ("21-stars-side-by-side", "/*aa*aa$", "/aaaa", True),
    ("16-21-D16-end", "/this/path/exactly$", "/this/path/exactly", True),
    ("16-21-D16-end-more", "/this/path/exactly$", "/this/path/exactly/", False),
    ("21-28-D16-end-query", "/this/path/exactly$", "/this/path/exactly?x", False),
    ("21-28-D16-end-empty-query", "/this/path/exactly$", "/this/path/exactly?", False),
    ("21-D16-end-is-not-the-dollar", "/exactly$", "/exactly$", False),
    ("21-D16-dollar-within", "/a$b", "/a$b", True),
    ("21-D16-dollar-within-is-no-end", "/a$b", "/a", False),
    ("21-D16-two-dollars", "/a$$", "/a$", True),
    ("21-D16-two-dollars-more", "/a$$", "/a$x", False),
    ("21-D16-two-dollars-less", "/a$$", "/a", False),
    ("21-D16-dollar-before-a-star", "/a$*", "/a$b", True),
    ("21-D16-dollar-before-a-star-is-no-end", "/a$*", "/a", False),
    ("21-star-then-end", "/a*$", "/a/b/c", True),
    ("21-end-after-a-repeat", "/*.php$", "/a.php.php", True),
    ("21-comment", "/a#b", "/a", True),
    ("21-comment-after-space", "/a #b", "/a", True),
    ("21-no-other-special-characters", "/a.c", "/abc", False),
    ("21-brackets-are-no-classes", "/[ab]", "/a", False),
    ("21-brackets-are-themselves", "/[ab]", "/[ab]", True),
    ("21-plus-is-itself", "/a+b", "/aab", False),
    ("21-backslash-is-no-escape", r"/a\*c", "/abc", False),
    ("21-parentheses", "/(a|b)", "/a", False),
    ("22-trailing-star", "/fish*", "/fish", True),
    ("22-trailing-star-more", "/fish*", "/fish/salmon", True),
    ("22-trailing-star-first-octet", "/fish*", "/catfish", False),
    ("23-root-only", "/$", "/", True),
    ("23-root-only-page", "/$", "/page", False),
    ("23-root-only-query", "/$", "/?a", False),
    ("23-php", "/*.php", "/index.php?a", True),
    ("23-php-end", "/*.php$", "/index.php", True),
    ("23-php-end-query", "/*.php$", "/index.php?a", False),
    ("23-php-end-slash", "/*.php$", "/index.php/", False),
    ("23-php-end-case", "/*.php$", "/index.PHP", False),
    # 2.2.2: both sides in one encoding. The rows of its table
    ("25-table-1", "/foo/bar?baz=quz", "/foo/bar?baz=quz", True),
    (
        "25-D7-table-2",
        "/foo/bar?baz=https://foo.bar",
        "/foo/bar?baz=https://foo.bar",
        True,
    ),
    (
        "25-D7-table-2-url",
        "/foo/bar?baz=https://foo.bar",
        "/foo/bar?baz=https%3A%2F%2Ffoo.bar",
        True,
    ),
    (
        "25-D7-table-2-rule",
        "/foo/bar?baz=https%3A%2F%2Ffoo.bar",
        "/foo/bar?baz=https://foo.bar",
        True,
    ),
    ("25-D7-table-2-both", "/f?b=https%3A%2F%2Fa", "/f?b=https%3a%2f%2fa", True),
    ("25-D5-table-3", "/foo/bar/\u30c4", "/foo/bar/%E3%83%84", True),
    ("25-D5-table-3-both-raw", "/foo/bar/\u30c4", "/foo/bar/\u30c4", True),
    ("25-D5-table-4", "/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84", True),
    ("25-D5-table-4-raw-url", "/foo/bar/%E3%83%84", "/foo/bar/\u30c4", True),
    ("26-D5-table-5", "/foo/bar/%62%61%7A", "/foo/bar/baz", True),
    ("26-D5-table-5-other-way", "/foo/bar/baz", "/foo/bar/%62%61%7A", True),
    ("26-D5-table-5-both", "/foo/bar/%62%61%7A", "/foo/bar/%62%61%7a", True),
    ("25-D5-non-ascii-differs", "/foo/bar/\u30c4", "/foo/bar/\u30c3", False),
    ("25-D5-hex-case-in-the-rule", "/%e3%83%84", "/%E3%83%84", True),
    ("25-D5-hex-case-in-the-url", "/%E3%83%84", "/%e3%83%84", True),
    ("25-D5-hex-case-is-not-letter-case", "/%41", "/a", False),
    ("25-D5-beyond-the-first-plane", "/\U0001f41f", "/%F0%9F%90%9F", True),
    ("25-D5-prefix-within-a-character", "/%E3%83", "/\u30c4", True),
    ("25-D5-in-the-query", "/?q=\u00e9", "/?q=%C3%A9", True),
    ("25-D5-wildcard-and-non-ascii", "/*\u00e9$", "/caf%c3%a9", True),
    ("26-D5-tilde", "/%7Ejoe", "/~joe", True),
    ("26-D5-tilde-other-way", "/~joe", "/%7ejoe", True),
    ("26-D5-every-unreserved", "/%2D%2E%5F%7E%30%7A", "/-._~0z", True),
    ("26-decoded-once", "/%2562", "/b", False),
    ("26-decoded-once-is-itself", "/%2562", "/%2562", True),
    ("26-D5-unreserved-in-a-wildcard-rule", "/*.%70hp$", "/index.php", True),
    ("25-D6-slash", "/foo%2Fbar", "/foo/bar", False),
    ("25-D6-slash-other-way", "/foo/bar", "/foo%2Fbar", False),
    ("25-D6-slash-itself", "/foo%2fbar", "/foo%2Fbar", True),
    ("25-D6-question-mark", "/a%3Fb", "/a?b", False),
    ("25-D6-question-mark-other-way", "/a?b", "/a%3Fb", False),
    ("25-D6-question-mark-itself", "/a%3Fb", "/a%3fb", True),
    ("25-D6-hash-itself", "/a%23b", "/a%23b", True),
    ("25-D6-hash-and-the-fragment", "/a%23b", "/a#b", False),
    ("25-D6-ampersand", "/a?b%26c", "/a?b&c", False),
    ("25-D6-ampersand-other-way", "/a?b&c", "/a?b%26c", False),
    ("25-D6-equals-sign", "/a?b=c", "/a?b%3Dc", False),
    ("25-D6-equals-sign-other-way", "/a?b%3Dc", "/a?b=c", False),
    ("25-D6-hash-in-the-query", "/a?b%23c", "/a?b%23c", True),
    # What separates nothing is one with its escape, in both, on both sides
    ("25-D6-special-page", "/wiki/Special%3ASearch", "/wiki/Special:Search?x", True),
    ("25-D6-special-page-other-way", "/wiki/Special:", "/wiki/Special%3ASearch", True),
    ("25-D6-ampersand-in-the-path", "/a%26b", "/a&b", True),
    ("25-D6-equals-sign-in-the-path", "/a=b", "/a%3Db", True),
    ("25-D6-question-mark-in-the-query", "/a?b%3Fc", "/a?b?c", True),
    ("25-D6-plus-is-no-space", "/a?b+c", "/a?b%20c", False),
    (
        "25-D6-every-reserved-in-the-path",
        "/%3A%5B%5D%40%21%24%26%27%28%29%2A%2B%2C%3B%3D",
        "/:[]@!$&'()*+,;=",
        True,
    ),
    (
        "25-D6-every-reserved-in-the-query",
        "/?%3a%2f%3f%5b%5d%40%21%24%27%28%29%2a%2b%2c%3b",
        "/?:/?[]@!$'()*+,;",
        True,
    ),
    (
        "25-D6-every-reserved-in-the-query-other-way",
        "/?:/?[]@!'()+,;",
        "/?%3a%2f%3f%5b%5d%40%21%27%28%29%2b%2c%3b",
        True,
    ),
    # The wildcard takes the question mark: what follows it is compared as a query
    ("25-D7-raw-behind-a-wildcard", "/*u=https://", "/go?u=https://a", True),
    ("25-D7-raw-behind-a-wildcard-url", "/*u=https://", "/go?u=https%3A%2F%2Fa", True),
    (
        "25-D7-escaped-behind-a-wildcard",
        "/*u=https%3A%2F%2F",
        "/go?u=https%3A%2F%2Fa",
        True,
    ),
    (
        "25-D7-escaped-behind-a-wildcard-url",
        "/*u=https%3A%2F%2F",
        "/go?u=https://a",
        True,
    ),
    ("25-D6-ampersand-behind-a-wildcard-path", "/*a%26b", "/xa&b", True),
    ("25-D6-ampersand-behind-a-wildcard-query", "/*a%26b", "/x?a&b", False),
    ("25-D6-ampersand-behind-a-wildcard-query-itself", "/*a%26b", "/x?a%26b", True),
    ("25-D6-raw-ampersand-behind-a-wildcard-path", "/*a&b", "/xa%26b", True),
    ("25-D6-raw-ampersand-behind-a-wildcard-query", "/*a&b", "/x?a%26b", False),
    ("25-D6-both-behind-a-wildcard", "/*a&b%26c", "/x?a&b%26c", True),
    ("25-D6-both-behind-a-wildcard-differ", "/*a&b%26c", "/x?a&b&c", False),
    ("25-D6-both-behind-a-wildcard-path", "/*a&b%26c", "/xa%26b&c", True),
    (
        "25-D6-escaped-behind-a-wildcard-path",
        "/*u=https%3A%2F%2F",
        "/u=https://a",
        False,
    ),
    ("25-D6-raw-behind-a-wildcard-path", "/*u=https://", "/u=https%3A%2F%2Fa", False),
    # 2.2.3: an escaped special character is an ordinary one
    ("27-D8-star", "/path/file-with-a-%2A.html", "/path/file-with-a-*.html", True),
    (
        "27-D8-star-escaped-in-both",
        "/path/file-with-a-%2A.html",
        "/path/file-with-a-%2a.html",
        True,
    ),
    (
        "27-D8-star-is-no-wildcard",
        "/path/file-with-a-%2A.html",
        "/path/file-with-a-x.html",
        False,
    ),
    ("27-D8-dollar", "/path/foo-%24", "/path/foo-$", True),
    ("27-D8-dollar-escaped-in-both", "/path/foo-%24", "/path/foo-%24", True),
    ("27-D8-dollar-is-no-end", "/path/foo-%24", "/path/foo-$x", True),
    ("27-D8-dollar-must-be-there", "/path/foo-%24", "/path/foo-", False),
    ("27-D8-dollar-then-end", "/a%24$", "/a$", True),
    ("27-D8-dollar-then-end-more", "/a%24$", "/a$b", False),
    ("27-D8-dollar-within-and-its-escape", "/a$b", "/a%24b", True),
    ("27-D8-star-beside-a-wildcard", "/%2A*b", "/*xb", True),
    ("27-D8-star-beside-a-wildcard-missing", "/%2A*b", "/xb", False),
    ("27-D8-wildcard-over-a-star", "/a*b", "/a*b", True),
    ("25-D9-malformed-escape", "/a%zz", "/a%zz", True),
    ("25-D9-malformed-escape-differs", "/a%zz", "/azz", False),
    ("25-D9-lone-percent", "/100%", "/100%", True),
    ("25-D9-lone-percent-before-more", "/100%/a", "/100%/a", True),
    ("25-D9-short-escape", "/a%4", "/a%4", True),
    ("25-D9-percent-before-an-escape", "/%%41", "/%A", True),
    ("25-D10-space", "/a b", "/a%20b", True),
    ("25-D10-escaped-space", "/a%20b", "/a b", True),
    ("25-D10-both-raw", "/a b", "/a b", True),
    ("25-D10-space-in-the-query", "/a?b c", "/a?b%20c", True),
    ("25-D9-lone-percent-is-its-escape", "/100%/a", "/100%25/a", True),
    ("25-D9-lone-percent-is-its-escape-other-way", "/100%25/a", "/100%/a", True),
    ("25-D9-malformed-escape-is-literal", "/a%zz", "/a%25zz", True),
    ("25-D9-lone-percent-at-the-end-of-the-url", "/*%$", "/a%25", True),
    ("25-D9-lone-percent-and-an-escape", "/*%$", "/a%20", False),
    # Octets are compared, not characters: a rule may end, or a wildcard stop, within an escape
    ("25-D9-any-escape-in-the-query", "/*%", "/go?u=http%3A", True),
    ("25-D9-any-escape-in-the-query-decoded", "/*%", "/go?u=http:", True),
    ("25-D9-cut-before-a-wildcard", "/*URL%*", "/go?URL%3A", True),
    ("25-D9-cut-before-a-wildcard-decoded", "/*URL%*", "/go?URL:x", True),
    ("25-D9-cut-before-a-wildcard-none-there", "/*URL%*", "/go?URLx", False),
    ("25-D9-cut-in-the-middle", "/*URL%*x$", "/go?URL%3Ax", True),
    ("25-D9-cut-in-the-middle-other-end", "/*URL%*x$", "/go?URL%3Ay", False),
    ("25-D9-half-an-escape-of-a-colon", "/a%3", "/a:b", True),
    ("25-D9-half-an-escape-of-another", "/a%2", "/a:b", False),
    ("25-D9-half-an-escape-in-lower-case", "/a%c", "/a\u00e9", True),
    ("25-D9-half-an-escape-is-literal-too", "/a%4", "/a%254", True),
    ("25-D9-half-an-escape-before-a-question-mark", "/a%2?b", "/a%252?b", True),
    ("25-D9-letters-of-an-escape-behind-a-wildcard", "/*3Ab", "/x:b", True),
    ("25-D9-letters-of-an-escape-behind-a-wildcard-escaped", "/*3Ab", "/x%3ab", True),
    ("25-D9-letters-of-an-escape-behind-a-wildcard-raw", "/*3Ab", "/x3Ab", True),
    ("25-D9-letters-and-a-separator", "/*Aa=b", "/x?:a=b", True),
    ("25-D9-letters-and-a-separator-in-the-path", "/*Aa=b", "/x:a=b", True),
    ("25-D9-letters-and-a-separator-escaped", "/*Aa=b", "/x?:a%3Db", False),
    ("25-D9-half-an-escape", "/a%2", "/a%2Fb", True),
    ("25-D9-half-an-escape-of-a-space", "/a%2", "/a%20b", True),
    ("25-D9-percent-and-any-escape", "/a%", "/a%2Fb", True),
    ("25-D9-percent-and-an-escaped-space", "/a%", "/a%20b", True),
    ("25-D9-any-escape-of-non-ascii", "/*%", "/caf%C3%A9", True),
    ("25-D9-any-escape", "/*%", "/a%20b", True),
    ("25-D9-any-escape-none-there", "/*%", "/a", False),
    # What is no path pattern matches nothing
    ("D20-no-slash", "fish", "/fish", False),
    ("D20-no-slash-dot", ".html", "/a.html", False),
    ("D20-no-slash-dollar", "$", "/", False),
    ("D20-no-slash-question-mark", "?a", "/?a", False),
    ("D20-no-slash-escaped", "%2Ffish", "/fish", False),
    # The URL as given
    ("28-query", "/a?b", "/a?b=c", True),
    ("28-query-order", "/a?b&c", "/a?c&b", False),
    ("28-query-with-star", "/*?*id=", "/a?x=1&id=2", True),
    ("28-fragment", "/a#b", "/a#c", True),
    ("28-fragment-is-dropped", "/a$", "/a#b", True),
    ("28-fragment-with-question-mark", "/a?", "/a#b?c", False),
    ("28-hash-bang", "/*!", "/#!a", False),
    ("D23-no-path", "/$", "", True),
    ("D23-no-path-query", "/?x", "?x", True),
    ("D23-no-path-query-root", "/$", "?x", False),
    ("D23-no-path-fragment", "/$", "#x", True),
    # Beyond RFC 9309: both as given and as a server resolves it
    ("D23-dot-segments-resolved", "/b", "/a/../b", True),
    ("D23-dot-segments-as-given", "/a/", "/a/../b", True),
    ("D23-dot-segments-neither", "/c", "/a/../b", False),
    ("D23-dot-segments-escaped", "/private", "/a/%2E%2e/private", True),
    ("D23-dot-segments-half-escaped", "/private", "/a/.%2e/private", True),
    ("D23-dot-segments-twice-escaped", "/private", "/a/%252E./private", False),
    ("D23-dot-segments-above-the-root", "/private", "/../../private", True),
    ("D23-dot-segments-at-the-end", "/a/$", "/a/b/..", True),
    ("D23-dot-segments-at-the-end-single", "/a/b/$", "/a/b/.", True),
    ("D23-dot-segments-to-the-root", "/$", "/a/..?x", False),
    ("D23-dot-segments-to-the-root-query", "/?x$", "/a/..?x", True),
    ("D23-dot-segments-single", "/a/b", "/a/./b", True),
    ("D23-dot-segments-empty-segment", "/a/b", "/a//../b", True),
    ("D23-dot-segments-not-in-the-query", "/b", "/a?/../b", False),
    ("D23-dot-segments-are-whole-names", "/b", "/a/..x/b", False),
    ("D23-dot-segments-hidden-file", "/.git", "/.git/config", True),
    ("D23-dot-segments-slash-escaped", "/b", "/a/..%2Fb", False),
    ("D23-two-slashes-as-given", "/a/b", "/a//b", False),
    ("D23-two-slashes-first", "/a", "//a", False),
    ("D23-two-slashes-first-match", "//a", "//a", True),
]

# Several rules, one of which decides.
DECIDES = [
    ("16-longest-disallow", "Allow: /\nDisallow: /x", "/x/y", False),
    ("16-longest-disallow-other-order", "Disallow: /x\nAllow: /", "/x/y", False),
    ("16-longest-allow", "Disallow: /\nAllow: /p", "/page", True),
    ("16-longest-allow-other-order", "Allow: /p\nDisallow: /", "/page", True),
    ("16-three-deep", "Disallow: /a\nAllow: /a/b\nDisallow: /a/b/c", "/a/b/c/d", False),
    (
        "16-three-deep-middle",
        "Disallow: /a/b/c\nAllow: /a/b\nDisallow: /a",
        "/a/b/d",
        True,
    ),
    ("16-25-slash-of-the-query", "Disallow: /?q=a/\nAllow: /?q=a*b", "/?q=a/b", False),
    (
        "16-25-colon-of-the-query",
        "Allow: /?q=a*b:\nDisallow: /?q=a:b:",
        "/?q=a:b:",
        False,
    ),
    (
        "16-25-slash-after-a-star",
        "Disallow: /*?a=*/x\nAllow: /b?a=*xx",
        "/b?a=/xx",
        False,
    ),
    ("16-25-slash-of-the-path", "Disallow: /a/\nAllow: /a*b", "/a/b", True),
    ("16-only-matching-rules-count", "Disallow: /a\nAllow: /b/long/path", "/a", False),
    (
        "16-29-section-5.2",
        "Allow: /example/page/\nDisallow: /example/page/disallowed.gif",
        "/example/page/disallowed.gif",
        False,
    ),
    (
        "16-29-section-5.2-rest",
        "Allow: /example/page/\nDisallow: /example/page/disallowed.gif",
        "/example/page/disallow.gif",
        True,
    ),
    ("16-D22-wildcard-longer", "Allow: /page\nDisallow: /*.htm", "/page.htm", False),
    (
        "16-D22-wildcard-shorter",
        "Allow: /page.htm\nDisallow: /*.htm",
        "/page.htm",
        True,
    ),
    ("16-D22-star-is-counted", "Allow: /fish\nDisallow: /fish*", "/fish", False),
    ("16-D22-dollar-is-counted", "Allow: /fish\nDisallow: /fish$", "/fish", False),
    ("16-D22-root-dollar-is-counted", "Allow: /$\nDisallow: /", "/", True),
    ("16-D22-root-dollar-elsewhere", "Allow: /$\nDisallow: /", "/a", False),
    (
        "16-D22-octets-not-characters",
        "Allow: /\u30c4*\nDisallow: /***********",
        "/\u30c4",
        False,
    ),
    (
        "16-D22-octets-once-escaped",
        "Allow: /\u30c4*\nDisallow: /*********",
        "/\u30c4",
        True,
    ),
    (
        "16-D22-octets-once-unescaped",
        "Disallow: /%62%61%7A\nAllow: /*****",
        "/baz",
        True,
    ),
    ("16-D22-octets-of-reserved", "Allow: /a:b\nDisallow: /a***", "/a:b", True),
    ("16-D22-octets-in-the-query", "Allow: /?a;b\nDisallow: /?a***", "/?a;b", True),
    ("16-D22-octets-that-separate", "Allow: /?a&b\nDisallow: /?a***", "/?a&b", False),
    ("16-D22-many-stars", "Disallow: /******\nAllow: /abc", "/abc", False),
    ("17-tie", "Disallow: /x\nAllow: /x", "/x", True),
    ("17-tie-other-order", "Allow: /x\nDisallow: /x", "/x", True),
    ("17-tie-of-different-patterns", "Disallow: /*b\nAllow: /ab", "/ab", True),
    ("17-tie-of-equal-encodings", "Disallow: /%7Ex\nAllow: /~x", "/~x", True),
    ("17-tie-of-raw-and-escaped", "Allow: /%C3%A9\nDisallow: /\u00e9", "/\u00e9", True),
    ("17-tie-root", "Allow: /\nDisallow: /", "/x", True),
    ("18-no-match", "Disallow: /x", "/y", True),
    ("18-no-match-allow", "Allow: /x", "/y", True),
    ("19-D4-robots-txt", "Disallow: /", "/robots.txt", True),
    ("19-D4-robots-txt-by-name", "Disallow: /robots.txt", "/robots.txt", True),
    ("19-D4-robots-txt-escaped", "Disallow: /", "/%72obots.txt", True),
    ("19-D4-robots-txt-query", "Disallow: /", "/robots.txt?x", False),
    ("19-D4-robots-txt-empty-query", "Disallow: /", "/robots.txt?", False),
    (
        "19-D4-robots-txt-query-by-name",
        "Disallow: /robots.txt?",
        "/robots.txt?x",
        False,
    ),
    ("19-D4-robots-txt-query-allowed", "Disallow: /x", "/robots.txt?x", True),
    ("19-D4-robots-txt-fragment", "Disallow: /", "/robots.txt#x", True),
    ("19-D4-robots-txt-case", "Disallow: /", "/Robots.txt", False),
    ("19-D4-robots-txt-elsewhere", "Disallow: /", "/a/robots.txt", False),
    ("19-D4-robots-txt-folder", "Disallow: /", "/robots.txt/", False),
    ("19-D4-robots-txt-prefix", "Disallow: /", "/robots.txt.bak", False),
    (
        "20-duplicates",
        "Disallow: /x\nDisallow: /x\nAllow: /x/y\nAllow: /x/y",
        "/x/y",
        True,
    ),
    ("24-D15-empty-disallow", "Disallow:", "/x", True),
    ("24-D15-empty-disallow-spaces", "Disallow:   \t ", "/x", True),
    ("24-D15-empty-disallow-comment", "Disallow: # all", "/x", True),
    ("24-D15-empty-disallow-beside-others", "Disallow:\nDisallow: /x", "/x", False),
    ("24-D15-empty-disallow-after-others", "Disallow: /\nDisallow:", "/x", False),
    ("24-D15-empty-allow", "Allow:\nDisallow: /", "/x", False),
    ("24-D15-empty-allow-alone", "Allow:", "/x", True),
    # Beyond RFC 9309: the index page stands for its folder
    ("D11-index-html", "Allow: /a/index.html\nDisallow: /", "/a/", True),
    ("D11-index-htm", "Allow: /a/index.htm\nDisallow: /", "/a/", True),
    (
        "D11-index-html-itself",
        "Allow: /a/index.html\nDisallow: /",
        "/a/index.html",
        True,
    ),
    ("D11-index-html-root", "Allow: /index.html\nDisallow: /", "/", True),
    (
        "D11-index-html-nothing-below",
        "Allow: /a/index.html\nDisallow: /",
        "/a/b",
        False,
    ),
    ("D11-index-html-no-query", "Allow: /a/index.html\nDisallow: /", "/a/?b", False),
    ("D11-index-html-no-slash", "Allow: /a/index.html\nDisallow: /", "/a", False),
    ("D11-index-html-elsewhere", "Allow: /a/index.html\nDisallow: /", "/", False),
    ("D11-not-for-disallow", "Disallow: /a/index.html", "/a/", True),
    ("D11-not-for-other-pages", "Allow: /a/index.php\nDisallow: /", "/a/", False),
    ("D11-not-for-part-of-a-name", "Allow: /a/myindex.html\nDisallow: /", "/a/", False),
    (
        "D11-D22-counts-as-the-folder",
        "Allow: /a/index.html\nDisallow: /a/*****",
        "/a/",
        False,
    ),
    (
        "D11-D22-counts-as-the-folder-and-end",
        "Allow: /a/index.html\nDisallow: /a/*",
        "/a/",
        True,
    ),
]


@pytest.mark.parametrize(
    ("path", "url", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in MATCHES],
)
def test_match(path: str, url: str, expected: bool) -> None:
    robots = f"User-agent: *\nDisallow: {path}\n"
    assert parse(robots).allowed(url, "a") is not expected
    assert (
        parse(robots.encode()).allowed(f"https://example.com{url}", "a") is not expected
    )
    assert reference.allowed(robots.encode(), url, "a") is not expected


@pytest.mark.parametrize(
    ("rules", "url", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in DECIDES],
)
def test_decides(rules: str, url: str, expected: bool) -> None:
    robots = f"User-agent: *\n{rules}\n"
    assert parse(robots).allowed(url, "a") is expected
    assert parse(robots.encode()).allowed(f"https://example.com{url}", "a") is expected
    assert reference.allowed(robots.encode(), url, "a") is expected


@pytest.mark.parametrize(
    "url",
    [
        "/x/y?z",
        "http://example.com/x/y?z",
        "https://example.com:8443/x/y?z",
        "HTTPS://EXAMPLE.COM/x/y?z",
        "https://user:pass@example.com/x/y?z",
        "https://[2001:db8::1]/x/y?z",
        "https://[2001:db8::1]:8080/x/y?z",
        "https://xn--bcher-kva.example/x/y?z",
        "https://b\u00fccher.example/x/y?z",
        "ftp://example.com/x/y?z",
        "https:///x/y?z",
    ],
)
def test_only_path_and_query_take_part(url: str) -> None:
    # 28, 31: which origin the file speaks for is the caller's question
    assert parse("User-agent: *\nDisallow: /x/y?z$\n").allowed(url, "a") is False
    assert parse("User-agent: *\nDisallow: /x/y?z$\n").allowed(url + "1", "a") is True


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.com", False),
        ("https://example.com:443", False),
        ("https://example.com/", False),
        ("https://example.com#a", False),
        ("https://example.com/#a", False),
        ("https://example.com?a", True),
        ("https://example.com/?a", True),
        ("https://example.com//", True),
    ],
)
def test_root(url: str, expected: bool) -> None:
    # D23
    assert parse("User-agent: *\nDisallow: /$\n").allowed(url, "a") is expected


def test_a_url_within_the_query_is_not_the_authority() -> None:
    policy = parse("User-agent: *\nDisallow: /go\n")
    assert policy.allowed("/go?to=https://example.com/free", "a") is False
    assert (
        policy.allowed("https://example.com/go?to=https://example.com/free", "a")
        is False
    )


@pytest.mark.parametrize(
    ("allow", "url", "expected"),
    [
        ("/a/", "/a/../b", False),
        ("/b", "/a/../b", False),
        ("/a/\nAllow: /b", "/a/../b", True),
        ("/a/", "/a/../robots.txt", True),
        ("/b", "/a/../robots.txt", False),
    ],
)
def test_an_allow_counts_only_where_both_forms_are_allowed(
    allow: str, url: str, expected: bool
) -> None:
    # D23
    robots = f"User-agent: *\nDisallow: /\nAllow: {allow}\n"
    policy = parse(robots)
    assert policy.allowed(url, "a") is expected
    assert policy.verdict(url, "a").allowed is expected
    assert reference.allowed(robots.encode(), url, "a") is expected


def test_the_verdict_on_dot_segments_names_the_rule_that_refuses() -> None:
    # D23
    policy = parse("User-agent: *\nDisallow: /private\nAllow: /a\n")
    verdict = policy.verdict("https://example.com/a/../private/x", "bot")
    assert verdict.rule == Rule(allow=False, path="/private", line=2)
    assert policy.matching("/a/../private/x", "bot") == (verdict.rule,)
    verdict = policy.verdict("/a/../b", "bot")
    assert verdict.rule == Rule(allow=True, path="/a", line=3)


# A rule that is a whole URL, a URL, and whether it matches
WHOLE_URLS = [
    ("its-own", "https://example.com/fish", "https://example.com/fish/x", True),
    ("another-path", "https://example.com/fish", "https://example.com/x", False),
    ("path-only", "https://example.com/fish", "/fish", False),
    ("query-only", "https://example.com/", "?x", False),
    ("another-host", "https://example.com/fish", "https://example.org/fish", False),
    ("subdomain", "https://example.com/fish", "https://www.example.com/fish", False),
    ("another-scheme", "https://example.com/fish", "http://example.com/fish", False),
    (
        "another-port",
        "https://example.com/fish",
        "https://example.com:8080/fish",
        False,
    ),
    ("default-port", "https://example.com:443/fish", "https://example.com/fish", True),
    ("case", "HTTPS://Example.COM/fish", "https://example.com/fish", True),
    ("case-of-the-path", "https://example.com/fish", "https://example.com/Fish", False),
    (
        "international",
        "https://b\u00fccher.example/a",
        "https://xn--bcher-kva.example/a",
        True,
    ),
    ("no-path", "https://example.com", "https://example.com/x", True),
    ("no-path-end", "https://example.com/$", "https://example.com", True),
    ("no-path-query", "https://example.com?a", "https://example.com/?a=b", True),
    ("wildcard", "https://example.com/*.pdf$", "https://example.com/a/b.pdf", True),
    (
        "wildcard-end",
        "https://example.com/*.pdf$",
        "https://example.com/b.pdf?c",
        False,
    ),
    ("wildcard-host", "https://*.example.com/a", "https://www.example.com/a", False),
    ("escape", "https://example.com/%7Ea", "https://example.com/~a", True),
    ("ftp", "ftp://example.com/a", "ftp://example.com/a", False),
    ("no-scheme", "//example.com/a", "https://example.com/a", False),
    ("no-scheme-at-all", "example.com/a", "https://example.com/a", False),
    ("backslash", "https://example.com\\a", "https://example.com/a", False),
]


@pytest.mark.parametrize(
    ("rule", "url", "expected"),
    [pytest.param(*case[1:], id=f"D21-{case[0]}") for case in WHOLE_URLS],
)
def test_rule_that_is_a_whole_url(rule: str, url: str, expected: bool) -> None:
    robots = f"User-agent: *\nDisallow: {rule}\nDisallow: /elsewhere\n"
    policy = parse(robots)
    assert policy.allowed(url, "a") is not expected
    assert policy.verdict(url, "a").allowed is not expected
    assert policy.verdict(url, "a").rule == (
        Rule(allow=False, path=rule, line=2) if expected else None
    )
    if rule.isascii():
        assert reference.allowed(robots.encode(), url, "a") is not expected
    # The same file speaks for another site at the same time: that of a mirror, or a proxy.
    for other in ("https://other.example/elsewhere", url, "/elsewhere", url):
        assert policy.allowed(other, "a") is (other == url and not expected)


def test_a_whole_url_is_as_specific_as_its_path() -> None:
    # D21, D22
    policy = parse(
        "User-agent: *\nDisallow: /\nAllow: https://example.com/a\nDisallow: /a/b\n"
    )
    assert policy.allowed("https://example.com/a/c", "x") is True
    assert policy.allowed("https://example.com/a/b", "x") is False
    assert policy.allowed("https://example.org/a/c", "x") is False
    assert policy.denies_all("x") is False  # not of every origin
    assert [rule.line for rule in policy.matching("https://example.com/a/b", "x")] == [
        *(4, 3, 2)
    ]


def test_robots_txt_verdict() -> None:
    # 19
    verdict = parse("User-agent: *\nDisallow: /\n").verdict(
        "https://a/robots.txt#b", "a"
    )
    assert (verdict.allowed, verdict.rule) == (True, None)
    assert verdict.reason == "robots.txt itself"


def test_verdict_names_the_most_specific_rule() -> None:
    robots = "User-agent: *\nDisallow: /\nAllow: /a*/\nDisallow: /a/b%7E # why\n"
    policy = parse(robots)
    assert policy.verdict("/c", "x").rule == Rule(allow=False, path="/", line=2)
    assert policy.verdict("/a/c", "x").rule == Rule(allow=True, path="/a*/", line=3)
    # the path is given as written, not as it is compared
    assert policy.verdict("/a/b~", "x").rule == Rule(
        allow=False, path="/a/b%7E", line=4
    )


def test_verdict_of_a_tie_names_the_allow() -> None:
    # 17
    verdict = parse("User-agent: *\nDisallow: /x\nAllow: /x\n").verdict("/x", "a")
    assert verdict.rule == Rule(allow=True, path="/x", line=3)


def test_verdict_by_an_index_page_names_its_rule() -> None:
    # D11. Beyond RFC 9309
    policy = parse("User-agent: *\nDisallow: /\nAllow: /a/index.html\n")
    verdict = policy.verdict("/a/", "a")
    assert verdict.rule == Rule(allow=True, path="/a/index.html", line=3)
    assert verdict.reason == "rule"


def test_many_literal_rules_with_nested_prefixes() -> None:
    # Every second folder on the way down takes back what the one above it says.
    rules = [
        f"{'Allow' if depth % 2 else 'Disallow'}: /{'a/' * depth}"
        for depth in range(1, 30)
    ]
    robots = "\n".join(["User-agent: *", *rules])
    policy = parse(robots)
    for depth in range(40):
        url = f"/{'a/' * depth}b"
        assert policy.allowed(url, "x") is reference.allowed(
            robots.encode(), url, "x"
        ), depth
        rule = policy.verdict(url, "x").rule
        assert (rule and rule.line) == (min(depth, 29) + 1 if depth else None)


@pytest.mark.parametrize("number", [150, 300, 900, 1500])
def test_wildcards_by_the_hundred_match_as_each_does_alone(number: int) -> None:
    # They are gone through one by one, then found by an index of their letters.
    rng = random.Random(number)
    rules = "".join(
        f"{rng.choice(('Allow', 'Disallow'))}: {rng.choice(('/*', '*', '/a*', '/*?'))}"
        f"{rng.choice('abc')}{rng.randrange(400)}{rng.choice(('', '$', '*c', '*d$'))}\n"
        for _ in range(number)
    )
    policy = parse(f"User-agent: *\n{rules}")
    for _ in range(100):
        path = "/" + "".join(rng.choices("abcd0123?", k=rng.randrange(40)))
        matching = policy.matching(path, "x")
        assert policy.allowed(path, "x") is (not matching or matching[0].allow)
