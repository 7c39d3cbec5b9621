"""Synthetic data with known duplicates; never imports mr_dedup, to be independent of it."""
