"""``python -m bench.quality SET…``: recall and precision of simhash, by features and distance.

A SET is a directory with documents (docs.jsonl.gz: lines with ``id`` and ``text``) and all pairs of
them with some minimum Jaccard similarity (pairs*.tsv.gz: two ids and the similarity).
For each kind of features, weighting and k from 0 to 16 it prints recall of the pairs at 0.8 and at
0.9 and above, and precision, as means over several hash functions; by length of the shorter
document for the default features; and plots figures 1 and 2 of the paper to --plots.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tqdm import tqdm

from mr_dedup.features.options import WEIGHTINGS, FeatureOptions
from mr_dedup.features.shingle_kernels import find_features
from mr_dedup.features.shingles import scratch_for, shingle_rule
from mr_dedup.features.text_batch import text_batch
from mr_dedup.fingerprints.kernels import simhash
from mr_dedup.kernels.compiler import jit
from mr_dedup.kernels.entry import kernel

MAX_BITS = 16
SEEDS = 5
DEFAULT = FeatureOptions()
_FEATURES = ("words:1", "words:2", "words:3", "characters:4", "characters:6", "characters:8")
_LENGTHS = (0, 30, 100, 300, 1000, 1 << 62)  # words


@dataclass(frozen=True)
class DocumentSet:
    """Documents, and their similar pairs: i * n + j, i < j, with Jaccard similarities."""

    name: str
    texts: pa.LargeStringArray
    words: NDArray[np.int64]
    pairs: NDArray[np.int64]
    similarities: NDArray[np.float64]

    @classmethod
    def read(cls, folder: Path) -> DocumentSet:
        """Read a directory; raise KeyError if a pair names an unknown document."""
        with gzip.open(folder / "docs.jsonl.gz", "rt", encoding="utf-8") as lines:
            documents = [json.loads(line) for line in lines]
        number = {document["id"]: i for i, document in enumerate(documents)}
        (path,) = folder.glob("pairs*.tsv.gz")
        pairs, similarities = [], []
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            next(lines)
            for line in lines:
                one, other, similarity = line.rstrip("\n").split("\t")
                i, j = sorted((number[one], number[other]))
                pairs.append(i * len(documents) + j)
                similarities.append(float(similarity))
        texts = pa.array([document["text"] for document in documents], pa.large_string())
        words = _occurrences(texts)
        return cls(folder.name, texts, words, np.array(pairs), np.array(similarities))


@dataclass(frozen=True)
class Quality:
    """Recall at 0.8 and 0.9, and precision, of one kind of features for each k up to MAX_BITS."""

    recall_8: NDArray[np.float64]
    recall_9: NDArray[np.float64]
    precision: NDArray[np.float64]

    @property
    def f1(self) -> NDArray[np.float64]:
        """The harmonic mean of precision and recall at 0.8."""
        return 2 * self.recall_8 * self.precision / np.maximum(self.recall_8 + self.precision, 1e-9)


@functools.cache
def _compiled() -> Any:
    return jit(_seeded)


@kernel
def _seeded(batch, rule, scratch, seed, out, found):  # type: ignore[no-untyped-def]
    """Write the simhash of every text by the hash function number ``seed``."""
    content, starts, stops = batch
    sums, lanes = np.empty(64, np.int64), np.empty(64, np.int32)
    for i in range(out.size):
        count, _ = find_features(content, starts[i], stops[i], rule, scratch)
        for j in range(count):
            if seed:
                mixed = scratch.hashes[j] + seed
                mixed = (mixed ^ mixed >> np.uint64(33)) * np.uint64(0xFF51AFD7ED558CCD)
                mixed = (mixed ^ mixed >> np.uint64(33)) * np.uint64(0xC4CEB9FE1A85EC53)
                scratch.hashes[j] = mixed ^ mixed >> np.uint64(33)
        found[i] = count
        if count:
            out[i] = simhash(scratch.hashes, scratch.weights, count, sums, lanes)  # type: ignore[no-untyped-call]


def _fingerprints(
    texts: pa.LargeStringArray, options: FeatureOptions, seed: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    batch = text_batch(texts)
    out, found = np.zeros(len(texts), np.uint64), np.zeros(len(texts), np.int64)
    scratch = scratch_for(batch.longest, options)
    seed_value = np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64)
    _compiled()(batch, shingle_rule(options), scratch, seed_value, out, found)
    return out, found


def _occurrences(texts: pa.LargeStringArray) -> NDArray[np.int64]:
    return _fingerprints(texts, FeatureOptions("words", 1, "tf"), 0)[1]


def _near_pairs(
    fingerprints: NDArray[np.uint64], has_fingerprint: NDArray[np.bool_], rows: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
    """Yield the pairs i < j within MAX_BITS, as i * n + j, with distances, ``rows`` at a time."""
    n = fingerprints.size
    for begin in range(0, n, rows):
        part = fingerprints[begin : begin + rows]
        distances = np.bitwise_count(part[:, None] ^ fingerprints[None, begin:])
        near = distances <= MAX_BITS
        near &= has_fingerprint[begin : begin + rows, None] & has_fingerprint[None, begin:]
        i, j = np.nonzero(np.triu(near, 1))
        yield (i + begin) * n + j + begin, distances[i, j]


def measure(
    documents: DocumentSet,
    options: FeatureOptions,
    chosen: NDArray[np.bool_] | None = None,
    *,
    seeds: int = SEEDS,
    rows: int = 512,
) -> Quality:
    """Return the means over ``seeds`` hash functions, for all documents or those ``chosen``."""
    n = len(documents.texts)
    within = np.ones(n, bool) if chosen is None else chosen
    similar = documents.similarities >= 0.8
    similar &= within[documents.pairs // n] & within[documents.pairs % n]
    truth = np.sort(documents.pairs[similar])
    very = np.sort(documents.pairs[similar & (documents.similarities >= 0.9)])
    totals = np.zeros((3, MAX_BITS + 1))
    for seed in range(seeds):
        fingerprints, found = _fingerprints(documents.texts, options, seed)
        counts = np.zeros((3, MAX_BITS + 1))
        for pairs, distances in _near_pairs(fingerprints, (found > 0) & within, rows):
            for row, true in enumerate((truth, very, None)):
                hits = distances if true is None else distances[np.isin(pairs, true)]
                counts[row] += np.bincount(hits, minlength=MAX_BITS + 1)[: MAX_BITS + 1]
        reached = counts.cumsum(axis=1)
        totals[0] += reached[0] / max(1, truth.size)
        totals[1] += reached[1] / max(1, very.size)
        totals[2] += np.where(reached[2] > 0, reached[0] / np.maximum(reached[2], 1), 1)
    return Quality(*(totals / seeds))


def _options(features: Sequence[str]) -> list[FeatureOptions]:
    every = (FeatureOptions.parse(f, w) for f, w in itertools.product(features, WEIGHTINGS))
    return [options for options in every if not options.uses_idf]


def main(
    argv: Sequence[str] | None = None, *, features: Sequence[str] = _FEATURES, seeds: int = SEEDS
) -> int:
    """Print the tables of the data sets of ``argv``; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    parser.add_argument("sets", nargs="+", type=Path, metavar="SET")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="plot recall, precision, bits")
    arguments = parser.parse_args(argv)
    for folder in arguments.sets:
        documents = DocumentSet.read(folder)
        found = {
            options: measure(documents, options, seeds=seeds)
            for options in tqdm(_options(features), desc=folder.name, disable=None, leave=False)
        }
        print("\n".join(_table(documents, found)), flush=True)
        print("\n".join(_by_length(documents, seeds)), flush=True)
        if arguments.plots:
            _draw(documents, found, arguments.plots)
    return 0


