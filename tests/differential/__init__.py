"""Our verdicts beside those of other parsers, and why they differ."""
