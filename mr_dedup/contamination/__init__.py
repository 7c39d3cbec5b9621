"""Which documents contain items of a test set, such as questions of a benchmark, and where."""
