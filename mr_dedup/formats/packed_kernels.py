# mypy: ignore-errors
"""The inside of a packed block: Elias-Fano coded fingerprints, encoded and decoded.

A block contains n fingerprints f[0] < f[1] < ... after a previous one p, as 64-bit words:

- word 0 is the low width l, 0 to 63;
- the low parts, the lowest l bits of x[i] = f[i] - p - 1, in LANES interleaved bit streams: x[i]
  is number i // LANES of stream i % LANES, whose word w is at w * LANES + i % LANES; a stream
  fills its words from their lowest bits up, and a number may straddle two;
- the high parts, in a bit set: bit (x[i] >> l) + i is set for each i, and no other.

All arithmetic is modulo 2**64; what precedes the first fingerprint of all is 2**64 - 1, so that
p + 1 is 0. Because l is floor(log2(mean of x)), the high parts take 2 to 3 bits a fingerprint
and the whole at most 2 bits more than log2 of the mean gap: half a bit above the entropy of
random fingerprints. Delta coding with a width for each 128 gaps has to fit the largest of them:
5.56 bytes where this takes 5.38 (8,388,608 random fingerprints). Golomb-Rice coded gaps take
5.33, but every fingerprint then waits for the sum of the gaps before it: a fifth slower to
decode, and a block could not be searched without being decoded.

The streams are interleaved so that one row of LANES numbers, which all sit at the same bits of
neighbouring words, is unpacked by vector instructions without a gather.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mr_dedup.kernels.entry import entry, kernel

LANES = 32
"""Interleaved bit streams of the low parts of a block; block sizes are multiples of it."""

MAX_LOW_BITS = 63

_UNROLL = 8
"""Set bits taken from a word between two looks at whether any are left: 4 and 16 are slower."""

_U = np.uint64
_ONE, _SIX, _WORD_BITS, _LAST_BIT = _U(1), _U(6), _U(64), _U(63)
_LANES, _STEP = _U(LANES), _U(_UNROLL)
_MAX_LOW_BITS = _U(MAX_LOW_BITS)
_BY_2, _BY_4, _BY_8 = _U(0x5555555555555555), _U(0x3333333333333333), _U(0x0F0F0F0F0F0F0F0F)
_TIMES_ONES, _TOP_BYTE, _TWO, _FOUR = _U(0x0101010101010101), _U(56), _U(2), _U(4)


def max_block_words(block_size: int) -> int:
    """Return the maximum number of words of a block of ``block_size`` fingerprints."""
    return 1 + -(-block_size // LANES) * LANES + -(-3 * block_size // 64)


def decoded_length(count: int) -> int:
    """Return the length of an array that ``decode_blocks`` may decode ``count`` into."""
    return count + LANES


def padded_words(words: int) -> int:
    """Return the length of an array of ``words`` words that ``decode_blocks`` may read."""
    return words + 2 * LANES


def position_scratch(block_size: int) -> NDArray[np.uint32]:
    """Return the scratch array ``decode_blocks`` needs, uint32."""
    return np.empty(block_size + LANES + _UNROLL, dtype=np.uint32)


@kernel
def _set_bits(word: np.uint64) -> np.uint64:
    """Return how many bits of ``word`` are set; LLVM makes one instruction of it."""
    word -= (word >> _ONE) & _BY_2
    word = (word & _BY_4) + ((word >> _TWO) & _BY_4)
    return (((word + (word >> _FOUR)) & _BY_8) * _TIMES_ONES) >> _TOP_BYTE


@kernel
def _low_words(count: np.uint64, low_bits: np.uint64) -> np.uint64:
    """Return how many words the low parts of ``count`` fingerprints take, whole rows of LANES."""
    rows = (count + _LANES - _ONE) // _LANES
    return ((rows * low_bits + _LAST_BIT) >> _SIX) * _LANES


@entry
def encode_blocks(
    fingerprints: NDArray[np.uint64],
    previous: np.uint64,
    block_size: int,
    words: NDArray[np.uint64],
    sizes: NDArray[np.int64],
) -> None:
    """Encode ``fingerprints`` (uint64[n], strictly ascending after ``previous``) into blocks.

    Blocks have ``block_size`` fingerprints, the last one maybe fewer, and are written consecutively
    to ``words``, uint64 with room for ``max_block_words`` each. Sets ``sizes``, int64[blocks], to
    their lengths in words.
    """
    total = _U(len(fingerprints))
    first = _U(0)
    start = _U(0)
    for block in range(len(sizes)):
        count = min(_U(block_size), total - first)
        base = previous + _ONE
        mean = (fingerprints[first + count - _ONE] - base) // count
        low_bits = _U(0)
        while mean >> (low_bits + _ONE) != _U(0) and low_bits < _MAX_LOW_BITS:
            low_bits += _ONE
        mask = (_ONE << low_bits) - _ONE
        low = start + _ONE
        high = low + _low_words(count, low_bits)
        words[start] = low_bits
        for cleared in range(low, high + _ONE):
            words[cleared] = _U(0)
        end = high
        for i in range(count):
            x = fingerprints[first + i] - base
            if low_bits:
                bit = (i // _LANES) * low_bits
                word = low + (bit >> _SIX) * _LANES + i % _LANES
                shift = bit & _LAST_BIT
                words[word] |= (x & mask) << shift
                if shift + low_bits > _WORD_BITS:
                    words[word + _LANES] |= (x & mask) >> (_WORD_BITS - shift)
            position = (x >> low_bits) + i
            while end < high + (position >> _SIX):
                end += _ONE
                words[end] = _U(0)
            words[end] |= _ONE << (position & _LAST_BIT)
        sizes[block] = np.int64(end + _ONE - start)
        start = end + _ONE
        first += count
        previous = fingerprints[first - _ONE]


@entry
def decode_blocks(
    words: NDArray[np.uint64],
    starts: NDArray[np.uint64],
    lasts: NDArray[np.uint64],
    count: int,
    block_size: int,
    positions: NDArray[np.uint32],
    fingerprints: NDArray[np.uint64],
) -> int:
    """Decode ``count`` fingerprints from neighbouring blocks; return the first bad one, or -1.

    Block b is ``words[starts[b]:starts[b + 1]]``, ``lasts[b]`` the fingerprint before it and
    ``lasts[b + 1]`` its last. All blocks have ``block_size`` fingerprints but the last may have
    fewer. The caller guarantees that ``starts``, uint64[blocks + 1], ascends within ``words``,
    which is ``padded_words`` long, and that no block is longer than ``max_block_words``.
    ``positions`` is a ``position_scratch``, ``fingerprints`` of ``decoded_length``: what stands
    after the first ``count`` is undefined. A block is bad if it does not contain its number of
    fingerprints, strictly ascending, the last as in ``lasts``. Nothing outside the
    arrays is read or written, whatever the words are.
    """
    first = _U(0)
    for block in range(len(starts) - 1):
        start, stop = starts[block], starts[block + 1]
        n = min(_U(block_size), _U(count) - first)
        if stop - start < _TWO or words[start] > _MAX_LOW_BITS:
            return block
        low_bits = words[start]
        low = start + _ONE
        high = low + _low_words(n, low_bits)
        if high >= stop or not _read_positions(words, high, stop, n, positions):
            return block
        base = lasts[block] + _ONE
        _join_parts(words, low, low_bits, n, base, positions, fingerprints[first:])
        descents = _U(fingerprints[first] < base)
        for i in range(first + _ONE, first + n):
            descents += _U(fingerprints[i] <= fingerprints[i - _ONE])
        first += n
        if descents or fingerprints[first - _ONE] != lasts[block + 1]:
            return block
    return -1


@kernel
def _read_positions(
    words: NDArray[np.uint64],
    start: np.uint64,
    stop: np.uint64,
    n: np.uint64,
    positions: NDArray[np.uint32],
) -> bool:
    """List the ``n`` bits set in ``words[start:stop]``; return whether there are so many.

    The bits of a word are taken _UNROLL at a time: those beyond its last one are nonsense that
    the next word overwrites. That is twice as fast as a loop that ends, unforeseeably, with the
    word's last bit.
    """
    found = _U(0)
    word_position = _U(0)
    for index in range(start, stop):
        word = words[index]
        next_found = found + _set_bits(word)
        if next_found > n:
            return False
        while found < next_found:
            for ahead in range(_UNROLL):
                # the bits below the lowest one set, counted: one instruction again
                lowest = _set_bits(~word & (word - _ONE))
                positions[found + _U(ahead)] = np.uint32(word_position + lowest)
                word &= word - _ONE
            found += _STEP
        found = next_found
        word_position += _WORD_BITS
    return bool(found == n)


@kernel
def _join_parts(
    words: NDArray[np.uint64],
    low: np.uint64,
    low_bits: np.uint64,
    n: np.uint64,
    base: np.uint64,
    positions: NDArray[np.uint32],
    fingerprints: NDArray[np.uint64],
) -> None:
    """Set ``fingerprints[:n]`` from their low parts, from word ``low`` on, and their positions."""
    mask = (_ONE << low_bits) - _ONE
    bit = _U(0)
    for row in range(_U(0), n, _LANES):
        here = low + (bit >> _SIX) * _LANES
        shift = bit & _LAST_BIT
        back = _LAST_BIT - shift
        for lane in range(LANES):
            j = _U(lane)
            i = row + j
            # a shift by 64 is undefined, so the left one goes in two steps
            low_part = (words[here + j] >> shift) | ((words[here + _LANES + j] << _ONE) << back)
            high_part = (_U(positions[i]) - i) << low_bits
            fingerprints[i] = base + high_part + (low_part & mask)
        bit += low_bits
