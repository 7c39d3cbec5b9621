"""The file of records that could not be read: there if, and only if, there were any."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mr_dedup.cli.streams import counted, print_message, printable
from mr_dedup.errors import MrDedupError
from mr_dedup.files.inputs import local_path
from mr_dedup.storage.uris import is_uri

if TYPE_CHECKING:
    import pyarrow as pa

    from mr_dedup.formats.documents.rejects import Rejects, SkipReason

REJECTS_ENDING = ".rejects.jsonl"
"""What the name of a file of rejects adds to that of a result."""


def refuse_shared_rejects(arguments: argparse.Namespace) -> None:
    """Raise MrDedupError if ``--rejects`` names a file that another argument names as well.

    The file of rejects is replaced, and removed if there are none.
    """
    rejects = getattr(arguments, "rejects", None)
    if rejects is None:
        return
    for name, value in vars(arguments).items():
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if name != "rejects" and isinstance(each, (str, Path)) and _is_one(rejects, each):
                raise MrDedupError(f"--rejects {rejects}: is named by another argument as well")


def _is_one(rejects: Path | str, other: Path | str) -> bool:
    if is_uri(str(rejects)) or "\0" in str(other):
        return str(rejects) == str(other)
    if isinstance(other, Path) and os.path.realpath(rejects) == os.path.realpath(other):
        # also if they are not there yet
        return True
    with contextlib.suppress(OSError):
        return Path(rejects).samefile(local_path(str(other)))
    return False


class RejectsOutput:
    """Takes batches of rejected records, and counts them."""

    def __init__(self, path: Path | None, overwrite: bool, stack: contextlib.ExitStack) -> None:
        from mr_dedup.formats.documents.rejects import ReadCounts

        self.count = self.without_text = 0
        self.counts = ReadCounts()
        """Of this run; the caller counts its documents."""
        self._path = path
        self._overwrite = overwrite
        self._stack = stack
        self._file: BinaryIO | None = None

    def add(self, table: pa.Table) -> None:
        """Append a table of rejected records."""
        from mr_dedup.jobs.reading import reject_lines

        self.add_lines(reject_lines(table))

    def add_lines(self, lines: bytes) -> None:
        """Append rejected records, a line of JSON each."""
        from mr_dedup.files.outputs import whole_file

        rejected, without_text = self.counts.rejected, self.counts.without_text
        self.counts.add_lines(lines)
        self.count += self.counts.rejected - rejected
        self.without_text += self.counts.without_text - without_text
        if self._path is None:
            return
        if self._file is None:
            self._file = self._stack.enter_context(whole_file(self._path, self._overwrite))
        self._file.write(lines)

    def summary(self, noun: str = "record", problem: str = "could not be read") -> list[str]:
        """Return a line with their number and file; none if there are none."""
        said = [f"{counted(self.count, noun)} {problem}"] if self.count else []
        if self.without_text:
            said.append(f"{counted(self.without_text, noun)} without a text")
        if not said:
            return []
        where = "give --rejects FILE to write them with the reason"
        if self._path is not None:
            where = f"{printable(str(self._path))} says why"
        return [f"{', '.join(said)}; {where}"]


@contextlib.contextmanager
def rejects_output(path: Path | None, overwrite: bool) -> Iterator[RejectsOutput]:
    """Yield what writes rejected records to ``path``, which appears whole when the block ends.

    Without a path they are counted only. With ``overwrite`` an existing file is removed if there
    are none now. Raises MrDedupError as ``outputs.refuse_existing``.
    """
    from mr_dedup.files.outputs import refuse_existing

    if path is not None:
        refuse_existing(path, overwrite)
    with contextlib.ExitStack() as stack:
        output = RejectsOutput(path, overwrite, stack)
        yield output
    if path is not None and overwrite and not output.count + output.without_text:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def rejects_to(path: Path | None, overwrite: bool) -> Iterator[Rejects]:
    """Yield Rejects that are also written to the file ``path``, if there are any."""
    from mr_dedup.formats.documents.rejects import Rejects, rejects_file

    if path is None:
        yield Rejects()
        return
    with rejects_file(path, overwrite) as rejects:
        yield rejects
    if not rejects.listed:
        path.unlink()


def print_rejected(rejects: Rejects) -> None:
    """Print how many records could not be read, or have no text, and the first of these."""
    counts = rejects.counts
    if counts.first is not None:
        count = counted(counts.rejected, "record")
        print_message(f"{count} could not be read; the first, {counts.first}")
    if counts.first_without_text is not None:
        count = counted(counts.without_text, "record")
        print_message(f"{count} without a text; the first, {counts.first_without_text}")


def skipped_lines(skipped: Mapping[SkipReason, int]) -> list[str]:
    """Return a line for each reason for which records were skipped."""
    from mr_dedup.formats.documents.rejects import SKIP_PHRASES

    return [
        f"skipped {counted(count, 'record')}, for their {SKIP_PHRASES[reason]}"
        for reason, count in skipped.items()
    ]


def rejects_of(arguments: argparse.Namespace) -> Path | None:
    """Return where rejects go: to ``--rejects`` or beside OUT; None without either."""
    if arguments.rejects or not arguments.out:
        return arguments.rejects  # type: ignore[no-any-return]
    return Path(f"{arguments.out}{REJECTS_ENDING}")
