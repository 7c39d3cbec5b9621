"""Counting Bloom filters the slow way: Python numbers, a Counter, no packing and no kernels."""

from collections import Counter

MASK = (1 << 64) - 1


def mixed(value):
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def hashes(second, number):
    """The first ``number`` 32-bit hashes of a digest's second half."""
    found = []
    for pair in range(1, number // 2 + 2):
        both = mixed((second + pair * 0x9E3779B97F4A7C15) & MASK)
        found += [both % 2**32, both // 2**32]
    return found[:number]


def located(digest, segments, segment_words, bits, number):
    """The counters of a digest: pairs of a word and the counter in it, one for each hash."""
    first, second = digest
    segment = (first // 2**32) * segments // 2**32
    found = []
    for hashed in hashes(second, number):
        word, rest = divmod(hashed * segment_words, 2**32)
        found.append((segment * segment_words + word, rest * (64 // bits) // 2**32))
    return found


def counted(digests, shape):
    """How many uses each counter has, and its value: that, or 2**bits - 1 if there are more."""
    uses = Counter()
    for digest in digests:
        uses.update(
            located(digest, shape.segments, shape.segment_words, shape.counter_bits, shape.hashes)
        )
    return {counter: min(count, 2**shape.counter_bits - 1) for counter, count in uses.items()}


def unpacked(words, bits):
    """The counters of packed words that are not 0, by word and counter."""
    found = {}
    for at, word in enumerate(words.tolist()):
        for slot in range(64 // bits):
            value = word >> slot * bits & (1 << bits) - 1
            if value:
                found[at, slot] = value
    return found
