# mypy: ignore-errors
"""The 64-bit XXH3 of slices of a byte array, for kernels; equal to that of the xxhash package.

The algorithm and its constants are those of the xxHash specification, with seed 0: separate
functions for up to 3, 8, 16, 128, 240 and more bytes. A kernel cannot call the package, and a text
has hundreds of shingles to hash.
"""

from __future__ import annotations

import numpy as np
from numpy import uint64
from numpy.typing import NDArray

from mr_dedup.kernels.bits import byte_swapped, folded_product
from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.memory import load32, load64
from mr_dedup.kernels.unsigned import U0, U1, U2, U3, U4, U8, U16, U32, U

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

_PRIME32_1, _PRIME32_2, _PRIME32_3 = U(0x9E3779B1), U(0x85EBCA77), U(0xC2B2AE3D)
_PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME64_5 = (
    U(0x9E3779B185EBCA87), U(0xC2B2AE3D27D4EB4F), U(0x165667B19E3779F9),
    U(0x85EBCA77C2B2AE63), U(0x27D4EB2F165667C5),
)  # fmt: skip
_PRIME_MX1, _PRIME_MX2 = U(0x165667919E3779F9), U(0x9FB21C651E98DF25)

_ACCUMULATORS = np.array(
    [
        _PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3,
        _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1,
    ],
    np.uint64,
)  # fmt: skip

_STRIPE, _LAST_SECRET, _MERGE_SECRET = U(64), U(192 - 64 - 7), U(11)
_STRIPES_A_BLOCK = U((192 - 64) // 8)

_LOW = U(0xFFFFFFFF)


def _secret64(start: int) -> np.uint64:
    return U(int.from_bytes(_SECRET[start : start + 8].tobytes(), "little"))


_FLIP_1_TO_3 = U(int.from_bytes(_SECRET[:4].tobytes(), "little")) ^ U(
    int.from_bytes(_SECRET[4:8].tobytes(), "little")
)
_FLIP_4_TO_8 = _secret64(8) ^ _secret64(16)
_FLIP_LOW_9_TO_16 = _secret64(24) ^ _secret64(32)
_FLIP_HIGH_9_TO_16 = _secret64(40) ^ _secret64(48)
_EMPTY = _secret64(56) ^ _secret64(64)


@entry
def xxh3_64(content: NDArray[np.uint8], begin: np.uint64, end: np.uint64) -> np.uint64:
    """Return the hash, uint64, of ``content[begin:end]`` (uint8[n] and uint64), unchecked."""
    length = end - begin
    if length <= U16:
        return xxh3_64_up_to_16(content, begin, length)
    if length <= U32:
        return xxh3_64_17_to_32(content, begin, length)
    if length <= U(128):
        return _to_128(content, begin, length)
    if length <= U(240):
        return _to_240(content, begin, length)
    return _long(content, begin, length)


@kernel
def xxh3_64_up_to_16(content, begin, length):
    """Return what ``xxh3_64`` does, of ``length`` <= 16 bytes from ``begin`` on."""
    if length > U8:
        low = load64(content, begin) ^ _FLIP_LOW_9_TO_16
        high = load64(content, begin + length - U8) ^ _FLIP_HIGH_9_TO_16
        return _avalanche(length + byte_swapped(low) + high + folded_product(low, high))
    if length >= U4:
        both = load32(content, begin + length - U4) + (load32(content, begin) << U32)
        mixed = both ^ _FLIP_4_TO_8
        mixed ^= (mixed << U(49) | mixed >> U(15)) ^ (mixed << U(24) | mixed >> U(40))
        mixed *= _PRIME_MX2
        mixed ^= (mixed >> U(35)) + length
        mixed *= _PRIME_MX2
        return mixed ^ mixed >> U(28)
    if length > U0:
        first = uint64(content[begin])
        middle = uint64(content[begin + (length >> U1)])
        last = uint64(content[begin + length - U1])
        mixed = first << U16 | middle << U(24) | last | length << U8
        return _avalanche_xxh64(mixed ^ _FLIP_1_TO_3)
    return _avalanche_xxh64(_EMPTY)


@kernel
def _avalanche(mixed):
    mixed ^= mixed >> U(37)
    mixed *= _PRIME_MX1
    return mixed ^ mixed >> U32


@kernel
def _avalanche_xxh64(mixed):
    mixed ^= mixed >> U(33)
    mixed *= _PRIME64_2
    mixed ^= mixed >> U(29)
    mixed *= _PRIME64_3
    return mixed ^ mixed >> U32


@kernel
def _mix_16(content, begin, secret):
    low = load64(content, begin) ^ load64(_SECRET, secret)
    return folded_product(low, load64(content, begin + U8) ^ load64(_SECRET, secret + U8))


@kernel
def xxh3_64_17_to_32(content, begin, length):
    """Return what ``xxh3_64`` does, of 17 to 32 bytes from ``begin`` on: ``_to_128`` unrolled."""
    first = _mix_16(content, begin, U0)
    return _avalanche(length * _PRIME64_1 + first + _mix_16(content, begin + length - U16, U16))


@kernel
def _to_128(content, begin, length):
    mixed = length * _PRIME64_1
    # pairs of 16 bytes from both ends towards the middle
    for pair in range((length - U1) // U32 + U1):
        near = uint64(pair) * U16
        mixed += _mix_16(content, begin + near, U2 * near)
        mixed += _mix_16(content, begin + length - near - U16, U2 * near + U16)
    return _avalanche(mixed)


@kernel
def _to_240(content, begin, length):
    mixed = length * _PRIME64_1
    for piece in range(U8):
        mixed += _mix_16(content, begin + U16 * uint64(piece), U16 * uint64(piece))
    mixed = _avalanche(mixed)
    for piece in range(U8, length // U16):
        mixed += _mix_16(content, begin + U16 * uint64(piece), U16 * (uint64(piece) - U8) + U3)
    mixed += _mix_16(content, begin + length - U16, U(136 - 17))
    return _avalanche(mixed)


@kernel
def _accumulate(accumulators, content, begin, secret):
    for lane in range(U8):
        value = load64(content, begin + U8 * uint64(lane))
        keyed = value ^ load64(_SECRET, secret + U8 * uint64(lane))
        accumulators[uint64(lane) ^ U1] += value
        accumulators[lane] += (keyed & _LOW) * (keyed >> U32)


@kernel
def _long(content, begin, length):
    accumulators = _ACCUMULATORS.copy()
    stripes = (length - U1) // _STRIPE
    for stripe in range(stripes):
        within = uint64(stripe) % _STRIPES_A_BLOCK
        _accumulate(accumulators, content, begin + uint64(stripe) * _STRIPE, within * U8)
        if within == _STRIPES_A_BLOCK - U1:
            for lane in range(U8):
                mixed = accumulators[lane]
                mixed ^= mixed >> U(47)
                mixed ^= load64(_SECRET, U(192 - 64) + U8 * uint64(lane))
                accumulators[lane] = mixed * _PRIME32_1
    _accumulate(accumulators, content, begin + length - _STRIPE, _LAST_SECRET)
    merged = length * _PRIME64_1
    for pair in range(U4):
        secret = _MERGE_SECRET + U16 * uint64(pair)
        merged += folded_product(
            accumulators[U2 * uint64(pair)] ^ load64(_SECRET, secret),
            accumulators[U2 * uint64(pair) + U1] ^ load64(_SECRET, secret + U8),
        )
    return _avalanche(merged)
