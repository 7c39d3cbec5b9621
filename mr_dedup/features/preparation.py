"""Prepare texts before they are tokenised: normalise, segment Chinese, remove stop words, stem.

Segmentation is rjieba's, lists of stop words are stopwordsiso's, stemmers PyStemmer's; the extra
``words`` installs them. Their words and rules change between versions: compare only features that
the same versions made.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features import symbol_kernels
from mr_dedup.features.languages import load_package
from mr_dedup.features.normalisation import normalised
from mr_dedup.features.options import FeatureOptions, Symbols
from mr_dedup.features.text_batch import TextBatch, text_batch, texts_of
from mr_dedup.features.token_kernels import Tokens, tokenise
from mr_dedup.features.unicode_table import (
    ASCII_SYMBOLS,
    CHARACTER,
    FIRST_MARKED,
    KIND,
    WORD,
    UnicodeTable,
    is_other_spaceless,
    unicode_table,
)
from mr_dedup.kernels.arrays import uninitialised
from mr_dedup.kernels.byte_blocks import BLOCK_BYTES

_MARKED = {ord(symbol): chr(FIRST_MARKED + n) for n, symbol in enumerate(ASCII_SYMBOLS)}


def prepared_batch(texts: pa.LargeStringArray, options: FeatureOptions) -> TextBatch:
    """Return the prepared texts as a batch for kernels; see :func:`prepare`.

    Raises:
        ValueError: For another type of array.
    """
    text_batch(texts)
    return text_batch(prepare(texts, options))


def prepare(texts: pa.LargeStringArray, options: FeatureOptions) -> pa.LargeStringArray:
    """Return the texts prepared by ``options``; the same array if nothing changes.

    Texts are normalised and symbols marked, then Chinese is segmented, stop words are removed, and
    words are stemmed. Nulls stay null. A text that would become empty stays as it is.

    All but normalisation is in Python and takes 7 to 25 times as long as simhash. Memory: the texts
    twice, each distinct token, and 100 bytes a token of one text at a time.

    Args:
        texts: n texts.
        options: What to do. Returned texts are to be tokenised with ``table_for(options)``.

    Raises:
        ValueError: For content that is not UTF-8.
    """
    if options.normalize != "none":
        texts = normalised(texts, options.normalize, exact=options.symbols == "keep")
    texts = marked(texts, options.symbols)
    if options.segment is not None:
        texts = _rewritten(texts, lambda text: _segmented(text.decode()).encode())
    if options.stop_words is None and options.stem is None:
        return texts
    table = table_for(options)
    stop_words = None
    if options.stop_words is not None:
        stop_words = _stop_words(
            options.stop_words, options.segment is not None, options.normalize, options.symbols
        )
    # one for each call: threads must not share a stemmer
    stems = None if options.stem is None else _Stems(options.stem)

    def words_of(text: bytes) -> bytes:
        tokens = _tokens(text, table)
        if stop_words is not None:
            tokens = stop_words.without(tokens)
        joined = b" ".join(tokens if stems is None else map(stems.__getitem__, tokens))
        if options.symbols != "ignore":
            joined = joined.decode().translate(_MARKED).encode()
        # else all texts of stop words alone would be equal
        return joined or text

    return _rewritten(texts, words_of)


def table_for(options: FeatureOptions) -> UnicodeTable:
    """Return the character table for prepared texts.

    In segmented texts CJK characters form words; otherwise each is a token by itself.
    """
    symbols = options.symbols != "ignore"
    if options.segment is None:
        return unicode_table(symbols=True) if symbols else unicode_table()
    return _table_of_cjk_words(symbols=symbols)


def marked(texts: pa.LargeStringArray, symbols: Symbols) -> pa.LargeStringArray:
    """Return texts with the symbols of ASCII that are tokens marked; the same array if none is.

    A mark is a noncharacter, which ``unicode_table(symbols=True)`` folds to the symbol. With
    ``keep`` all are tokens, with ``auto`` those of operators: up to three of ``-+*/<>=%&|!^~?``
    between two operands (``a<=b``, ``a == b``, but no hyphen, dash, path or column of a table), a
    sign before a number (``-1``, ``$5``), ``+``, ``#`` and ``%`` after a word (``C++``), ``!`` and
    ``~`` before one. What is within five bytes decides, so a change of a text changes no marks
    but those near it.

    Raises:
        ValueError: For another type of array.
    """
    if symbols == "ignore":
        return texts
    batch = text_batch(texts)
    counts = np.empty(len(texts), np.int64)
    everywhere = symbols == "keep"
    marks = int(symbol_kernels.count_marks(batch, everywhere, counts))
    if not marks:
        return texts
    out = uninitialised(int(batch.sizes.sum()) + 2 * marks + BLOCK_BYTES, np.uint8)
    edges = np.empty(len(texts) + 1, np.int64)
    stop = symbol_kernels.write_marked(batch, everywhere, counts, out, edges)
    return texts_of(out[:stop], edges, texts)


def _rewritten(
    texts: pa.LargeStringArray, rewrite: Callable[[bytes], bytes]
) -> pa.LargeStringArray:
    return pa.array(
        [rewrite(text.as_buffer().to_pybytes()) if text.is_valid else None for text in texts],
        pa.large_string(),
    )


def _tokens(text: bytes, table: UnicodeTable) -> list[bytes]:
    """Return the tokens of a text, case-folded."""
    content = np.frombuffer(text, np.uint8)
    tokens = Tokens.allocate(content.size)
    count = tokenise(content, np.uint64(0), np.uint64(content.size), table, tokens)
    if count == 0:
        return []
    joined = tokens.text[: tokens.stops[count - 1]].tobytes()
    parts = joined.split(b" ")
    if len(parts) == count:
        return parts
    # two CJK characters have no space between them
    edges = zip(tokens.starts[:count].tolist(), tokens.stops[:count].tolist(), strict=True)
    return [joined[start:stop] for start, stop in edges]


@dataclass(frozen=True)
class _StopWords:
    """Stop words of one token, and those of several, such as don't, by their first token."""

    single: frozenset[bytes]
    longer: Mapping[bytes, Sequence[tuple[bytes, ...]]]

    def without(self, tokens: list[bytes]) -> list[bytes]:
        """Return the tokens outside all occurrences of stop words."""
        if self.longer.keys().isdisjoint(tokens):
            return [token for token in tokens if token not in self.single]
        covered = {
            index
            for start, token in enumerate(tokens)
            for word in self.longer.get(token, ())
            if tuple(tokens[start : start + len(word)]) == word
            for index in range(start, start + len(word))
        }
        return [
            token
            for index, token in enumerate(tokens)
            if token not in self.single and index not in covered
        ]


