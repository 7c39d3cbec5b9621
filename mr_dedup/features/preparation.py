"""What is done to texts before features are taken: normalised; stop words, stems, Chinese words.

Segmenter, lists of stop words and stemmers are rjieba's, stopwordsiso's and PyStemmer's, which the
extra ``words`` installs. Words and rules may change from version to version of them, and features
with these: compare only what the same versions made.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features import kernels
from mr_dedup.features.languages import load_package
from mr_dedup.features.normalisation import normalised
from mr_dedup.features.normalisation_table import Normalization
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.unicode_table import (
    CHARACTER,
    WORD,
    is_other_spaceless,
    unicode_table,
)
from mr_dedup.kernels.byte_blocks import COPY_BYTES

_Table = tuple[NDArray[np.uint16], NDArray[np.int32]]


def prepare(texts: pa.LargeStringArray, options: FeatureOptions) -> pa.LargeStringArray:
    """Return what ``options`` make of the texts; the array itself where nothing of it changes.

    Texts are normalised first. Then Chinese is cut, then stop words are removed, then words are
    stemmed. Nulls stay, and so does a text of which nothing would be left. Texts that come back are
    to be cut into tokens by ``table_for(options)``.
    All but normalisation is in Python, so it takes 7 to 25 times as long as simhash does; in memory
    the texts twice over, each distinct token, and of one text at a time some 100 bytes a token.
    Raises ValueError for bytes that are not UTF-8, there.
    """
    if options.normalize != "none":
        texts = normalised(texts, options.normalize)
    if options.segment is not None:
        texts = _rewritten(texts, lambda text: _segmented(text.decode()).encode())
    if options.stop_words is None and options.stem is None:
        return texts
    table = table_for(options)
    stop_words = None
    if options.stop_words is not None:
        stop_words = _stop_words(options.stop_words, options.segment is not None, options.normalize)
    # of each call its own: a stemmer is not to be shared by threads
    stems = None if options.stem is None else _Stems(options.stem)

    def words_of(text: bytes) -> bytes:
        tokens = _tokens(text, table)
        if stop_words is not None:
            tokens = stop_words.without(tokens)
        # texts of which nothing is left are not all equal
        return b" ".join(tokens if stems is None else map(stems.__getitem__, tokens)) or text

    return _rewritten(texts, words_of)


def table_for(options: FeatureOptions) -> _Table:
    """Return the Unicode table for prepared texts: of segmented ones CJK characters make words."""
    return unicode_table() if options.segment is None else _table_of_cjk_words()


def _rewritten(
    texts: pa.LargeStringArray, rewrite: Callable[[bytes], bytes]
) -> pa.LargeStringArray:
    return pa.array(
        [rewrite(text.as_buffer().to_pybytes()) if text.is_valid else None for text in texts],
        pa.large_string(),
    )


def _tokens(text: bytes, table: _Table) -> list[bytes]:
    """Return the tokens of a text, folded, as the kernels cut them."""
    content = np.frombuffer(text, np.uint8)
    out = np.empty(2 * content.size + 2 * COPY_BYTES, np.uint8)
    starts, stops = np.empty((2, content.size // 2 + 2), np.uint32)
    count = kernels.normalise(
        content, np.uint64(0), np.uint64(content.size), *table, out, starts, stops
    )
    if count == 0:
        return []
    normalised = out[: stops[count - 1]].tobytes()
    tokens = normalised.split(b" ")
    if len(tokens) == count:
        return tokens
    # two CJK characters have no space between them
    edges = zip(starts[:count].tolist(), stops[:count].tolist(), strict=True)
    return [normalised[start:stop] for start, stop in edges]


@dataclass(frozen=True)
class _StopWords:
    """Stop words of one token, and by their first token those of several, such as don't."""

    single: frozenset[bytes]
    longer: Mapping[bytes, Sequence[tuple[bytes, ...]]]

    def without(self, tokens: list[bytes]) -> list[bytes]:
        """Return the tokens that no occurrence of a stop word covers."""
        if self.longer.keys().isdisjoint(tokens):
            return [token for token in tokens if token not in self.single]
        covered = {
            place
            for start, token in enumerate(tokens)
            for word in self.longer.get(token, ())
            if tuple(tokens[start : start + len(word)]) == word
            for place in range(start, start + len(word))
        }
        return [
            token
            for place, token in enumerate(tokens)
            if token not in self.single and place not in covered
        ]


@functools.cache
def _stop_words(language: str, segmented: bool, normalize: Normalization) -> _StopWords:
    """Return the stop words of a language, normalised and cut into tokens as texts are."""
    table = _table_of_cjk_words() if segmented else unicode_table()
    words = set()
    given = pa.array(sorted(load_package("stopwordsiso").stopwords(language)), pa.large_string())
    if normalize != "none":
        given = normalised(given, normalize)
    for word in given.to_pylist():
        words.add(tuple(_tokens((_segmented(word) if segmented else word).encode(), table)))
    single = frozenset(word[0] for word in words if len(word) == 1)
    longer: dict[bytes, list[tuple[bytes, ...]]] = {}
    for word in words:
        # the tokens of the others go anyway
        if not single.issuperset(word):
            longer.setdefault(word[0], []).append(word)
    return _StopWords(single, longer)


class _Stems(dict[bytes, bytes]):
    """The stem of each token that was asked for."""

    def __init__(self, language: str) -> None:
        # without its own cache, which takes longer than stemming
        self._stem = load_package("Stemmer").Stemmer(language, 0).stemWord

    def __missing__(self, token: bytes) -> bytes:
        # some rules leave nothing of a letter
        stem: bytes = self._stem(token) or token
        self[token] = stem
        return stem


def _segmented(text: str) -> str:
    """Return ``text`` with spaces around the words of its runs of CJK characters.

    The segmenter is given these alone: what else it knows are letters of ASCII.
    """
    cut = load_package("rjieba").cut
    return _cjk_run().sub(lambda run: f" {' '.join(cut(run[0]))} ", text)


@functools.cache
def _cjk_run() -> re.Pattern[str]:
    edges = np.flatnonzero(np.diff(_are_cjk(), prepend=False, append=False)).reshape(-1, 2)
    ranges = [f"{chr(first)}-{chr(end - 1)}" for first, end in edges.tolist()]
    return re.compile(f"[{''.join(ranges)}]+")


def _are_cjk() -> NDArray[np.bool_]:
    """Return which code points are characters of CJK."""
    pages, entries = unicode_table()
    code_points = np.arange(len(pages) << 8)
    kinds = entries[pages[code_points >> 8].astype(np.intp) << 8 | code_points & 255] & 3
    are_cjk: NDArray[np.bool_] = kinds == CHARACTER
    for code in np.flatnonzero(are_cjk).tolist():
        are_cjk[code] = not is_other_spaceless(code)
    return are_cjk


@functools.cache
def _table_of_cjk_words() -> _Table:
    """Return the table with words instead of CJK characters; others stay as they are."""
    pages, entries = unicode_table()
    code_points = np.arange(len(pages) << 8)
    each = entries[pages[code_points >> 8].astype(np.intp) << 8 | code_points & 255]
    each = np.where(_are_cjk(), each - (CHARACTER - WORD), each).astype(np.int32)
    distinct, numbers = np.unique(each.reshape(-1, 256), axis=0, return_inverse=True)
    return numbers.reshape(-1).astype(np.uint16), distinct.reshape(-1)
