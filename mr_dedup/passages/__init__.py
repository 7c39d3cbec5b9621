"""Repeated passages of texts: find them exactly, and cut them out."""
