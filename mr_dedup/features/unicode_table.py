"""What every Unicode character is to a tokeniser, frozen: Python's own tables differ by version.

The table is made from Unicode 15.1 by ``python -m mr_dedup.features.unicode_table``, with a Python
that has it, and kept beside this module: a text has the same features wherever it is read.
"""

from __future__ import annotations

import functools
import sys
import unicodedata
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

UNICODE_VERSION = "15.1.0"

OTHER, WORD, CJK = 0, 1, 2
"""Kinds of characters: between tokens; part of a token; a token by itself."""

_PATH = Path(__file__).with_name("unicode_table.npz")
_PAGE = 256
_CHARACTERS = 0x110000
_CJK_NAMES = (
    "CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "HIRAGANA LETTER", "KATAKANA LETTER",
    "HALFWIDTH KATAKANA LETTER", "BOPOMOFO LETTER", "IDEOGRAPHIC ITERATION", "IDEOGRAPHIC NUMBER",
)  # fmt: skip


@functools.cache
def unicode_table() -> tuple[NDArray[np.uint16], NDArray[np.int32]]:
    """Return (pages uint16[4352], entries int32[m]).

    The entry of code point c is entries[pages[c >> 8] << 8 | c & 255]: its kind in the two lowest
    bits, above them what to add to c to fold it. So all of Chinese shares one page.
    """
    with np.load(_PATH, allow_pickle=False) as arrays:
        return arrays["pages"], arrays["entries"]


def folded(character: str) -> str:
    """Return the one character that a character folds to: case folding without expansions."""
    for candidate in (character.casefold(), character.lower()):
        if len(candidate) == 1:
            return candidate
    return character


def kind_of(character: str) -> int:
    """Return OTHER, WORD or CJK: letters, numbers and combining marks make words."""
    if not (character.isalnum() or unicodedata.category(character).startswith("M")):
        return OTHER
    return CJK if unicodedata.name(character, "").startswith(_CJK_NAMES) else WORD


def _generate() -> None:
    if unicodedata.unidata_version != UNICODE_VERSION:
        sys.exit(f"this Python knows Unicode {unicodedata.unidata_version}, not {UNICODE_VERSION}")
    entries = np.array(
        [ord(folded(chr(c))) - c << 2 | kind_of(chr(c)) for c in range(_CHARACTERS)], np.int32
    )
    distinct, pages = np.unique(entries.reshape(-1, _PAGE), axis=0, return_inverse=True)
    np.savez_compressed(_PATH, pages=pages.astype(np.uint16), entries=distinct.reshape(-1))


if __name__ == "__main__":
    _generate()
