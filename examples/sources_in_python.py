"""De-duplicate pages that other libraries have in memory: each gives the same decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import datasets
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa

import mr_dedup

PAGE = "The council will meet on Thursday evening to vote on the budget of the new library."
PAGES = [
    {"id": "a", "text": PAGE},
    {"id": "b", "text": f"{PAGE} Read more"},
    {"id": "c", "text": "A dog that was lost on Sunday has been found near the river."},
]


def crawled() -> Iterator[Mapping[str, str]]:
    """Yield pages one after another."""
    yield from PAGES


def kept(result: mr_dedup.DedupResult) -> list[str]:
    """Return the ids of the documents that were kept."""
    ids: list[str] = result.kept["id"].to_pylist()
    return ids


table = pa.Table.from_pylist(PAGES)
results = {
    "records": mr_dedup.dedup(PAGES),
    "a generator": mr_dedup.dedup(crawled()),
    "texts": mr_dedup.dedup([page["text"] for page in PAGES]),
    "Arrow": mr_dedup.dedup(table),
    "a stream of Arrow": mr_dedup.dedup(table.to_reader()),
    "pandas": mr_dedup.dedup(pd.DataFrame(PAGES)),
    "polars": mr_dedup.dedup(pl.DataFrame(PAGES)),
    "DuckDB": mr_dedup.dedup(duckdb.from_arrow(table)),
    "datasets": mr_dedup.dedup(datasets.Dataset.from_list(PAGES)),
}
for name, result in results.items():
    print(f"{name}: kept {', '.join(kept(result))}")
