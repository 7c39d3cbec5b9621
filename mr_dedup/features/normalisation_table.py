"""What normalisation makes of each character: mappings, combining classes, compositions.

The table is made from Unicode 15.1 by ``python -m mr_dedup.features.normalisation_table``, with a
Python that has it, and kept beside this module, as ``unicode_table`` is: a text has the same
features wherever it is read.
"""

from __future__ import annotations

import functools
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from mr_dedup.features.unicode_table import OTHER, UNICODE_VERSION, folded, kind_of

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
_PAGE = 256
_CHARACTERS = 0x110000
_IGNORABLE = (
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5),
    (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
"""First and last of the runs of Default_Ignorable_Code_Point: soft hyphens, joiners, selectors."""


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


def is_ignorable(character: str) -> bool:
    """Return whether a character is dropped: nothing of it is displayed."""
    return any(first <= ord(character) <= last for first, last in _IGNORABLE)


def _compatible(character: str) -> str:
    """Return what a character becomes by NFKC_Casefold, decomposed; the ypogegrammeni stays."""
    text, before = character, ""
    while text != before:
        before = text
        kept = [c for c in unicodedata.normalize("NFKD", text) if not is_ignorable(c)]
        cased = "".join(c if ord(c) == YPOGEGRAMMENI else c.casefold() for c in kept)
        text = unicodedata.normalize("NFKD", cased)
    return text


def _canonical(character: str) -> str:
    return unicodedata.normalize("NFD", character)


class _Maker(NamedTuple):
    """How a form is made: decompositions, and the fold of characters that needs no rewriting."""

    decomposed: Callable[[str], str]
    fold: Callable[[str], str]


_MAKERS = {"nfkc": _Maker(_compatible, folded), "nfc": _Maker(_canonical, str)}


def _compositions() -> dict[tuple[str, str], str]:
    found = {}
    for code in range(_CHARACTERS):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) != 2 or parts[0].startswith("<"):
            continue
        if unicodedata.normalize("NFC", chr(code)) == chr(code):
            first, second = (chr(int(part, 16)) for part in parts)
            found[first, second] = chr(code)
    return found


def _generate() -> None:
    if unicodedata.unidata_version != UNICODE_VERSION:
        sys.exit(f"this Python has Unicode {unicodedata.unidata_version}, not {UNICODE_VERSION}")
    compositions = _compositions()
    for (first, second), composite in compositions.items():
        # a text never becomes longer where characters are composed
        assert len(composite.encode()) <= len((first + second).encode())
    joining = {second for _, second in compositions}
    joining |= {chr(VOWELS + n) for n in range(VOWEL_COUNT)}
    joining |= {chr(TRAILING + n) for n in range(1, TRAILING_COUNT)}
    arrays: dict[str, NDArray[np.unsignedinteger]] = {}
    for form, maker in _MAKERS.items():
        arrays |= {f"{form} {name}": part for name, part in _made(maker, joining).items()}
    ordered = sorted((ord(a) << 32 | ord(b), ord(c)) for (a, b), c in compositions.items())
    arrays["pairs"] = np.array([pair for pair, _ in ordered], np.uint64)
    arrays["composites"] = np.array([composite for _, composite in ordered], np.uint32)
    np.savez_compressed(_PATH, allow_pickle=False, **arrays)


def _made(maker: _Maker, joining: set[str]) -> dict[str, NDArray[np.unsignedinteger]]:
    """Return the arrays of a form; ``joining`` may be composed with what is before them."""
    numbers: dict[str, int] = {}
    entries = np.zeros(_CHARACTERS, np.uint32)
    for code in range(_CHARACTERS):
        if 0xD800 <= code < 0xE000:
            continue
        character = chr(code)
        combining = unicodedata.combining(character)
        mapped = maker.decomposed(character)
        shown = mapped.replace(chr(YPOGEGRAMMENI), chr(IOTA)) if maker.fold is folded else mapped
        fold = maker.fold(character)
        stays = (
            unicodedata.normalize("NFC", shown) == fold
            and not {character, fold} & joining
            and unicodedata.combining(fold) == combining
            and code != YPOGEGRAMMENI
        )
        joins = not mapped or mapped[0] in joining or unicodedata.combining(mapped[0]) > 0
        # syllables are taken apart by arithmetic
        is_syllable = HANGUL <= code < HANGUL + HANGUL_SYLLABLES
        number = 0
        if mapped != character and not is_syllable:
            number = numbers.setdefault(mapped, len(numbers) + 1)
        entry = (combining if stays else CHANGES) | combining << 8 | number << 16
        if joins:
            entry |= JOINS
        elif not stays and all(kind_of(c) == OTHER for c in character + mapped):
            entry |= SEPARATES
        entries[code] = entry
    assert len(numbers) < 1 << 14
    distinct, pages = np.unique(entries.reshape(-1, _PAGE), axis=0, return_inverse=True)
    sequences = ["", *numbers]
    return {
        "pages": pages.astype(np.uint16),
        "entries": distinct.reshape(-1),
        "offsets": np.append(0, np.cumsum([len(text) for text in sequences])).astype(np.uint32),
        "code_points": np.array([ord(c) for text in sequences for c in text], np.uint32),
        "sizes": np.array([len(text.encode()) for text in sequences], np.uint16),
    }


if __name__ == "__main__":
    _generate()
