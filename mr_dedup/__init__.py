"""mr_dedup: near-duplicate detection for web crawls, as MapReduce."""

from mr_dedup.kernel_cache import ensure_kernel_cache

__version__ = "0.1.0"

ensure_kernel_cache()