@functools.cache
def _stop_words(language: str, segmented: bool, normalize: str, symbols: Symbols) -> _StopWords:
    """Return the stop words of a language, normalised and tokenised as texts are."""
    table = table_for(FeatureOptions(segment="zh" if segmented else None, symbols=symbols))
    words = set()
    listed = pa.array(sorted(load_package("stopwordsiso").stopwords(language)), pa.large_string())
    if normalize != "none":
        listed = normalised(listed, normalize)
    for word in marked(listed, symbols).to_pylist():
        words.add(tuple(_tokens((_segmented(word) if segmented else word).encode(), table)))
    single = frozenset(word[0] for word in words if len(word) == 1)
    longer: dict[bytes, list[tuple[bytes, ...]]] = {}
    for word in words:
        # others are removed token by token
        if not single.issuperset(word):
            longer.setdefault(word[0], []).append(word)
    return _StopWords(single, longer)


class _Stems(dict[bytes, bytes]):
    """The stems of tokens, computed when first needed."""

    def __init__(self, language: str) -> None:
        # its cache, which is off, takes longer than stemming
        self._stem = load_package("Stemmer").Stemmer(language, 0).stemWord

    def __missing__(self, token: bytes) -> bytes:
        # some rules reduce a letter to nothing
        stem: bytes = self._stem(token) or token
        self[token] = stem
        return stem


def _segmented(text: str) -> str:
    """Return ``text`` with spaces around the words in its runs of CJK characters.

    Only these are segmented: besides them, rjieba supports ASCII letters alone.
    """
    cut = load_package("rjieba").cut
    return _cjk_run().sub(lambda run: f" {' '.join(cut(run[0]))} ", text)


@functools.cache
def _cjk_run() -> re.Pattern[str]:
    edges = np.flatnonzero(np.diff(_are_cjk(), prepend=False, append=False)).reshape(-1, 2)
    ranges = [f"{chr(first)}-{chr(end - 1)}" for first, end in edges.tolist()]
    return re.compile(f"[{''.join(ranges)}]+")


def _are_cjk() -> NDArray[np.bool_]:
    """Return which code points are CJK characters, bool[1114112]."""
    are_cjk: NDArray[np.bool_] = unicode_table().each() & KIND == CHARACTER
    for code in np.flatnonzero(are_cjk).tolist():
        are_cjk[code] = not is_other_spaceless(code)
    return are_cjk


@functools.cache
def _table_of_cjk_words(*, symbols: bool) -> UnicodeTable:
    """Return the table in which CJK characters are parts of words."""
    each = unicode_table(symbols=symbols).each()
    each[_are_cjk()] -= CHARACTER - WORD
    return UnicodeTable.of_each(each)
