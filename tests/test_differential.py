"""Other parsers are asked what the tables say, and real files."""

from __future__ import annotations

from tests.differential import OTHERS, about_tables, main


def test_each_differs_where_it_is_known_to(tmp_path, capsys):
    found = about_tables()
    assert found["Protego"]["19"] > 0  # /robots.txt with a query
    assert (
        found["urllib.robotparser"]["16"] > found["Protego"]["16"]
    )  # the most octets decide
    assert (
        found["urllib.robotparser"]["18"] == found["Protego"]["18"] == 0
    )  # none matches
    (tmp_path / "example.com").write_text("User-agent: *\nAllow: /\nDisallow: /a/b/\n")
    main([str(tmp_path)])
    out = capsys.readouterr().out
    for other in OTHERS:
        assert f"{other}: " in out
    assert (
        "of 24 answers about real files differ, the first: https://www.example.com/a/b/"
        in out
    )
