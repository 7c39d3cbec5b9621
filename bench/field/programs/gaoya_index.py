"""De-duplicate Parquet files with gaoya: MinHashStringIndex finds kept documents."""

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from gaoya.minhash import MinHashStringIndex

parser = argparse.ArgumentParser()
parser.add_argument("corpus", type=Path)
parser.add_argument("kept", type=Path)
parser.add_argument("--aligned", action="store_true", help="shingles of 3 words, threshold 0.8")
options = parser.parse_args()

if options.aligned:
    index = MinHashStringIndex(
        jaccard_threshold=0.8, num_hashes=128, num_bands=None, band_size=None,
        lowercase=True, ngram_range=(3, 3),
    )  # fmt: skip
else:
    index = MinHashStringIndex()
options.kept.mkdir()
names, dropped = [], []
for path in sorted(options.corpus.glob("*.parquet")):
    table, keep = pq.read_table(path), []
    for name, text in zip(table["id"].to_pylist(), table["text"].to_pylist()):
        found = index.query(text, return_similarity=True)
        keep.append(not found)
        if found:
            dropped.append((name, names[found[0][0]]))
        else:
            index.insert_document(len(names), text)
            names.append(name)
    pq.write_table(table.filter(pa.array(keep)), options.kept / path.name)
    print(path.name, "is done", flush=True)
columns = list(zip(*dropped)) or [(), ()]
pq.write_table(pa.table(columns, ["id", "kept_id"]), options.kept.parent / "dropped.parquet")
