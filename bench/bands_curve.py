"""``python -m bench.bands_curve``: the share of pairs that share a band, by similarity.

For each threshold it generates pairs of texts of all similarities, signs them with the bands that
mr_dedup.signatures.bands chooses for the threshold, and prints the share of pairs with a common
band, measured and expected for independent min-wise hashes. It plots both.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.inputs import SEED
from mr_dedup.signatures.bands import choose_bands, expected_recall
from mr_dedup.signatures.minhash import MinHash

_THRESHOLDS = (0.5, 0.63, 0.8, 0.9)
_WORDS = 300
_PAIRS = 2000
_SHOWN = (0.3, 0.4, 0.5, 0.6, 0.63, 0.7, 0.8, 0.9)


class Point(NamedTuple):
    """The measured and expected share of pairs with a common band, at one similarity."""

    similarity: float
    measured: float
    expected: float


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table of all thresholds; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.bands_curve", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--pairs", type=int, default=_PAIRS, help=f"pairs of each similarity (default {_PAIRS})")
    add("--plots", type=Path, metavar="FOLDER", help="plot the curves")
    arguments = parser.parse_args(argv)
    curves = {threshold: curve(threshold, arguments.pairs) for threshold in _THRESHOLDS}
    print(f"Pairs of texts of some {_WORDS} shingles, {arguments.pairs:,} of each similarity.\n")
    print(f"| --verify | bands x rows | {' | '.join(f'{each:g}' for each in _SHOWN)} |")
    print(f"|---|---|{'---|' * len(_SHOWN)}")
    for threshold, points in curves.items():
        bands, rows = choose_bands(threshold)
        shown = [min(points, key=lambda point: abs(point.similarity - each)) for each in _SHOWN]
        cells = [f"{point.measured:.4f} / {point.expected:.4f}" for point in shown]
        print(f"| {threshold:g} | {bands} x {rows} | {' | '.join(cells)} |")
    if arguments.plots:
        _draw(curves, arguments.plots)
    return 0


def curve(threshold: float, pairs: int) -> list[Point]:
    """Return a point for each hundredth of similarity."""
    bands, rows = choose_bands(threshold)
    method = MinHash(bands, rows, shingles="words:1")
    rng = np.random.default_rng(SEED)
    points = []
    for wanted in np.arange(0.1, 1.001, 0.01):
        shared = round(2 * _WORDS * wanted / (1 + wanted))
        similarity = shared / (2 * _WORDS - shared)
        signed = method.sign(_pairs(rng, pairs, shared))
        keys = signed.keys.reshape(pairs, 2, bands)
        measured = (keys[:, 0] == keys[:, 1]).any(axis=1).mean()
        expected = expected_recall(similarity, bands, rows)
        points.append(Point(similarity, float(measured), expected))
    return points


def _pairs(rng: np.random.Generator, count: int, shared: int) -> pa.LargeStringArray:
    """Return texts of _WORDS words each; consecutive ones have ``shared`` words in common."""
    texts = []
    for _ in range(count):
        words = _words(rng, 2 * _WORDS - shared)
        texts += [" ".join(words[:_WORDS]), " ".join(words[_WORDS - shared :])]
    return pa.array(texts, pa.large_string())


def _words(rng: np.random.Generator, count: int) -> list[str]:
    numbers: NDArray[np.int64] = rng.integers(0, 1 << 60, count)
    return [f"w{number:x}" for number in numbers.tolist()]


def _draw(curves: dict[float, list[Point]], folder: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "mr_dedup"
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for number, (threshold, points) in enumerate(curves.items()):
        colour = f"C{number}"
        bands, rows = choose_bands(threshold)
        similarities = [point.similarity for point in points]
        label = f"--verify {threshold:g}: {bands} bands of {rows}"
        axes.plot(similarities, [point.expected for point in points], colour, label=label)
        axes.plot(similarities, [point.measured for point in points], f"{colour}.", markersize=3)
        axes.axvline(threshold, color=colour, linewidth=0.5, linestyle=":")
    axes.set(xlabel="similarity of a pair", ylabel="share of pairs with a common band")
    axes.legend(
        fontsize="x-small", title="lines: expected; dots: measured", title_fontsize="x-small"
    )
    figure.savefig(folder / "bands.svg", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
