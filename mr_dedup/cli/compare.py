"""Compare methods on documents whose similar pairs are known: how good each is, and what it costs.

DOCS are as for mr-dedup fingerprint. TRUTH has every pair of documents from some similarity on:
id_a TAB id_b TAB jaccard, as data-gen documents writes it; it may be .gz or .zst. OUT becomes a
folder with results.csv, a row a method and band of similarity; precision-recall.svg, cost-f1.svg
and cost-verified-f1.svg, by the first band. The tables are printed as well, as Markdown.

A pair is right if it is in TRUTH, from some similarity on. Counted are the pairs that a method
calls alike, and those of them whose texts are, compared as mr-dedup dedup does (--verify). Seconds
are by the clock, of one thread, once all is loaded and read; those of processors with them.

All is done in the memory of this process, which holds texts of up to a gigabyte, and their
shingles, which take up to three times as much. Where a method has over 50 million candidates,
because many texts share a key, it compares slices of them, and "cut" says so.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.cli.document_arguments import (
    add_reading_arguments,
    judge_reading,
    read_options,
)
from mr_dedup.cli.evaluate import all_bands, bands_argument, similarity_argument
from mr_dedup.cli.result_folder import aside_for, is_empty, locked, put_in_place
from mr_dedup.cli.streams import counted, printable

if TYPE_CHECKING:
    import pyarrow as pa

    from mr_dedup.features.document_frequencies import DocumentFrequencies
    from mr_dedup.formats.documents.files import DocumentFile
    from mr_dedup.report.comparison import Comparison, Measured, Truth
    from mr_dedup.report.entrants import Entrant
    from mr_dedup.report.pair_files import TruePairs

HELP = "compare methods on documents whose similar pairs are known"

RESULTS = "results.csv"

SIMHASH_FEATURES = ("words:1", "words:2")
SIMHASH_WEIGHTS = "log-tf"

_BANDS = ("16,rows=5", "20,rows=5", "14,rows=8", "9,rows=13", "20,rows=13")

DEFAULT_METHODS = (
    *(f"simhash:k={k}" for k in (3, 5, 7, 10)),
    *(f"minhash:bands={each},shingles={{shingles}}" for each in _BANDS),
    *(f"minhash:bands={each},shingles={{shingles}},estimate=0.8" for each in _BANDS),
    "super-shingles:shingles={shingles}",
    "segments:count=8,least=4",
    "segments:count=16,least=8",
    "segments:by=lines,count=8,least=4",
    "segments:by=lines,count=16,least=8",
    "segments:by=sentences,count=8,least=4",
    "segments:by=sentences,count=16,least=8",
    "exact",
    "abstract",
    "keywords:order=weight",
    "keywords:order=weight,sim=0.01",
    "keywords:order=alphabet,sim=0.01",
    "keywords:order=alphabet",
    "text-profile",
)
"""Of shingles those that texts are compared by."""

_KEYWORDS = "words:1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    add = parser.add_argument
    add("documents", nargs="+", metavar="DOCS", help="files, globs or folders")
    add("--truth", type=Path, required=True, metavar="TRUTH", help="the pairs that are similar")
    add("-o", "--out", type=Path, required=True, metavar="OUT", help="the folder to make")
    add("--method", action="append", metavar="NAME[:PARAMETER=VALUE,…]",
        help="a method to compare, as for mr-dedup dedup; keywords weigh by what these documents "
        "have; may be given several times (default: all, with usual parameters)")  # fmt: skip
    add("--simhash-features", action="append", metavar="words:N|characters:N",
        help="what fingerprints are made of, weighed by log-tf; may be given several times "
        "(default words:1 and words:2)")  # fmt: skip
    add("--verify", type=similarity_argument, default=0.8, metavar="J",
        help="the Jaccard similarity of shingles from which on compared texts are alike "
        "(default 0.8)")  # fmt: skip
    add("--shingles", default="auto", metavar="words:N|characters:N|auto",
        help="what texts are compared by (default auto: words:3, or words:5 for texts of Chinese, "
        "Japanese, Thai or another script without spaces)")  # fmt: skip
    add("--threshold", type=similarity_argument, default=0.8, metavar="J",
        help="the similarity from which on pairs of TRUTH count (default 0.8)")  # fmt: skip
    add("--bands", type=bands_argument, metavar="J,…",
        help="similarities above it to count from as well (default 0.9,1)")  # fmt: skip
    add("--overwrite", action="store_true", help="replace OUT")
    add_reading_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    from tqdm import tqdm

    from mr_dedup.report.pair_files import read_truth

    started = time.perf_counter()
    bands = all_bands(arguments)
    _check_methods(arguments)
    with locked(arguments.out):
        _check_out(arguments.out, arguments.overwrite)
        truth = read_truth(arguments.truth)
        comparison, entrants = _prepared(arguments, truth, bands)
        measured = [
            _measured(comparison, each)
            for each in tqdm(entrants, unit=" methods", leave=False, disable=None)
        ]
        _write(arguments.out, measured, bands, overwrite=arguments.overwrite)
    from mr_dedup.report.comparison_tables import to_markdown

    print("\n".join(to_markdown(measured, bands, arguments.verify)))
    _say(
        f"compared {len(measured):,} methods in {time.perf_counter() - started:.1f} s: "
        f"{arguments.out}"
    )
    return 0


def _measured(comparison: Comparison, entrant: Entrant) -> Measured:
    from mr_dedup.errors import MrDedupError

    try:
        return comparison.measure(entrant)
    except MrDedupError as error:
        raise MrDedupError(f"--method {entrant.name}: {error}") from error


# what is compared


def _check_methods(arguments: argparse.Namespace) -> None:
    """Raise MrDedupError for what is no method, or no shingles, before anything is read."""
    import numpy as np

    from mr_dedup.errors import MrDedupError
    from mr_dedup.features.document_frequencies import DocumentFrequencies
    from mr_dedup.features.options import FeatureOptions

    nothing = np.empty(0, np.uint64)
    keywords = FeatureOptions.parse(_KEYWORDS).unweighted
    _entrants(arguments, "words:1", DocumentFrequencies(keywords, 0, 1, nothing, nothing))
    read_options(arguments)
    try:
        FeatureOptions.parse(arguments.shingles, "binary")
    except ValueError as error:
        raise MrDedupError(f"--shingles: {error}") from error


def _entrants(
    arguments: argparse.Namespace, shingles: str, frequencies: DocumentFrequencies
) -> list[Entrant]:
    """Return what is compared, each once; MrDedupError for what is not there."""
    from mr_dedup.cli.dedup import DEFAULT_K
    from mr_dedup.errors import MrDedupError
    from mr_dedup.features.options import FeatureOptions
    from mr_dedup.hamming.planner import plan_self
    from mr_dedup.jobs.method_options import parsed_methods, simhash_distance
    from mr_dedup.report.entrants import ByKeys, BySimhash

    names = arguments.method or [name.format(shingles=shingles) for name in DEFAULT_METHODS]
    features = []
    for name in arguments.simhash_features or SIMHASH_FEATURES:
        try:
            features.append(FeatureOptions.parse(name, SIMHASH_WEIGHTS))
        except ValueError as error:
            raise MrDedupError(f"--simhash-features: {error}") from error
    found: dict[str, Entrant] = {}
    for name in names:
        try:
            k = simhash_distance(name)
            if k is None:
                entrants: list[Entrant] = [
                    ByKeys(each) for each in parsed_methods([name], frequencies)
                ]
            else:
                k = DEFAULT_K if k < 0 else k
                plan_self(1, k)
                entrants = [BySimhash(k, options) for options in features]
        except ValueError as error:
            raise MrDedupError(f"--method: {error}") from error
        found |= {each.name: each for each in entrants}
    # families together
    return sorted(found.values(), key=lambda each: each.family.partition(" ")[0] != "simhash")


def _prepared(
    arguments: argparse.Namespace, truth: TruePairs, bands: Sequence[float]
) -> tuple[Comparison, list[Entrant]]:
    """Read the documents; return what methods are measured on, and these."""
    from mr_dedup.clusters.verification import ShingleSets, shingle_sets
    from mr_dedup.features.feature_counts import document_frequencies
    from mr_dedup.features.options import FeatureOptions
    from mr_dedup.report.comparison import Comparison

    ids, texts = _read(arguments)
    rows = _true_rows(truth, ids)
    shingles = arguments.shingles
    options = FeatureOptions.parse(shingles, "binary")
    sets = ShingleSets.joined([shingle_sets(part, options) for part in texts])
    frequencies = document_frequencies(texts, FeatureOptions.parse(_KEYWORDS))
    comparison = Comparison(texts, sets, rows, bands, arguments.verify)
    _say(
        f"documents: {rows.documents:,}, text: {comparison.text_bytes / 1e6:,.1f} MB, "
        f"true pairs: {rows.keys.size:,}; texts are compared by {shingles}"
    )
    return comparison, _entrants(arguments, shingles, frequencies)


def _read(
    arguments: argparse.Namespace,
) -> tuple[pa.LargeStringArray, list[pa.LargeStringArray]]:
    """Return ids and texts of all documents; MrDedupError for too many bytes."""
    import pyarrow as pa
    from tqdm import tqdm

    from mr_dedup.cli.document_inputs import HELD_BYTES
    from mr_dedup.errors import MrDedupError
    from mr_dedup.formats.documents.files import find_documents
    from mr_dedup.formats.documents.read import read_documents
    from mr_dedup.formats.documents.rejects import Rejects

    files: Sequence[DocumentFile] = find_documents(arguments.documents, arguments.format).files
    rejects = Rejects()
    ids, texts = [pa.array([], pa.large_string())], [pa.array([], pa.large_string())]
    size_bytes = 0
    with tqdm(unit=" documents", unit_scale=True, leave=False, disable=None) as bar:
        for batch in read_documents(files, rejects, read_options(arguments)):
            size_bytes += batch.texts.nbytes + batch.ids.nbytes
            if size_bytes > HELD_BYTES:
                raise MrDedupError(
                    f"documents: more than {HELD_BYTES:,} bytes of text, which one process does "
                    "not hold; compare methods on some of them"
                )
            ids.append(batch.ids)
            texts.append(batch.texts)
            bar.update(len(batch))
    judge_reading(arguments, rejects.counts)
    if rejects.count:
        _say(f"{counted(rejects.counts.rejected, 'record')} could not be read")
    return pa.concat_arrays(ids), texts


def _true_rows(truth: TruePairs, ids: pa.LargeStringArray) -> Truth:
    """Return the true pairs by rows, each once; MrDedupError if ids do not tell documents apart.

    Pairs of documents that are not there are left out, and told of.
    """
    import numpy as np
    import pyarrow.compute as pc

    from mr_dedup.errors import MrDedupError
    from mr_dedup.report.comparison import Truth

    places = [pc.index_in(side, value_set=ids) for side in (truth.first, truth.second)]
    known = pc.and_(*(column.is_valid() for column in places)).to_numpy(zero_copy_only=False)
    elsewhere = int(len(truth) - known.sum())
    if elsewhere == len(truth) and elsewhere:
        raise MrDedupError("no pair of the truth is of these documents: other ids?")
    truth.refuse_repeated(ids)
    if elsewhere:
        _say(f"{elsewhere:,} true pairs are of other documents, and do not count")
    first, second = (column.fill_null(0).to_numpy().astype(np.int64)[known] for column in places)
    keys = np.minimum(first, second) * len(ids) + np.maximum(first, second)
    keys, firsts = np.unique(keys, return_index=True)
    return Truth(len(ids), keys, truth.similarities[known][firsts])


# the result


def _check_out(out: Path, overwrite: bool) -> None:
    """Raise MrDedupError for what is in the way."""
    from mr_dedup.errors import MrDedupError

    if not os.path.lexists(out):
        return
    if not overwrite:
        raise MrDedupError(f"{out}: exists; give --overwrite to replace it")
    _refuse_others(out)


def _refuse_others(out: Path) -> None:
    """Raise MrDedupError for what is no folder of ours, and for one that has other files too."""
    from mr_dedup.errors import MrDedupError
    from mr_dedup.report.comparison_plots import PLOTS

    if out.is_symlink() or not (is_empty(out) or _has_our_table(out)):
        raise MrDedupError(f"{out}: is no result of mr-dedup compare, and is not replaced")
    others = sorted({path.name for path in out.iterdir()} - {RESULTS, *PLOTS})
    if others:
        raise MrDedupError(f"{out}: has {others[0]!r} as well, and is not replaced")


def _has_our_table(out: Path) -> bool:
    """Return whether the results in a folder have our heading: other tables have this name too."""
    from mr_dedup.report.comparison_tables import HEADING

    table = out / RESULTS
    if not table.is_file():
        return False
    with table.open("rb") as file:
        return file.read(len(HEADING)) == HEADING


def _write(
    out: Path, measured: Sequence[Measured], bands: Sequence[float], *, overwrite: bool
) -> None:
    """Have the folder appear as a whole."""
    from mr_dedup.formats.outputs import folder_beside, whole_file
    from mr_dedup.report.comparison_plots import plots
    from mr_dedup.report.comparison_tables import to_csv

    files = [(RESULTS, to_csv(measured, bands)), *plots(measured)]
    with folder_beside(out) as aside:
        made = aside / "made"
        made.mkdir()
        for name, content in files:
            with whole_file(made / name) as file:
                file.write(content)
        # once more: something may have appeared meanwhile
        _check_out(out, overwrite)
        replaced = aside_for(out)
        put_in_place(made, out, replaced)
        shutil.rmtree(replaced, ignore_errors=True)


def _say(message: str) -> None:
    print(f"mr-dedup: {printable(message)}", file=sys.stderr)
