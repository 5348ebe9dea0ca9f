"""A naive robots.txt matcher, to compare the real one with.

Written from the text of RFC 9309 and from this project's decisions where the RFC is
silent, in the default dialect. It imports nothing of the package. It is slow on purpose:
every question parses the file again, and every rule is compared octet by octet. Section
numbers are those of RFC 9309. An agent is given as its names, most wanted first: those of
a User-Agent header are for the caller to find.
"""

from __future__ import annotations

import re
from contextlib import suppress
from unicodedata import category

LIMIT = 512 * 1024  # octets; 2.5 demands at least 500 KiB
BOM = b"\xef\xbb\xbf"

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
TOKEN = LETTERS + "_-"  # 2.2, identifier
UNRESERVED = LETTERS + "0123456789-._~"  # RFC 3986 2.3
HEX = "0123456789ABCDEFabcdef"
# 2.2 has space and tab. Beyond RFC 9309: so do all white space, and what cannot be seen.
INVISIBLE = "\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\udca0\udcad"
BLANK = "".join(
    char
    for char in map(chr, range(0xFFFF))
    if char.isspace() or category(char) == "Cc" or re.match(f"[{INVISIBLE}]", char)
)

# Beyond RFC 9309: common misspellings are taken for the field that was meant.
MISSPELT = "dissallow dissalow disalow diasllow disallaw"
FIELDS = {name: name for name in ("user-agent", "allow", "disallow")}
FIELDS |= {"useragent": "user-agent", "user agent": "user-agent"}
FIELDS |= dict.fromkeys(MISSPELT.split(), "disallow")


def allowed(body: bytes, url: str, *agent: str) -> bool:
    """Whether `agent` may fetch `url` under the robots.txt `body`."""
    return verdict(body, url, *agent)[0]


def verdict(body: bytes, url: str, *agent: str) -> tuple[bool, list[tuple[bool, str]]]:
    """Whether `agent` may fetch `url`, and the rules of which any may be named for it."""
    # Beyond RFC 9309: what a server makes of dot segments has to be allowed as well.
    path, mark, query = path_and_query(url)
    forms = [path, without_dots(path)]
    judged = [verdict_on(body, url, [form, mark, query], agent) for form in forms]
    return next((each for each in judged if not each[0]), judged[0])


def verdict_on(
    body: bytes, url: str, target: list[str], agent: tuple[str, ...]
) -> tuple[bool, list[tuple[bool, str]]]:
    """As `verdict`, for one form of path, question mark and query."""
    path = normalised(target[0])
    path += [*target[1], *normalised(target[2], in_query=True)]
    if path == list("/robots.txt"):  # 2.2.2: implicitly allowed
        return True, []
    # 2.2.2: the most specific match wins, an allow wins among equals, none allows.
    best = (-1, True)
    by_rank: dict[tuple[int, bool], list[tuple[bool, str]]] = {best: []}
    for allow, pattern, rule in path_patterns(agent, body, url):
        if any(matches(reading, path) for reading in readings(pattern)):
            rank = (len(readings(pattern)[0]), allow)
            by_rank.setdefault(rank, []).append((allow, rule))
            best = max(best, rank)
    return best[1], by_rank[best]


def without_dots(path: str) -> str:
    """RFC 3986 5.2.4, where "%2E" is a dot as well."""
    output = ""
    while path:
        segment = re.match("/[^/]*", path)
        assert segment is not None
        path = path[segment.end() :]
        name = re.sub("(?i)%2e", ".", segment[0])
        if name == "/..":
            output = output[: output.rfind("/")] if output else ""
        elif name != "/.":
            output += segment[0]
            continue
        output += "" if path else "/"
    return output


def path_patterns(
    agent: tuple[str, ...], body: bytes, url: str
) -> list[tuple[bool, str, str]]:
    """The agent's rules, without those that match nothing (2.2: no path patterns).

    Each as whether it allows, the pattern that it stands for, and as it is written.
    """
    found = []
    for allow, rule in rules_for(agent, body):
        pattern = rule
        if origin(rule) is not None and origin(rule) == origin(url):
            # Beyond RFC 9309: a whole URL of the origin stands for its path.
            pattern = re.sub("^[^:]*://[^/?#]*/?", "/", rule)
        if pattern.startswith(("/", "*")):
            found.append((allow, pattern, spelt(rule)))
            index = re.search(r"(?<=/)index\.html?\Z", pattern)
            if allow and index:
                # Beyond RFC 9309: the index page stands for its folder.
                found.append((allow, pattern[: index.start()] + "$", spelt(rule)))
    return found


