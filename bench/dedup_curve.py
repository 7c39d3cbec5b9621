"""``python -m bench.dedup_curve [SET…]``: recall and cost of simhash, by features and k.

For each kind of features and k it clusters the documents of a SET (as of bench.quality), or made-up
pages without one, verifies them at 0.8, and prints the recall of drops (as of bench.dedup), the
number of pairs of fingerprints, and the CPU seconds of one thread from texts to decisions, without
reading and writing. It plots recall by pairs, and seconds by k. Precision is always 1: texts are
verified by the same shingles as the truth.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tqdm import tqdm

from bench.dedup import Accuracy, Corpus
from bench.machine import describe
from bench.measure import cpu_clock
from mr_dedup.clusters.components import components
from mr_dedup.clusters.decisions import resolve
from mr_dedup.clusters.documents import ClusteredDocuments
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingle_sets import shingle_sets
from mr_dedup.features.text_hashes import number_texts, text_hashes
from mr_dedup.fingerprints.simhash import Fingerprints, simhash
from mr_dedup.hamming.self_join import self_join
from mr_dedup.kernels.library import load_kernels

_FEATURES = ("words:1", "words:2", "words:3", "characters:4", "characters:6")
_WEIGHTING = "log-tf"
_FIRST_K, _LAST_K = 3, 12
_PAGES = 20_000

_T = TypeVar("_T")


@dataclass(frozen=True)
class Texts:
    """The documents of a corpus, in order."""

    corpus: Corpus
    ids: list[str]
    texts: pa.LargeStringArray

    @classmethod
    def of(cls, corpus: Corpus) -> Texts:
        """Read a corpus."""
        documents = []
        for path in corpus.files:
            with path.open("rb") as lines:
                documents += [json.loads(line) for line in lines]
        texts = pa.array([document["text"] for document in documents], pa.large_string())
        return cls(corpus, [document["id"] for document in documents], texts)


@dataclass(frozen=True)
class Point:
    """The results for one kind of features and one k."""

    features: FeatureOptions
    k: int
    accuracy: Accuracy
    pairs: int
    clustered: int
    fingerprint_seconds: float
    join_seconds: float
    resolve_seconds: float

    @property
    def recall(self) -> float:
        """The recall of drops."""
        return self.accuracy.recall or 0.0

    @property
    def seconds(self) -> float:
        """The total of all seconds."""
        return self.fingerprint_seconds + self.join_seconds + self.resolve_seconds


def curve(texts: Texts, features: FeatureOptions) -> Iterator[Point]:
    """Yield a point for each k."""
    fingerprints, fingerprint_seconds = _timed(lambda: simhash(texts.texts, features))
    for k in range(_FIRST_K, _LAST_K + 1):
        (labels, pairs), join_seconds = _timed(partial(_labels, fingerprints, k))
        decide = partial(_keepers, texts, fingerprints, labels)
        (originals, clustered), resolve_seconds = _timed(decide)
        accuracy = Accuracy.of(originals, texts.corpus.truth)
        yield Point(
            features, k, accuracy, pairs, clustered,
            fingerprint_seconds, join_seconds, resolve_seconds,
        )  # fmt: skip


def _timed(function: Callable[[], _T]) -> tuple[_T, float]:
    """Return a result and its seconds, the minimum of two runs: the first compiles kernels."""
    seconds = []
    for _ in range(2):
        started = cpu_clock()
        result = function()
        seconds.append(cpu_clock() - started)
    return result, min(seconds)


def _labels(fingerprints: Fingerprints, k: int) -> tuple[NDArray[np.uint64], int]:
    """Return the label of each document (alone: its fingerprint), and the number of pairs."""
    distinct, inverse = np.unique(fingerprints.values, return_inverse=True)
    pairs = self_join(distinct, k)
    found = components(pairs.left, pairs.right)
    labels = distinct.copy()
    labels[np.searchsorted(distinct, found.nodes)] = found.labels
    return labels[inverse], len(pairs)


def _keepers(
    texts: Texts, fingerprints: Fingerprints, labels: NDArray[np.uint64]
) -> tuple[dict[str, str], int]:
    """Return the kept document that each duplicates, and how many documents were compared."""
    _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    rows = np.flatnonzero((counts[inverse] > 1) & fingerprints.has_fingerprint)
    chosen = texts.texts.take(pa.array(rows))
    numbers, firsts = number_texts(text_hashes(chosen))
    options = FeatureOptions("words", texts.corpus.tokens, "binary")
    sets = shingle_sets(chosen.take(pa.array(firsts)), options)
    places = np.arange(rows.size)
    documents = ClusteredDocuments(
        ids=pa.array(texts.ids, pa.large_string()).take(pa.array(rows)),
        files=np.zeros(rows.size, np.int64),
        positions=places,
        text_bytes=np.zeros(rows.size, np.int64),
        clusters=labels[rows],
        fingerprints=fingerprints.values[rows],
        has_fingerprint=np.ones(rows.size, bool),
        texts=numbers,
    )
    decisions = resolve(documents, places, sets)
    originals = {name: name for name in texts.ids}
    for row, original in zip(rows.tolist(), rows[decisions.kept_rows].tolist(), strict=True):
        originals[texts.ids[row]] = texts.ids[original]
    return originals, int(rows.size)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables that ``argv`` selects; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.dedup_curve", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("sets", nargs="*", type=Path, metavar="SET")
    add("--tokens", type=int, default=3, help="tokens of a shingle: 5 for Chinese (default 3)")
    add(
        "--pages",
        type=int,
        default=_PAGES,
        help=f"how many made-up pages without SET (default {_PAGES})",
    )
    add("--plots", type=Path, metavar="FOLDER", help="plot recall, pairs and seconds")
    arguments = parser.parse_args(argv)
    print(describe(), flush=True)
    load_kernels()
    with tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder:
        for corpus in _corpora(arguments, Path(folder)):
            texts = Texts.of(corpus)
            points = [
                point
                for name in tqdm(_FEATURES, desc=corpus.name, disable=None, leave=False)
                for point in curve(texts, FeatureOptions.parse(name, _WEIGHTING))
            ]
            print("\n".join(_table(texts, points)), flush=True)
            if arguments.plots:
                _draw(corpus.name, points, arguments.plots)
    return 0


def _corpora(arguments: argparse.Namespace, scratch: Path) -> Iterator[Corpus]:
    for folder in arguments.sets:
        yield Corpus.of_set(folder, arguments.tokens, scratch)
    if not arguments.sets:
        yield Corpus.of_pages(arguments.pages // 2, scratch / "pages")


def _table(texts: Texts, points: Sequence[Point]) -> Iterator[str]:
    yield f"\n### {texts.corpus.name}"
    yield f"{len(texts.ids):,} documents, verified by words:{texts.corpus.tokens} at 0.8."
    yield ""
    yield "| features | k | recall | pairs found | documents compared | join | resolve | all |"
    yield "|---|---|---|---|---|---|---|---|"
    for point in points:
        seconds = (point.join_seconds, point.resolve_seconds, point.seconds)
        cells = [
            str(point.features),
            str(point.k),
            f"{point.recall:.4f}",
            f"{point.pairs:,}",
            f"{point.clustered:,}",
            *(f"{each:.2f} s" for each in seconds),
        ]
        yield f"| {' | '.join(cells)} |"


def _draw(name: str, points: Sequence[Point], folder: Path) -> None:
    """Plot recall by pairs, recall by k, and seconds by k."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "mr_dedup"
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    figure, (cost, recall, seconds) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for features in dict.fromkeys(point.features for point in points):
        these = [point for point in points if point.features == features]
        ks = [point.k for point in these]
        recalls = [point.recall for point in these]
        cost.plot([point.pairs for point in these], recalls, marker=".", label=str(features))
        recall.plot(ks, recalls, marker=".")
        seconds.plot(ks, [point.seconds for point in these], marker=".")
    cost.set(xscale="log", xlabel="pairs of fingerprints found", ylabel="recall of drops")
    recall.set(xlabel="k, bits", ylabel="recall of drops")
    seconds.set(xlabel="k, bits", ylabel="seconds", ylim=(0, None))
    cost.legend(fontsize="x-small")
    figure.suptitle(name)
    file = f"dedup-{name.replace(' ', '-')}.svg"
    figure.savefig(folder / file, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
