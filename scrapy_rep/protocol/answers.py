"""What an answer says: its header fields, its body, its status (RFC 9309 2.3.1), and what the site wants
before it gives a page.

Whatever Scrapy decodes is accepted, and decoded here as far as it is needed: a few octets of a
coding can stand for gigabytes.
"""

from __future__ import annotations

import re
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin

from scrapy_rep.protocol import RFC9309, Policy, parse
from scrapy_rep.protocol.printable import without_user

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.protocol import Dialect

HeaderFields = Mapping[str, Sequence[str]]
"""Values in their order, by names in lower case; octets are as in ISO-8859-1."""
NO_FIELDS: HeaderFields = {}


def header_fields(pairs: Iterable[tuple[str, str]]) -> HeaderFields:
    """What is no Unicode becomes "?"."""
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        text = value.encode("utf-8", "replace").decode()
        fields.setdefault(name.lower(), []).append(text)
    return fields


def first_value(fields: HeaderFields, name: str) -> str:
    """*name* is in lower case; "": there is none."""
    return fields[name][0] if name in fields else ""


def all_values(fields: HeaderFields, name: str) -> str:
    """As one list (RFC 9110 5.3)."""
    return ", ".join(fields.get(name, ()))


class Access(Enum):
    """What asking for a robots.txt came to."""

    SUCCESSFUL = "successful"
    """Its rules hold (RFC 9309 2.3.1.1)."""
    UNAVAILABLE = "unavailable"
    """There is none: everything may be fetched (RFC 9309 2.3.1.3)."""
    UNREACHABLE = "unreachable"
    """Nobody knows: nothing may be fetched until somebody does (RFC 9309 2.3.1.4)."""
    NOT_MODIFIED = "not modified"
    """The answer at hand is still right (RFC 9110 15.4.5)."""
    DENIED = "denied"
    """A 4xx that means disallow-all to this crawl (REP_DENY_STATUSES)."""


REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
"""Their Location is followed (RFC 9309 2.3.1.2)."""
INDECISIVE_STATUSES = frozenset({407, 408, 425, 429})
"""4xx that tell of a proxy's password, a timeout, a request too early or too many of them, not of a
missing file."""


def access_of(
    status: int | None,
    *,
    conditional: bool = False,
    deny_statuses: frozenset[int] = frozenset(),
) -> Access:
    """What the last *status* of a robots.txt request means, redirects followed.

    ``None``: there was no whole answer (RFC 9309 2.3.1.4). A 304 only says something if the
    request was *conditional*. *deny_statuses* are 4xx that mean disallow-all.
    """
    if status is None:
        return Access.UNREACHABLE
    if status in deny_statuses:
        return Access.DENIED
    if status == 304:
        return Access.NOT_MODIFIED if conditional else Access.UNREACHABLE
    # 206 is a part that nobody asked for. 204 and 205 have no body, which is an empty file.
    if 200 <= status < 300 and status != 206:
        return Access.SUCCESSFUL
    # Beyond RFC 9309: some 4xx do not say whether there is a file.
    if 400 <= status < 500 and status not in INDECISIVE_STATUSES:
        return Access.UNAVAILABLE
    return Access.UNREACHABLE


def policy_after(
    access: Access,
    status: int | None,
    body: bytes = b"",
    encoding: str | None = None,
    failure: str = "",
    *,
    dialect: Dialect = RFC9309,
) -> Policy:
    """RFC 9309 2.3.1; *failure* says why there was no answer."""
    if access is Access.SUCCESSFUL:
        return parse(body, dialect=dialect, encoding=encoding)
    if access is Access.UNAVAILABLE:
        why = "too many redirects" if status in REDIRECT_STATUSES else str(status)
        return Policy.allow_all(f"no robots.txt ({why})", dialect=dialect)
    if access is Access.UNREACHABLE:
        reason = f"robots.txt unreachable ({failure})"
    else:
        reason = f"robots.txt answered {status}"
    return Policy.disallow_all(reason, dialect=dialect)


