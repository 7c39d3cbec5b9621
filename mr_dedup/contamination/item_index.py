"""The index of items: their texts as tokens, the weights of tokens, and the n-grams of texts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.contamination import kernels
from mr_dedup.contamination.evidence import last_sentence, own_grams
from mr_dedup.contamination.kernels import MAX_GRAM, MIN_GRAM, ItemTable
from mr_dedup.contamination.options import MatchOptions
from mr_dedup.errors import FormatError
from mr_dedup.features.document_frequencies import IDF_ONE, inverse_frequencies
from mr_dedup.features.token_spans import token_spans
from mr_dedup.files.io_errors import reading
from mr_dedup.files.outputs import whole_file
from mr_dedup.formats.shards import read_tables, write_tables

MAX_TEXTS = 64
"""An n-gram of more texts is not looked up, but where a text has no other."""

_MIN_WEIGHT, _MAX_WEIGHT = 16, 64
_MAX_TOKENS = 1 << 20
"""Tokens of the longest text that is compared: alignments count their edits in 21 bits."""

_FILTER_BITS = 16
"""Bits of the filter for each n-gram."""

_NAME = "items"

_OTHERS = 9
"""Arrays of an index besides its table and uses."""


class Field(IntEnum):
    """Which text of an item."""

    QUESTION = 0
    PASSAGE = 1
    ANSWER = 2

    @property
    def key(self) -> str:
        """Its name in results."""
        return self.name.lower()


class Uses(NamedTuple):
    """Which items each text is of: those of text t are ``starts[t]`` to ``starts[t + 1]``.

    Attributes:
        starts: int64[t + 1].
        items: int32[u].
        fields: uint8[u], a ``Field`` each.
    """

    starts: NDArray[np.int64]
    items: NDArray[np.int32]
    fields: NDArray[np.uint8]


@dataclass(frozen=True)
class ItemIndex:
    """The texts of n items for matching; see ``ItemTable``.

    Attributes:
        options: How items are matched.
        table: The texts and their n-grams.
        uses: The items of each text.
        answer_starts: int64[n + 1], the first answer of each item in the next array.
        answers: int32[a], texts; -1 for an answer without tokens.
        by_passage: uint8[n], 1 if the question is too short, or missing: the passage is judged in
            its place.
        short_questions: int32[n], the text of the question that is too short; else -1.
        has_passage: uint8[n], 1 if the item has a question and a passage, and both are judged.
        reasons: uint8[n], why an item is not judged, an index of ``REASONS``; 0 if it is.
        same_as: int32[n], the first item of its set with the same texts, which is judged in its
            place.
        last_sentences: uint32[t], which token of each text its last sentence begins with.
        is_own: uint8[m], parallel to the tokens of the table: 1 where an n-gram of a question
            begins that no other question has.
        common_grams: How many n-grams are not looked up, as too many texts have them.
    """

    options: MatchOptions
    table: ItemTable
    uses: Uses
    answer_starts: NDArray[np.int64]
    answers: NDArray[np.int32]
    by_passage: NDArray[np.uint8]
    short_questions: NDArray[np.int32]
    has_passage: NDArray[np.uint8]
    reasons: NDArray[np.uint8]
    same_as: NDArray[np.int32]
    last_sentences: NDArray[np.uint32]
    is_own: NDArray[np.uint8]
    common_grams: int

    def __len__(self) -> int:
        return self.reasons.size

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each text."""
        starts = self.table.starts.astype(np.int64)
        lengths: NDArray[np.int64] = starts[1:] - starts[:-1]
        return lengths

    @classmethod
    def build(cls, items: pa.Table, options: MatchOptions) -> ItemIndex:
        """Return the index of items, a table of ``formats.benchmark_items.ITEMS``.

        Takes some 3 microseconds and 100 bytes a token.
        """
        return _build(items, options)

    def write(self, path: Path) -> None:
        """Write the index to a file for tasks, with checksums; replace one of this name."""
        with whole_file(path, overwrite=True) as file:
            write_tables(file, self._tables())

    def _tables(self) -> Iterator[pa.Table]:
        options = msgspec.json.encode(self.options).decode()
        yield pa.table({_NAME: [len(self)], "options": [options], "common": [self.common_grams]})
        for number, array in enumerate(self._arrays()):
            yield pa.table({str(number): array})

    def _arrays(self) -> list[NDArray[Any]]:
        return [
            *self.table, *self.uses, self.answer_starts, self.answers, self.by_passage,
            self.short_questions, self.has_passage, self.reasons, self.same_as,
            self.last_sentences, self.is_own,
        ]  # fmt: skip

    @classmethod
    def read(cls, path: Path) -> ItemIndex:
        """Return what ``write`` wrote; FormatError if it is damaged."""
        with reading(path), pa.memory_map(str(path)) as file:
            head, *tables = read_tables(file, str(path))
        if head.column_names != [_NAME, "options", "common"]:
            raise FormatError(path, None, "is not an index of items")
        # a long array is several tables
        parts: dict[str, list[pa.ChunkedArray]] = {}
        for table in tables:
            parts.setdefault(table.column_names[0], []).append(table.column(0))
        of_table = len(ItemTable._fields)
        if len(parts) != of_table + len(Uses._fields) + _OTHERS:
            raise FormatError(path, None, f"has {len(parts)} arrays")
        arrays = [np.concatenate([each.to_numpy() for each in found]) for found in parts.values()]
        options = msgspec.json.decode(head["options"][0].as_py(), type=MatchOptions)
        of_items, uses = ItemTable(*arrays[:of_table]), Uses(*arrays[of_table:-_OTHERS])
        common = head["common"][0].as_py()
        (
            starts, answers, by_passage, short_questions, has_passage, reasons, same_as,
            last_sentences, is_own,
        ) = arrays[-_OTHERS:]  # fmt: skip
        return cls(
            options, of_items, uses, starts, answers, by_passage, short_questions, has_passage,
            reasons, same_as, last_sentences, is_own, common,
        )  # fmt: skip


