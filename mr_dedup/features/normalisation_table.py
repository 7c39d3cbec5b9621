"""What normalisation makes of each character: mappings, combining classes, compositions.

The table is stored beside this module, as ``unicode_table`` is: a text has the same features
wherever it is read. tools/unicode_tables.py writes it.
"""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mr_dedup.features.foldings import FOLDINGS
from mr_dedup.features.unicode_table import UnicodeTable

CHANGES = 255
"""The quick check of a character that a text may not have if it is to be normal."""

JOINS, SEPARATES = 1 << 30, 1 << 31
"""Flags of an entry; see NormalisationTable."""

HANGUL, HANGUL_SYLLABLES = 0xAC00, 11172
LEADING, VOWELS, TRAILING = 0x1100, 0x1161, 0x11A7
LEADING_COUNT, VOWEL_COUNT, TRAILING_COUNT = 19, 21, 28
"""Syllables of Korean, and the letters that they are made of, TRAILING being none (3.12)."""

YPOGEGRAMMENI, IOTA = 0x0345, 0x03B9
"""A mark that folds to a letter: in order as a mark first, for canonical equivalence."""

_NUMBER_SHIFT, _NUMBERS = 16, (1 << 14) - 1

_PATH = Path(__file__).with_name("normalisation_table.npz")


class NormalisationTable(NamedTuple):
    """What a form makes of characters.

    The entry of code point c is entries[pages[c >> 8] << 8 | c & 255], ``pages`` uint16[4352] and
    ``entries`` uint32[m]. Its lowest 8 bits are its quick check: 0 of a character that may stand
    anywhere in a normal text, the combining class of a mark that may where classes do not descend,
    CHANGES of all others. The next 8 are its combining class; the next 14 the number of its
    mapping, 0 if it is itself. JOINS is set if what it makes may combine with what is before it.
    SEPARATES is set of a character that CHANGES, but is between words before as after.

    Mapping j, fully decomposed, is code_points[offsets[j] : offsets[j + 1]], ``sizes`` uint16[j]
    bytes of UTF-8. The composition of two characters a and b, if any, is composites[i] where
    pairs[i] is a << 32 | b, ``pairs`` uint64 ascending. ``folds`` is whether the form folds case:
    then the ypogegrammeni becomes an iota once marks are in order. ``reads_ascii`` is whether
    characters of ASCII are looked up as all others: without foldings of them none changes.
    """

    pages: NDArray[np.uint16]
    entries: NDArray[np.uint32]
    offsets: NDArray[np.uint32]
    code_points: NDArray[np.uint32]
    sizes: NDArray[np.uint16]
    pairs: NDArray[np.uint64]
    composites: NDArray[np.uint32]
    folds: bool
    reads_ascii: bool


@functools.cache
def normalisation_table(normalize: str, *, exact: bool = False) -> NormalisationTable:
    """Return the table of a form and foldings; if ``exact``, SEPARATES is of no character."""
    form, *foldings = normalize.split("+")
    with np.load(_PATH, allow_pickle=False) as arrays:
        names = NormalisationTable._fields[:-2]
        found = {name: arrays[name if name in arrays else f"{form} {name}"] for name in names}
    table = NormalisationTable(**found, folds=form == "nfkc", reads_ascii=False)
    if foldings:
        rules = {source: to for name in foldings for source, to in FOLDINGS[name].items()}
        table = _with_foldings(table, rules)
    if exact:
        table = table._replace(entries=table.entries & ~np.uint32(SEPARATES))
    return table


def _with_foldings(table: NormalisationTable, rules: dict[str, str]) -> NormalisationTable:
    """Return a table that also makes of characters, and of letters with a mark, what rules say."""
    singles = {ord(source): to for source, to in rules.items() if len(source) == 1}
    pairs = dict(zip(table.pairs.tolist(), table.composites.tolist(), strict=True))
    pairs |= {
        ord(source[0]) << 32 | ord(source[1]): ord(to)
        for source, to in rules.items() if len(source) > 1
    }  # fmt: skip
    known = "".join(map(chr, table.code_points.tolist()))
    edges = table.offsets.tolist()
    mapped = [known[start:stop] for start, stop in itertools.pairwise(edges)]
    touched = [
        number
        for number, text in enumerate(mapped)
        if not singles.keys().isdisjoint(map(ord, text))
        or any(set(source) <= set(text) for source in rules if len(source) > 1)
    ]
    mapped = [text.translate(singles) for text in mapped]
    entries = UnicodeTable(table.pages, table.entries.view(np.int32)).each().view(np.uint32)
    numbers = entries >> _NUMBER_SHIFT & _NUMBERS
    codes = {
        code: int(numbers[code]) for code in np.flatnonzero(np.isin(numbers, touched)).tolist()
    }
    for code, to in singles.items():
        codes[code] = len(mapped)
        mapped.append(to)
    joins = {code for code in map(ord, "".join(mapped)) if entries[code] & JOINS}
    for code, number in codes.items():
        combining = int(entries[code]) & 0xFF00
        does_join = not mapped[number] or ord(mapped[number][0]) in joins
        entries[code] = CHANGES | combining | number << _NUMBER_SHIFT | JOINS * does_join
    paged = UnicodeTable.of_each(entries)
    ordered = sorted(pairs.items())
    return NormalisationTable(
        paged.pages,
        paged.entries.view(np.uint32),
        np.append(0, np.cumsum([len(text) for text in mapped])).astype(np.uint32),
        np.array([ord(c) for text in mapped for c in text], np.uint32),
        np.array([len(text.encode()) for text in mapped], np.uint16),
        np.array([pair for pair, _ in ordered], np.uint64),
        np.array([composite for _, composite in ordered], np.uint32),
        folds=table.folds,
        reads_ascii=any(code < 0x80 for code in singles),
    )
