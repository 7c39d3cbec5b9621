"""The set of shingles of a text, as the truth of the benchmark defines it.

1. The text is normalised for caseless comparison by compatibility (The Unicode Standard, D146 and
   D147), in form C, without default-ignorable characters.
2. Tokens are runs of letters, numbers and marks. A character of a script that is written without
   spaces is a token by itself, with its marks.
3. Shingles are 3 neighbouring tokens; 5 if a tenth of the tokens or more are characters of such
   scripts next to one another. A text of fewer tokens is one shingle; a text without tokens is,
   as a whole.

These are the sets that ``mr-dedup dedup`` compares by default, found in another way: by the
package regex and by unicodedata, and by loops of its own; sets are not cut. A shingle is
represented by 64 bits. That two of a million in a sample and a billion others are equal by chance
has a probability of one in 20,000.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import cache

import numpy as np
import regex
from numpy.typing import NDArray

from bench.field.shingle_kernels import Sets, write_sets

_SPACELESS = (
    r"\p{Thai}\p{Lao}\p{Tibetan}\p{Myanmar}\p{Khmer}\p{Tai_Le}\p{New_Tai_Lue}\p{Buginese}"
    r"\p{Tai_Tham}\p{Balinese}\p{Yi}\p{Javanese}\p{Tai_Viet}\p{Tangut}\p{Khitan_Small_Script}"
    r"\p{Nushu}\uA9CF"
)
_CJK = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\u30FC\uFF70\u3006"
_EXTENDING = r"\p{Grapheme_Cluster_Break=Extend}\p{Grapheme_Cluster_Break=SpacingMark}"
_IN_TOKEN = r"[\p{L}\p{N}\p{M}]"
_MARK = rf"[[[\p{{M}}]--[{_SPACELESS}]]||[{_IN_TOKEN}&&[{_EXTENDING}]]]"
_STANDING = rf"[{_IN_TOKEN}&&[{_CJK}{_SPACELESS}]--{_MARK}]"

_IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}+")
_WORD = regex.compile(_IN_TOKEN)

_BETWEEN_KIND, _WORD_KIND, _MARK_KIND, _STANDING_KIND = range(4)
_SPACE = ord(" ")

_ASCII_TOKENS = bytes(
    ord(chr(c).lower()) if c < 128 and chr(c).isalnum() else _SPACE for c in range(256)
)
"""What becomes of a byte of a text where all characters but ASCII are between tokens."""


def sets_of(texts: Iterable[str]) -> Sets:
    """Return the sets of shingles of texts.

    >>> one, other = "a b c d e", "A, b, c, d"
    >>> sets = sets_of([one, other])
    >>> [int(size) for size in np.diff(sets.offsets)]
    [3, 2]
    """
    tokenised = [tokens_of(text) for text in texts]
    starts = np.cumsum([0, *(len(tokens) for tokens, _ in tokenised)])
    lengths = np.array([length for _, length in tokenised], np.int64)
    content = np.frombuffer(b"".join(tokens for tokens, _ in tokenised), np.uint8)
    hashes = np.empty(content.size + lengths.size, np.uint64)
    offsets = np.zeros(lengths.size + 1, np.int64)
    write_sets(content, starts, lengths, hashes, offsets)
    return Sets(offsets, hashes[: offsets[-1]].copy())


def tokens_of(text: str) -> tuple[bytes, int]:
    """Return the tokens of a text, with spaces between them, and how many make a shingle.

    >>> tokens_of("Hello, World!")
    (b'hello  world ', 3)
    """
    # most pages have no others but dashes, quotes and the like
    if text.isascii() or all(map(_is_simple, set(text))):
        tokens, length = text.encode().translate(_ASCII_TOKENS), 3
    else:
        tokens, length = _tokens_by_script(normalised(text))
    if tokens.isspace() or not tokens:
        # no token has a control character
        tokens = b"\0" + normalised(text).encode().replace(b" ", b"\0")
    return tokens, length


def _tokens_by_script(text: str) -> tuple[bytes, int]:
    characters = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    kinds = _kinds_of_characters()[characters]
    before = np.append(_BETWEEN_KIND, kinds[:-1])
    # the kind of what the marks before a character, if any, belong to
    bases = np.maximum.accumulate(np.where(kinds != _MARK_KIND, np.arange(kinds.size), 0))
    base_before = np.append(_BETWEEN_KIND, kinds[bases][:-1])
    starts = (kinds == _STANDING_KIND) | (kinds != _BETWEEN_KIND) & (
        (before == _BETWEEN_KIND) | (kinds == _WORD_KIND) & (base_before == _STANDING_KIND)
    )
    spaced = np.where(kinds == _BETWEEN_KIND, np.uint32(_SPACE), characters)
    spaced = np.insert(spaced, np.flatnonzero(starts), _SPACE)
    standing = np.concatenate([[False], kinds[starts] == _STANDING_KIND, [False]])
    joined = np.count_nonzero(standing[1:-1] & (standing[:-2] | standing[2:]))
    length = 5 if 0 < np.count_nonzero(starts) <= 10 * joined else 3
    return spaced.astype("<u4").tobytes().decode("utf-32-le").encode(), length


def normalised(text: str) -> str:
    """Return a text as it is compared.

    >>> normalised("Straße, ﬁn, ＡＢＣ")
    'strasse, fin, abc'
    """
    before, text = None, unicodedata.normalize("NFD", _IGNORABLE.sub("", text))
    while text != before:
        before = text
        text = unicodedata.normalize("NFKD", _IGNORABLE.sub("", text.casefold()))
    return unicodedata.normalize("NFC", text)


@cache
def _is_simple(character: str) -> bool:
    """Return whether a character is ASCII, or between tokens also when it is normalised."""
    shown = normalised(character)
    is_between = bool(shown) and not _WORD.search(character) and not _WORD.search(shown)
    return character.isascii() or is_between


@cache
def _kinds_of_characters() -> NDArray[np.uint8]:
    """Return what each character is in tokens: uint8[0x110000]."""
    # the characters that are no surrogates
    characters = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    kinds = np.full(0x110000, _BETWEEN_KIND, np.uint8)
    for pattern, kind in (
        (_IN_TOKEN, _WORD_KIND),
        (_MARK, _MARK_KIND),
        (_STANDING, _STANDING_KIND),
    ):
        for found in regex.finditer(f"{pattern}+", characters, regex.VERSION1):
            kinds[ord(found[0][0]) : ord(found[0][-1]) + 1] = kind
    return kinds
