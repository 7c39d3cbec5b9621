"""The folder that a command makes: it appears whole; a killed de-duplication goes on beside it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from mr_dedup.cli.streams import printable


class ResultFolder:
    """Where a result is to appear, ``out``, and beside it the folder ``work`` that it is made in.

    At every moment these two tell how far a run has come: when the result has appeared, what it
    was made in is put aside as a whole before any of it is removed.
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
        """Raise MrDedupError for what is in the way, and for a result that is ``read`` as well."""
        from mr_dedup.errors import MrDedupError
        from mr_dedup.pipeline.results import SUMMARY

        out = self.out
        _require_parent(out)
        if any(out.exists() and out.samefile(folder) for folder in read):
            raise MrDedupError(f"{out}: is read as well; choose another name for the result")
        if out.exists() and not overwrite:
            raise MrDedupError(f"{out}: exists; give --overwrite to replace it")
        if out.exists() and not (out / SUMMARY).is_file() and not is_empty(out):
            raise MrDedupError(f"{out}: is no result of mr-dedup dedup, and is not replaced")
        if self.work.exists() and not resume and not overwrite:
            raise MrDedupError(
                f"{out}: a run for it did not end; --resume goes on with it, --overwrite forgets it"
            )

    def was_published(self) -> bool:
        """Return whether a run was killed when nothing but its traces were left to remove."""
        from mr_dedup.pipeline.dedup import RESULT
        from mr_dedup.pipeline.stages import has_finished

        if not self.out.exists():
            return False
        if not self.work.exists():
            return self._ended.exists()
        return has_finished(self.work, "keep") and not (self.work / RESULT).exists()

    def publish(self) -> None:
        """Have the result appear as a whole, and end what it was made in."""
        from mr_dedup.pipeline.dedup import RESULT

        put_in_place(self.work / RESULT, self.out, self._replaced)
        self.end()

    def end(self) -> None:
        """Remove all but the result."""
        if self.work.exists():
            shutil.rmtree(self._ended, ignore_errors=True)
            os.rename(self.work, self._ended)  # noqa: PTH104 (a folder onto nothing)
        shutil.rmtree(self._replaced, ignore_errors=True)
        shutil.rmtree(self._ended, ignore_errors=True)


@contextlib.contextmanager
def locked(out: Path) -> Iterator[None]:
    """Keep other commands from making the folder ``out`` in the block, by a file beside it.

    Where the file system has no locks, says so on standard error, once. Raises MrDedupError if
    another command does, if its folder does not exist, and if the lock cannot be taken.
    """
    from mr_dedup.formats.file_lock import FileLock

    _require_parent(out)
    with FileLock(out.parent / f".{out.name}.lock", str(out), _warn):
        yield


def _warn(message: str) -> None:
    print(f"mr-dedup: {printable(message)}", file=sys.stderr)


def _require_parent(out: Path) -> None:
    """Raise MrDedupError if the folder that ``out`` is to be in does not exist."""
    from mr_dedup.errors import MrDedupError

    if not out.parent.is_dir():
        raise MrDedupError(f"{out}: its folder {out.parent} does not exist")


def aside_for(out: Path) -> Path:
    """Return where the folder that ``out`` replaces is until the new one is there."""
    return out.parent / f".{out.name}.old"


def put_in_place(made: Path, out: Path, replaced: Path) -> None:
    """Rename the folder ``made`` to ``out``, and what ``out`` was before, if anything, aside.

    What is ``replaced`` goes back if the other does not get there, and is the caller's to remove
    if it does. A process that is killed leaves both, under one name or another.
    """
    try:
        if out.exists():
            shutil.rmtree(replaced, ignore_errors=True)
            os.rename(out, replaced)  # noqa: PTH104 (a folder onto nothing)
        os.rename(made, out)  # noqa: PTH104
    except BaseException:
        if replaced.exists() and not out.exists():
            os.rename(replaced, out)  # noqa: PTH104
        raise


def is_empty(folder: Path) -> bool:
    """Return whether ``folder`` is one, with nothing in it."""
    return folder.is_dir() and not any(folder.iterdir())