def _table(documents: DocumentSet, found: dict[FeatureOptions, Quality]) -> list[str]:
    pairs = documents.similarities
    lines = [
        f"\n### {documents.name}",
        f"{len(documents.texts):,} documents, {(pairs >= 0.8).sum():,} pairs at 0.8 and above, "
        f"{(pairs >= 0.9).sum():,} at 0.9. Recall at 0.8 / recall at 0.9 / precision:",
        "",
        "| features | k = 3 | k = 7 | k = 10 | best F1 |",
        "|---|---|---|---|---|",
    ]
    for options, quality in found.items():
        cells = [
            f"{quality.recall_8[k]:.3f} / {quality.recall_9[k]:.3f} / {quality.precision[k]:.3f}"
            for k in (3, 7, 10)
        ]
        best = int(quality.f1.argmax())
        lines.append(
            f"| {_name(options)} | {' | '.join(cells)} | {quality.f1[best]:.3f} at k = {best} |"
        )
    return lines


def _by_length(documents: DocumentSet, seeds: int) -> list[str]:
    lines = [
        "",
        f"By length, {DEFAULT}, pairs whose documents are both of that length:",
        "",
        "| words | documents | recall at 0.8, k = 3 | precision | k = 7 | precision |",
        "|---|---|---|---|---|---|",
    ]
    for start, end in itertools.pairwise(_LENGTHS):
        chosen = (documents.words >= start) & (documents.words < end)
        if not chosen.any():
            continue
        quality = measure(documents, DEFAULT, chosen, seeds=seeds)
        name = f"{start:,} to {end - 1:,}" if end < 1 << 62 else f"{start:,} and more"
        cells = [
            f"{array[k]:.3f}" for k in (3, 7) for array in (quality.recall_8, quality.precision)
        ]
        lines.append(f"| {name} | {chosen.sum():,} | {' | '.join(cells)} |")
    return lines


def _name(options: FeatureOptions) -> str:
    """Return the options that differ between the measured features."""
    return f"{options.unit}:{options.length}, {options.weighting}"


def _draw(documents: DocumentSet, found: dict[FeatureOptions, Quality], folder: Path) -> None:
    """Plot recall and precision by k, and the distribution of leading bits."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "mr_dedup"
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    figure, (recall, precision, leading) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for options, quality in found.items():
        if options.weighting == "log-tf":
            recall.plot(quality.recall_8, label=_name(options))
            precision.plot(quality.precision, label=_name(options))
    for axis, name in ((recall, "recall of pairs at 0.8"), (precision, "precision")):
        axis.set(xlabel="k, bits", ylabel=name, ylim=(0, 1.02))
        axis.axvline(3, color="grey", linewidth=0.5)
    recall.legend(fontsize="x-small")
    fingerprints, exists = _fingerprints(documents.texts, DEFAULT, 0)
    buckets = (fingerprints[exists > 0] >> np.uint64(58)).astype(np.int64)
    leading.bar(range(64), np.bincount(buckets, minlength=64) / buckets.size, width=1)
    leading.set(xlabel="leading 6 bits", ylabel="share of fingerprints")
    figure.suptitle(documents.name)
    figure.savefig(folder / f"quality-{documents.name}.svg", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
