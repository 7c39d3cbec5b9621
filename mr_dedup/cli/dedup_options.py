"""The options of a de-duplication, and what identifies a run that --resume continues."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mr_dedup.cli.copy_names import name_copies
from mr_dedup.cli.document_arguments import (
    OPTION_OF_PARAMETER,
    checked_idf,
    described_features,
    document_frequencies,
    feature_options,
    read_options,
)
from mr_dedup.cli.document_inputs import DocumentInputs, refuse_hdfs, remote_identities
from mr_dedup.cli.method_arguments import criterion_of
from mr_dedup.cli.streams import print_message
from mr_dedup.errors import MrDedupError, usage_errors
from mr_dedup.storage.listing import file_info
from mr_dedup.storage.uris import is_uri, joined, without_secrets

if TYPE_CHECKING:
    from mr_dedup.clusters.criterion import Criterion
    from mr_dedup.clusters.retention import Retention
    from mr_dedup.pipeline.dedup_options import DedupOptions
    from mr_dedup.pipeline.result_folder import ResultFolder
    from mr_dedup.pipeline.results import EarlierResult
    from mr_dedup.signatures.protocol import SignatureMethod


def search_options(
    arguments: argparse.Namespace,
    k: int | None,
    methods: Sequence[SignatureMethod],
    verify: Criterion | None,
    shingles: str,
) -> DedupOptions:
    """Return how similar documents are found; raises MrDedupError for invalid options."""
    from mr_dedup.features.options import FeatureOptions
    from mr_dedup.pipeline.dedup_options import DedupOptions

    with usage_errors():
        FeatureOptions.parse(shingles, "binary")
        if k is not None:
            from mr_dedup.hamming.planner import plan_self

            plan_self(1, k)
    reading = read_options(arguments)
    document_frequencies(arguments)
    return DedupOptions(
        k=k,
        methods=methods,
        verify=verify,
        shingles=shingles,
        reading=reading,
        format=arguments.format,
        features=feature_options(arguments),
        idf=checked_idf(arguments),
        made_from=described_features(arguments),
        keyword_idf=arguments.keyword_idf,
    )


def dedup_options(
    arguments: argparse.Namespace, k: int | None, methods: Sequence[SignatureMethod]
) -> DedupOptions:
    """Return the options of the run; raises MrDedupError for invalid ones."""
    from mr_dedup.clusters.keep_policy import KeepPolicy
    from mr_dedup.jobs.fingerprint import check_fields

    keep = arguments.keep or ["first"]
    with usage_errors():
        policy = KeepPolicy.parse(keep)
        check_fields(arguments.share_by, "--share-by")
        check_fields([] if arguments.seen is None else [arguments.seen], "--seen")
    read_options(arguments, policy.fields, keep_records=True)
    read_options(arguments, arguments.share_by)
    read_options(arguments, [] if arguments.seen is None else [arguments.seen])
    verify = criterion_of(arguments.verify)
    options = search_options(arguments, k, methods, verify, arguments.shingles)
    retention = _retention(arguments)
    against = _earlier_results(arguments, options.made_from, methods)
    return dataclasses.replace(
        options, keep=keep, retention=retention, share_by=arguments.share_by, against=against,
        documents=arguments.kept_format, seen=arguments.seen, add_counts=arguments.add_counts,
    )  # fmt: skip


def _retention(arguments: argparse.Namespace) -> Retention:
    """Return how many documents of a group are kept; MrDedupError for invalid options."""
    from mr_dedup.clusters.retention import Retention

    if arguments.sample is None:
        if arguments.sample_seed:
            raise MrDedupError("--sample-seed: needs --sample")
        try:
            return Retention(arguments.keep_per_cluster)
        except ValueError as error:
            raise MrDedupError(f"--keep-per-cluster: {error}") from error
    if arguments.keep_per_cluster > 1:
        raise MrDedupError("--keep-per-cluster, --sample: give one of them")
    try:
        return Retention.parse_sample(arguments.sample, arguments.sample_seed)
    except ValueError as error:
        raise MrDedupError(f"--sample: {error}") from error


def _earlier_results(
    arguments: argparse.Namespace, made_from: str, methods: Sequence[SignatureMethod]
) -> list[EarlierResult]:
    """Return the results that --against names; MrDedupError for what cannot be compared."""
    from mr_dedup.pipeline.results import EarlierResult, followed, not_followed
    from mr_dedup.signatures.methods import SIMHASH

    if arguments.follow and not arguments.against:
        raise MrDedupError("--follow: needs --against")
    fetched = partial(_fetched_result, arguments)
    named = [EarlierResult.read(name, fetched) for name in arguments.against]
    results = followed(named, fetched, further=arguments.follow)
    for result in results:
        summary = result.summary
        if summary.features != made_from:
            of_words = arguments.symbols != "ignore" and ", symbols " not in summary.features
            raise MrDedupError(
                f"--against {result.name}: its fingerprints were made from {summary.features}, "
                f"those of this run are from {made_from}"
                + ("; give --symbols ignore" if of_words else "")
            )
        try:
            result.check_methods(methods)
        except MrDedupError as error:
            # of simhash there are fingerprints, which are no signatures
            names = map(shlex.quote, result.summary.methods or [SIMHASH])
            wanted = " ".join(f"--method {name}" for name in names)
            raise MrDedupError(f"--against {error}: give {wanted}") from error
        longest = summary.reading.max_record_size
        if longest > arguments.max_record_size:
            raise MrDedupError(
                f"--max-record-size: {arguments.max_record_size:,} is less than the {longest:,} "
                f"of {result.name}"
            )
    for result in results:
        if not result.has_counts:
            print_message(
                f"{result.name}: is of an mr_dedup that did not count duplicates; totals are "
                "without those that its own run dropped"
            )
    for name, other in not_followed(results):
        print_message(
            f"{name} was made against {other}, which is not compared; --follow includes it"
        )
    return results


def _fetched_result(arguments: argparse.Namespace, uri: str) -> Path:
    """Return a directory with a copy of an earlier result in a store, without its documents."""
    from mr_dedup.pipeline.results import fetch_result

    # tasks read documents of clusters again
    refuse_hdfs(uri, arguments.runner)
    folder = Path(tempfile.mkdtemp(prefix="against-", dir=arguments.open_scratch().folder))
    name_copies({str(folder): without_secrets(uri)})
    fetch_result(uri, folder)
    return folder


RUN_OPTIONS: Mapping[str, str] = {
    "runner": "-r",
    "verify": "--verify",
    "shingles": "--shingles",
    "methods": "--method",
    "keep": "--keep",
    "retention.per_cluster": "--keep-per-cluster",
    "retention.power": "the power of --sample",
    "retention.seed": "--sample-seed",
    "share_by": "--share-by",
    "documents": "--documents",
    "seen": "--seen",
    "add_counts": "--add-counts",
    "features": "--features",
    "against": "--against",
    "reading.format": "--format",
    "reading.strict": "--strict",
    **{f"reading.{name}": option for name, option in OPTION_OF_PARAMETER.items()},
}
"""The options by which messages call what ``run_identity`` has."""


LATER: Mapping[str, str] = {"documents": "keep"}
"""Options that a run may be resumed with others of, each with the last stage, which they change."""


def run_identity(
    arguments: argparse.Namespace,
    work: DocumentInputs,
    options: DedupOptions,
    folder: ResultFolder,
) -> dict[str, Any]:
    """Return what must be equal to resume a run."""
    import pyarrow

    from mr_dedup import __version__
    from mr_dedup.fingerprints.simhash import VERSION
    from mr_dedup.pipeline.summary import FORMAT_VERSION
    from mr_dedup.signatures.columns import VERSION as SIGNATURE_VERSION

    return {
        **folder.identity,
        "version": __version__,
        "format_version": FORMAT_VERSION,
        "fingerprint_version": VERSION,
        "signature_version": SIGNATURE_VERSION,
        "pyarrow": pyarrow.__version__,
        **inputs_identity(work),
        # before methods, whose parameters follow from it
        "verify": None if options.verify is None else options.verify.as_json,
        "shingles": options.shingles,
        "methods": options.method_names,
        "keep": list(options.keep),
        "retention": dataclasses.asdict(options.retention),
        "share_by": list(options.share_by),
        "documents": options.documents,
        "seen": options.seen,
        "add_counts": options.add_counts,
        "reading": {**dataclasses.asdict(options.reading), "format": options.format},
        "features": options.made_from,
        "against": [
            [result.name, result.summary.fingerprints_checksum] for result in options.against
        ],
        "earlier_ids": [result.identifier for result in options.against],
        "earlier_files": [each for result in options.against for each in _identities_of(result)],
    }


_NOT_OF_RESULT = (
    "address", "directory", "pyarrow", "runner", "chunk_bytes", "inputs", "against",
    "earlier_files",
)  # fmt: skip
"""What ``run_identity`` has that makes no other result, or is another name of one."""


_CHANGING = ("files", "standard_input")
"""What names and times of change are in."""


def result_id(run: Mapping[str, Any], checksums: Mapping[str, str]) -> str:
    """Return what identifies the result of a run, given its ``run_identity``.

    It follows from the files of documents, their sizes and times of change, the options, and the
    results that it is made against, wherever these are. If the environment variable
    SOURCE_DATE_EPOCH is set, it follows from the ``checksums`` of the result instead of files, so
    that equal data give equal bytes.
    """
    import xxhash

    known = {name: value for name, value in run.items() if name not in _NOT_OF_RESULT}
    known["against"] = run["earlier_ids"]
    if os.environ.get("SOURCE_DATE_EPOCH"):
        known = {name: value for name, value in known.items() if name not in _CHANGING}
        known["checksums"] = dict(checksums)
    return xxhash.xxh3_128(json.dumps(known, sort_keys=True).encode()).hexdigest()


def refuse_unwritable_counts(work: DocumentInputs, options: DedupOptions) -> None:
    """Raise MrDedupError if counts are to be added to records that can have no further fields."""
    if not options.add_counts or options.documents != "same":
        return
    for format in work.formats:
        if format not in ("jsonl", "parquet"):
            raise MrDedupError(
                f"--add-counts: records of {format} have no fields; give --documents jsonl or "
                "--documents parquet"
            )


def inputs_identity(work: DocumentInputs) -> dict[str, Any]:
    """Return what identifies the documents of a run, and their chunks."""
    return {
        "runner": work.runner,
        "chunk_bytes": work.chunk_bytes,
        "inputs": [item.name for item in work.inputs],
        "files": [
            *_identities(work.paths),
            *(file.identity for file in work.remote),
        ],
        "standard_input": work.stdin,
    }


def _identities(paths: Sequence[Path]) -> Iterator[list[Any]]:
    """Yield what identifies files, but for those that are there no more."""
    from mr_dedup.pipeline.stages import identity

    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            yield identity(path)


def refuse_changed(
    arguments: argparse.Namespace,
    work: DocumentInputs,
    run: dict[str, Any],
) -> None:
    """Raise MrDedupError if a file of documents is not what it was when the run began."""
    now = list(_identities(work.paths))
    if work.remote:
        now += remote_identities(arguments.documents)
    # what is there no more was read before, or is a reject
    names, unchanged = {file[0] for file in now}, set(map(tuple, now))
    for before in run["files"]:
        if before[0] in names and tuple(before) not in unchanged:
            raise MrDedupError(f"{before[0]}: has other documents than when it was first read")


def _identities_of(result: EarlierResult) -> Iterator[list[Any]]:
    """Yield what identifies the summary and the documents of an earlier result."""
    from mr_dedup.pipeline.results import SUMMARY
    from mr_dedup.pipeline.stages import identity

    if is_uri(result.name):
        yield file_info(joined(result.name, SUMMARY)).identity
    else:
        yield identity(result.folder / SUMMARY)
    for file in result.document_files():
        if file.remote is not None:
            yield file.remote.identity
        elif file.local_path is not None:
            yield identity(file.local_path)
