"""Documents at rest: JSONL, Parquet, WARC, and folders of pages, read in batches."""
