"""Document frequencies and idfs, the slow and obvious way."""

from collections import Counter
from decimal import Decimal, localcontext

import xxhash

from tests.features import text_oracle


def hashed(feature):
    return xxhash.xxh3_64_intdigest(feature.encode())


def frequencies(texts, unit, length, minimum=2, **asked):
    """The hashes of features that so many of the texts have, with how many these are."""
    counts = Counter()
    for text in texts:
        counts.update({hashed(s) for s in text_oracle.shingles(text, unit, length, **asked)})
    return {feature: count for feature, count in sorted(counts.items()) if count >= minimum}


def idf(count, documents):
    """1 + ln((1 + documents) / (1 + count)) in 64ths, rounded: with far more digits than it has."""
    with localcontext() as context:
        context.prec = 80
        exact = 64 * (1 + (Decimal(1 + documents) / (1 + count)).ln())
        return int(exact.to_integral_value())


def weighted(text, unit, length, weighting, counts, documents, minimum=2, **asked):
    """Each feature of a text with its weight in 4096ths."""
    plain = text_oracle.weighted(text, unit, length, weighting.removesuffix("-idf"), **asked)
    unknown = min(max(minimum - 1, 1), documents)
    return {
        feature: weight * idf(counts.get(hashed(feature), unknown), documents)
        for feature, weight in plain.items()
    }
