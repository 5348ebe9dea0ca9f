"""Text of strangers, as people may be shown it."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return *text* with what cannot be seen written out.

    It must neither steer a terminal nor deceive a reader: controls, and marks that turn the
    direction of writing, are among it.
    """
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable()
        else " "
        if char == "\t"
        else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
