"""The request for a robots.txt: what it carries, and which way it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http.request import NO_CALLBACK

from scrapy_rep.access.origins import origin_of
from scrapy_rep.exceptions import SettingError
from scrapy_rep.settings import WrongError, meta_of_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy_rep import access
    from scrapy_rep.settings import Settings


def request_for(
    asked: access.Request,
    origin: str,
    page: Request,
    user_agent: str,
    settings: Settings,
) -> Request:
    """Return the request that asks *origin* for what is *asked*, on behalf of *page*.

    It goes the way of *page*: through its proxy, and in its slot if the origin is the same.
    What settings and middlewares do to pages (redirects, retries, caches) is switched off.
    REP_ROBOTS_META may add to its meta. Raises ``SettingError`` if that is no meta.
    """
    # As they were sent to us: str would go out in UTF-8.
    headers: dict[str, Any] = {
        name: value.encode("latin-1", "ignore") for name, value in asked.headers.items()
    }
    if user_agent:
        headers["User-Agent"] = user_agent
    meta: dict[str, object] = {
        "dont_obey_robotstxt": True,
        "dont_redirect": True,
        "dont_retry": True,
        "dont_cache": True,
        "dont_merge_cookies": True,
        "handle_httpstatus_all": True,
        "allow_offsite": True,
        "autothrottle_dont_adjust_delay": True,
        "download_timeout": settings.timeout,
        "download_maxsize": 0,  # the fetcher stops it, and keeps what came
        "download_warnsize": 0,
        "download_fail_on_dataloss": True,
    }
    if (proxy := proxy_of(page)) is not None:
        keys, authorization = proxy
        meta |= keys
        if authorization is not None:
            headers["Proxy-Authorization"] = authorization
    if page.meta.get("download_slot") and origin_of(page.url) == origin:
        meta["download_slot"] = page.meta["download_slot"]
    request = Request(
        asked.url,
        headers=headers,
        meta=meta,
        callback=NO_CALLBACK,
        dont_filter=True,
        priority=1000,
    )
    for name, value in _meta_of_user(request, page, settings).items():
        request.meta.setdefault(name, value)
    return request


def _meta_of_user(
    request: Request, page: Request, settings: Settings
) -> Mapping[str, Any]:
    """Return the meta that REP_ROBOTS_META wants for *request*, on behalf of *page*."""
    wanted = settings.robots_meta or {}
    if not callable(wanted):
        return wanted
    meta = wanted(request, page)
    try:
        return meta_of_text({} if meta is None else meta, "a dict, or None")
    except WrongError as error:
        name = (
            f"What {getattr(wanted, '__qualname__', wanted)} (REP_ROBOTS_META) returns"
        )
        raise SettingError(name, meta, str(error)) from None


def proxy_of(page: Request) -> tuple[dict[str, Any], bytes | None] | None:
    """Return the meta and the Proxy-Authorization of the proxy that *page* names, if any."""
    if "proxy" not in page.meta or "_scheme_proxy" in page.meta:
        return None
    names = ("proxy", "_auth_proxy")
    keys = {name: page.meta[name] for name in names if name in page.meta}
    return keys, page.headers.get(b"Proxy-Authorization")
