# mypy: ignore-errors
"""Loops of document frequencies: count each feature of a text once, look idfs up.

Both tables use open addressing, with 2**b slots.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import int32, uint32, uint64
from numpy.typing import NDArray

from mr_dedup.features.shingle_kernels import Scratch, ShingleRule, find_features
from mr_dedup.features.text_batch import TextBatch
from mr_dedup.features.word_kernels import WordRule, WordScratch, find_words
from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.hash_table import find_slot
from mr_dedup.kernels.unsigned import U1


class CountTable(NamedTuple):
    """The number of texts in which each feature occurs.

    Attributes:
        keys: uint64[c], the features.
        counts: uint32[c], the number of texts with each; 0 where a slot is free.
        seen: uint32[c], the number, from 1 on, of the last text with each.
    """

    keys: NDArray[np.uint64]
    counts: NDArray[np.uint32]
    seen: NDArray[np.uint32]


class CountState(NamedTuple):
    """Where counting begins and when it stops.

    Attributes:
        first: The text of the batch to begin with.
        before: The number of texts counted in earlier batches.
        used: The number of slots in use.
        enough: The number of slots in use at which counting stops, after the text.
    """

    first: np.uint64
    before: np.uint64
    used: np.uint64
    enough: np.uint64


@entry
def count_texts(
    batch: TextBatch, rule: ShingleRule, scratch: Scratch, table: CountTable, state: CountState
) -> tuple[int, int]:
    """Count the features of the texts of a batch in ``table``.

    Returns the index of the next text to count, and the number of slots in use. Counting stops
    before a text for which half of the slots are too few; counted again in a larger table, its
    features are not counted twice.
    """
    content, starts, stops = batch
    used = state.used
    for i in range(state.first, uint64(stops.size)):
        found, _ = find_features(content, starts[i], stops[i], rule, scratch)
        used, fits = _count(scratch.hashes, found, state.before + uint64(i) + U1, table, used)
        if not fits:
            return uint64(i), used
        if used >= state.enough:
            return uint64(i) + U1, used
    return uint64(stops.size), used


@entry
def count_words(
    batch: TextBatch, rule: WordRule, scratch: WordScratch, table: CountTable, state: CountState
) -> tuple[int, int]:
    """Count features that are single words, as ``count_texts`` does; see ``find_words``."""
    content, starts, stops = batch
    used = state.used
    for i in range(state.first, uint64(stops.size)):
        _, found = find_words(content, starts[i], stops[i], rule, scratch)
        used, fits = _count(scratch.hashes, found, state.before + uint64(i) + U1, table, used)
        if not fits:
            return uint64(i), used
        if used >= state.enough:
            return uint64(i) + U1, used
    return uint64(stops.size), used


@kernel
def _count(hashes, found, number, table, used):
    """Count the features of a text; return the slots in use, and whether there was space."""
    max_used = uint64(table.keys.size // 2)
    text = uint32(number)
    for i in range(found):
        slot = find_slot(table.keys, table.counts, hashes[i])
        if table.counts[slot] == uint32(0):
            if used == max_used:
                return used, False
            used += U1
            table.keys[slot] = hashes[i]
        elif table.seen[slot] == text:
            continue
        table.counts[slot] += uint32(1)
        table.seen[slot] = text
    return used, True


@entry
def move(table: CountTable, larger: CountTable) -> None:
    """Copy the entries of ``table`` to a larger, empty one."""
    for i in range(uint64(table.keys.size)):
        if table.counts[i] == uint32(0):
            continue
        slot = find_slot(larger.keys, larger.counts, table.keys[i])
        larger.keys[slot] = table.keys[i]
        larger.counts[slot] = table.counts[i]
        larger.seen[slot] = table.seen[i]


class IdfTable(NamedTuple):
    """The inverse document frequencies (idf) of features.

    Attributes:
        keys: uint64[c], the features.
        idfs: uint16[c], their idfs in 64ths; 0 where a slot is free.
        unknown: int32, the idf of all other features, the largest. 0 stands for no table, which
            leaves weights as they are.
    """

    keys: NDArray[np.uint64]
    idfs: NDArray[np.uint16]
    unknown: np.int32


@entry
def fill(hashes: NDArray[np.uint64], idfs: NDArray[np.uint16], table: IdfTable) -> None:
    """Insert distinct ``hashes`` uint64[n] with ``idfs`` uint16[n] into an empty table, n < c."""
    for i in range(uint64(hashes.size)):
        slot = find_slot(table.keys, table.idfs, hashes[i])
        table.keys[slot] = hashes[i]
        table.idfs[slot] = idfs[i]


@entry
def multiply_by_idf(
    hashes: NDArray[np.uint64], weights: NDArray[np.int32], count: np.uint64, table: IdfTable
) -> None:
    """Multiply the weights of the first ``count`` hashes by the idfs of their features.

    3 to 20 ns a hash, by how much of the table is in the CPU's caches. A search in sorted hashes by
    their leading bits took 1.5 to 4 times as long, in half the memory.
    """
    for i in range(count):
        idf = int32(table.idfs[find_slot(table.keys, table.idfs, hashes[i])])
        weights[i] *= idf if idf > int32(0) else table.unknown
