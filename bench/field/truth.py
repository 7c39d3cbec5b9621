"""``python -m bench.field.truth CORPUS OUT``: find which documents of a corpus are similar.

For each document, or for each of a random sample (``--sample``), it finds all documents of the
corpus whose Jaccard similarity to it is 0.7 at least; exactly, but that shingles are represented by
64 bits. OUT gets ``sample.parquet`` (id, shingles) and ``pairs.parquet`` (id, other, jaccard),
where id is in the sample; if both documents are, the pair is there in both orders. And
``corpus.json``, with the SHA-256 of the corpus.

The shingles of the sample are in memory, of the corpus one batch at a time. Of each document in
the sample the rarest shingles are indexed, so many that whatever is similar enough has one of them
(prefix filter: Chaudhuri, Ganti and Kaushik, ICDE 2006).
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.field.quality import content_sha256, write_corpus_sha256
from bench.field.shingle_kernels import Index, Matches, Sets, match, write_table
from bench.field.shingles import sets_of

THRESHOLD = 0.7
_BATCH_ROWS = 256
"""Each of up to 1 MB of text, for which some 10 MB are needed."""

_MATCHES = 1 << 20

PAIRS = pa.schema({"id": pa.string(), "other": pa.string(), "jaccard": pa.float64()})


class Sample(NamedTuple):
    """Documents whose near-duplicates are found.

    Attributes:
        ids: their ids, in the order of the corpus.
        sets: of their shingles.
    """

    ids: list[str]
    sets: Sets


def sampled(corpus: Path, count: int | None) -> Sample:
    """Return ``count`` documents of a corpus, or all: those of the smallest hashes of their ids."""
    chosen = None
    if count is not None:
        ids = (each for batch in _batches(corpus, ["id"]) for each in batch["id"].to_pylist())
        chosen = pa.array(heapq.nsmallest(count, ids, key=_hash_of), pa.large_string())
    found: list[str] = []
    sets: list[Sets] = []
    for batch in _batches(corpus, ["id", "text"]):
        rows = batch
        if chosen is not None:
            rows = batch.filter(pc.is_in(batch["id"].cast(pa.large_string()), chosen))
        found += rows["id"].to_pylist()
        sets.append(sets_of(rows["text"].to_pylist()))
    return Sample(found, _joined(sets))


def indexed(sets: Sets, threshold: float) -> Index:
    """Return an index of the rarest shingles of each set.

    A set of n shingles and another one that is at least t similar share t n of them, so one of any
    n - t n + 1. Shingles are the rarer, the fewer sets here have them.
    """
    sizes = np.diff(sets.offsets)
    rows = np.repeat(np.arange(sizes.size), sizes)
    distinct, inverse, counts = np.unique(sets.hashes, return_inverse=True, return_counts=True)
    order = np.lexsort((inverse, counts[inverse], rows))
    rank = np.arange(rows.size) - sets.offsets[rows]
    # less a little, as 0.7 times 10 may be more than 7
    few = sizes - np.ceil(threshold * sizes - 1e-9).astype(np.int64) + 1
    order = order[rank < few[rows]]
    order = order[np.argsort(inverse[order], kind="stable")]
    entries, shingles = rows[order], inverse[order]
    used, first = np.unique(shingles, return_index=True)
    slots = 1 << max(1, int(2 * used.size - 1).bit_length())
    keys, starts, stops = np.zeros(slots, np.uint64), *np.zeros((2, slots), np.int64)
    write_table(distinct[used], np.append(first, entries.size), keys, starts, stops)
    return Index(keys, starts, stops, entries.astype(np.int32), few.astype(np.int32))


def similar_to(sample: Sample, corpus: Path, threshold: float) -> Iterator[pa.Table]:
    """Yield tables of PAIRS: documents of a sample, and those of a corpus similar to them."""
    index = indexed(sample.sets, threshold)
    room = max(_MATCHES, 2 * len(sample.ids))
    out = Matches(np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.float64))
    shared = np.zeros(len(sample.ids), np.int32)
    names = pa.array(sample.ids, pa.string())
    for batch in _batches(corpus, ["id", "text"]):
        documents = sets_of(batch["text"].to_pylist())
        first = 0
        while first < len(documents):
            count, first = match(documents, first, sample.sets, index, threshold, shared, out)
            ids = names.take(out.queries[:count])
            others = batch["id"].cast(pa.string()).take(out.documents[:count])
            table = pa.table([ids, others, out.similarities[:count].copy()], PAIRS)
            yield table.filter(pc.not_equal(table["id"], table["other"]))


def write_truth(corpus: Path, out: Path, sample_size: int | None, threshold: float) -> int:
    """Write ``sample.parquet`` and ``pairs.parquet`` to the directory ``out``; count the pairs."""
    sample = sampled(corpus, sample_size)
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    sizes = np.diff(sample.sets.offsets)
    pq.write_table(pa.table({"id": sample.ids, "shingles": sizes}), partial / "sample.parquet")
    count = 0
    with pq.ParquetWriter(partial / "pairs.parquet", PAIRS, compression="zstd") as file:
        for table in similar_to(sample, corpus, threshold):
            file.write_table(table)
            count += table.num_rows
    write_corpus_sha256(partial, content_sha256(corpus))
    partial.rename(out)
    return count


def _batches(corpus: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    paths = sorted(corpus.glob("*.parquet"))
    if not paths:
        raise ValueError(f"{corpus}: contains no Parquet files")
    for path in paths:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(_BATCH_ROWS, columns=columns)


def _hash_of(identifier: str) -> bytes:
    return hashlib.blake2b(identifier.encode(), digest_size=8).digest()


def _joined(sets: Sequence[Sets]) -> Sets:
    sizes = np.concatenate([np.diff(each.offsets) for each in sets])
    hashes = np.concatenate([each.hashes for each in sets])
    return Sets(np.append(0, np.cumsum(sizes)), hashes)


def main(argv: Sequence[str] | None = None) -> None:
    """Find what the command line describes."""
    parser = argparse.ArgumentParser(prog="python -m bench.field.truth")
    parser.add_argument("corpus", type=Path, help="a directory of Parquet files: id, text")
    parser.add_argument("out", type=Path, help="the directory to make")
    parser.add_argument("--sample", type=int, metavar="N", help="documents (default: all)")
    parser.add_argument("--threshold", type=float, default=THRESHOLD, metavar="J")
    options = parser.parse_args(argv)
    if options.out.exists():
        parser.error(f"{options.out}: exists")
    if not 0 < options.threshold <= 1:
        parser.error(f"--threshold: more than 0 and at most 1, not {options.threshold}")
    if options.sample is not None and options.sample < 1:
        parser.error(f"--sample: at least 1, not {options.sample}")
    try:
        count = write_truth(options.corpus, options.out, options.sample, options.threshold)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print(f"{count} pairs in {options.out}")


if __name__ == "__main__":
    main()
