"""The similarity of sets of which only the smallest numbers are known, by Python's sets."""

import functools


def estimate(first, second, most):
    """The share of common ones among what is known of both; never above what the sizes allow."""
    if not first or not second:
        return 0
    limit = min(known_up_to(first, most), known_up_to(second, most))
    a, b = (up_to(numbers, limit) for numbers in (first, second))
    common = len(a & b)
    sizes = sorted((len(first), len(second)))
    return min(common / (len(a) + len(b) - common), sizes[0] / sizes[1])


@functools.cache
def known_up_to(numbers, most):
    return sorted(numbers)[most - 1] if len(numbers) > most else float("inf")


def up_to(numbers, limit):
    if limit == float("inf"):
        return numbers
    return {number for number in numbers if number <= limit}
