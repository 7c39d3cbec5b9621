"""Digests and small sets of URLs to test with."""

import hashlib

import numpy as np


def url(number):
    return f"https://example.org/page/{number}".encode()


def digests_of_numbers(numbers):
    """The digests of the URLs of ``numbers``, by hashlib and int alone."""
    rows = [hashlib.md5(url(number)).hexdigest() for number in numbers]
    return np.array(
        [(int(row[:16], 16), int(row[16:], 16)) for row in rows], dtype=np.uint64
    ).reshape(-1, 2)


def ascending(digests):
    """Distinct rows, ascending, by sorting tuples."""
    rows = sorted({(int(a), int(b)) for a, b in digests})
    return np.array(rows, dtype=np.uint64).reshape(-1, 2)


def rows(digests):
    """Digests as a set of pairs of numbers."""
    return {(int(a), int(b)) for a, b in digests}
