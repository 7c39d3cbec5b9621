# mypy: ignore-errors
"""Loops that find where tokens of normalised texts are in the texts as they were.

Nothing is validated or allocated here: token_spans.py does both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import int64, uint8, uint32, uint64
from numpy.typing import NDArray

from mr_dedup.features.normalisation_kernels import Characters, piece_at
from mr_dedup.features.normalisation_table import NormalisationTable
from mr_dedup.features.text_batch import TextBatch
from mr_dedup.features.token_kernels import SourceEdges, Tokens, find_tokens, is_null
from mr_dedup.features.unicode_table import KIND, MARK, UnicodeTable
from mr_dedup.features.xxh3_kernels import xxh3_64
from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.unsigned import U0, U1, U
from mr_dedup.kernels.utf8 import decode, table_entry

_NON_JOINER, _JOINER = U(0x200C), U(0x200D)
_FIRST_TONE, _TONES = U(0x1F3FB), U(5)
_FIRST_TAG, _TAGS = U(0xE0020), U(0x60)
_SPACE, _DELETE, _PAST_CONTROLS = U(0x20), U(0x7F), U(0xA0)


class FoundTokens(NamedTuple):
    """The tokens of n texts, m in all.

    Attributes:
        edges: int64[n + 1], the first token of each text.
        hashes: uint64[m].
        starts, stops: uint32[m], offsets in bytes from where the text begins.
    """

    edges: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    starts: NDArray[np.uint32]
    stops: NDArray[np.uint32]


@entry
def find_in_normal(
    batch: TextBatch, table: UnicodeTable, tokens: Tokens, found: FoundTokens
) -> None:
    """Write the tokens of normalised texts, and where these have them, to ``found``."""
    content, starts, stops = batch
    count = int64(0)
    found.edges[0] = 0
    for i in range(starts.size):
        if not is_null(content, starts[i]):
            sources = SourceEdges(found.starts[count:], found.stops[count:])
            added = find_tokens(content, starts[i], stops[i], table, tokens, sources)
            for token in range(added):
                found.hashes[count + int64(token)] = xxh3_64(
                    tokens.text, uint64(tokens.starts[token]), uint64(tokens.stops[token])
                )
            count += int64(added)
        found.edges[i + 1] = count


@entry
def move_to_source(
    batch: TextBatch,
    rows: NDArray[np.int64],
    table: NormalisationTable,
    space: Characters,
    found: FoundTokens,
) -> None:
    """Replace offsets in normalised texts by those in the texts of ``batch``, at ``rows``.

    Of a piece that normalisation changes a token has all.
    """
    content, starts, stops = batch
    for row in rows:
        begin, end = starts[row], stops[row]
        token, last = found.edges[row], found.edges[row + 1]
        open_token = token
        i, o = begin, U0
        while i < end and open_token < last:
            width, size, is_normal = piece_at(content, i, end, table, space)
            after = o + size
            moved = i - begin - o
            while token < last and uint64(found.starts[token]) < after:
                start = uint64(found.starts[token]) if is_normal else o
                found.starts[token] = uint32(start + moved)
                token += 1
            while open_token < token and uint64(found.stops[open_token]) <= after:
                stop = uint64(found.stops[open_token]) + moved if is_normal else i + width - begin
                found.stops[open_token] = uint32(stop)
                open_token += 1
            i += width
            o = after


@entry
def widen_to_graphemes(batch: TextBatch, table: UnicodeTable, found: FoundTokens) -> None:
    """Widen tokens to the ends of grapheme clusters that they begin or end within."""
    content, starts, stops = batch
    for i in range(starts.size):
        begin, end = starts[i], stops[i]
        first, last = found.edges[i], found.edges[i + 1]
        before = begin
        for token in range(first, last):
            start, stop = begin + uint64(found.starts[token]), begin + uint64(found.stops[token])
            # a cluster may have two tokens: of ำ normalisation makes a mark and a letter
            before = _start_of_grapheme(content, before, start, end, table)
            found.starts[token] = uint32(before - begin)
            limit = end if token + 1 == last else begin + uint64(found.starts[token + 1])
            while stop < limit:
                character, width = decode(content, stop, end)
                if not _extends(character):
                    break
                stop += width
            found.stops[token] = uint32(stop - begin)


@kernel
def _start_of_grapheme(content, limit, start, end, table):
    """Return where the grapheme cluster begins that a token at ``start`` begins with."""
    if start <= limit:
        return start
    character, _ = decode(content, start, end)
    joins = table_entry(table, character) & KIND == MARK or _extends(character)
    while start > limit:
        previous = start - U1
        while previous > limit and content[previous] & uint8(0xC0) == uint8(0x80):
            previous -= U1
        character, _ = decode(content, previous, end)
        if not _prepends(character):
            is_control = character < _SPACE or _DELETE <= character < _PAST_CONTROLS
            if not joins or is_control:
                break
            joins = _extends(character)
        start = previous
    return start


@kernel(inline="always")
def _extends(character):
    """Return whether a character between tokens belongs to the one before it."""
    return (
        character in (_NON_JOINER, _JOINER)
        or character - _FIRST_TONE < _TONES
        or character - _FIRST_TAG < _TAGS
    )


@kernel(inline="always")
def _prepends(character):
    """Return whether a character between tokens belongs to the one after it."""
    return (
        character - U(0x600) < U(6)
        or character == U(0x6DD)
        or character == U(0x70F)
        or character - U(0x890) < U(2)
        or character == U(0x8E2)
        or character == U(0x110BD)
        or character == U(0x110CD)
    )
