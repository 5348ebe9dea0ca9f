"""How Scrapy's priority queues call the folder of a slot."""

from __future__ import annotations

from hashlib import md5

try:
    # It is theirs: what it returns is on the disks of users.
    from scrapy.pqueues import _path_safe as folder_of
except ImportError:  # in a Scrapy to come; what is here is that of 2.14 to 2.19

    def folder_of(text: str) -> str:
        safe = "".join(c if c.isalnum() or c in "-._" else "_" for c in text)
        return f"{safe}-{md5(text.encode()).hexdigest()}"  # noqa: S324


__all__ = ["folder_of"]
