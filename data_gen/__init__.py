"""Synthetic data with planted truth; never imports mr_dedup, so that its truth is independent."""
