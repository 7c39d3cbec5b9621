"""Signatures: short keys of texts, which similar texts share."""
