"""De-duplicate Parquet files with rensa: RMinHashDeduplicator keeps what is not similar to it."""

import argparse
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rensa import RMinHashDeduplicator

parser = argparse.ArgumentParser()
parser.add_argument("corpus", type=Path)
parser.add_argument("kept", type=Path)
parser.add_argument("--shingle", type=int, help="words in a shingle (default: sets of words)")
options = parser.parse_args()


def tokens(text):
    if not options.shingle:
        return text.split()
    words = re.findall(r"\w+", text.lower())
    shifted = [words[start:] for start in range(options.shingle)]
    return [" ".join(each) for each in zip(*shifted)] or [" ".join(words)]


index = RMinHashDeduplicator(threshold=0.8, num_perm=128, use_lsh=True)
options.kept.mkdir()
for path in sorted(options.corpus.glob("*.parquet")):
    table = pq.read_table(path)
    rows = zip(table["id"].to_pylist(), table["text"].to_pylist())
    keep = index.add_pairs((name, tokens(text)) for name, text in rows)
    pq.write_table(table.filter(pa.array(keep)), options.kept / path.name)
    print(path.name, "is done", flush=True)
