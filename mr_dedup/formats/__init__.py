"""Data at rest: fingerprints as longs, text, packed, Parquet; docs/formats.md has the layouts."""
