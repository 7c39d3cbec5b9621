"""Files on their way into an index, and the folder that they go to."""

from __future__ import annotations

import contextlib
from pathlib import Path

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.folders import Folder, FolderFile
from mr_dedup.index import lock as locks
from mr_dedup.index import manifest as manifests
from mr_dedup.index.log import LogWriter
from mr_dedup.index.manifest import is_ours


class NewFiles:
    """Files on their way into an index: what they are called, and what to do if they are not."""

    def __init__(self, folder: Folder, number: int) -> None:
        self._folder = folder
        self.number = number
        self.committed = False
        self._files: list[FolderFile] = []
        self._log: LogWriter | None = None

    def next(self, kind: str) -> FolderFile:
        """Return the next file of a kind, to be written."""
        self.number += 1
        self._files.append(self._folder / name_of(kind, self.number))
        return self._files[-1]

    def adopt(self, file: FolderFile) -> None:
        """Count a file that was written already among the new ones."""
        self._files.append(file)

    def keep(self, log: LogWriter) -> LogWriter:
        """Close a log if the rest fails."""
        self._log = log
        return log

    def give_up(self) -> None:
        """Remove the files, unless the index is made of them."""
        if self.committed:
            return
        if self._log is not None:
            self._log.close()
        for file in self._files:
            # what stays is removed at the next opening
            with contextlib.suppress(OSError):
                file.remove()


def name_of(kind: str, number: int) -> str:
    """Return what a file of an index is called."""
    return f"{kind}-{number:08}"


def make_folder(folder: Path) -> None:
    """Make a folder for an index; MrDedupError if it holds anything but what was left of one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = {entry.name for entry in folder.iterdir()}
    except FileExistsError as error:
        raise MrDedupError(f"{folder}: not a directory") from error
    except OSError as error:
        raise MrDedupError(f"{folder}: cannot be made: {error.strerror}") from error
    if manifests.NAME in names:
        raise MrDedupError(f"{folder}: contains an index already")
    if any(name != locks.NAME and not is_ours(name) for name in names):
        raise MrDedupError(f"{folder}: contains other files; name another folder")