UNDECODED_CODINGS = {
    *("aes128gcm", "compress", "dcb", "dcz", "exi", "pack200-gzip", "x-compress", "x-br"),
    *("x-zstd", "bzip2", "lz4", "lzma", "sdch", "snappy", "xz"),
}  # fmt: skip
"""The registered ones, and others in use."""
BROTLI_PACKAGES = ("brotli", "brotlicffi")
ZSTD_PACKAGES = ("compression.zstd", "backports.zstd", "zstandard")
"""What Scrapy uses, by its version and Python's; the first that is installed."""
ZSTD_WINDOW_LOG = 23
"""RFC 9659: no decoder needs more than 8 MiB, and it should refuse that."""
ZSTD_OCTETS_AT_A_TIME = 64
"""With zstandard, which has no limit: each octet may stand for 32 KiB."""
NON_TEXT_OCTETS = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
"""That no text has, but for UTF-16 (WHATWG MIME Sniffing 3)."""
PACKED_STARTS = {b"\x1f\x8b\x08": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""How octets in a coding begin (RFC 1952 2.3.1, RFC 8878 3.1.1), and no text does."""
MAX_CODINGS = 4  # one in the other; more are a trap
MAX_GZIP_MEMBERS = 1000  # of a file: to find the next one copies the rest


def decode_body(body: bytes, content_encoding: str, *, limit: int, cut: bool) -> bytes:
    """At most *limit* octets, whole lines only where there are more.

    *cut*: the download was stopped at the limit. What is no coding, such as ``UTF-8``, changes
    nothing if the body is text. A coding that no field names, as of a ``.gz`` file or of one that
    was packed twice, is decoded, too: as it comes, the body has no rules. Raises ``ValueError``
    where a coding is not decoded here or broken, ends too early, or is one of too many.
    """
    codings = [name.strip().lower() for name in content_encoding.split(",")]
    if len(codings) > MAX_CODINGS:
        raise ValueError(f"{len(codings)} content codings")
    unknown = ""
    for coding in reversed(codings):
        if coding in DECODERS:
            body = _decode(body, coding, limit=limit, cut=cut)
        elif coding in UNDECODED_CODINGS:
            raise ValueError(f"content coding {coding!r} is not decoded")
        elif coding not in {"", "identity"}:
            unknown = coding
    layers = len(codings)
    while not unknown and (coding := _coding_seen(body)):
        layers += 1
        if layers > MAX_CODINGS:
            raise ValueError(f"{layers} content codings")
        body = _decode(body, coding, limit=limit, cut=cut)
    is_text = body.startswith((BOM_UTF16_BE, BOM_UTF16_LE)) or not (
        NON_TEXT_OCTETS.search(body)
    )
    if unknown and not is_text:
        raise ValueError(f"unknown content coding {unknown[:40]!r} of what is no text")
    if len(body) <= limit:
        return body
    body = body[:limit]
    return body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]


def _coding_seen(body: bytes) -> str:
    """By its first octets; "": none."""
    return next(
        (PACKED_STARTS[its] for its in PACKED_STARTS if body.startswith(its)), ""
    )


def _decode(body: bytes, coding: str, *, limit: int, cut: bool) -> bytes:
    try:
        decoded, whole = DECODERS[coding](body, limit)
    except Exception as error:  # noqa: BLE001 - each package has its own
        raise ValueError(f"broken content coding {coding!r}: {error}") from None
    if not (whole or cut or len(decoded) > limit):
        raise ValueError(f"content coding {coding!r} ends too early")
    return decoded


def _inflate(body: bytes, limit: int) -> tuple[bytes, bool]:
    """More than *limit* octets where there are, and whether *body* is whole."""
    try:
        return _inflate_members(body, zlib.MAX_WBITS | 32, limit)
    except zlib.error:  # "deflate" without the zlib header, as some servers send it
        return _inflate_members(body, -zlib.MAX_WBITS, limit)


def _inflate_members(body: bytes, wbits: int, limit: int) -> tuple[bytes, bool]:
    parts = b""
    members = 0
    while body and len(parts) <= limit:  # gzip: several members may follow each other
        members += 1
        if members > MAX_GZIP_MEMBERS:
            raise zlib.error("too many members")
        inflater = zlib.decompressobj(wbits)
        parts += inflater.decompress(body, limit + 1 - len(parts))
        if not inflater.eof:
            return parts, False
        body = inflater.unused_data
    return parts, True


def _unbrotli(body: bytes, limit: int) -> tuple[bytes, bool]:
    decoder = _first_of(BROTLI_PACKAGES).Decompressor()
    parts = part = decoder.process(body, output_buffer_limit=limit + 1)
    while part and len(parts) <= limit:
        part = decoder.process(b"", output_buffer_limit=limit + 1)
        parts += part
    return parts, decoder.is_finished()


def _unzstd(body: bytes, limit: int) -> tuple[bytes, bool]:
    package = _first_of(ZSTD_PACKAGES)
    if package.__name__ == "zstandard":
        return _unzstd_in_steps(package, body, limit)
    options = {package.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG}
    decoder = package.ZstdDecompressor(options=options)
    parts = decoder.decompress(body, limit + 1)
    while not (decoder.eof or decoder.needs_input) and len(parts) <= limit:
        parts += decoder.decompress(b"", limit + 1)
    return parts, decoder.eof and not decoder.unused_data


def _unzstd_in_steps(package: Any, body: bytes, limit: int) -> tuple[bytes, bool]:
    decoder = package.ZstdDecompressor(max_window_size=2**ZSTD_WINDOW_LOG)
    stream, parts, at = decoder.decompressobj(), b"", 0
    while at < len(body) and len(parts) <= limit and not stream.eof:
        parts += stream.decompress(body[at : at + ZSTD_OCTETS_AT_A_TIME])
        at += ZSTD_OCTETS_AT_A_TIME
    return parts, stream.eof and not stream.unused_data and at >= len(body)


def _first_of(names: tuple[str, ...]) -> Any:
    for name in names:
        try:
            return import_module(name)
        except ImportError:  # noqa: PERF203
            continue
    raise ValueError(f"none of {', '.join(names)} is installed")


DECODERS: dict[str, Callable[[bytes, int], tuple[bytes, bool]]] = {
    "gzip": _inflate,
    "x-gzip": _inflate,
    "deflate": _inflate,
    "br": _unbrotli,
    "zstd": _unzstd,
}
"""Each as ``_inflate``."""


# What a site wants for a page. Beyond RFC 9309: 402 (RFC 9110 15.5.3), with the price in Cloudflare's
# ``crawler-price``; ``WWW-Authenticate: License``, with the licence in ``Link: <...>; rel="license"``
# (RSL 1.0, Open License Protocol).

PAYMENT, LICENSE = "payment", "license"
PAYMENT_REQUIRED = 402
REFUSALS = frozenset({401, PAYMENT_REQUIRED, 403})
"""That may come with a challenge."""
QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
CHALLENGE = re.compile(r"(?i)(?:^|,)[ \t]*license(?=[ \t,]|$)")
LINK = re.compile(
    r'(?i)<([^<>]*)>((?:[ \t]*;[ \t]*[\w!#$&+.^`|~*-]+(?:=(?:"[^"]*"|[^\s",;]*))?)*)'
)
IS_LICENSE = re.compile(
    r'(?i);[ \t]*rel=(?:"(?:[^"]*[ \t])?license(?:[ \t][^"]*)?"|license)(?=[ \t;]|$)'
)
MAX_CHARACTERS = 500
"""Of a header and of what is kept of it."""


class Demand(NamedTuple):
    cause: str
    """"license" (a challenge), or "payment" (402 without one)."""
    license: str = ""
    """Its absolute URL; "": none is named."""
    price: str = ""
    """As written, such as "USD 0.01"; "": none."""

    def in_words(self) -> str:
        what = "a licence" if self.cause == LICENSE else "a payment"
        named = [each for each in (self.price, self.license) if each]
        return f"{what} ({', '.join(named)})" if named else what


def demand_of(url: str, status: int, fields: HeaderFields) -> Demand | None:
    """What an answer wants, of which *url* is the page; ``None``: nothing."""
    if status not in REFUSALS:
        return None
    challenges = QUOTED.sub("", ", ".join(fields.get("www-authenticate", ())))
    if CHALLENGE.search(challenges):
        cause = LICENSE
    elif status == PAYMENT_REQUIRED:
        cause = PAYMENT
    else:
        return None
    price = first_value(fields, "crawler-price").strip()[:MAX_CHARACTERS]
    return Demand(cause, _license_in(url, fields), price)


def _license_in(url: str, fields: HeaderFields) -> str:
    for value in fields.get("link", ()):
        for target, parameters in LINK.findall(value[:MAX_CHARACTERS]):
            if IS_LICENSE.search(parameters):
                try:
                    return without_user(urljoin(url, target.strip()))
                except ValueError:  # such as http://[
                    continue
    return ""
