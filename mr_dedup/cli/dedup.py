"""De-duplicate documents: keep one of each cluster of near-duplicates.

DOCS are as for mr-dedup fingerprint. OUT becomes a directory with documents/, the kept ones in
their format and with all their fields; decisions.parquet, why each document was kept or dropped,
and which kept document it duplicates; clusters.parquet; fingerprints.parquet of the kept ones;
summary.json; report.html; and rejects.jsonl, records that could not be read.

A method finds candidates: pairs of documents that share a band of min-wise hashes of their shingles
(minhash), whose fingerprints are within k bits (simhash), and others. Documents that candidate
pairs connect are a cluster. --keep chooses which document of a cluster is kept first; another one
is dropped only if the similarity of its text and a kept one is at least --verify.

With --against DIR, the OUT of an earlier run, the documents kept there stay kept, and a document of
DOCS that duplicates one of them is dropped. --dry-run prints what would be done.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mr_dedup.cli.document_arguments import (
    add_feature_arguments,
    add_reading_arguments,
    checked_idf,
    described_features,
    document_frequencies,
    feature_options,
    incomplete_files,
    judge_reading,
    read_options,
)
from mr_dedup.cli.document_inputs import DocumentWork, prepare, remote_identities
from mr_dedup.cli.on_cluster import cluster_settings, is_uri, refuse_cluster_arguments
from mr_dedup.cli.rejects import skipped_lines
from mr_dedup.cli.result_folder import ResultFolder
from mr_dedup.cli.runner_arguments import add_runner_arguments
from mr_dedup.cli.streams import printable
from mr_dedup.errors import NothingReadError
from mr_dedup.interrupts import at_forced_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mr_dedup.engines.streaming import ClusterSettings
    from mr_dedup.pipeline.dedup import DedupOptions
    from mr_dedup.pipeline.results import EarlierResult
    from mr_dedup.pipeline.summary import StageSummary, Summary
    from mr_dedup.signatures.protocol import SignatureMethod

REPORT = "report.html"

DEFAULT_METHOD, DEFAULT_K, DEFAULT_VERIFY = "minhash", 10, 0.8

SIMHASH_FEATURES, SIMHASH_WEIGHTS = "words:2", "log-tf"

OTHER_FEATURES, OTHER_WEIGHTS = "auto", "tf"
"""Of fingerprints that only name documents: made beside the min-wise hashes they cost nothing."""

AUTO_SHINGLES = "auto"

_REJECTS_AT_ONCE = 1 << 22

JOINS = ("auto", "memory", "tasks")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    add = parser.add_argument
    add("documents", nargs="+", metavar="DOCS", help="files, globs or folders; -")
    add("-o", "--out", type=Path, required=True, metavar="OUT", help="the folder to make")
    add("--method", action="append", metavar="NAME[:PARAMETER=VALUE,…]",
        help="how candidates are found, before their texts are compared: minhash, simhash, "
        "super-shingles, segments, text-profile, keywords, abstract or exact, with parameters as "
        "in minhash:bands=16,rows=5 or simhash:k=7; several methods may be given "
        "(default minhash)")  # fmt: skip
    add("-k", type=int, metavar="K",
        help="of simhash: the largest Hamming distance (default 10)")  # fmt: skip
    add("--keyword-idf", metavar="FILE",
        help="of keywords: in how many documents each word occurs, as mr-dedup idf "
        "writes it")  # fmt: skip
    add("--keep", action="append", metavar="POLICY",
        help="which document of a cluster to keep: first, longest, shortest, newest:FIELD, "
        "oldest:FIELD, highest:FIELD, lowest:FIELD, prefer:FIELD=VALUE,…; given several times, "
        "the next ones decide between equals (default first)")  # fmt: skip
    add("--verify", type=verify_argument, default=DEFAULT_VERIFY, metavar="J",
        help="drop a document only if the shingles of its text have at least this Jaccard "
        "similarity to a kept one's; minhash has the bands that find such pairs, from 0.5 up; off "
        "drops all but one of a cluster, of parts of one of over 64 MB (default 0.8)")  # fmt: skip
    add("--shingles", default=AUTO_SHINGLES, metavar="words:N|characters:N|auto",
        help="what texts are compared by (default auto: words:3, or words:5 for texts of Chinese, "
        "Japanese, Thai or another script without spaces)")  # fmt: skip
    add("--against", action="append", default=[], metavar="DIR",
        help="the OUT of an earlier run: drop what is like a document that it kept, and drop none "
        "of these; may be given several times")  # fmt: skip
    add("--follow", action="store_true",
        help="also against the results that each DIR was made against, and so on")  # fmt: skip
    add("--join", choices=JOINS, default="auto",
        help="where documents that share keys, or fingerprints within k bits, are found: in the "
        "memory of this command, or by tasks of the runner; the result is the same (default: what "
        "takes less time; what compares more than keys is always done here)")  # fmt: skip
    add("--share-by", action="append", default=[], metavar="FIELD",
        help="count near-duplicates by the values of this field in the report")  # fmt: skip
    add("--dry-run", action="store_true", help="print what would be done, and do nothing")
    add("--resume", action="store_true", help="resume an interrupted run")
    add("--overwrite", action="store_true", help="replace OUT, and forget an unfinished run")
    # pairs of words at 10 bits found more than single words at 7, as fast (docs/quality.md); and
    # single words join a million pages by chance
    add_feature_arguments(parser, features=SIMHASH_FEATURES)
    parser.set_defaults(features=None, weights=None)
    add_reading_arguments(parser)
    add_runner_arguments(parser, "dedup", leaves=False)


def verify_argument(text: str) -> float | None:
    """Return the minimum similarity of an argument, None for off."""
    if text == "off":
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a similarity above 0 and up to 1, or off"
        )
    return value


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    started = time.perf_counter()
    from mr_dedup.engines import streaming

    chosen = chosen_methods(arguments, arguments.verify)
    settings = None
    if arguments.runner in streaming.CLUSTER_RUNNERS:
        settings = cluster_settings(arguments)
        # a run that has begun would be in the way of the next
        streaming.check_settings(arguments.runner, settings)
    else:
        refuse_cluster_arguments(arguments, arguments.documents)
    options = _options(arguments, *chosen)
    folder = ResultFolder(arguments.out)
    # a dry run needs no lock
    with contextlib.nullcontext() if arguments.dry_run else folder.locked():
        return _run_locked(arguments, options, folder, settings, started)


def _run_locked(
    arguments: argparse.Namespace,
    options: DedupOptions,
    folder: ResultFolder,
    settings: ClusterSettings | None,
    started: float,
) -> int:
    from mr_dedup.cli.dedup_jobs import Jobs
    from mr_dedup.engines import streaming
    from mr_dedup.pipeline.dedup import dedup
    from mr_dedup.pipeline.stages import Stages

    if arguments.resume and folder.was_published():
        if not arguments.dry_run:
            folder.end()
        _say(f"{folder.out}: was complete")
        _judge_result(arguments, folder.out)
        return 0
    folder.check(
        resume=arguments.resume,
        overwrite=arguments.overwrite,
        read=[result.folder for result in options.against],
    )
    if arguments.dry_run:
        from mr_dedup.cli.dedup_plan import print_plan

        work = prepare(arguments.documents, arguments, None, settings, reads_again=True)
        run = _run_of(arguments, work, options)
        stages = Stages(folder.work, run, resume=arguments.resume, look=True)
        print_plan(arguments, work, options, stages)
        return 0
    if folder.work.exists() and not arguments.resume:
        shutil.rmtree(folder.work)
    with streaming.staging_folder() as staging:
        work = prepare(arguments.documents, arguments, staging, settings, reads_again=True)
        run = _run_of(arguments, work, options)
        stages = Stages(folder.work, run, resume=arguments.resume)
        jobs = Jobs(arguments, work, staging, settings)
        unfinished = f"{folder.work}: completed stages; --resume continues"
        try:
            with at_forced_end(lambda: _say(unfinished)):
                summary = dedup(stages, options, jobs)
                _refuse_changed(arguments, work, run, settings)
        except NothingReadError:
            # with what would read the records, it is another run
            shutil.rmtree(folder.work, ignore_errors=True)
            raise
        except BaseException:
            _say(unfinished)
            raise
    _finish_result(folder.work, summary, work.files, arguments, options)
    folder.publish()
    _summarise(summary, work, options, folder.out, time.perf_counter() - started)
    _judge_result(arguments, folder.out)
    return 0


def _judge_result(arguments: argparse.Namespace, out: Path) -> None:
    """Judge how many of the records a result is made of."""
    from mr_dedup.formats.documents.rejects import ReadCounts
    from mr_dedup.pipeline.results import REJECTS, SUMMARY
    from mr_dedup.pipeline.summary import require_version

    if not (out / SUMMARY).exists():
        return  # a run that was killed had not written it
    summary = json.loads((out / SUMMARY).read_bytes())
    require_version(str(out), summary)
    counts = ReadCounts(documents=summary["documents_read"], files=summary["files_read"])
    if summary["rejected_records"]:
        with (out / REJECTS).open("rb") as file:
            while lines := file.readlines(_REJECTS_AT_ONCE):
                counts.add_lines(b"".join(lines))
    judge_reading(arguments, counts)


def _options(
    arguments: argparse.Namespace, k: int | None, methods: Sequence[SignatureMethod]
) -> DedupOptions:
    """Return the options of the run; raises MrDedupError for invalid ones."""
    from mr_dedup.clusters.keep_policy import KeepPolicy
    from mr_dedup.errors import MrDedupError
    from mr_dedup.features.options import FeatureOptions
    from mr_dedup.jobs.fingerprint import check_fields
    from mr_dedup.pipeline.dedup import DedupOptions

    keep = arguments.keep or ["first"]
    try:
        policy = KeepPolicy.parse(keep)
        check_fields(arguments.share_by, "--share-by")
        FeatureOptions.parse(arguments.shingles, "binary")
        if k is not None:
            from mr_dedup.hamming.planner import plan_self

            plan_self(1, k)
    except ValueError as error:
        raise MrDedupError(str(error)) from error
    read_options(arguments, policy.fields, keep_records=True)
    read_options(arguments, arguments.share_by)
    document_frequencies(arguments)
    made_from = described_features(arguments)
    return DedupOptions(
        k,
        keep,
        arguments.verify,
        arguments.shingles,
        arguments.share_by,
        reading=read_options(arguments),
        format=arguments.format,
        features=feature_options(arguments),
        idf=checked_idf(arguments),
        made_from=made_from,
        against=_earlier_results(arguments, made_from, methods),
        methods=methods,
        keyword_idf=None if arguments.keyword_idf is None else Path(arguments.keyword_idf),
    )


def chosen_methods(
    arguments: argparse.Namespace, similarity: float | None
) -> tuple[int | None, list[SignatureMethod]]:
    """Return k of simhash, None without it, and the methods by keys; MrDedupError for others.

    Pairs of ``similarity`` are to be found, of 0.8 if it is None.
    """
    from mr_dedup.errors import MrDedupError
    from mr_dedup.jobs.method_options import (
        SIMHASH,
        keyword_frequencies,
        parsed_methods,
        simhash_distance,
    )

    names = arguments.method or [DEFAULT_METHOD]
    try:
        distances = [k for k in map(simhash_distance, names) if k is not None]
        by_keys = [name for name in names if simhash_distance(name) is None]
        methods = parsed_methods(
            by_keys, keyword_frequencies(arguments), arguments.normalize,
            similarity or DEFAULT_VERIFY, arguments.shingles,
        )  # fmt: skip
    except ValueError as error:
        raise MrDedupError(f"--method: {error}") from error
    by_simhash = (
        (SIMHASH_FEATURES, SIMHASH_WEIGHTS) if distances else (OTHER_FEATURES, OTHER_WEIGHTS)
    )
    arguments.features = arguments.features or by_simhash[0]
    arguments.weights = arguments.weights or by_simhash[1]
    given = {k for k in distances if k >= 0} | ({arguments.k} - {None})
    if not distances and given:
        raise MrDedupError(f"-k: not used by {', '.join(names)}; give --method {SIMHASH}")
    if len(given) > 1:
        raise MrDedupError(f"--method {SIMHASH}: is given several k, {sorted(given)}")
    return (*given, DEFAULT_K)[0] if distances else None, methods


def expected_recalls(options: DedupOptions) -> dict[str, float]:
    """Return the probability of each method to find a pair at --verify, where it is known.

    Empty if texts are not compared.
    """
    if options.verify is None:
        return {}
    recalls = {
        method.name: method.expected_recall(options.verify, options.compared_by)
        for method in options.methods
    }
    return {name: recall for name, recall in recalls.items() if recall is not None}


def recall_lines(options: DedupOptions) -> list[str]:
    """Return lines for the user on ``expected_recalls``, with a warning where they are low."""
    from mr_dedup.signatures.bands import MIN_SIMILARITY, RECALL, choose_bands

    similarity = options.verify
    if similarity is None:
        return []
    recalls = expected_recalls(options)
    # what MinHash finds would be known, were it of the shingles that texts are compared by
    lines = [
        f"warning: how many near-duplicates {method.name} finds is not known: it has shingles of "
        "its own, or an estimate"
        for method in options.methods
        if method.name.startswith("minhash:") and method.name not in recalls
    ]
    if not recalls:
        return lines
    lines += [
        f"{name}: finds pairs of similarity {similarity:g} with probability {recall:.4f}"
        for name, recall in recalls.items()
    ]
    # of other methods it is not known what they find
    if max(recalls.values()) < RECALL and len(recalls) == len(options.method_names):
        bands, rows = choose_bands(similarity)
        lines.append(
            f"warning: near-duplicates of similarity {similarity:g} may be missed; "
            + (
                f"minhash without parameters has {bands} bands of {rows} rows for it"
                if similarity >= MIN_SIMILARITY
                else f"no bands are chosen for less than {MIN_SIMILARITY:g}"
            )
        )
    return lines


def _earlier_results(
    arguments: argparse.Namespace, made_from: str, methods: Sequence[SignatureMethod]
) -> list[EarlierResult]:
    """Return the results that --against names; MrDedupError for what cannot be compared."""
    from mr_dedup.errors import MrDedupError
    from mr_dedup.pipeline.results import EarlierResult, followed, not_followed

    if arguments.follow and not arguments.against:
        raise MrDedupError("--follow: needs --against")
    for name in arguments.against:
        if is_uri(name):
            raise MrDedupError(f"--against {name}: expected a folder of this machine")
    named = [EarlierResult.read(name) for name in arguments.against]
    results = followed(named, further=arguments.follow)
    for result in results:
        if result.features != made_from:
            raise MrDedupError(
                f"--against {result.name}: its fingerprints were made from {result.features}, "
                f"those of this run are from {made_from}"
            )
        result.check_methods(methods)
        longest = result.reading["max_record_size"]
        if longest > arguments.max_record_size:
            raise MrDedupError(
                f"--max-record-size: {arguments.max_record_size:,} is less than the {longest:,} "
                f"of {result.name}"
            )
    for name, other in not_followed(results):
        _say(f"{name} was made against {other}, which is not compared; --follow includes it")
    return results


def _shown_options(arguments: argparse.Namespace, options: DedupOptions) -> list[tuple[str, str]]:
    """Return the options of the run for the report."""
    from mr_dedup import __version__

    return [
        ("documents", ", ".join(arguments.documents)),
        ("features", described_features(arguments)),
        ("methods", "; ".join(options.method_names)),
        ("keep", ", ".join(arguments.keep or ["first"])),
        ("verify", "off" if arguments.verify is None else str(arguments.verify)),
        ("shingles", options.shingles),
        *(("against", f"{name}, {count:,} documents") for name, count in options.earlier),
        ("mr_dedup", __version__),
    ]


def _run_of(
    arguments: argparse.Namespace, work: DocumentWork, options: DedupOptions
) -> dict[str, Any]:
    """Return what must be equal to resume a run."""
    import pyarrow

    from mr_dedup import __version__
    from mr_dedup.fingerprints.simhash import VERSION
    from mr_dedup.pipeline.stages import identity
    from mr_dedup.signatures.columns import VERSION as SIGNATURE_VERSION

    inputs = [item.name for item in work.inputs]
    return {
        "version": __version__,
        "fingerprint_version": VERSION,
        "signature_version": SIGNATURE_VERSION,
        "pyarrow": pyarrow.__version__,
        "runner": work.runner,
        "inputs": inputs,
        "files": [
            *(identity(path) for path in work.paths),
            *(file.identity for file in work.remote),
        ],
        "standard_input": work.stdin,
        "methods": options.method_names,
        "keep": list(options.keep),
        "verify": options.verify,
        "shingles": options.shingles,
        "share_by": list(options.share_by),
        "reading": {**dataclasses.asdict(options.reading), "format": options.format},
        "features": options.made_from,
        "against": [[result.name, result.fingerprints_checksum] for result in options.against],
        "earlier_files": [
            identity(path) for result in options.against for path in _files_of(result)
        ],
    }


def _refuse_changed(
    arguments: argparse.Namespace,
    work: DocumentWork,
    run: dict[str, Any],
    settings: ClusterSettings | None,
) -> None:
    """Raise MrDedupError if a file of documents is not what it was when the run began."""
    from mr_dedup.errors import MrDedupError
    from mr_dedup.pipeline.stages import identity

    now = [identity(path) for path in work.paths]
    if settings is not None:
        now += remote_identities(arguments.documents, arguments, settings)
    unchanged = {tuple(file) for file in now}
    for before in run["files"]:
        if tuple(before) not in unchanged:
            raise MrDedupError(f"{before[0]}: has other documents than when it was first read")


def _files_of(result: EarlierResult) -> list[Path]:
    from mr_dedup.pipeline.results import SUMMARY

    files = [result.folder / SUMMARY, *(file.path for file in result.document_files())]
    return [path for path in files if path is not None]


def _finish_result(
    work_folder: Path,
    summary: StageSummary,
    files: int,
    arguments: argparse.Namespace,
    options: DedupOptions,
) -> None:
    """Write the report and the summary of a run of so many files, whose stages are done."""
    from mr_dedup.cli.dedup_report import write_dedup_report
    from mr_dedup.formats.outputs import whole_file
    from mr_dedup.jobs.document_options import reading_record
    from mr_dedup.pipeline.dedup import RESULT
    from mr_dedup.pipeline.results import SUMMARY, record_for_later

    result = work_folder / RESULT
    shown = _shown_options(arguments, options)
    with whole_file(result / REPORT, overwrite=True) as file:
        write_dedup_report(file, work_folder, summary, shown, arguments.share_by)
    later = record_for_later(
        result, arguments.out, options.made_from, reading_record(arguments), options.against,
        [method.name for method in options.methods],
    )  # fmt: skip
    recalls = expected_recalls(options)
    whole: Summary = {
        **summary,
        "files_read": files,
        "shingles": options.shingles,
        "expected_recalls": [{"method": name, "recall": value} for name, value in recalls.items()],
        **later,
    }
    with whole_file(result / SUMMARY, overwrite=True) as file:
        file.write(json.dumps(whole, indent=1).encode() + b"\n")


def _summarise(
    summary: StageSummary, work: DocumentWork, options: DedupOptions, out: Path, seconds: float
) -> None:
    read, dropped = summary["documents_read"], summary["documents_dropped"]
    share = 100 * dropped / read if read else 0.0
    _say(
        f"files: {work.files:,}, documents: {read:,}, rejected: {summary['rejected_records']:,}"
        f"{incomplete_files(summary['incomplete_files'])}"
    )
    for line in skipped_lines(summary["skipped_records"]):
        _say(line)
    for line in recall_lines(options):
        _say(line)
    if summary["clusters_split"]:
        why = (
            "they are too large for one task, and near-duplicates among these may be kept; a "
            "stricter --method or --verify makes smaller clusters"
            if options.verify is not None
            else "their texts are of over 64 MB, as where pages are similar by chance, so each "
            "part keeps a document; a stricter --method makes smaller clusters"
        )
        _say(
            f"clusters split: {summary['clusters_split']:,}, of "
            f"{summary['documents_in_split_clusters']:,} documents; {why}"
        )
    if options.against:
        _say(
            f"compared against {summary['earlier_documents']:,} earlier documents, "
            f"{summary['documents_dropped_for_earlier']:,} dropped for them"
        )
    _say(
        f"kept {summary['documents_kept']:,}, dropped {dropped:,} ({share:.1f} %) in "
        f"{seconds:.1f} s: {out}"
    )


def _say(message: str) -> None:
    print(f"mr-dedup: {printable(message)}", file=sys.stderr)
