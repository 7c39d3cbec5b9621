"""De-duplicate Parquet files with datasketch: MinHashLSH finds kept documents."""

import argparse
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from datasketch import MinHash, MinHashLSH

parser = argparse.ArgumentParser()
parser.add_argument("corpus", type=Path)
parser.add_argument("kept", type=Path)
parser.add_argument("--shingle", type=int, help="words in a shingle (default: sets of words)")
parser.add_argument("--threshold", type=float, default=0.9)
options = parser.parse_args()


def tokens(text):
    if not options.shingle:
        return {word.encode() for word in text.split()}
    words = re.findall(r"\w+", text.lower())
    shifted = [words[start:] for start in range(options.shingle)]
    return {" ".join(each).encode() for each in zip(*shifted)} or {" ".join(words).encode()}


index = MinHashLSH(threshold=options.threshold, num_perm=128)
options.kept.mkdir()
dropped = []
for path in sorted(options.corpus.glob("*.parquet")):
    table, keep = pq.read_table(path), []
    for name, text in zip(table["id"].to_pylist(), table["text"].to_pylist()):
        sketch = MinHash(num_perm=128)
        sketch.update_batch(tokens(text))
        found = index.query(sketch)
        keep.append(not found)
        if found:
            dropped.append((name, found[0]))
        else:
            index.insert(name, sketch)
    pq.write_table(table.filter(pa.array(keep)), options.kept / path.name)
    print(path.name, "is done", flush=True)
columns = list(zip(*dropped)) or [(), ()]
pq.write_table(pa.table(columns, ["id", "kept_id"]), options.kept.parent / "dropped.parquet")
