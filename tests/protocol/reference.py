"""A naive robots.txt matcher, to compare the real one with.

Written from the text of RFC 9309 and from this project's decisions where the RFC is
silent, in the default dialect. It imports nothing of the package. It is slow on purpose:
every question parses the file again, and every rule is compared octet by octet. Section
numbers are those of RFC 9309. An agent is given as its names, most wanted first: those of
a User-Agent header are for the caller to find.
"""

from __future__ import annotations

import re

LIMIT = 512 * 1024  # octets; 2.5 demands at least 500 KiB
BOM = b"\xef\xbb\xbf"

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
TOKEN = LETTERS + "_-"  # 2.2, identifier
UNRESERVED = LETTERS + "0123456789-._~"  # RFC 3986 2.3
RESERVED = ":/?#[]@!$&'()*+,;="  # RFC 3986 2.2
HEX = "0123456789ABCDEFabcdef"
# 2.2 has space and tab. Beyond RFC 9309: so do the white space of ASCII, and NUL.
BLANK = " \t\0\v\f\x1c\x1d\x1e\x1f"

# Beyond RFC 9309: common misspellings are taken for the field that was meant.
FIELDS = {
    "user-agent": "user-agent",
    "useragent": "user-agent",
    "user agent": "user-agent",
    "allow": "allow",
    "disallow": "disallow",
    "dissallow": "disallow",
    "dissalow": "disallow",
    "disalow": "disallow",
    "diasllow": "disallow",
    "disallaw": "disallow",
}


def allowed(body: bytes, url: str, *agent: str) -> bool:
    """Whether `agent` may fetch `url` under the robots.txt `body`."""
    return verdict(body, url, *agent)[0]


def verdict(body: bytes, url: str, *agent: str) -> tuple[bool, list[tuple[bool, str]]]:
    """Whether `agent` may fetch `url`, and the rules of which any may be named for it."""
    if path_and_query(url)[0] == "/robots.txt":  # 2.2.2: implicitly allowed
        return True, []
    # 2.2.2: the most specific match wins, an allow wins among equals, none allows.
    best = (-1, True)
    by_rank: dict[tuple[int, bool], list[tuple[bool, str]]] = {best: []}
    path = octets(target(url))
    for allow, pattern, rule in path_patterns(agent, body):
        if any(matches(octets(reading), path) for reading in readings(pattern)):
            rank = (len(octets(readings(pattern)[0])), allow)
            by_rank.setdefault(rank, []).append((allow, rule))
            best = max(best, rank)
    return best[1], by_rank[best]


def splits_an_escape(body: bytes, url: str, *agent: str) -> bool:
    """Whether a rule matches only as far as half an escape may: `/%2` and `/%2F`."""
    return any(
        matches(reading, target(url)) != matches(octets(reading), octets(target(url)))
        for _, pattern, _ in path_patterns(agent, body)
        for reading in readings(pattern)
    )


def octets(pieces: list[str]) -> list[str]:
    return list("".join(pieces))


def target(url: str) -> list[str]:
    """What rules are compared with."""
    path, query = path_and_query(url)
    return normalised(path) + normalised(query, in_query=True)


def path_patterns(agent: tuple[str, ...], body: bytes) -> list[tuple[bool, str, str]]:
    """The agent's rules, without those that match nothing (2.2: no path patterns).

    Each as whether it allows, the pattern that it stands for, and as it is written.
    """
    found = []
    for allow, rule in rules_for(agent, body):
        if rule.startswith(("/", "*")):
            found.append((allow, rule, rule))
            index = re.search(r"(?<=/)index\.html?\Z", rule)
            if allow and index:
                # Beyond RFC 9309: the index page stands for its folder.
                found.append((allow, rule[: index.start()] + "$", rule))
    return found


