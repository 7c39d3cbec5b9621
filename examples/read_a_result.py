"""A result of de-duplication as tables: read by pandas and by DuckDB, as it is."""

import subprocess
import tempfile
from pathlib import Path

import duckdb
import pandas

folder = Path(tempfile.mkdtemp())
pages, result = folder / "pages", folder / "result"
made = ["--documents", "200", "--duplicates-per-document", "2", "--seed", "1"]
subprocess.run(["data-gen", "documents", *made, "--out", pages], check=True)
subprocess.run(
    ["mr-dedup", "dedup", *sorted(pages.glob("*.jsonl")), "-o", result, "--documents", "parquet"],
    check=True,
)

# each directory of the result is one table
decisions = pandas.read_parquet(result / "decisions")
clusters = pandas.read_parquet(result / "clusters")
dropped = decisions[decisions["reason"].isin(["near_duplicate", "exact_duplicate"])]
print(dropped[["id", "kept_id", "similarity"]].head(3).to_string(index=False))

# the largest clusters, with the beginning of the text that stands for each
largest = duckdb.sql(f"""
    SELECT clusters.documents, any_value(kept.text)[:30] AS text
    FROM '{result}/clusters/*.parquet' AS clusters
    JOIN '{result}/decisions/*.parquet' AS decisions USING (cluster)
    JOIN '{result}/documents/*.parquet' AS kept ON kept.id = decisions.kept_id
    GROUP BY cluster, clusters.documents ORDER BY clusters.documents DESC, cluster LIMIT 3
""")
print(largest)

kept = duckdb.sql(f"SELECT count(*) FROM '{result}/documents/*.parquet'").fetchall()[0][0]
assert kept + len(dropped) == len(decisions)
assert clusters["documents"].sum() - clusters["documents_kept"].sum() == len(dropped)
