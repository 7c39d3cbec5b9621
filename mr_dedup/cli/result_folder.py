"""The result directory of a command, which appears whole, and the working directory beside it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from mr_dedup.cli.streams import print_message
from mr_dedup.errors import MrDedupError


class ResultFolder:
    """The directory ``out`` of a result, and beside it the working directory ``work``.

    Which of them exist shows how far a run got: when the result has appeared, the working directory
    is renamed before its files are removed.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.work = out.parent / f".{out.name}.unfinished"
        self._ended = out.parent / f".{out.name}.ended"
        self._replaced = aside_for(out)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs from writing the result in the block.

        Raises MrDedupError if another one does, and if the lock cannot be taken.
        """
        with locked(self.out):
            yield

    def check(self, *, resume: bool, overwrite: bool, read: Iterable[Path]) -> None:
        """Raise MrDedupError if ``out`` or ``work`` exists, and if ``out`` is among the inputs."""
        from mr_dedup.pipeline.results import SUMMARY

        out = self.out
        require_parent(out)
        if any(out.exists() and out.samefile(folder) for folder in read):
            raise MrDedupError(f"{out}: is read as well; choose another name for the result")
        if out.exists() and not overwrite:
            raise MrDedupError(f"{out}: exists; give --overwrite to replace it")
        if out.exists() and not (out / SUMMARY).is_file() and not is_empty(out):
            raise MrDedupError(f"{out}: not a result of mr-dedup dedup, and is not replaced")
        if self.work.exists() and not resume and not overwrite:
            raise MrDedupError(
                f"{out}: a run was interrupted; --resume continues it, --overwrite discards it"
            )

    def was_published(self) -> bool:
        """Return whether a run was killed after its result had appeared."""
        from mr_dedup.pipeline.dedup_stages.files import RESULT
        from mr_dedup.pipeline.stages import has_finished

        if not self.out.exists():
            return False
        if not self.work.exists():
            return self._ended.exists()
        return has_finished(self.work, "keep") and not (self.work / RESULT).exists()

    def publish(self) -> None:
        """Rename the result to ``out``, and remove the working directory."""
        from mr_dedup.pipeline.dedup_stages.files import RESULT

        put_in_place(self.work / RESULT, self.out, self._replaced)
        self.end()

    def end(self) -> None:
        """Remove everything but the result."""
        if self.work.exists():
            shutil.rmtree(self._ended, ignore_errors=True)
            os.rename(self.work, self._ended)  # noqa: PTH104 (a directory onto nothing)
        shutil.rmtree(self._replaced, ignore_errors=True)
        shutil.rmtree(self._ended, ignore_errors=True)


@contextlib.contextmanager
def locked(out: Path) -> Iterator[None]:
    """Keep other commands from making the directory ``out`` in the block, by a file beside it.

    Where the file system has no locks, warns on standard error, once. Raises MrDedupError if
    another command does, if its directory does not exist, and if the lock cannot be taken.
    """
    from mr_dedup.formats.file_lock import FileLock

    require_parent(out)
    with FileLock(out.parent / f".{out.name}.lock", str(out), print_message):
        yield


def require_parent(out: Path) -> None:
    """Raise MrDedupError if the directory that ``out`` is to be in does not exist."""

    if not out.parent.is_dir():
        raise MrDedupError(f"{out}: its directory {out.parent} does not exist")


def aside_for(out: Path) -> Path:
    """Return the name to which an existing ``out`` is renamed while it is replaced."""
    return out.parent / f".{out.name}.old"


def put_in_place(made: Path, out: Path, replaced: Path) -> None:
    """Rename ``made`` to ``out``, and an existing ``out`` to ``replaced``.

    On failure the old one is renamed back, else the caller removes it. If the process is killed,
    both still exist.
    """
    try:
        if out.exists():
            shutil.rmtree(replaced, ignore_errors=True)
            os.rename(out, replaced)  # noqa: PTH104 (a directory onto nothing)
        os.rename(made, out)  # noqa: PTH104
    except BaseException:
        if replaced.exists() and not out.exists():
            os.rename(replaced, out)  # noqa: PTH104
        raise


def is_empty(folder: Path) -> bool:
    """Return whether ``folder`` is an empty directory."""
    return folder.is_dir() and not any(folder.iterdir())
