"""What commands share whose runs can be resumed: how one begins, is interrupted, and ends."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mr_dedup.cli.dedup_options import inputs_identity
from mr_dedup.cli.dedup_summary import check_result_rejected
from mr_dedup.cli.streams import print_message
from mr_dedup.errors import MrDedupError, NothingReadError
from mr_dedup.interrupts import at_forced_end
from mr_dedup.storage.uris import without_secrets

if TYPE_CHECKING:
    from mr_dedup.cli.document_inputs import DocumentInputs
    from mr_dedup.formats.documents.options import ReadOptions
    from mr_dedup.pipeline.result_folder import ResultFolder


def add_resume_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments on results and runs that are there."""
    parser.add_argument("--resume", action="store_true", help="resume an interrupted run")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace OUT, and discard an unfinished run"
    )


def is_complete(arguments: argparse.Namespace, folder: ResultFolder, *, end: bool = True) -> bool:
    """Return whether there is nothing to resume as the result is there, which is reported.

    What the run has left besides the result is removed if ``end``. Judges how many records were
    rejected.
    """
    if not arguments.resume or not folder.was_published():
        return False
    if end:
        folder.end()
    print_message(f"{folder.name}: is complete already")
    check_result_rejected(arguments, folder)
    return True


def open_result(
    arguments: argparse.Namespace, folder: ResultFolder, read: Iterable[str] = ()
) -> None:
    """Have what an interrupted run has left, with ``--resume``.

    Args:
        arguments: Those of the command.
        folder: The directory of the result.
        read: Directories that are read besides the documents.

    Raises:
        MrDedupError: If there is a result or a run that must stay, or nothing to resume.
    """
    folder.check(resume=arguments.resume, overwrite=arguments.overwrite, read=read)
    if not arguments.resume:
        return
    if not folder.has_unfinished():
        name = without_secrets(folder.name)
        raise MrDedupError(f"{name}: nothing to resume: no run was interrupted")
    folder.fetch_unfinished()


@contextlib.contextmanager
def resumable(folder: ResultFolder, *discarding: type[MrDedupError]) -> Iterator[None]:
    """Report that a run can be resumed if the block ends with an error.

    Errors of the types ``discarding``, and of reading nothing at all, discard the run: what would
    mend them makes another one. If another run has begun to write the result, that is the error,
    whatever followed from it; what this one has left is gone.
    """
    from mr_dedup.pipeline.result_folder import TakenOverError

    unfinished = f"{folder.unfinished}: completed stages; --resume continues"
    try:
        with at_forced_end(lambda: print_message(unfinished)):
            yield
    except TakenOverError:
        raise
    except BaseException as error:
        if isinstance(error, MrDedupError):
            _require_own(folder)
        if isinstance(error, (NothingReadError, *discarding)):
            folder.discard()
        else:
            print_message(unfinished)
        raise


def _require_own(folder: ResultFolder) -> None:
    """Raise TakenOverError if another run has begun to write the result, as far as is known."""
    from mr_dedup.pipeline.result_folder import TakenOverError

    try:
        folder.require_own()
    except TakenOverError:
        raise
    except MrDedupError:
        # the store is out of reach
        return


def run_of(
    command: str,
    work: DocumentInputs,
    folder: ResultFolder,
    reading: ReadOptions,
    format: str | None,
) -> dict[str, Any]:
    """Return what must be equal to resume a run of a command, besides its own options."""
    import pyarrow

    from mr_dedup import __version__

    return {
        **folder.identity,
        "version": __version__,
        "pyarrow": pyarrow.__version__,
        "command": command,
        **inputs_identity(work),
        "reading": {**dataclasses.asdict(reading), "format": format},
    }


def finished_result(folder: ResultFolder, *, has_documents: bool) -> Path:
    """Return the directory of this machine where the rest of a result is written.

    What tasks that were killed were writing is removed; ``has_documents`` makes their directory,
    even if it has no files.
    """
    from mr_dedup.pipeline.results import DOCUMENTS
    from mr_dedup.pipeline.sharded_run import remove_unfinished
    from mr_dedup.pipeline.stages import RESULT

    result = folder.work / RESULT
    result.mkdir(exist_ok=True)
    remove_unfinished(result)
    if has_documents:
        (result / DOCUMENTS).mkdir(exist_ok=True)
    return result
