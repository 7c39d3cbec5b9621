"""Fingerprints of feature sets."""