def origin(url: str) -> str | None:
    """Scheme, host and port of an http or https URL (RFC 6454 4), the default port left out."""
    found = re.match(r"\s*(https?)://([^/?#\\]+)(?=[/?#]|\Z)", url, re.IGNORECASE)
    if found is None:
        return None
    scheme, authority = found[1].lower(), found[2].rpartition("@")[2].lower()
    host, colon, port = authority.rpartition(":")
    if not colon or "]" in port:
        host, port = authority, ""
    if port.isascii() and port.isdigit():
        port = port.lstrip("0") or "0"
    with suppress(UnicodeError):  # an origin of its own, which nobody can ask
        host = host if host.isascii() else host.encode("idna").decode()
    default = {"http": "80", "https": "443"}[scheme]
    return f"{scheme}://{host}:{port or default}" if host else None


def readings(rule: str) -> list[list[str]]:
    """A rule in the forms in which it is compared, first the one that is as written.

    What follows a question mark is a query. What follows a wildcard may be in one, since
    the wildcard takes the question mark as well; so there is one more reading for each. And
    an escape that breaks off may be one of which the rest follows.
    """
    stars = rule.partition("?")[0].count("*")
    return [
        reading(spelling, cut=cut, into_query=star)
        for spelling in (rule, spelt(rule))
        for cut in (False, True)
        for star in range(stars + 1)
    ]


def reading(rule: str, *, cut: bool, into_query: int) -> list[str]:
    """The octets of a rule, with its wildcards: "*" and a "$" at the end (2.2.3).

    `cut`: an escape that breaks off at a wildcard or at the end stays as it is.
    `into_query`: the number, from 1, of the wildcard that takes the question mark.
    """
    ends = rule.endswith("$")
    pieces = (rule[:-1] if ends else rule).split("*")
    done: list[str] = []
    in_query = False
    for number, piece in enumerate(pieces):
        if number:
            done.append("*")
            if number == into_query:
                done += ["?", "*"]
                in_query = True
        at_the_end = ends and number == len(pieces) - 1
        broken = re.search("%[0-9A-Fa-f]?$", piece) if cut and not at_the_end else None
        start, mark, rest = (piece[: broken.start()] if broken else piece), "", ""
        if not in_query:
            start, mark, rest = start.partition("?")
        done += normalised(start, in_query=in_query)
        if mark:
            in_query = True
            done += [mark, *normalised(rest, in_query=True)]
        cut_off = broken[0].upper() if broken else ""
        done += ["?" * in_query + octet for octet in cut_off]
    return done + ["$"] * ends


def path_and_query(url: str) -> tuple[str, str, str]:
    """Path, which begins with "/", question mark, and query; the fragment has no part."""
    url = url.partition("#")[0]
    url = re.sub(r"^\s*[A-Za-z][A-Za-z0-9+.-]*://[^/?]*", "", url)
    path, mark, query = url.partition("?")
    return "/" + path.removeprefix("/"), mark, query


def normalised(text: str, *, in_query: bool = False) -> list[str]:
    """Every octet in the one form it is compared in (2.2.2): itself or an escape.

    Unreserved ones stand as they are, and so does what separates, unless it is escaped: the
    slash of a path, "&" and "=" of a query. All others are escaped. Those of a query have
    "?" before them: none is one of a path.
    """
    raw = "".join(map(octets, text))
    plain = UNRESERVED + ("&=" if in_query else "/")
    done = ""
    at = 0
    while at < len(raw):
        digits = raw[at + 1 : at + 3]
        if raw[at] == "%" and len(digits) == 2 and set(digits) <= set(HEX):
            octet = chr(int(digits, 16))
            done += octet if octet in UNRESERVED else escape(octet)
            at += 3
        else:  # a "%" here begins no escape: it is literal
            done += raw[at] if raw[at] in plain else escape(raw[at])
            at += 1
    return ["?" * in_query + octet for octet in done]


def octets(char: str) -> str:
    """A character in UTF-8, or the octet that was not UTF-8."""
    if "\udc80" <= char <= "\udcff":
        return chr(ord(char) - 0xDC00)
    return char.encode("utf-8", "surrogatepass").decode("latin-1")


def spelt(text: str) -> str:
    """Beyond RFC 9309: octets that are not UTF-8 are ISO-8859-1 as well."""
    return re.sub("[\udc80-\udcff]", lambda found: octets(found[0]), text)


def escape(octet: str) -> str:
    return f"%{ord(octet):02X}"


def matches(pattern: list[str], path: list[str]) -> bool:
    """Whether `pattern` is reached to its end, from the first octet of `path` (2.2.2)."""
    anchored = pattern[-1:] == ["$"]
    reached = {0}  # where in the path the pattern read so far may have ended
    for octet in pattern[:-1] if anchored else pattern:
        if octet == "*":
            reached = set(range(min(reached), len(path) + 1))
        else:
            reached = {at + 1 for at in reached if path[at : at + 1] == [octet]}
        if not reached:
            return False
    return len(path) in reached or not anchored


