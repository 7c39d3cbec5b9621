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
for path in sorted(options.corpus.glob("*.parquet")):
    table, keep = pq.read_table(path), []
    sketches = MinHash.generator(map(tokens, table["text"].to_pylist()), num_perm=128)
    for name, sketch in zip(table["id"].to_pylist(), sketches):
        keep.append(not index.query(sketch))
        if keep[-1]:
            index.insert(name, sketch)
    pq.write_table(table.filter(pa.array(keep)), options.kept / path.name)
    print(path.name, "is done", flush=True)
