"""Texts to sign, and what was signed as plain lists."""

import itertools

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

deterministic = settings(derandomize=True, deadline=None, max_examples=150)

# what this Python knows: the frozen table may know more
known = st.characters(exclude_categories=["Cs", "Cn"])
WORDS = ["the", "a", "Cat", "cats", "Straße", "中文字", "of", "x" * 70, "99", "é", "да"]
ENDS = [" ", ". ", "\n", "! ", "。", "？", ".\n", "\n \t\n", ", ", ".x", "！"]
TEXTS = st.one_of(
    st.text(known, max_size=40),
    st.text(st.sampled_from("aaBc9 .?!\n\r\t中文。！？é\u0301𝔘"), max_size=120),
    st.lists(st.sampled_from([*WORDS, *ENDS]), max_size=150).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=80).map("\n".join),
)


def array(texts):
    return pa.array(texts, pa.large_string())


def keys(signatures):
    """The keys of each text."""
    edges = signatures.offsets.tolist()
    return [signatures.keys[i:j].tolist() for i, j in itertools.pairwise(edges)]


def shared(signatures, first, second):
    of = keys(signatures)
    return len(set(of[first]) & set(of[second]))