REASONS = (None, "too_short", "no_text", "same_as_another", "too_long")
"""Why an item is not judged."""

_TOO_SHORT, _NO_TEXT, _SAME, _TOO_LONG = 1, 2, 3, 4


def _build(items: pa.Table, options: MatchOptions) -> ItemIndex:
    sequences, last_sentences, numbers = _sequences(items)
    questions, passages, answers = numbers
    count = len(items)
    lengths = np.array([len(each) for each in sequences], np.int64)

    def length_of(text: int) -> int:
        return int(lengths[text]) if text >= 0 else 0

    reasons = np.zeros(count, np.uint8)
    same_as = np.arange(count, dtype=np.int32)
    sets = items["set"].to_pylist()
    first: dict[tuple[str, int, int, tuple[int, ...]], int] = {}
    uses: list[tuple[int, int, int]] = []
    answer_starts, all_answers = [0], []
    by_passage = np.zeros(count, np.uint8)
    short_questions = np.full(count, -1, np.int32)
    has_passage = np.zeros(count, np.uint8)
    for item in range(count):
        question, passage = questions[item], passages[item]
        long = [length_of(text) >= options.min_tokens for text in (question, passage)]
        by_passage[item] = long == [False, True]
        if by_passage[item]:
            short_questions[item] = question
        if options.passages == "ignore" and not by_passage[item]:
            passage = -1
        key = (sets[item], question, passage, tuple(answers[item]))
        of_item: list[int] = []
        if not any(long):
            empty = length_of(question) + length_of(passage) == 0
            reasons[item] = _NO_TEXT if empty else _TOO_SHORT
        elif max(length_of(question), length_of(passage)) > _MAX_TOKENS:
            reasons[item] = _TOO_LONG
        elif first.setdefault(key, item) != item:
            same_as[item] = first[key]
            reasons[item] = _SAME
        else:
            if long[0]:
                uses.append((question, item, Field.QUESTION))
            if length_of(passage) >= options.min_tokens and passage != question:
                uses.append((passage, item, Field.PASSAGE))
                has_passage[item] = long[0]
            of_item = answers[item]
            uses += [
                (text, item, Field.ANSWER)
                for text in dict.fromkeys(of_item)
                if max(options.near_tokens, options.min_tokens) <= length_of(text) <= _MAX_TOKENS
            ]
        all_answers += of_item
        answer_starts.append(len(all_answers))
    looked_up = np.zeros(len(sequences), bool)
    looked_up[[text for text, _, _ in uses]] = True
    weighed = np.zeros(len(sequences), bool)
    weighed[[text for text, _, field in uses if field != Field.ANSWER]] = True
    decisive = np.zeros(len(sequences), bool)
    decisive[[text for text, item, field in uses if field == by_passage[item]]] = True
    table, common = _table(sequences, lengths, looked_up, weighed, options)
    return ItemIndex(
        options, table, _uses(uses, len(sequences)), np.array(answer_starts, np.int64),
        np.array(all_answers, np.int32), by_passage, short_questions, has_passage, reasons,
        same_as, last_sentences, own_grams(table, decisive), common,
    )  # fmt: skip


