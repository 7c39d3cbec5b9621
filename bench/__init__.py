"""Benchmarks: ``python -m bench`` prints one table of times, ratios and memory."""
