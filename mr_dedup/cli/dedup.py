"""De-duplicate documents: keep one of each cluster of near-duplicates.

DOCS are as for mr-dedup fingerprint. OUT becomes a folder with documents/, the kept ones in the
format and with every field they came in; decisions.parquet, why each document was kept or dropped,
and for whom; clusters.parquet; summary.json; report.html, to look at; and rejects.jsonl, records
that could not be read.

Documents whose fingerprints are within k bits of one another, directly or over others, are a
cluster. Of each its keeper is chosen by --keep; another one is dropped only if its own text is as
similar to a keeper's as --verify says, else it is kept as well.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mr_dedup.cli.document_arguments import (
    add_feature_arguments,
    add_reading_arguments,
    described_features,
    document_frequencies,
    read_options,
    shipped_frequencies,
)
from mr_dedup.cli.document_inputs import DocumentWork, prepare
from mr_dedup.cli.on_cluster import cluster_settings, refuse_cluster_arguments
from mr_dedup.cli.runner_arguments import add_runner_arguments
from mr_dedup.cli.streams import printable

if TYPE_CHECKING:
    from mr_dedup.jobs.job import Job
    from mr_dedup.pipeline.dedup import DedupOptions
    from mr_dedup.runners import ClusterSettings, JobResult

HELP = "keep one of each cluster of near-duplicate documents"

SUMMARY, REPORT = "summary.json", "report.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    add = parser.add_argument
    add("documents", nargs="+", metavar="DOCS", help="files, globs or folders")
    add("-o", "--out", type=Path, required=True, metavar="OUT", help="the folder to make")
    add("-k", type=int, default=7, help="largest Hamming distance of neighbours (default 7)")
    add("--keep", action="append", metavar="POLICY",
        help="whom to keep of a cluster: first, longest, shortest, newest:FIELD, oldest:FIELD, "
        "highest:FIELD, lowest:FIELD, prefer:FIELD=VALUE,…; given several times, the next ones "
        "decide between equals (default first)")  # fmt: skip
    add("--verify", type=_similarity, default=0.8, metavar="J",
        help="drop a document only if the shingles of its text have at least this Jaccard "
        "similarity to a keeper's; off drops all but one of a cluster (default 0.8)")  # fmt: skip
    add("--shingles", default="words:3", metavar="words:N|characters:N",
        help="what texts are compared by (default words:3)")  # fmt: skip
    add("--share-by", action="append", default=[], metavar="FIELD",
        help="have the report tell how many near-duplicates each value of it has")  # fmt: skip
    add("--resume", action="store_true", help="go on with a run that did not end")
    add("--overwrite", action="store_true", help="replace OUT, and forget an unfinished run")
    add_feature_arguments(parser)
    add_reading_arguments(parser)
    add_runner_arguments(parser, "dedup", "the files are", reduces=False)


def _similarity(text: str) -> float | None:
    if text == "off":
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no similarity above 0 and up to 1, nor off")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    from mr_dedup import runners
    from mr_dedup.cli.dedup_report import write_dedup_report
    from mr_dedup.formats.outputs import whole_file
    from mr_dedup.pipeline.dedup import RESULT, dedup
    from mr_dedup.pipeline.stages import Stages

    started = time.perf_counter()
    settings = None
    if arguments.runner in runners.CLUSTER_RUNNERS:
        settings = cluster_settings(arguments)
    else:
        refuse_cluster_arguments(arguments, arguments.documents)
    options = _options(arguments)
    out: Path = arguments.out
    work_folder = out.parent / f".{out.name}.unfinished"
    if arguments.resume and out.exists() and _was_published(work_folder):
        shutil.rmtree(work_folder)
        _say(f"{out}: was complete")
        return 0
    _check_output(out, work_folder, arguments)
    with runners.staging_folder() as staging:
        work = prepare(arguments.documents, arguments, staging, settings)
        stages = Stages(work_folder, _run_of(arguments, work, options), resume=arguments.resume)
        run_job = _Jobs(arguments, work, staging, settings)
        try:
            summary = dedup(stages, options, run_job)
        except BaseException:
            _say(f"{work_folder}: what is done so far; --resume goes on with it")
            raise
    shown = _shown_options(arguments)
    with whole_file(work_folder / RESULT / REPORT, overwrite=True) as file:
        write_dedup_report(file, work_folder, summary, shown, arguments.share_by)
    with whole_file(work_folder / RESULT / SUMMARY, overwrite=True) as file:
        file.write(json.dumps(summary, indent=1).encode() + b"\n")
    _publish(work_folder, out)
    _summarise(summary, work, out, time.perf_counter() - started)
    return 0


def _options(arguments: argparse.Namespace) -> DedupOptions:
    """Return the options of the run; raises MrDedupError for those that cannot be."""
    from mr_dedup.clusters.keepers import KeepPolicy
    from mr_dedup.errors import MrDedupError
    from mr_dedup.features.shingles import FeatureOptions
    from mr_dedup.hamming.planner import plan_self
    from mr_dedup.jobs.document_options import feature_arguments, reading_arguments
    from mr_dedup.jobs.fingerprint import check_kept
    from mr_dedup.pipeline.dedup import DedupOptions

    keep = arguments.keep or ["first"]
    try:
        policy = KeepPolicy.parse(keep)
        check_kept(arguments.share_by, "--share-by")
        FeatureOptions.parse(arguments.shingles, "binary")
        plan_self(1, arguments.k)
    except ValueError as error:
        raise MrDedupError(str(error)) from error
    read_options(arguments, policy.fields, keep_records=True)
    read_options(arguments, arguments.share_by)
    document_frequencies(arguments)
    return DedupOptions(
        arguments.k,
        keep,
        arguments.verify,
        arguments.shingles,
        arguments.share_by,
        reading_arguments(arguments),
        feature_arguments(arguments),
    )


def _shown_options(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Return what was run, as a report tells it."""
    from mr_dedup import __version__

    return [
        ("documents", ", ".join(arguments.documents)),
        ("features", described_features(arguments)),
        ("k", str(arguments.k)),
        ("keep", ", ".join(arguments.keep or ["first"])),
        ("verify", "off" if arguments.verify is None else str(arguments.verify)),
        ("shingles", arguments.shingles),
        ("mr_dedup", __version__),
    ]