_Numbers = tuple[list[int], list[int], list[list[int]]]


def _sequences(
    items: pa.Table,
) -> tuple[list[NDArray[np.uint64]], NDArray[np.uint32], _Numbers]:
    """Return the distinct sequences of tokens, the last sentence of each, and which one a text is.

    The latter is -1 for a text without tokens.
    """
    columns = [items["question"], items["passage"], items["answers"].combine_chunks().flatten()]
    chunks = [
        chunk.cast(pa.large_string())
        for column in columns
        for chunk in (column.chunks if isinstance(column, pa.ChunkedArray) else [column])
    ]
    texts = pa.concat_arrays([pa.array([], pa.large_string()), *chunks])
    spans = token_spans(texts)
    sequences: list[NDArray[np.uint64]] = []
    last_sentences: list[int] = []
    known: dict[bytes, int] = {}
    numbers: list[int] = []
    edges = spans.offsets.tolist()
    strings = itertools.chain.from_iterable(chunk.to_pylist() for chunk in chunks)
    for text, (start, stop) in zip(strings, itertools.pairwise(edges), strict=True):
        if start == stop:
            numbers.append(-1)
            continue
        tokens = spans.hashes[start:stop]
        number = known.setdefault(tokens.tobytes(), len(sequences))
        if number == len(sequences):
            sequences.append(tokens)
            last_sentences.append(last_sentence(text, spans.starts[start:stop]))
        numbers.append(number)
    count = len(items)
    answers = numbers[2 * count :]
    counts = [len(each) for each in items["answers"].to_pylist()] if count else []
    of_item, begin = [], 0
    for each in counts:
        of_item.append(answers[begin : begin + each])
        begin += each
    return (
        sequences,
        np.array(last_sentences, np.uint32),
        (numbers[:count], numbers[count : 2 * count], of_item),
    )


def _uses(uses: list[tuple[int, int, int]], texts: int) -> Uses:
    of_text, items, fields = np.array(uses, np.int64).reshape(-1, 3).T
    order = np.argsort(of_text, kind="stable")
    starts = np.searchsorted(of_text[order], np.arange(texts + 1))
    return Uses(
        starts.astype(np.int64), items[order].astype(np.int32), fields[order].astype(np.uint8)
    )


def _table(
    sequences: list[NDArray[np.uint64]],
    lengths: NDArray[np.int64],
    looked_up: NDArray[np.bool_],
    weighed: NDArray[np.bool_],
    options: MatchOptions,
) -> tuple[ItemTable, int]:
    """Return the table of texts, and how many n-grams are too common."""
    hashes = np.concatenate([np.empty(0, np.uint64), *sequences])
    words, numbers = np.unique(hashes, return_inverse=True)
    tokens = (numbers.reshape(-1) + 1).astype(np.uint32)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    weights = _weights(tokens, lengths, weighed, words.size)
    of_text = np.repeat(np.arange(lengths.size), lengths)
    totals = np.zeros(lengths.size, np.int64)
    np.add.at(totals, of_text, weights[tokens])
    max_edits = np.maximum(1, np.floor(options.max_edits * lengths)).astype(np.uint32)
    max_edits[(lengths < options.near_tokens) | (options.max_edits == 0)] = 0
    grams, common = _grams(tokens, starts, lengths, looked_up)
    word_keys, word_ids = _hash_table(words)
    keys, first = np.unique(grams.keys, return_index=True)
    gram_keys, gram_rows = _hash_table(keys)
    filter = np.zeros(_power_of_2(max(64, _FILTER_BITS * keys.size)) // 64, np.uint64)
    kernels.fill_filter(keys, filter)
    hashes, powers = np.empty((2, lengths.size), np.uint64)
    kernels.text_hashes(tokens, starts.astype(np.uint64), hashes, powers)
    table = ItemTable(
        word_keys, word_ids, weights.astype(np.uint32), tokens, starts.astype(np.uint64), hashes,
        powers, totals.astype(np.uint32), max_edits, filter, gram_keys, gram_rows,
        np.append(first, grams.keys.size).astype(np.uint32),
        grams.texts.astype(np.uint32), grams.offsets.astype(np.uint32),
        grams.sizes.astype(np.uint32),
    )  # fmt: skip
    return table, common


def _weights(
    tokens: NDArray[np.uint32], lengths: NDArray[np.int64], weighed: NDArray[np.bool_], words: int
) -> NDArray[np.int64]:
    """Return the weights of tokens by number: rare ones weigh four times what the commonest do."""
    of_text = np.repeat(np.arange(lengths.size), lengths)
    kept = weighed[of_text]
    pairs = np.unique(of_text[kept] * (words + 1) + tokens[kept])
    counts = np.bincount(pairs % (words + 1), minlength=words + 1).astype(np.uint64)
    texts = max(1, int(weighed.sum()))
    idfs = inverse_frequencies(np.maximum(counts, np.uint64(1)), texts).astype(np.int64) - IDF_ONE
    highest = max(1, int(inverse_frequencies(np.ones(1, np.uint64), texts)[0]) - IDF_ONE)
    if texts == 1:
        return np.full(words + 1, _MAX_WEIGHT)
    return _MIN_WEIGHT + (_MAX_WEIGHT - _MIN_WEIGHT) * idfs // highest


class _Grams(NamedTuple):
    """n-grams of texts, int64[p] each, ascending by their keys, uint64[p]."""

    keys: NDArray[np.uint64]
    texts: NDArray[np.int64]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]


