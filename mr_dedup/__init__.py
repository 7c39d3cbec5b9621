"""mr_dedup: near-duplicate detection for web crawls, as MapReduce."""

__version__ = "0.1.0"
