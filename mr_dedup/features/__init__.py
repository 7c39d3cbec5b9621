"""Features of texts: tokens, shingles, their hashes and weights."""
