"""The search as a library: arrays in, matches out."""

import numpy as np

from mr_dedup.hamming.search import probe

rng = np.random.default_rng(1)
corpus = rng.integers(0, 2**64, 500_000, dtype=np.uint64)
queries = corpus[:5] ^ np.uint64(0b101)  # two bits from stored ones

matches = probe(corpus, queries, k=3)
for query, match, distance in zip(matches.left, matches.right, matches.distances, strict=True):
    print(f"{query:#018x} is {distance} bits from {match:#018x}")

assert sorted(matches.right.tolist()) == sorted(corpus[:5].tolist())
