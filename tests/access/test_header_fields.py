"""Header fields: names in any case, several values, octets that are no Unicode."""

from __future__ import annotations

from scrapy_rep.access.answers import all_values, first_value, header_fields


def test_a_name_in_any_case_is_one_field():
    fields = header_fields(
        [("ETag", '"a"'), ("VARY", "Accept"), ("vary", "User-Agent")]
    )
    assert fields == {"etag": ['"a"'], "vary": ["Accept", "User-Agent"]}
    assert first_value(fields, "vary") == "Accept"
    assert all_values(fields, "vary") == "Accept, User-Agent"


def test_a_field_that_is_missing_has_no_value():
    assert first_value({}, "date") == all_values({}, "date") == ""


def test_what_is_no_unicode_can_be_kept():
    assert header_fields([("ETag", "\udcff")]) == {"etag": ["?"]}
