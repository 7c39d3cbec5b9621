"""mr-dedup pairs of documents: near-duplicates, with ids and similarity."""

from __future__ import annotations

import argparse
import copy
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from mr_dedup.cli.dedup_options import search_options
from mr_dedup.cli.document_arguments import (
    add_feature_arguments,
    add_reading_arguments,
    check_rejected,
    reading_lines,
)
from mr_dedup.cli.document_inputs import DocumentInputs, prepare
from mr_dedup.cli.method_arguments import (
    AUTO_SHINGLES,
    DEFAULT_VERIFY,
    chosen_methods,
    criterion_of,
    recall_lines,
    similarity_or_off,
)
from mr_dedup.cli.on_cluster import settings_for
from mr_dedup.cli.rejects import (
    RejectsOutput,
    rejects_of,
    rejects_output,
)
from mr_dedup.cli.remote_files import input_name, output_file
from mr_dedup.cli.streams import output, print_message
from mr_dedup.errors import MrDedupError

if TYPE_CHECKING:
    from mr_dedup.pipeline.dedup_options import DedupOptions
    from mr_dedup.pipeline.similar_pairs import SimilarPairs

OF_FINGERPRINTS = {
    "others": "--with", "with_distance": "--with-distance", "corpus_format": "--corpus-format",
    "byte_order": "--byte-order", "table_memory": "--table-memory", "design": "--design",
    "output_dir": "--output-dir",
}  # fmt: skip
"""Options that pairs of documents do not have, by their attributes."""


class _Option(NamedTuple):
    """An option that only documents have: its name, and what stands for it if it is not given."""

    name: str
    default: Any


def add_document_pair_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that pairs of documents have, as a group of their own.

    Their attributes are missing where they are not given.
    """
    before = len(parser._actions)
    add = parser.add_argument_group("documents", "with --method").add_argument
    add("--method", action="append", metavar="NAME[:PARAMETER=VALUE,…]",
        help="how candidates are found, as for mr-dedup dedup; may be repeated")  # fmt: skip
    add("--verify", type=_verify, metavar="J",
        help="print pairs whose shingles have at least this Jaccard similarity; off prints all "
        "candidates, with the similarity by the method (default 0.8)")  # fmt: skip
    add("--shingles", metavar="words:N|characters:N|auto",
        help="what texts are compared by (default auto: 3 words, or 5 characters of "
        "Chinese, Japanese, Thai or another script without spaces)")  # fmt: skip
    add("--keyword-idf", type=input_name, metavar="FILE",
        help="of keywords: in how many documents each word occurs, as mr-dedup idf "
        "writes it")  # fmt: skip
    add("--rejects", type=output_file, metavar="FILE",
        help="where records go that cannot be read (default: OUT.rejects.jsonl)")  # fmt: skip
    add_feature_arguments(parser, features="words:2", of="of --method simhash; ", compares=True)
    add_reading_arguments(parser)
    options = {}
    for action in parser._actions[before:]:
        # of features and weights the method decides
        default = None if action.dest in ("features", "weights") else action.default
        options[action.dest] = _Option(action.option_strings[0], default)
        action.default = argparse.SUPPRESS
    parser.set_defaults(document_options=options)


def _verify(text: str) -> tuple[float | None]:
    """Return the minimum similarity in a tuple, as off must differ from a missing option."""
    return (similarity_or_off(text),)


def refuse_document_arguments(arguments: argparse.Namespace) -> None:
    """Raise MrDedupError for an argument that only documents have."""

    for attribute, option in arguments.document_options.items():
        if attribute in arguments:
            raise MrDedupError(f"{option.name}: needs --method, is not used for fingerprints")


def find_document_pairs(arguments: argparse.Namespace) -> int:
    """Print the pairs of documents; return the exit code."""
    from mr_dedup.cli.dedup_jobs import DocumentJobs
    from mr_dedup.engines import streaming
    from mr_dedup.files.outputs import refuse_existing
    from mr_dedup.pipeline.similar_pairs import similar_pairs

    started = time.perf_counter()
    arguments = _of_documents(arguments)
    settings = settings_for(arguments)
    if arguments.out:
        refuse_existing(arguments.out, arguments.overwrite)
    criterion = criterion_of(arguments.similarity[0])
    k, methods = chosen_methods(arguments, criterion)
    shingles = arguments.shingles or AUTO_SHINGLES
    options = search_options(arguments, k, methods, criterion, shingles)
    with (
        streaming.staging_folder() as staging,
        rejects_output(rejects_of(arguments), arguments.overwrite) as rejects,
    ):
        work = prepare(arguments.corpus, arguments, staging, settings, reads_again=True)
        folder = staging / "found"
        folder.mkdir()
        with DocumentJobs(arguments, work, staging, settings) as jobs:
            found = similar_pairs(jobs.run_here(folder), options, jobs)
        for lines in found.rejects():
            rejects.add_lines(lines)
        rejects.counts.documents, rejects.counts.files = found.counts["documents_read"], work.files
        check_rejected(arguments, rejects.counts, found.counts)
        with output(arguments) as out:
            for lines in found.lines():
                out.write(lines)
    _summarise(found, work, options, rejects, time.perf_counter() - started)
    return 0


def _of_documents(arguments: argparse.Namespace) -> argparse.Namespace:
    """Return the arguments as jobs of dedup need them; MrDedupError for those without a use."""

    for attribute, name in OF_FINGERPRINTS.items():
        if getattr(arguments, attribute) != arguments.fingerprint_defaults[attribute]:
            raise MrDedupError(f"{name}: not used by documents")
    arguments = copy.copy(arguments)
    for attribute, option in arguments.document_options.items():
        if attribute not in arguments:
            setattr(arguments, attribute, option.default)
    arguments.similarity, arguments.verify = arguments.verify or (DEFAULT_VERIFY,), None
    return arguments


def _summarise(
    found: SimilarPairs,
    work: DocumentInputs,
    options: DedupOptions,
    rejects: RejectsOutput,
    seconds: float,
) -> None:
    counts = found.counts
    first, *others = reading_lines(work.described, counts)
    said = [
        f"{first}, {'; '.join(options.method_names)}",
        *others,
        *recall_lines(options),
        *rejects.summary(),
    ]
    if counts["clusters_sliced"]:
        said.append(
            f"clusters larger than the memory of a task, compared in slices: "
            f"{counts['clusters_sliced']:,}"
        )
    said.append(
        f"{len(found):,} pairs, {counts['documents_compared']:,} documents compared, "
        f"in {seconds:.1f} s"
    )
    print_message(*said)
