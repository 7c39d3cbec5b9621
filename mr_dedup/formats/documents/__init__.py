"""Documents at rest: JSONL, Parquet, WARC, and directories of pages, read in batches."""
