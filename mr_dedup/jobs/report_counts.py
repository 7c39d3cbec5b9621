"""What tasks of a de-duplication leave for its report: counters, and samples of bounded size."""

LEADING, LEADING_BITS = "leading_", 7
"""The prefix of counters of fingerprints by their leading bits, and how many bits."""

DISTANCE, SIMILARITY, SIZE = "distance_", "similarity_", "size_"
"""Prefixes of counters: of dropped documents by their distance in bits, and by their similarity in
steps of 1 / SIMILARITY_STEPS; of clusters by the smallest n for which 2^n is not below their size.
"""

TEMPLATE_CLUSTERS, LOSING_SOURCES = "template_clusters", "losing_sources"
"""Counters of clusters that look like templates, and of sources that lose most documents."""

SIMILARITY_STEPS = 200
"""Steps of similarities: every range of a histogram has a whole number of them."""

LARGEST, EXAMPLES = 100, 5
"""The largest clusters that a report lists, and the ids of documents that it lists of each."""

SAMPLES = 24
"""Dropped documents whose texts a report compares with the kept ones."""
