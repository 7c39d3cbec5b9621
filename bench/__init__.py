"""Benchmarks. ``python -m bench`` (``make bench``) runs those of ``bench.__main__.BENCHMARKS``.

It prints one Markdown table of times, ratios and memory. Helpers: ``measure`` (timing in this
process), ``processes`` (whole programs), ``inputs`` (data), ``machine``. Other implementations:
``numpy_rival``, ``faiss_rival``, ``c_rival``, ``url_rivals``, ``dedup_rivals``.

Programs of their own, for data sets that do not come with the project:

| program | prints |
|---|---|
| bench.dedup SET… | de-duplication of a data set, beside other packages |
| bench.dedup_curve SET… | recall and cost of simhash de-duplication, by features and k |
| bench.quality SET… | recall and precision of simhash, by features, weighting and k |
| bench.bands_curve | the share of pairs that min-wise bands find, by similarity |
| bench.boilerplate | precision and recall of main content extraction from HTML |
"""
