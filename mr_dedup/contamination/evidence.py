"""What of a question must be in a document, besides most of it, to tell it from other questions.

Questions of a set share passages, stems and stock phrases. So what counts is what only one has:
n-grams that no other question of the items has, its own ones; and its last sentence, which of a
passage and a question in one text is the question.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mr_dedup.contamination import kernels
from mr_dedup.contamination.kernels import ItemTable
from mr_dedup.kernels.unsigned import FACTORS

OWN_TOKENS = 3
"""Tokens of an n-gram. One that no other question has shows which question a document has."""

_PRESENT_TOKENS = 2
"""A token is there with one of its neighbours: by itself a common word is anywhere."""

_SENTENCE_TOKENS = 5
"""A last sentence of fewer tokens begins with the one before."""

_MANY_GRAMS = 5
"""Of so many own n-grams in a last sentence one must be there."""

_SENTENCE_END = re.compile(
    rb"[.!?](?=[^0-9A-Za-z])|[\n\r]|" + b"|".join(mark.encode() for mark in "。！？")
)


class Evidence(NamedTuple):
    """What of a question is in a document, as shares from 0 to 1.

    Attributes:
        own_grams: Of its own n-grams; 0 if it has none.
        own_tokens: Of the tokens of these.
        last_sentence: Of the own tokens of its last sentence; of all of them where none is its
            own; 0 if it has many own n-grams and the document none of these.
    """

    own_grams: float
    own_tokens: float
    last_sentence: float

    def is_enough(self, needed: Evidence) -> bool:
        """Return whether no share is smaller than needed."""
        return all(share >= least for share, least in zip(self, needed, strict=True))


def evidence_of(
    question: NDArray[np.uint64], is_own: NDArray[np.bool_], last: int, found: NDArray[np.uint64]
) -> Evidence:
    """Return what of a question a piece of a document has; linear in both.

    Args:
        question: uint64[n], the hashes of its tokens.
        is_own: bool[n], where its own n-grams begin.
        last: The first token of its last sentence.
        found: uint64[m], the tokens of the document that are most of it.
    """
    if not is_own.any():
        return Evidence(0.0, 0.0, 0.0)
    has_gram = np.isin(_grams(question, OWN_TOKENS), _grams(found, OWN_TOKENS))
    has_pair = np.isin(_grams(question, _PRESENT_TOKENS), _grams(found, _PRESENT_TOKENS))
    is_there = _covered(has_pair, _PRESENT_TOKENS)
    begins = is_own[: has_gram.size]
    own = _covered(begins, OWN_TOKENS)
    of_last = own[last:] if own[last:].any() else np.ones(question.size - last, bool)
    last_sentence = float(is_there[last:][of_last].mean())
    own_of_last = has_gram[last:][begins[last:]]
    if own_of_last.size >= _MANY_GRAMS and not own_of_last.any():
        last_sentence = 0.0
    return Evidence(float(has_gram[begins].mean()), float(is_there[own].mean()), last_sentence)


def _grams(hashes: NDArray[np.uint64], size: int) -> NDArray[np.uint64]:
    """Return a hash of each ``size`` tokens in a row."""
    hashed = np.zeros(max(0, hashes.size - size + 1), np.uint64)
    for k in range(size):
        hashed = hashed * np.uint64(FACTORS[0]) + hashes[k : k + hashed.size]
    return hashed


def _covered(begins: NDArray[np.bool_], size: int) -> NDArray[np.bool_]:
    """Return which tokens are in n-grams of ``size`` that begin where ``begins`` says."""
    covered = np.zeros(begins.size + size - 1, bool)
    for k in range(size):
        covered[k : k + begins.size] |= begins
    return covered


def own_grams(table: ItemTable, of_questions: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return 1 for each token of the texts with which an n-gram begins that one question has.

    Args:
        table: The texts, m tokens in all.
        of_questions: bool[t], which texts are questions.

    Returns:
        uint8[m].
    """
    tokens, starts = table.tokens, table.starts.astype(np.int64)
    is_own = np.zeros(tokens.size, np.uint8)
    keys = np.empty(max(0, tokens.size - OWN_TOKENS + 1), np.uint64)
    kernels.gram_hashes(tokens, np.uint64(OWN_TOKENS), keys)
    of_token = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    first_of, last_of = of_token[: keys.size], of_token[-keys.size or tokens.size :]
    inside = np.flatnonzero((first_of == last_of) & of_questions[last_of])
    order = inside[np.lexsort((inside, keys[inside]))]
    begins = np.flatnonzero(np.diff(keys[order], prepend=~keys[order][:1]))
    counts = np.diff(np.append(begins, order.size))
    # the order of equal n-grams is that of their texts
    same_text = of_token[order[begins]] == of_token[order[begins + counts - 1]]
    is_own[order[np.repeat(same_text, counts)]] = 1
    return is_own


def last_sentence(text: str, starts: NDArray[np.uint32]) -> int:
    """Return the first token of the last sentence of a text; 0 of a text of one sentence.

    Args:
        text: The text.
        starts: uint32[n], where its tokens begin, in bytes of UTF-8.
    """
    ends = np.array([mark.end() for mark in _SENTENCE_END.finditer(text.encode())], np.int64)
    firsts = np.searchsorted(starts, ends)
    return int(firsts[firsts + _SENTENCE_TOKENS <= starts.size].max(initial=0))
