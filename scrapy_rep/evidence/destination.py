"""Where an audit goes: the URI with its parameters filled in, its feed storage, a free file."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timezone
from importlib import import_module
from itertools import count
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy.extensions.feedexport import GCSFeedStorage, S3FeedStorage
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol.printable import mask_uri

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

SETTING_NAME = "REP_AUDIT_URI"
PARAMETERS_SETTING = "FEED_URI_PARAMS"
PARAMETER = re.compile(
    r"%\(([^()]+)\)[-+ #0]*(?:[1-9]\d*)?(?:\.\d+)?[diouxXeEfFgGcrsa]"
)
"""A parameter to fill in; any other "%" belongs to the URI itself."""
STORAGE_PACKAGES = (
    (S3FeedStorage, "boto3", "boto3"),
    (GCSFeedStorage, "google.cloud.storage", "google-cloud-storage"),
)
"""Storage, the module that it imports (maybe only when the crawl is over), and the package of
that."""


def storage(crawler: Crawler, uri: str) -> Any:
    """Return the feed storage for *uri*, as Scrapy's feed exports choose it."""
    storages = crawler.settings.getwithbase("FEED_STORAGES")
    schemes = {scheme: path for scheme, path in storages.items() if path is not None}
    scheme = urlsplit(uri).scheme
    if PureWindowsPath(uri).drive:
        scheme = "file"
    if scheme not in schemes:
        known = ", ".join(sorted(filter(None, schemes)))
        raise SettingError(
            SETTING_NAME,
            mask_uri(uri),
            f"a path, or a URI with a scheme of FEED_STORAGES: {known}",
        )
    kind = load_object(schemes[scheme])
    for scrapys, module, package in STORAGE_PACKAGES:
        if kind is scrapys:
            try:
                import_module(module)
            except ImportError as error:
                expected = f"its package first: pip install {package} ({error})"
                raise SettingError(SETTING_NAME, mask_uri(uri), expected) from None
    return build_from_crawler(kind, crawler, uri, feed_options={})


def fill_in(uri: str, crawler: Crawler, worker: str) -> str:
    """Return *uri* with its parameters: those of Scrapy's feeds, and ``%(worker)s``.

    FEED_URI_PARAMS may add to them, or change them, as for feeds. Raises ``SettingError`` if a
    parameter is not known, or does not fit its format.
    """
    value_of = _parameters(crawler, worker)

    def value(found: re.Match[str]) -> str:
        name = found[1]
        try:
            return found[0] % {name: value_of(name)}
        except (AttributeError, KeyError, TypeError, ValueError):
            raise SettingError(
                SETTING_NAME,
                mask_uri(uri),
                "%(time)s, %(worker)s, an attribute of the spider or what "
                f"{PARAMETERS_SETTING} gives, not {found[0]}",
            ) from None

    return PARAMETER.sub(value, uri)


def _parameters(crawler: Crawler, worker: str) -> Callable[[str], Any]:
    """Return a function from the name of a parameter to its value."""
    spider = crawler.spider
    assert spider is not None
    now = datetime.now(tz=timezone.utc)
    ours = {
        "time": now.replace(microsecond=0).isoformat().replace(":", "-"),
        "batch_time": now.isoformat().replace(":", "-"),
        "batch_id": 1,
        "worker": worker,
    }
    chosen = crawler.settings[PARAMETERS_SETTING]
    if not chosen:
        return lambda name: ours[name] if name in ours else getattr(spider, name)
    known = {name: getattr(spider, name) for name in dir(spider)} | ours
    try:
        given = load_object(chosen)(known, spider)
        if given is None:  # as for feeds: it has altered what it was given, perhaps
            given = known
        values = {"worker": worker, **given}  # which feeds do not know
    except Exception as error:
        expected = (
            "a function of parameters and spider that returns a dict, or the import path "
            f"of one ({type(error).__name__}: {error})"
        )
        raise SettingError(PARAMETERS_SETTING, chosen, expected) from error
    return values.__getitem__


def claim_path(path: str) -> str:
    """Make a file at *path*, or where there is one at "path-2", and so on; return which.

    Each crawl has a file of its own: a compressed file that a kill has cut off cannot be
    continued, and two crawls that write to one file damage it. If *path* is no file but, say,
    a pipe, it is used as it is.
    """
    wanted = Path(path)
    wanted.parent.mkdir(parents=True, exist_ok=True)
    stem, dot, suffixes = wanted.name.partition(".")
    names = (f"{stem}-{number}{dot}{suffixes}" for number in count(2))
    candidate = wanted
    while not candidate.exists() or candidate.is_file():
        with suppress(FileExistsError):
            candidate.touch(mode=0o600, exist_ok=False)  # no one else may read it
            break
        candidate = wanted.with_name(next(names))
    return str(candidate)
