"""What commands share whose result is a directory: where it is made, and from which documents."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.cli.copy_names import name_copies
from mr_dedup.cli.document_inputs import DocumentInputs, prepare
from mr_dedup.cli.on_cluster import temporary_uri
from mr_dedup.errors import MrDedupError
from mr_dedup.files.inputs import local_path
from mr_dedup.storage.uris import is_uri, joined, without_secrets

if TYPE_CHECKING:
    from mr_dedup.engines.streaming import ClusterSettings
    from mr_dedup.pipeline.result_folder import ResultFolder


def _refuse_within_inputs(arguments: argparse.Namespace) -> None:
    for name in arguments.documents:
        if _is_read_in(arguments.out, name):
            raise MrDedupError(
                f"{arguments.out}: is within {without_secrets(name)}, which is read; choose "
                "another name for the result"
            )


def _is_read_in(out: Path | str, name: str) -> bool:
    """Return whether a result would be among the files of a directory or URI of documents."""
    if is_uri(name) or isinstance(out, str):
        directory = f"{name.rstrip('/')}/"
        if not (isinstance(out, str) and out.startswith(directory)):
            return False
        parts = out.removeprefix(directory).split("/")
    else:
        if not name or "\0" in name:
            return False  # which is refused when it is read
        # not Path.resolve, which raises for links that lead in a circle
        source, result = (Path(os.path.realpath(path)) for path in (local_path(name), out))
        if result == source or not result.is_relative_to(source):
            return False
        parts = list(result.relative_to(source).parts)
    # names that begin so are skipped, as Hadoop skips them
    return not any(part.startswith((".", "_")) for part in parts)


def result_folder(arguments: argparse.Namespace) -> ResultFolder:
    """Return the directory of the result, on this machine or in a store.

    Raises MrDedupError if the next run over the same documents would read the result.
    """
    from mr_dedup.pipeline.result_folder import FetchedResult, LocalResult, RemoteResult

    _refuse_within_inputs(arguments)
    if isinstance(arguments.out, str):
        remote = RemoteResult(arguments.out, arguments.open_scratch().folder)
        name_copies({str(remote.work): remote.unfinished})
        return remote
    if arguments.runner == "hadoop":
        # of this machine tasks write nothing
        return FetchedResult(arguments.out, temporary_uri(arguments.out.name))
    return LocalResult(arguments.out)


def prepared(
    arguments: argparse.Namespace,
    folder: ResultFolder,
    staging: Path | None,
    settings: ClusterSettings | None,
) -> DocumentInputs:
    """Return the inputs of the run; one that is resumed keeps its chunks, with any ``--cores``."""
    from mr_dedup.cli.dedup_jobs import COPIES
    from mr_dedup.pipeline.stages import recorded_value

    recorded = recorded_value(folder.work, "chunk_bytes") if arguments.resume else None
    chunk_bytes = recorded if isinstance(recorded, int) and recorded > 0 else None
    copied_to = None
    if settings is not None:
        copied_to = joined(folder.address, COPIES)
    work = prepare(
        arguments.documents, arguments, staging, settings, reads_again=True,
        chunk_bytes=chunk_bytes, copied_to=copied_to,
    )  # fmt: skip
    if work.runner == "spark" and staging is not None:
        from mr_dedup.cli.on_cluster import spark_settings
        from mr_dedup.engines.spark.sessions import open_session

        # what is wrong with it is reported before anything of the run is there
        open_session(spark_settings(arguments))
    return work
