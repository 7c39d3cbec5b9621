"""URLs seen before: counters in memory before a store of digests, exact, and able to forget."""