def rules_for(agent: tuple[str, ...], body: bytes) -> list[tuple[bool, str]]:
    """The merged rules of the groups of the agent's first name that has any, else of the
    "*" groups (2.2.1).
    """
    for name in agent:
        own = [
            rules for lines, rules in groups(body) if any(names(x, name) for x in lines)
        ]
        if own:
            return [rule for rules in own for rule in rules]
    return [rule for lines, rules in groups(body) if default(lines) for rule in rules]


def default(agents: list[str]) -> bool:
    return any(line == "*" or re.match(r"\*\s", line) for line in agents)


def names(line: str, agent: str) -> bool:
    """Whether the value of a user-agent line names this product token, in any case."""
    line, agent = line.lower(), agent.lower()
    token = line[
        : next((at for at, octet in enumerate(line) if octet not in TOKEN), None)
    ]
    if line.startswith("mozilla/"):  # Beyond RFC 9309: somebody's header, as a whole
        return agent == line
    # Beyond RFC 9309: `foo/1.0` and `foo bar` name foo; `bot2` names bot2 as well.
    return agent in (line, token) and agent != ""


def groups(body: bytes) -> list[tuple[list[str], list[tuple[bool, str]]]]:
    """User-agent lines and rules of every group, in file order (2.1)."""
    found: list[tuple[list[str], list[tuple[bool, str]]]] = []
    seen_rule = True  # so that the first user-agent line opens a group
    for line in lines(body):
        field, value = record(line)
        if field == "user-agent":
            if seen_rule:
                found.append(([], []))
            seen_rule = False
            found[-1][0].append(spelt(value))
        elif (
            field in ("allow", "disallow") and found
        ):  # before a group: ignored (2.2.2)
            seen_rule = True  # also an empty rule ends the run of user-agent lines
            found[-1][1].append((field == "allow", value))
    return found


def record(line: str) -> tuple[str | None, str]:
    """Field, None for one that has no say here (2.2.4), and value of a line."""
    line = line.partition("#")[0].strip(BLANK)
    field, colon, value = line.partition(":")
    known = FIELDS.get(field.strip(BLANK).lower())
    if colon and (known or not re.search("[ \t]", field.strip(BLANK))):
        return known, value.strip(BLANK)
    # Beyond RFC 9309: two words do without the colon. So does a known field before some words
    # with one colon, that has nothing blank behind it.
    first, _, rest = re.sub("[ \t]", " ", line, count=1).partition(" ")
    rest = rest.lstrip(" \t")
    one = rest != "" and not re.search("[ \t]", rest)
    within = line.count(":") == 1 and value != "" and value.strip(BLANK) == value
    if one or (colon and within):
        return FIELDS.get(first.strip(BLANK).lower()), rest.strip(BLANK)
    return None, ""


WIDE = [
    ("utf-32-le", b"\xff\xfe\0\0", "x\0\0\0"),
    ("utf-32-be", b"\0\0\xfe\xff", "\0\0\0x"),
    ("utf-16-le", b"\xff\xfe", "x\0x\0"),
    ("utf-16-be", b"\xfe\xff", "\0x\0x"),
]


def wide_text(body: bytes) -> str | None:
    """Beyond RFC 9309: UTF-16 and UTF-32, by a mark or by where the NULs are; None: it is neither."""
    if b"\0" not in body or b"agent" in body.lower():
        return None
    first = "".join(chr(octet) if not 9 <= octet < 127 else "x" for octet in body[:4])
    for charset, mark, ascii_form in WIDE:
        if body.startswith(mark) or first == ascii_form:
            wide = charset.startswith("utf-32")
            with suppress(UnicodeDecodeError):
                whole = body[: len(body) // 4 * 4] if wide else body
                return whole.decode(charset, "strict" if wide else "replace")
    return None


def lines(body: bytes) -> list[str]:
    """The lines of the file, which end in CR, LF or CRLF (2.2) and in nothing else."""
    if len(body) > LIMIT:  # the line that the limit cuts is not used
        body = body[:LIMIT]
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
    text = wide_text(body)
    if text is None:
        for marks in [mark for _, mark, _ in WIDE], [BOM, BOM[:2], BOM[:1]]:
            found = next((mark for mark in marks if body.startswith(mark)), b"")
            body = body[len(found) :]
        text = body.decode("utf-8", "surrogateescape")
    # Beyond RFC 9309: byte order marks, also some that went through ISO-8859-1.
    text = re.sub("^(\ufeff|\u00ef\u00bb\u00bf)+", "", text)
    return re.split("\r\n|\r|\n", text)
