"""mr_dedup: near-duplicate detection for web crawls, as MapReduce."""

import logging

from mr_dedup.kernels.cache import ensure_kernel_cache

__version__ = "0.1.0"

ensure_kernel_cache()

# a root logger at DEBUG, as Scrapy's is, would write each bytecode of each kernel that is compiled
if logging.getLogger("numba").level == logging.NOTSET:
    logging.getLogger("numba").setLevel(logging.INFO)
