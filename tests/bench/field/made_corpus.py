"""A small corpus: pages of random words, of which some are copies or near-duplicates of others."""

import random

import pyarrow as pa
import pyarrow.parquet as pq

TRUTH = pa.schema([("id", pa.string()), ("other", pa.string()), ("jaccard", pa.float64())])


def write_corpus(folder, pages=30):
    """Write two Parquet files and a report, as a corpus has; return the ids of copies.

    Page 0 has a copy in the other file, page 1 one with a changed word; ids have spaces, as paths
    may.
    """
    rng = random.Random(7)
    texts = [" ".join(f"word{rng.randrange(9999)}" for _ in range(200)) for _ in range(pages)]
    near = texts[1].split()
    near[100] = "changed"
    rows = [{"id": f"a/page {number}", "text": text} for number, text in enumerate(texts)]
    copies = [{"id": "b/copy", "text": texts[0]}, {"id": "b/near", "text": " ".join(near)}]
    folder.mkdir()
    schema = pa.schema([("id", pa.large_string()), ("text", pa.large_string())])
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / "part-0000.parquet")
    pq.write_table(pa.Table.from_pylist(copies, schema), folder / "part-0001.parquet")
    (folder / "corpus.json").write_text('{\n"content_sha256": "00ff"\n}\n')
    return [row["id"] for row in copies]


def write_truth(folder):
    """Write the truth about that corpus."""
    folder.mkdir()
    ids = [*(f"a/page {number}" for number in range(30)), "b/copy", "b/near"]
    pq.write_table(pa.table({"id": ids}), folder / "sample.parquet")
    pairs = [("a/page 0", "b/copy", 1.0), ("a/page 1", "b/near", 0.97)]
    rows = [*pairs, *((b, a, j) for a, b, j in pairs)]
    columns = [list(column) for column in zip(*rows, strict=True)]
    pq.write_table(pa.table(columns, TRUTH), folder / "pairs.parquet")
    (folder / "corpus.json").write_text('{"content_sha256": "00ff"}')
