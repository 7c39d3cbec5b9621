"""XXH3 with 64 and 128 bits over slices of a byte array, for kernels: as the xxhash package's.

The algorithm and its constants are those of the xxHash specification: a path of its own each for
up to 3, 8, 16, 128, 240 and more bytes. The seed is 0.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from mr_dedup.kernels.bits import byte_swapped, folded_product, high_product
from mr_dedup.kernels.memory import load32, load64

_SECRET = np.frombuffer(
    bytes.fromhex(
        "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
        "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
        "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
        "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
        "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
        "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
    ),
    np.uint8,
)

_U = np.uint64
_PRIME32_1, _PRIME32_2, _PRIME32_3 = _U(0x9E3779B1), _U(0x85EBCA77), _U(0xC2B2AE3D)
_PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME64_5 = (
    _U(0x9E3779B185EBCA87), _U(0xC2B2AE3D27D4EB4F), _U(0x165667B19E3779F9),
    _U(0x85EBCA77C2B2AE63), _U(0x27D4EB2F165667C5),
)  # fmt: skip
_PRIME_MX1, _PRIME_MX2 = _U(0x165667919E3779F9), _U(0x9FB21C651E98DF25)

_ACCUMULATORS = np.array(
    [
        _PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3,
        _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1,
    ],
    np.uint64,
)  # fmt: skip

_STRIPE, _LAST_SECRET, _MERGE_SECRET = _U(64), _U(192 - 64 - 7), _U(11)
_STRIPES_A_BLOCK = _U((192 - 64) // 8)

_0, _1, _2, _3, _4, _8, _16, _32 = (_U(n) for n in (0, 1, 2, 3, 4, 8, 16, 32))
_LOW, _BYTE, _13, _19, _54 = (_U(n) for n in (0xFFFFFFFF, 0xFF, 13, 19, 54))


def _secret64(start: int) -> np.uint64:
    return _U(int.from_bytes(_SECRET[start : start + 8].tobytes(), "little"))


_FLIP_1_TO_3 = _U(int.from_bytes(_SECRET[:4].tobytes(), "little")) ^ _U(
    int.from_bytes(_SECRET[4:8].tobytes(), "little")
)
_FLIP_4_TO_8 = _secret64(8) ^ _secret64(16)
_FLIP_LOW_9_TO_16 = _secret64(24) ^ _secret64(32)
_FLIP_HIGH_9_TO_16 = _secret64(40) ^ _secret64(48)
_FLIPS_17_TO_32 = _secret64(0), _secret64(8), _secret64(16), _secret64(24)
_EMPTY = _secret64(56) ^ _secret64(64)

# of 128 bits the upper half has its own
_HIGH_FLIP_1_TO_3 = (_secret64(8) ^ _secret64(8) >> _32) & _LOW
_FLIP_128_4_TO_8 = _secret64(16) ^ _secret64(24)
_LOW_FLIP_128_9_TO_16 = _secret64(32) ^ _secret64(40)
_HIGH_FLIP_128_9_TO_16 = _secret64(48) ^ _secret64(56)
_EMPTY_128 = _secret64(80) ^ _secret64(88), _secret64(64) ^ _secret64(72)
_HIGH_MERGE_SECRET = _U(192 - 64 - 11)


@njit(cache=True, nogil=True)
def xxh3_64(content, begin, end):  # type: ignore[no-untyped-def]
    """Return the hash, uint64, of ``content[begin:end]`` (uint8[n] and uint64), unchecked."""
    length = end - begin
    if length <= _16:
        return _short(content, begin, length)
    if length <= _U(128):
        return _to_128(content, begin, length)
    if length <= _U(240):
        return _to_240(content, begin, length)
    return _long(content, begin, length)


@njit(cache=True, nogil=True)
def xxh3_64_up_to_8(content, begin, length):  # type: ignore[no-untyped-def]
    """Return the hash, uint64, of 1 to 8 bytes; reads eight from ``begin`` on, unchecked.

    Both paths are computed and one is taken, without a branch: lengths of words cannot be guessed.
    """
    word = load64(content, begin)
    last = word >> _8 * ((length - _4) & _U(7)) & _LOW
    longer = _mixed_4_to_8((last + (word << _32)) ^ _FLIP_4_TO_8, length)
    first, middle = word & _BYTE, word >> _8 * (length >> _1) & _BYTE
    end = word >> _8 * (length - _1) & _BYTE
    shorter = _mixed_1_to_3(first, middle, end, length)
    chosen = _0 - uint64(length >= _4)
    return longer & chosen | shorter & ~chosen


@njit(cache=True, nogil=True)
def xxh3_64_9_to_16(content, begin, length):  # type: ignore[no-untyped-def]
    """Return the hash, uint64, of 9 to 16 bytes, unchecked."""
    low = load64(content, begin) ^ _FLIP_LOW_9_TO_16
    high = load64(content, begin + length - _8) ^ _FLIP_HIGH_9_TO_16
    return _avalanche(length + byte_swapped(low) + high + folded_product(low, high))


@njit(cache=True, nogil=True)
def xxh3_64_17_to_32(content, begin, length):  # type: ignore[no-untyped-def]
    """Return the hash, uint64, of 17 to 32 bytes, unchecked: ``xxh3_64`` without its loop."""
    flips, end = _FLIPS_17_TO_32, begin + length
    near = folded_product(load64(content, begin) ^ flips[0], load64(content, begin + _8) ^ flips[1])
    far = folded_product(
        load64(content, end - _16) ^ flips[2], load64(content, end - _8) ^ flips[3]
    )
    return _avalanche(length * _PRIME64_1 + near + far)


@njit(cache=True, nogil=True)
def _mixed_4_to_8(mixed, length):  # type: ignore[no-untyped-def]
    mixed ^= (mixed << _U(49) | mixed >> _U(15)) ^ (mixed << _U(24) | mixed >> _U(40))
    mixed *= _PRIME_MX2
    mixed ^= (mixed >> _U(35)) + length
    mixed *= _PRIME_MX2
    return mixed ^ mixed >> _U(28)


@njit(cache=True, nogil=True)
def _mixed_1_to_3(first, middle, last, length):  # type: ignore[no-untyped-def]
    mixed = first << _16 | middle << _U(24) | last | length << _8
    return _avalanche_xxh64(mixed ^ _FLIP_1_TO_3)


@njit(cache=True, nogil=True)
def _short(content, begin, length):  # type: ignore[no-untyped-def]
    if length > _8:
        return xxh3_64_9_to_16(content, begin, length)
    if length >= _4:
        both = load32(content, begin + length - _4) + (load32(content, begin) << _32)
        return _mixed_4_to_8(both ^ _FLIP_4_TO_8, length)
    if length > _0:
        first = uint64(content[begin])
        middle = uint64(content[begin + (length >> _1)])
        return _mixed_1_to_3(first, middle, uint64(content[begin + length - _1]), length)
    return _avalanche_xxh64(_EMPTY)


@njit(cache=True, nogil=True)
def _avalanche(mixed):  # type: ignore[no-untyped-def]
    mixed ^= mixed >> _U(37)
    mixed *= _PRIME_MX1
    return mixed ^ mixed >> _32


@njit(cache=True, nogil=True)
def _avalanche_xxh64(mixed):  # type: ignore[no-untyped-def]
    mixed ^= mixed >> _U(33)
    mixed *= _PRIME64_2
    mixed ^= mixed >> _U(29)
    mixed *= _PRIME64_3
    return mixed ^ mixed >> _32


@njit(cache=True, nogil=True)
def _mix_16(content, begin, secret):  # type: ignore[no-untyped-def]
    low = load64(content, begin) ^ load64(_SECRET, secret)
    return folded_product(low, load64(content, begin + _8) ^ load64(_SECRET, secret + _8))


@njit(cache=True, nogil=True)
def _to_128(content, begin, length):  # type: ignore[no-untyped-def]
    mixed = length * _PRIME64_1
    # pairs of 16 bytes from both ends towards the middle
    for pair in range((length - _1) // _32 + _1):
        near = uint64(pair) * _16
        mixed += _mix_16(content, begin + near, _2 * near)
        mixed += _mix_16(content, begin + length - near - _16, _2 * near + _16)
    return _avalanche(mixed)


@njit(cache=True, nogil=True)
def _to_240(content, begin, length):  # type: ignore[no-untyped-def]
    mixed = length * _PRIME64_1
    for piece in range(_8):
        mixed += _mix_16(content, begin + _16 * uint64(piece), _16 * uint64(piece))
    mixed = _avalanche(mixed)
    for piece in range(_8, length // _16):
        mixed += _mix_16(content, begin + _16 * uint64(piece), _16 * (uint64(piece) - _8) + _3)
    mixed += _mix_16(content, begin + length - _16, _U(136 - 17))
    return _avalanche(mixed)


@njit(cache=True, nogil=True)
def _accumulate(accumulators, content, begin, secret):  # type: ignore[no-untyped-def]
    for lane in range(_8):
        value = load64(content, begin + _8 * uint64(lane))
        keyed = value ^ load64(_SECRET, secret + _8 * uint64(lane))
        accumulators[uint64(lane) ^ _1] += value
        accumulators[lane] += (keyed & _LOW) * (keyed >> _32)


@njit(cache=True, nogil=True)
def _long(content, begin, length):  # type: ignore[no-untyped-def]
    return _merged(_accumulated(content, begin, length), _MERGE_SECRET, length * _PRIME64_1)


@njit(cache=True, nogil=True)
def _accumulated(content, begin, length):  # type: ignore[no-untyped-def]
    accumulators = _ACCUMULATORS.copy()
    stripes = (length - _1) // _STRIPE
    for stripe in range(stripes):
        within = uint64(stripe) % _STRIPES_A_BLOCK
        _accumulate(accumulators, content, begin + uint64(stripe) * _STRIPE, within * _8)
        if within == _STRIPES_A_BLOCK - _1:
            for lane in range(_8):
                mixed = accumulators[lane]
                mixed ^= mixed >> _U(47)
                mixed ^= load64(_SECRET, _U(192 - 64) + _8 * uint64(lane))
                accumulators[lane] = mixed * _PRIME32_1
    _accumulate(accumulators, content, begin + length - _STRIPE, _LAST_SECRET)
    return accumulators


@njit(cache=True, nogil=True)
def _merged(accumulators, secret, merged):  # type: ignore[no-untyped-def]
    for pair in range(_4):
        place = secret + _16 * uint64(pair)
        merged += folded_product(
            accumulators[_2 * uint64(pair)] ^ load64(_SECRET, place),
            accumulators[_2 * uint64(pair) + _1] ^ load64(_SECRET, place + _8),
        )
    return _avalanche(merged)


@njit(cache=True, nogil=True)
def xxh3_128(content, begin, end):  # type: ignore[no-untyped-def]
    """Return the upper and the lower half of that hash of 128 bits, uint64 each, unchecked."""
    length = end - begin
    if length <= _16:
        return _short_128(content, begin, length)
    if length <= _U(240):
        return _to_240_128(content, begin, length)
    accumulators = _accumulated(content, begin, length)
    high = _merged(accumulators, _HIGH_MERGE_SECRET, ~(length * _PRIME64_2))
    return high, _merged(accumulators, _MERGE_SECRET, length * _PRIME64_1)


@njit(cache=True, nogil=True)
def _short_128(content, begin, length):  # type: ignore[no-untyped-def]
    if length > _8:
        return _9_to_16_128(content, begin, length)
    if length >= _4:
        both = load32(content, begin) + (load32(content, begin + length - _4) << _32)
        keyed, factor = both ^ _FLIP_128_4_TO_8, _PRIME64_1 + (length << _2)
        low = keyed * factor
        high = high_product(keyed, factor) + (low << _1)
        low ^= high >> _3
        low = (low ^ low >> _U(35)) * _PRIME_MX2
        return _avalanche(high), low ^ low >> _U(28)
    if length == _0:
        return _avalanche_xxh64(_EMPTY_128[0]), _avalanche_xxh64(_EMPTY_128[1])
    first, last = uint64(content[begin]), uint64(content[begin + length - _1])
    middle = uint64(content[begin + (length >> _1)])
    low = first << _16 | middle << _U(24) | last | length << _8
    high = byte_swapped(low) >> _32
    high = (high << _13 | high >> _19) & _LOW
    return _avalanche_xxh64(high ^ _HIGH_FLIP_1_TO_3), _avalanche_xxh64(low ^ _FLIP_1_TO_3)


@njit(cache=True, nogil=True)
def _9_to_16_128(content, begin, length):  # type: ignore[no-untyped-def]
    near, far = load64(content, begin), load64(content, begin + length - _8)
    mixed = near ^ far ^ _LOW_FLIP_128_9_TO_16
    low = mixed * _PRIME64_1 + (length - _1 << _54)
    far ^= _HIGH_FLIP_128_9_TO_16
    high = high_product(mixed, _PRIME64_1) + far + (far & _LOW) * (_PRIME32_2 - _1)
    low ^= byte_swapped(high)
    high = high_product(low, _PRIME64_2) + high * _PRIME64_2
    return _avalanche(high), _avalanche(low * _PRIME64_2)


@njit(cache=True, nogil=True)
def _mix_32(content, near, far, secret, high, low):  # type: ignore[no-untyped-def]
    low += _mix_16(content, near, secret)
    low ^= load64(content, far) + load64(content, far + _8)
    high += _mix_16(content, far, secret + _16)
    high ^= load64(content, near) + load64(content, near + _8)
    return high, low


@njit(cache=True, nogil=True)
def _to_240_128(content, begin, length):  # type: ignore[no-untyped-def]
    high, low = _0, length * _PRIME64_1
    end = begin + length
    if length <= _U(128):
        # pairs of 16 bytes from the middle towards both ends
        pairs = (length - _1) // _32 + _1
        for pair in range(pairs):
            near = _16 * (pairs - _1 - uint64(pair))
            high, low = _mix_32(content, begin + near, end - near - _16, _2 * near, high, low)
    else:
        for piece in range(_4):
            near = _32 * uint64(piece)
            high, low = _mix_32(content, begin + near, begin + near + _16, near, high, low)
        high, low = _avalanche(high), _avalanche(low)
        for piece in range(_4, length // _32):
            near = _32 * uint64(piece)
            secret = near - _32 * _4 + _3
            high, low = _mix_32(content, begin + near, begin + near + _16, secret, high, low)
        high, low = _mix_32(content, end - _16, end - _32, _U(136 - 17 - 16), high, low)
    mixed = low * _PRIME64_1 + high * _PRIME64_4 + length * _PRIME64_2
    return _0 - _avalanche(mixed), _avalanche(high + low)
