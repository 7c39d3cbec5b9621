"""Data at rest: fingerprints as longs, as text and packed; docs/formats.md has the layouts."""
