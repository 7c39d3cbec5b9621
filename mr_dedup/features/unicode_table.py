"""The kind of every Unicode character for the tokeniser, as of Unicode 15.1.

Python's own tables differ by version. This one is stored beside the module, so a text has the same
features everywhere. ``python -m mr_dedup.features.unicode_table`` writes it, with a Python of
Unicode 15.1.
"""

from __future__ import annotations

import functools
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

UNICODE_VERSION = "15.1.0"

OTHER, WORD, CHARACTER, MARK = range(4)
"""Kinds of characters: between tokens; part of a word; a token by itself, of a script written
without spaces; part of the token before it, or of a word if there is none."""

_PATH = Path(__file__).with_name("unicode_table.npz")
_PAGE = 256
_CHARACTERS = 0x110000
_CJK_NAMES = (
    "CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "HIRAGANA ", "HENTAIGANA ", "KATAKANA",
    "HALFWIDTH KATAKANA", "BOPOMOFO", "IDEOGRAPHIC ITERATION", "IDEOGRAPHIC NUMBER",
    "IDEOGRAPHIC CLOSING", "VERTICAL IDEOGRAPHIC", "HANGZHOU NUMERAL", "OLD CHINESE ITERATION MARK",
)  # fmt: skip
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

_EXTENDING = (0x0E33, 0x0EB3, 0xFF9E, 0xFF9F)
"""Letters that extend the grapheme cluster before them (Unicode Standard Annex 29)."""

_STANDING = (
    (0x102B, 0x102C), (0x1038, 0x1038), (0x1062, 0x1064), (0x1067, 0x106D), (0x1083, 0x1083),
    (0x1087, 0x108C), (0x108F, 0x108F), (0x109A, 0x109C), (0x1A61, 0x1A61), (0x1A63, 0x1A64),
    (0xAA7B, 0xAA7B), (0xAA7D, 0xAA7D),
)  # fmt: skip
"""First and last of runs of marks that are grapheme clusters of their own."""


class UnicodeTable(NamedTuple):
    """The kind of every character, and how it folds.

    The entry of code point c is ``entries[pages[c >> 8] << 8 | c & 255]``: its kind in the two
    lowest bits, above them what to add to c to fold it. So all of Chinese shares one page.

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
    def of_each(cls, entries: NDArray[np.int32]) -> UnicodeTable:
        """Return the table of the ``entries`` of all code points, int32[1114112]."""
        distinct, pages = np.unique(entries.reshape(-1, _PAGE), axis=0, return_inverse=True)
        return cls(pages.reshape(-1).astype(np.uint16), distinct.reshape(-1))


@functools.cache
def unicode_table() -> UnicodeTable:
    """Return the table of Unicode 15.1."""
    with np.load(_PATH, allow_pickle=False) as arrays:
        return UnicodeTable(arrays["pages"], arrays["entries"])


def folded(character: str) -> str:
    """Return the character that a character folds to, by case folding without expansions."""
    for candidate in (character.casefold(), character.lower()):
        if len(candidate) == 1:
            return candidate
    return character


def kind_of(character: str) -> int:
    """Return OTHER, WORD, CHARACTER or MARK."""
    code = ord(character)
    if code in _EXTENDING:
        return MARK
    if unicodedata.category(character).startswith("M"):
        return CHARACTER if _is_in(code, _STANDING) else MARK
    if not character.isalnum():
        return OTHER
    is_cjk = unicodedata.name(character, "").startswith(_CJK_NAMES)
    return CHARACTER if is_cjk or is_other_spaceless(code) else WORD


def is_other_spaceless(code: int) -> bool:
    """Return whether a code point is of a script that is written without spaces, besides CJK."""
    return _is_in(code, _SPACELESS)


def _is_in(code: int, runs: Sequence[tuple[int, int]]) -> bool:
    return any(first <= code <= last for first, last in runs)


def _generate() -> None:
    if unicodedata.unidata_version != UNICODE_VERSION:
        sys.exit(f"this Python has Unicode {unicodedata.unidata_version}, not {UNICODE_VERSION}")
    entries = np.array(
        [ord(folded(chr(c))) - c << 2 | kind_of(chr(c)) for c in range(_CHARACTERS)], np.int32
    )
    np.savez_compressed(_PATH, **UnicodeTable.of_each(entries)._asdict())


if __name__ == "__main__":
    _generate()
