"""The result directory of a de-duplication, and the working directory beside it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from mr_dedup.errors import MrDedupError
from mr_dedup.files.output_folders import aside_for, is_empty, locked, put_in_place, require_parent
from mr_dedup.pipeline.dedup_stages.files import RESULT
from mr_dedup.pipeline.results import SUMMARY
from mr_dedup.pipeline.stages import has_finished


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

    def locked(self, warn: Callable[[str], None]) -> contextlib.AbstractContextManager[None]:
        """Keep other runs from writing the result in a block; as ``output_folders.locked``."""
        return locked(self.out, warn)

    def check(self, *, resume: bool, overwrite: bool, read: Iterable[Path]) -> None:
        """Raise MrDedupError if ``out`` or ``work`` exists, and if ``out`` is among the inputs."""
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
        if not self.out.exists():
            return False
        if not self.work.exists():
            return self._ended.exists()
        return has_finished(self.work, "keep") and not (self.work / RESULT).exists()

    def publish(self) -> None:
        """Rename the result to ``out``, and remove the working directory."""
        put_in_place(self.work / RESULT, self.out, self._replaced)
        self.end()

    def end(self) -> None:
        """Remove everything but the result."""
        if self.work.exists():
            shutil.rmtree(self._ended, ignore_errors=True)
            os.rename(self.work, self._ended)  # noqa: PTH104 (a directory onto nothing)
        shutil.rmtree(self._replaced, ignore_errors=True)
        shutil.rmtree(self._ended, ignore_errors=True)
