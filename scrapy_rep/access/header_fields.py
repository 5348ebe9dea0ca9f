"""The header fields of an answer (RFC 9110 5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

HeaderFields = Mapping[str, Sequence[str]]
"""The values of each field, in their order, by its name in lower case. Octets are as in
ISO-8859-1."""
NO_FIELDS: HeaderFields = {}


def header_fields(pairs: Iterable[tuple[str, str]]) -> HeaderFields:
    """Return the fields with these names and values. What is no Unicode becomes "?"."""
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        text = value.encode("utf-8", "replace").decode()
        fields.setdefault(name.lower(), []).append(text)
    return fields


def first_value(fields: HeaderFields, name: str) -> str:
    """Return the first value of the field *name*, in lower case; "" where there is none."""
    return fields[name][0] if name in fields else ""


def all_values(fields: HeaderFields, name: str) -> str:
    """Return the values of the field *name*, in lower case, as one list (RFC 9110 5.3)."""
    return ", ".join(fields.get(name, ()))
