"""Compare methods on documents whose similar pairs are known: their quality and their cost.

DOCS are as for mr-dedup fingerprint. TRUTH lists every pair of documents from some similarity on:
id_a TAB id_b TAB jaccard, as data-gen documents writes it; it may be compressed (.gz, .zst). OUT
becomes a directory with results.csv, a row for each method and band of similarity;
precision-recall.svg, cost-f1.svg and cost-verified-f1.svg plot the first band. The tables are also
printed, as Markdown.

A predicted pair is a true positive if it is in TRUTH with at least the similarity of the band.
Counted are all pairs that a method predicts, and the verified ones of them: those whose texts are
similar, compared as mr-dedup dedup does (--verify). Times are wall time and CPU time, after
everything is loaded and read; methods run in one thread.

All data is in the memory of this process: up to a gigabyte of text, and its shingles, which take up
to three times as much. If a method has more than 50 million candidates, because many texts share a
key, it compares slices of them, and the column "cut" says so.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from mr_dedup.cli.copy_names import as_named
from mr_dedup.cli.document_arguments import add_reading_arguments, check_rejected, read_options
from mr_dedup.cli.evaluate import all_bands, bands_argument, similarity_argument
from mr_dedup.cli.method_arguments import DEFAULT_K
from mr_dedup.cli.rejects import print_rejected
from mr_dedup.cli.remote_files import input_file, input_names, output_file
from mr_dedup.cli.streams import print_message, print_warning
from mr_dedup.errors import MrDedupError, usage_errors
from mr_dedup.features.document_frequencies import DocumentFrequencies
from mr_dedup.features.feature_counts import document_frequencies
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingle_sets import ShingleSets, shingle_sets
from mr_dedup.files.output_folders import locked, put_in_place, refuse_existing_folder
from mr_dedup.files.outputs import whole_file
from mr_dedup.files.temporary import folder_beside
from mr_dedup.formats.documents.files import find_documents
from mr_dedup.formats.documents.read import read_documents
from mr_dedup.formats.documents.rejects import Rejects
from mr_dedup.formats.pair_files import TruePairs, read_truth
from mr_dedup.hamming.planner import plan_self
from mr_dedup.progress_bars import progress_bar
from mr_dedup.report.compared_methods import ComparedMethod, KeyMethod, SimhashMethod
from mr_dedup.report.comparison import Comparison, Measurement, Truth
from mr_dedup.report.comparison_plots import plots
from mr_dedup.report.comparison_tables import to_csv, to_markdown
from mr_dedup.signatures.methods import is_simhash, parse_methods, simhash_distance

RESULTS = "results.csv"

MAX_TEXT_BYTES = 1 << 30

SIMHASH_FEATURES = ("words:1", "words:2")
SIMHASH_WEIGHTS = "log-tf"

_BANDS = ("16,rows=5", "20,rows=5", "14,rows=8", "9,rows=13", "20,rows=13")

DEFAULT_METHODS = (
    *(f"simhash:k={k}" for k in (3, 5, 7, 10)),
    *(f"minhash:bands={each},shingles={{shingles}}" for each in _BANDS),
    *(f"minhash:bands={each},shingles={{shingles}},estimate=0.8" for each in _BANDS),
    "super-shingles:shingles={shingles}",
    "segments:count=8,min_shared_keys=4",
    "segments:count=16,min_shared_keys=8",
    "segments:by=lines,count=8,min_shared_keys=4",
    "segments:by=lines,count=16,min_shared_keys=8",
    "segments:by=sentences,count=8,min_shared_keys=4",
    "segments:by=sentences,count=16,min_shared_keys=8",
    "exact",
    "abstract",
    "keywords:order=weight",
    "keywords:order=weight,sim=0.01",
    "keywords:order=alphabet,sim=0.01",
    "keywords:order=alphabet",
    "text-profile",
)
"""``{shingles}`` stands for the shingles of --shingles."""

_KEYWORDS = "words:1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    add = parser.add_argument
    add(
        "documents", nargs="+", type=input_names, metavar="DOCS", help="files, globs or directories"
    )
    add("--truth", type=input_file, required=True, metavar="TRUTH", help="the truly similar pairs")
    add(
        "-o", "--out", type=output_file, required=True, metavar="OUT", help="the directory to write"
    )
    add("--method", action="append", metavar="NAME[:PARAMETER=VALUE,…]",
        help="a method to compare, as for mr-dedup dedup; keywords are weighted by the document "
        "frequencies of DOCS; may be repeated (default: all, with common parameters)")  # fmt: skip
    add("--simhash-features", action="append", metavar="words:N|characters:N",
        help="the features of simhash fingerprints, weighted by log-tf; may be repeated "
        "(default words:1 and words:2)")  # fmt: skip
    add("--verify", type=similarity_argument, default=0.8, metavar="J",
        help="the minimum Jaccard similarity of the shingles of a verified pair "
        "(default 0.8)")  # fmt: skip
    add("--shingles", default="auto", metavar="words:N|characters:N|auto",
        help="the shingles to compare texts by (default auto: 3 words, or 5 characters of "
        "Chinese, Japanese, Thai or another script without spaces)")  # fmt: skip
    add("--threshold", type=similarity_argument, default=0.8, metavar="J",
        help="the minimum similarity of true pairs (default 0.8)")  # fmt: skip
    add("--bands", type=bands_argument, metavar="J,…",
        help="further minimum similarities, above --threshold (default 0.9,1)")  # fmt: skip
    add("--overwrite", action="store_true", help="replace OUT")
    add_reading_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    print("\n".join(compared(arguments)))
    return 0


def compared(arguments: argparse.Namespace) -> list[str]:
    """Write the comparison; return the lines of its tables in Markdown."""
    started = time.perf_counter()
    bands = all_bands(arguments)
    _check_arguments(arguments)
    with locked(arguments.out, print_warning):
        refuse_existing_folder(arguments.out, arguments.overwrite)
        truth = read_truth(arguments.truth)
        comparison, methods = _prepare(arguments, truth, bands)
        measurements = []
        with progress_bar(" methods", len(methods), unit_scale=False) as bar:
            for method in methods:
                measurements.append(_measure(comparison, method))
                bar.update()
        _write(arguments.out, measurements, bands, overwrite=arguments.overwrite)
    print_message(
        f"compared {len(measurements):,} methods in {time.perf_counter() - started:.1f} s: "
        f"{arguments.out}"
    )
    return list(to_markdown(measurements, bands, arguments.verify))


def _measure(comparison: Comparison, method: ComparedMethod) -> Measurement:
    try:
        return comparison.measure(method)
    except MrDedupError as error:
        raise MrDedupError(f"--method {method.name}: {error}") from error


def _check_arguments(arguments: argparse.Namespace) -> None:
    """Raise MrDedupError for invalid methods or shingles, before anything is read."""
    nothing = np.empty(0, np.uint64)
    keywords = FeatureOptions.parse(_KEYWORDS).unweighted
    _methods(arguments, "words:1", DocumentFrequencies(keywords, 0, 1, nothing, nothing))
    read_options(arguments)
    with usage_errors("--shingles"):
        FeatureOptions.parse(arguments.shingles, "binary")


def _methods(
    arguments: argparse.Namespace, shingles: str, frequencies: DocumentFrequencies
) -> list[ComparedMethod]:
    """Return the methods to compare, each once; raise MrDedupError for an invalid one."""
    names = arguments.method or [name.format(shingles=shingles) for name in DEFAULT_METHODS]
    features = []
    for name in arguments.simhash_features or SIMHASH_FEATURES:
        with usage_errors("--simhash-features"):
            features.append(FeatureOptions.parse(name, SIMHASH_WEIGHTS))
    by_name: dict[str, ComparedMethod] = {}
    for name in names:
        with usage_errors("--method"):
            methods: list[ComparedMethod]
            if is_simhash(name):
                k = simhash_distance(name)
                k = DEFAULT_K if k is None else k
                plan_self(1, k)
                methods = [SimhashMethod(k, options) for options in features]
            else:
                methods = [KeyMethod(each) for each in parse_methods([name], frequencies)]
        by_name |= {each.name: each for each in methods}
    # families together
    return sorted(by_name.values(), key=lambda each: each.family.partition(" ")[0] != "simhash")


def _prepare(
    arguments: argparse.Namespace, truth: TruePairs, bands: Sequence[float]
) -> tuple[Comparison, list[ComparedMethod]]:
    """Read the documents; return the comparison and its methods."""
    ids, texts = read_texts(arguments)
    true_pairs, ignored = Truth.of(truth, ids)
    if ignored:
        print_message(f"ignored: {ignored:,} true pairs of other documents")
    shingles = arguments.shingles
    options = FeatureOptions.parse(shingles, "binary")
    sets = ShingleSets.joined([shingle_sets(part, options) for part in texts])
    frequencies = document_frequencies(texts, FeatureOptions.parse(_KEYWORDS))
    comparison = Comparison(texts, sets, true_pairs, bands, arguments.verify)
    print_message(
        f"documents: {len(ids):,}, text: {comparison.text_bytes / 1e6:,.1f} MB, "
        f"true pairs: {true_pairs.keys.size:,}; shingles: {shingles}"
    )
    return comparison, _methods(arguments, shingles, frequencies)


def read_texts(
    arguments: argparse.Namespace, *, max_bytes: int = MAX_TEXT_BYTES
) -> tuple[pa.LargeStringArray, list[pa.LargeStringArray]]:
    """Read the documents that the arguments name.

    Returns:
        Their ids, and their texts in parts.

    Raises:
        MrDedupError: if they are larger than ``max_bytes``.
    """
    files = find_documents(arguments.documents, arguments.format, as_named).files
    rejects = Rejects()
    ids, texts = [pa.array([], pa.large_string())], [pa.array([], pa.large_string())]
    size_bytes = 0
    with progress_bar(" documents") as bar:
        for batch in read_documents(files, rejects, read_options(arguments)):
            size_bytes += batch.texts.nbytes + batch.ids.nbytes
            if size_bytes > max_bytes:
                raise MrDedupError(
                    f"documents: more than {max_bytes:,} bytes of text, too many for the memory of "
                    "one process; compare methods on a sample"
                )
            ids.append(batch.ids)
            texts.append(batch.texts)
            bar.update(len(batch))
    check_rejected(arguments, rejects.counts)
    print_rejected(rejects)
    return pa.concat_arrays(ids), texts


# the result


def _write(
    out: Path, measurements: Sequence[Measurement], bands: Sequence[float], *, overwrite: bool
) -> None:
    """Write the directory, as a whole or not at all."""
    files = [(RESULTS, to_csv(measurements, bands)), *plots(measurements)]
    with folder_beside(out) as aside:
        made = aside / "made"
        made.mkdir()
        for name, content in files:
            with whole_file(made / name) as file:
                file.write(content)
        # again: another program may have created it meanwhile
        refuse_existing_folder(out, overwrite)
        put_in_place(made, out)
