"""What several tests draw with Hypothesis: fingerprints, texts, ways to cut shingles.

How many examples a test takes is said by the profile, in conftest.py.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st

from mr_dedup.features.options import UNITS, FeatureOptions

Test = TypeVar("Test", bound=Callable[..., object])

MAX_FINGERPRINT = (1 << 64) - 1

EDGES = [
    0, 1, 0xFFFFFFFF, 0xFFFFFFFF00000000, (1 << 63) - 1, 1 << 63, MAX_FINGERPRINT - 1,
    MAX_FINGERPRINT,
]  # fmt: skip

FINGERPRINTS = st.integers(0, MAX_FINGERPRINT) | st.sampled_from(EDGES)

ENCODABLE = st.characters(exclude_categories=["Cs"])
"""Characters that UTF-8 can encode."""

KNOWN = st.characters(exclude_categories=["Cs", "Cn"])
"""Those that this Python's Unicode has: the frozen table may have more."""

WORDS = ["the", "a", "Cat", "cats", "Straße", "中文字", "of", "x" * 70, "99", "é", "да"]

_ENDS = [" ", ". ", "\n", "! ", "。", "？", ".\n", "\n \t\n", ", ", ".x", "！"]

TEXTS = st.one_of(
    st.text(KNOWN, max_size=40),
    st.text(st.sampled_from("aaBc9 .?!\n\r\t中文。！？é\u0301𝔘"), max_size=120),
    st.lists(st.sampled_from([*WORDS, *_ENDS]), max_size=150).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=80).map("\n".join),
)
"""Texts of any characters, of words that repeat, of sentences and of lines."""


def words_of(words: Sequence[str], max_words: int) -> st.SearchStrategy[str]:
    """Texts of up to ``max_words`` words, each one of ``words``."""
    return st.lists(st.sampled_from(words), max_size=max_words).map(" ".join)


def shingles_of(max_length: int, *more: st.SearchStrategy[str]) -> st.SearchStrategy:
    """Every unit with lengths from 1; ``more`` draws the next arguments of FeatureOptions."""
    return st.builds(FeatureOptions, st.sampled_from(UNITS), st.integers(1, max_length), *more)


def costly(test: Test) -> Test:
    """A third of the profile's examples, for tests with files or with a quadratic oracle."""
    decorated: Test = settings(max_examples=settings.default.max_examples // 3)(test)
    return decorated
