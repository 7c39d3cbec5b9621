"""Write the tables of Unicode characters that mr_dedup stores, with a Python of Unicode 15.1.

    python3.13 tools/unicode_tables.py [FOLDER]

FOLDER is mr_dedup/features if not given. Other tables give other fingerprints: a change of them is
a new version of fingerprints and signatures.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mr_dedup.features.normalisation_table import (
    CHANGES,
    HANGUL,
    HANGUL_SYLLABLES,
    IOTA,
    JOINS,
    SEPARATES,
    TRAILING,
    TRAILING_COUNT,
    VOWEL_COUNT,
    VOWELS,
    YPOGEGRAMMENI,
)
from mr_dedup.features.unicode_table import (
    ASCII_SYMBOLS,
    CHARACTER,
    FIRST_MARKED,
    KIND_BITS,
    MARK,
    OTHER,
    SYMBOL,
    UNICODE_VERSION,
    WORD,
    UnicodeTable,
    is_other_spaceless,
)

FOLDER = Path(__file__).parents[1] / "mr_dedup" / "features"

_CHARACTERS = 0x110000
_CJK_NAMES = (
    "CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "HIRAGANA ", "HENTAIGANA ", "KATAKANA",
    "HALFWIDTH KATAKANA", "BOPOMOFO", "IDEOGRAPHIC ITERATION", "IDEOGRAPHIC NUMBER",
    "IDEOGRAPHIC CLOSING", "VERTICAL IDEOGRAPHIC", "HANGZHOU NUMERAL", "OLD CHINESE ITERATION MARK",
)  # fmt: skip

_EXTENDING = (0x0E33, 0x0EB3, 0xFF9E, 0xFF9F)
"""Letters that extend the grapheme cluster before them (Unicode Standard Annex 29)."""

_STANDING = (
    (0x102B, 0x102C), (0x1038, 0x1038), (0x1062, 0x1064), (0x1067, 0x106D), (0x1083, 0x1083),
    (0x1087, 0x108C), (0x108F, 0x108F), (0x109A, 0x109C), (0x1A61, 0x1A61), (0x1A63, 0x1A64),
    (0xAA7B, 0xAA7B), (0xAA7D, 0xAA7D),
)  # fmt: skip
"""First and last of runs of marks that are grapheme clusters of their own."""


_IGNORABLE = (
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5),
    (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
"""First and last of the runs of Default_Ignorable_Code_Point: soft hyphens, joiners, selectors."""


def folded(character: str) -> str:
    """Return the character that a character folds to, by case folding without expansions."""
    for candidate in (character.casefold(), character.lower()):
        if len(candidate) == 1:
            return candidate
    return character


def shown(character: str) -> str:
    """Return what a character is in a token: a symbol is the one that it is compatible with."""
    if is_marked(character):
        return ASCII_SYMBOLS[ord(character) - FIRST_MARKED]
    compatible = unicodedata.normalize("NFKC", character)
    is_symbol = kind_of(character) == SYMBOL and len(compatible) == 1
    if is_symbol and (kind_of(compatible) == SYMBOL or compatible in ASCII_SYMBOLS):
        return compatible
    return folded(character)


def kind_of(character: str) -> int:
    """Return OTHER, WORD, CHARACTER, MARK or SYMBOL."""
    code = ord(character)
    if code in _EXTENDING:
        return MARK
    if unicodedata.category(character).startswith("M"):
        return CHARACTER if _is_in(code, _STANDING) else MARK
    if not character.isalnum():
        is_symbol = code > 0x7F and unicodedata.category(character).startswith("S")
        return SYMBOL if is_symbol or is_marked(character) else OTHER
    is_cjk = unicodedata.name(character, "").startswith(_CJK_NAMES)
    return CHARACTER if is_cjk or is_other_spaceless(code) else WORD


def is_marked(character: str) -> bool:
    """Return whether a character stands for a symbol of ASCII in prepared texts."""
    return 0 <= ord(character) - FIRST_MARKED < len(ASCII_SYMBOLS)


def _is_in(code: int, runs: Sequence[tuple[int, int]]) -> bool:
    return any(first <= code <= last for first, last in runs)


def kind_arrays() -> dict[str, NDArray[Any]]:
    """Return the arrays of UnicodeTable."""
    codes = range(_CHARACTERS)
    entries = [ord(shown(chr(c))) - c << KIND_BITS | kind_of(chr(c)) for c in codes]
    return UnicodeTable.of_each(np.array(entries, np.int32))._asdict()


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


def normalisation_arrays() -> dict[str, NDArray[Any]]:
    """Return the arrays of NormalisationTable, those of each form under its name."""
    compositions = _compositions()
    for (first, second), composite in compositions.items():
        # a text never becomes longer where characters are composed
        assert len(composite.encode()) <= len((first + second).encode())
    joining = {second for _, second in compositions}
    joining |= {chr(VOWELS + n) for n in range(VOWEL_COUNT)}
    joining |= {chr(TRAILING + n) for n in range(1, TRAILING_COUNT)}
    arrays: dict[str, NDArray[Any]] = {}
    for form, maker in _MAKERS.items():
        arrays |= {f"{form} {name}": part for name, part in _made(maker, joining).items()}
    ordered = sorted((ord(a) << 32 | ord(b), ord(c)) for (a, b), c in compositions.items())
    arrays["pairs"] = np.array([pair for pair, _ in ordered], np.uint64)
    arrays["composites"] = np.array([composite for _, composite in ordered], np.uint32)
    return arrays


def _made(maker: _Maker, joining: set[str]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a form; ``joining`` may be composed with what is before them."""
    numbers: dict[str, int] = {}
    entries = np.zeros(_CHARACTERS, np.uint32)
    for code in range(_CHARACTERS):
        if 0xD800 <= code < 0xE000:
            continue
        character = chr(code)
        combining = unicodedata.combining(character)
        mapped = maker.decomposed(character)
        written = mapped.replace(chr(YPOGEGRAMMENI), chr(IOTA)) if maker.fold is folded else mapped
        fold = maker.fold(character)
        stays = (
            unicodedata.normalize("NFC", written) == fold
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
        elif not stays and all(kind_of(c) in (OTHER, SYMBOL) for c in character + mapped):
            entry |= SEPARATES
        entries[code] = entry
    assert len(numbers) < 1 << 14
    sequences = ["", *numbers]
    return {
        **UnicodeTable.of_each(entries)._asdict(),
        "offsets": np.append(0, np.cumsum([len(text) for text in sequences])).astype(np.uint32),
        "code_points": np.array([ord(c) for text in sequences for c in text], np.uint32),
        "sizes": np.array([len(text.encode()) for text in sequences], np.uint16),
    }


def main(folder: Path = FOLDER) -> None:
    """Write both tables."""
    if unicodedata.unidata_version != UNICODE_VERSION:
        sys.exit(f"this Python has Unicode {unicodedata.unidata_version}, not {UNICODE_VERSION}")
    np.savez_compressed(folder / "unicode_table.npz", allow_pickle=False, **kind_arrays())
    np.savez_compressed(
        folder / "normalisation_table.npz", allow_pickle=False, **normalisation_arrays()
    )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