def readings(rule: str) -> list[list[str]]:
    """A rule in the forms in which it is compared, first the one that is as written.

    What follows a question mark is a query. What follows a wildcard may be in one, since
    the wildcard takes the question mark as well; so there is one more reading for each.
    """
    path = rule.partition("?")[0]
    starts = [len(path)] + [at for at, octet in enumerate(path) if octet == "*"]
    return [
        normalised(rule[:at], in_pattern=True, last=not rule[at:])
        + normalised(rule[at:], in_query=True, in_pattern=True)
        for at in starts
    ]


def path_and_query(url: str) -> tuple[str, str]:
    """Path, which begins with "/", and query with its question mark; the fragment has no part."""
    url = url.partition("#")[0]
    url = re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*://[^/?]*", "", url)
    path, mark, query = url.partition("?")
    return "/" + path.removeprefix("/"), mark + query


def normalised(
    text: str, *, in_query: bool = False, in_pattern: bool = False, last: bool = True
) -> list[str]:
    """Every octet in the one form it is compared in (2.2.2): itself or an escape.

    In a pattern, "*" and a "$" at the end stay as they are and are special; in a URL,
    and anywhere else in a pattern, they are written %2A and %24 (2.2.3).

    In a query ":" and "/" equal their escapes (second row of the table in 2.2.2), in a
    path they do not; so escapes of the two in a query are the only ones in lower case.
    """
    raw = text.encode("utf-8", "surrogatepass").decode("latin-1")
    done: list[str] = []
    at = 0
    while at < len(raw):
        octet, digits = raw[at], raw[at + 1 : at + 3]
        if octet == "%" and len(digits) == 2 and set(digits) <= set(HEX):
            octet = chr(int(digits, 16))
            at += 3
            if in_query and octet in ":/":
                done.append(escape(octet).lower())
            else:
                done.append(octet if octet in UNRESERVED else escape(octet))
            continue
        at += 1
        if octet in {"*", "$"}:
            special = in_pattern and (octet == "*" or (last and at == len(raw)))
            done.append(octet if special else escape(octet))
        elif in_query and octet in ":/":
            done.append(escape(octet).lower())
        elif octet == "%" or octet in UNRESERVED + RESERVED:
            done.append(octet)  # a "%" here begins no escape: it is itself
        else:  # outside ASCII, or no URI character at all
            done.append(escape(octet))
    return done


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
    return any(line == "*" or line.startswith(("* ", "*\t")) for line in agents)


def names(line: str, agent: str) -> bool:
    """Whether the value of a user-agent line names this product token, in any case."""
    line, agent = line.lower(), agent.lower()
    token = line[
        : next((at for at, octet in enumerate(line) if octet not in TOKEN), None)
    ]
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
            found[-1][0].append(value)
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
    if not colon:
        words = line.replace("\t", " ").split(" ")
        words = [word for word in words if word]
        if len(words) != 2:
            return None, ""
        field, value = words  # Beyond RFC 9309: two words do without the colon
    return FIELDS.get(field.strip(BLANK).lower()), value.strip(BLANK)


def lines(body: bytes) -> list[str]:
    """The lines of the file, which end in CR, LF or CRLF (2.2) and in nothing else."""
    if len(body) > LIMIT:  # the line that the limit cuts is not used
        body = body[:LIMIT]
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
    if body[:2] in {b"\xff\xfe", b"\xfe\xff"}:  # Beyond RFC 9309: UTF-16
        text = body.decode("utf-16", "replace")
    else:
        for length in (3, 2, 1):
            if body.startswith(BOM[:length]):
                body = body[length:]
                break
        text = utf8(body)
    # Beyond RFC 9309: byte order marks, also some that went through ISO-8859-1.
    text = re.sub("^(\ufeff|\u00ef\u00bb\u00bf)+", "", text)
    return re.split("\r\n|\r|\n", text)


def utf8(body: bytes) -> str:
    """UTF-8 (2.3), and a line that is none in ISO-8859-1."""
    return "".join(map(utf8_line, re.split(b"(\r|\n)", body)))


def utf8_line(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")