def _check_output(out: Path, work_folder: Path, arguments: argparse.Namespace) -> None:
    """Raise MrDedupError for an output that is in the way; clear what may be overwritten."""
    from mr_dedup.errors import MrDedupError

    if not out.parent.is_dir():
        raise MrDedupError(f"{out}: its folder {out.parent} does not exist")
    if out.exists() and not arguments.overwrite:
        raise MrDedupError(f"{out}: exists; give --overwrite to replace it")
    if out.exists() and not (out / SUMMARY).is_file() and not _is_empty(out):
        raise MrDedupError(f"{out}: is no result of mr-dedup dedup, and is not replaced")
    if arguments.resume:
        return
    if work_folder.exists():
        if not arguments.overwrite:
            raise MrDedupError(
                f"{out}: a run for it did not end; --resume goes on with it, --overwrite forgets it"
            )
        shutil.rmtree(work_folder)


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _run_of(
    arguments: argparse.Namespace, work: DocumentWork, options: DedupOptions
) -> dict[str, Any]:
    """Return what tells one run from another."""
    import pyarrow

    from mr_dedup import __version__
    from mr_dedup.pipeline.stages import identity

    inputs = [item.name for item in work.inputs]
    return {
        "version": __version__,
        "pyarrow": pyarrow.__version__,
        "runner": work.runner,
        "inputs": inputs,
        "files": [identity(path) for path in work.paths],
        "k": options.k,
        "keep": list(options.keep),
        "verify": options.verify,
        "shingles": options.shingles,
        "share-by": list(options.share_by),
        "reading": list(options.reading),
        "features": described_features(arguments),
    }


class _Jobs:
    """Runs jobs over the documents, each with a staging folder of its own."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        work: DocumentWork,
        staging: Path,
        settings: ClusterSettings | None,
    ) -> None:
        self._arguments = arguments
        self._work = work
        self._staging = staging
        self._settings = settings

    @contextlib.contextmanager
    def __call__(
        self, job_class: type[Job], options: Sequence[str], name: str
    ) -> Iterator[JobResult]:
        from mr_dedup import runners

        folder = self._staging / name
        folder.mkdir()
        if self._work.runner == "local":
            job_class.warm_up()
        options = [*options, *shipped_frequencies(self._arguments, folder)]
        with runners.run(
            job_class, options, self._work.inputs, folder,
            runner=self._work.runner, cores=self._arguments.cores, cluster=self._settings,
        ) as result:  # fmt: skip
            yield result
        shutil.rmtree(folder)


def _was_published(work_folder: Path) -> bool:
    """Return whether a run was killed when nothing but its traces were left to remove."""
    from mr_dedup.pipeline.dedup import RESULT
    from mr_dedup.pipeline.stages import has_finished

    return has_finished(work_folder, "keep") and not (work_folder / RESULT).exists()


def _publish(work_folder: Path, out: Path) -> None:
    """Have the result appear as a whole, and end what it was made in."""
    from mr_dedup.pipeline.dedup import RESULT

    if out.exists():
        old = out.parent / f".{out.name}.old"
        shutil.rmtree(old, ignore_errors=True)
        os.rename(out, old)  # noqa: PTH104 (a folder onto nothing)
        os.rename(work_folder / RESULT, out)  # noqa: PTH104
        shutil.rmtree(old)
    else:
        os.rename(work_folder / RESULT, out)  # noqa: PTH104
    shutil.rmtree(work_folder)


def _summarise(summary: dict[str, Any], work: DocumentWork, out: Path, seconds: float) -> None:
    read, kept = summary["read"], summary["kept"]
    share = 100 * summary["dropped"] / read if read else 0.0
    _say(
        f"files: {work.files:,}, documents: {read:,}, "
        f"without features: {summary['documents without features']:,}, "
        f"rejected: {summary['rejected']:,}"
    )
    _say(f"kept {kept:,}, dropped {summary['dropped']:,} ({share:.1f} %) in {seconds:.1f} s: {out}")


def _say(message: str) -> None:
    print(f"mr-dedup: {printable(message)}", file=sys.stderr)
