"""What Hypothesis makes inputs of."""

from __future__ import annotations

from hypothesis import strategies as st

CHARACTERS = st.characters(exclude_categories=["Cs"])
"""All but surrogates. ``st.characters()`` first tries which of them UTF-8 has, for two seconds."""
