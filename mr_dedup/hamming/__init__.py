"""The Hamming-distance problem: all fingerprints of a corpus within k bits of a query."""