def gram_size(length: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many tokens the n-grams of a text have: of one with an edit, one is unchanged.

    >>> gram_size(np.array([3, 5, 7, 8, 9, 10, 11, 40])).tolist()
    [3, 5, 5, 3, 4, 4, 5, 5]
    """
    near = np.clip((np.asarray(length) - 1) // 2, MIN_GRAM, MAX_GRAM)
    return np.where(np.asarray(length) < 8, np.minimum(length, MAX_GRAM), near)


def _grams(
    tokens: NDArray[np.uint32],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    looked_up: NDArray[np.bool_],
) -> tuple[_Grams, int]:
    """Return the n-grams of texts that are looked up, and how many are not.

    Of those that a text repeats the first and the last. Each text has one at least.
    """
    parts = []
    of_size = gram_size(lengths)
    for size in range(MIN_GRAM, MAX_GRAM + 1):
        texts = np.flatnonzero(looked_up & (of_size == size) & (lengths >= size))
        counts = lengths[texts] - size + 1
        text = np.repeat(texts, counts)
        offset = np.arange(text.size) - np.repeat(np.cumsum(counts) - counts, counts)
        hashed = np.empty(max(0, tokens.size - size + 1), np.uint64)
        kernels.gram_hashes(tokens, np.uint64(size), hashed)
        parts.append((hashed[starts[text] + offset], text, offset, np.full(text.size, size)))
    keys, texts, offsets, sizes = map(np.concatenate, zip(*parts, strict=True))
    order = np.lexsort((offsets, texts, keys))
    keys, texts, offsets, sizes = keys[order], texts[order], offsets[order], sizes[order]
    is_new = np.append(True, (keys[1:] != keys[:-1]) | (texts[1:] != texts[:-1]))[: keys.size]
    chosen = is_new | np.append(is_new[1:], True)[: keys.size]
    keys, texts, offsets, sizes = keys[chosen], texts[chosen], offsets[chosen], sizes[chosen]
    is_new = is_new[chosen]
    # in how many texts each is
    _, which = np.unique(keys, return_inverse=True)
    in_texts = np.bincount(which.reshape(-1), weights=is_new).astype(np.int64)[which.reshape(-1)]
    kept = in_texts <= MAX_TEXTS
    rarest = np.lexsort((offsets, in_texts, texts))
    firsts = rarest[np.append(True, texts[rarest][1:] != texts[rarest][:-1])[: keys.size]]
    kept[firsts] = True
    common = int(np.unique(keys[~kept]).size)
    return _Grams(keys[kept], texts[kept], offsets[kept], sizes[kept]), common


def _hash_table(keys: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Return a hash table of distinct keys, with the index of each plus 1."""
    slots = _power_of_2(2 * keys.size + 2)
    table = np.zeros(slots, np.uint64), np.zeros(slots, np.uint32)
    kernels.fill_rows(keys, *table)
    return table


def _power_of_2(size: int) -> int:
    return 1 << (size - 1).bit_length()
