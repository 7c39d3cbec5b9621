"""The kind of every Unicode character for the tokeniser, as of Unicode 15.1.

Python's own tables differ by version. This one is stored beside the module, so a text has the same
features everywhere. tools/unicode_tables.py writes it.
"""

from __future__ import annotations

import functools
import string
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

UNICODE_VERSION = "15.1.0"

OTHER, WORD, CHARACTER, MARK, SYMBOL = range(5)
"""Kinds of characters: between tokens; part of a word; a token by itself, of a script written
without spaces; part of the token before it, or of a word if there is none; a symbol, which is a
token by itself where symbols are kept, else between tokens."""

KIND_BITS = 3
KIND = np.int32((1 << KIND_BITS) - 1)
"""The bits of an entry that are its kind."""

ASCII_SYMBOLS = string.punctuation
FIRST_MARKED = 0xFDD0
"""In prepared texts, code points from here on stand for the symbols of ASCII that are tokens, in
their order: noncharacters, which Unicode reserves for such uses. All others are between tokens."""

_PATH = Path(__file__).with_name("unicode_table.npz")
_CHARACTERS = 0x110000
_SPACELESS = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x0F00, 0x0FFF),  # Tibetan
    (0x1000, 0x109F), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A00, 0x1A1F),  # Buginese
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x1B00, 0x1B7F),  # Balinese
    (0xA000, 0xA4CF),  # Yi
    (0xA980, 0xA9DF),  # Javanese
    (0xAA80, 0xAADF),  # Tai Viet
    (0x16FE0, 0x16FE1), (0x17000, 0x18D7F),  # Tangut, Khitan small script
    (0x1B170, 0x1B2FF),  # Nushu
)  # fmt: skip
"""First and last of the blocks of scripts without spaces between words, besides CJK."""


class UnicodeTable(NamedTuple):
    """The kind of every character, and how it folds.

    The entry of code point c is ``entries[pages[c >> 8] << 8 | c & 255]``: its kind in the
    KIND_BITS lowest bits, above them what to add to c to fold it. So all of Chinese shares one
    page.

    Attributes:
        pages: uint16[4352].
        entries: int32[m].
    """

    pages: NDArray[np.uint16]
    entries: NDArray[np.int32]

    def each(self) -> NDArray[np.int32]:
        """Return the entry of every code point, int32[1114112]."""
        code_points = np.arange(_CHARACTERS)
        rows = self.pages[code_points >> 8].astype(np.intp) << 8 | code_points & 255
        entries: NDArray[np.int32] = self.entries[rows]
        return entries

    @classmethod
    def of_each(cls, entries: NDArray[Any]) -> UnicodeTable:
        """Return the table of the ``entries`` of all code points, any[1114112]."""
        numbers: dict[bytes, int] = {}
        pages = [
            numbers.setdefault(page.tobytes(), len(numbers)) for page in entries.reshape(-1, 256)
        ]
        distinct = np.frombuffer(b"".join(numbers), entries.dtype)
        return cls(np.array(pages, np.uint16), distinct.copy())


@functools.cache
def unicode_table(*, symbols: bool = False) -> UnicodeTable:
    """Return the table of Unicode 15.1, in which symbols are OTHER unless ``symbols``."""
    with np.load(_PATH, allow_pickle=False) as arrays:
        pages, entries = arrays["pages"], arrays["entries"]
    if not symbols:
        entries[entries & KIND == SYMBOL] = OTHER
    return UnicodeTable(pages, entries)


def is_other_spaceless(code: int) -> bool:
    """Return whether a code point is of a script that is written without spaces, besides CJK."""
    return any(first <= code <= last for first, last in _SPACELESS)
