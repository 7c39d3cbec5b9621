"""The set of shingles of a text, as the truth of the benchmark defines it.

1. The text is normalised for caseless comparison by compatibility (The Unicode Standard, D146 and
   D147), in form C, without default-ignorable characters.
2. Tokens are runs of letters, numbers and marks. A character of a script that is written without
   spaces is a token by itself, with its marks.
3. A token weighs 5; a character of such scripts that has another next to it, 3. From each token
   on the shortest run of a weight of 15 or more is a shingle, the last of these together with
   all that follows: 3 words, 5 characters, or as much of both. A text of less weight is one
   shingle; a text without tokens is, as a whole.

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
_SPACE, _JOINED = ord(" "), 1

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
    starts = np.cumsum([0, *map(len, tokenised)])
    content = np.frombuffer(b"".join(tokenised), np.uint8)
    hashes = np.empty(content.size + len(tokenised) + 1, np.uint64)
    offsets = np.zeros(len(tokenised) + 1, np.int64)
    write_sets(content, starts, hashes, offsets)
    return Sets(offsets, hashes[: offsets[-1]].copy())


def tokens_of(text: str) -> bytes:
    """Return the tokens of a text, with spaces between them; those that weigh 3 after a byte 1.

    >>> tokens_of("Hello, World!")
    b'hello  world '
    """
    # most pages have no others but dashes, quotes and the like
    if text.isascii() or all(map(_is_simple, set(text))):
        tokens = text.encode().translate(_ASCII_TOKENS)
    else:
        tokens = _tokens_by_script(normalised(text))
    if tokens.isspace() or not tokens:
        # no token has a control character
        tokens = b"\0" + normalised(text).encode().replace(b" ", b"\0")
    return tokens


def _tokens_by_script(text: str) -> bytes:
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
    standing = np.concatenate([[False], kinds[starts] == _STANDING_KIND, [False]])
    joined = standing[1:-1] & (standing[:-2] | standing[2:])
    places = np.flatnonzero(starts)
    before_tokens = np.full(places.size + np.count_nonzero(joined), _SPACE, np.uint32)
    before_tokens[np.cumsum(1 + joined)[joined] - 1] = _JOINED
    spaced = np.insert(spaced, np.repeat(places, 1 + joined), before_tokens)
    return spaced.astype("<u4").tobytes().decode("utf-32-le").encode()


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
