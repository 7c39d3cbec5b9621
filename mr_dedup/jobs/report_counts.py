"""The counters by which the tasks of a de-duplication describe it for a report."""

LEADING, LEADING_BITS = "leading_", 7
"""The prefix of counters of fingerprints by their leading bits, and how many bits."""

DISTANCE, SIMILARITY, SIZE = "distance_", "similarity_", "size_"
"""Prefixes of counters: of dropped documents by their distance in bits, and by their similarity in
steps of 1 / SIMILARITY_STEPS; of clusters by the smallest n for which 2^n is not below their size.
"""

SIMILARITY_STEPS = 200
"""Steps of similarities: every range of a histogram has a whole number of them."""
