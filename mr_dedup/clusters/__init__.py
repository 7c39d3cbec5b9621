"""Clusters of near-duplicates: connected components, and which of their documents are kept."""
