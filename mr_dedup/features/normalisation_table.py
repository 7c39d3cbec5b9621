"""What normalisation makes of each character: mappings, combining classes, compositions.

The table is stored beside this module, as ``unicode_table`` is: a text has the same features
wherever it is read. tools/unicode_tables.py writes it.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

Form = Literal["nfkc", "nfc"]
Normalization = Literal["nfkc", "nfc", "none"]
NORMALIZATIONS: tuple[Normalization, ...] = get_args(Normalization)

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
    then the ypogegrammeni becomes an iota once marks are in order.
    """

    pages: NDArray[np.uint16]
    entries: NDArray[np.uint32]
    offsets: NDArray[np.uint32]
    code_points: NDArray[np.uint32]
    sizes: NDArray[np.uint16]
    pairs: NDArray[np.uint64]
    composites: NDArray[np.uint32]
    folds: bool


@functools.cache
def normalisation_table(form: Form, *, exact: bool = False) -> NormalisationTable:
    """Return the table of a form; if ``exact``, SEPARATES is of no character."""
    with np.load(_PATH, allow_pickle=False) as arrays:
        names = NormalisationTable._fields[:-1]
        found = {name: arrays[name if name in arrays else f"{form} {name}"] for name in names}
        table = NormalisationTable(**found, folds=form == "nfkc")
    if exact:
        table = table._replace(entries=table.entries & ~np.uint32(SEPARATES))
    return table
