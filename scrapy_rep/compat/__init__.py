"""Drop-in faces of the protocol core, for code written against other parsers."""

from __future__ import annotations

from scrapy_rep.compat.robotparser import RepRobotParser

__all__ = ["RepRobotParser"]
