"""Folders of slots are called alike with and without Scrapy's own function."""

from __future__ import annotations

import importlib

import pytest
import scrapy.pqueues

from scrapy_rep.job import folders


@pytest.mark.parametrize("slot", ["example.com", "[::1]", "a b@c?", "é-_.x", ""])
def test_as_scrapy_calls_it(slot, monkeypatch):
    theirs = scrapy.pqueues._path_safe(slot)
    assert folders.folder_of(slot) == theirs
    monkeypatch.delattr(scrapy.pqueues, "_path_safe")
    try:
        assert importlib.reload(folders).folder_of(slot) == theirs
    finally:
        monkeypatch.undo()
        importlib.reload(folders)
