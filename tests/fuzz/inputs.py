"""Random inputs: pieces of real files and of the formats' own words, in any order, with any bytes between."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.fuzz.decoders import Decoder, seeds


def inputs(decoder: Decoder) -> st.SearchStrategy[tuple[bytes, list[int]]]:
    """(bytes, where they are cut)."""
    piece = st.one_of(st.sampled_from(seeds(decoder)), st.binary(max_size=40), st.text(max_size=20).map(_encoded))
    return st.tuples(
        st.lists(piece, max_size=30).map(b"".join),
        st.lists(st.integers(0, 1 << 16), max_size=6),
    )


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
