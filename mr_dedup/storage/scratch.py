"""Copies of remote files on this machine, with a bound on their size."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from mr_dedup.errors import MrDedupError
from mr_dedup.files.io_errors import writing
from mr_dedup.files.temporary import temporary_folder
from mr_dedup.storage.fetching import PIECE_BYTES, Piece, copy_ranges, fetch, require_unchanged
from mr_dedup.storage.listing import RemoteFile
from mr_dedup.storage.uris import file_name, without_secrets

_REQUESTS = 16
"""Requests at a time."""

_DISK_SHARE, _MAX_DEFAULT_BYTES = 2, 16 << 30


def default_scratch_bytes(folder: Path) -> int:
    """Return how many bytes of copies a directory may have: half of what is free, up to 16 GB."""
    with writing(folder):
        return min(shutil.disk_usage(folder).free // _DISK_SHARE, _MAX_DEFAULT_BYTES)


@dataclass(frozen=True)
class ScratchSettings:
    """Where copies of remote files go, and how large they may be together.

    Attributes:
        parent: The directory in which a temporary one is made; None for TMPDIR.
        max_bytes: The size of all copies; None for the default.
    """

    parent: str | None = None
    max_bytes: int | None = None

    @contextlib.contextmanager
    def opened(self) -> Iterator[OpenScratch]:
        """Yield a function that makes the scratch directory at its first call.

        It is removed with the block.
        """
        lock = threading.Lock()
        made: list[Scratch] = []
        with contextlib.ExitStack() as stack:

            def scratch() -> Scratch:
                with lock:
                    if not made:
                        folder = stack.enter_context(temporary_folder(self.parent))
                        size = self.max_bytes or default_scratch_bytes(folder)
                        made.append(stack.enter_context(Scratch(folder, size)))
                    return made[0]

            yield scratch


@dataclass(eq=False)
class _Copy:
    """A copy of a file, or of a range of it at the same offset."""

    path: Path
    size_bytes: int
    users: int = 0
    last_use: int = 0
    is_whole: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a file.

    Attributes:
        file: The file.
        start: The first byte.
        stop: The byte after the last; None for the end.
        through: With bytes, the copy has also what follows ``stop`` up to and with the first of
            these: the rest of a line that begins before it.
    """

    file: RemoteFile
    start: int = 0
    stop: int | None = None
    through: bytes | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all of the file is wanted."""
        return self.start == 0 and self.stop is None

    @property
    def size_bytes(self) -> int:
        """About how large the copy is."""
        end = self.stop if self.stop is not None else self.file.size_bytes or 0
        return max(0, end - self.start)


class Scratch:
    """Copies of remote files in a directory, kept for further use while there is room.

    A context manager, which removes them. Threads may share it; other processes have their own.

    Attributes:
        folder: An existing directory.
        max_bytes: The size of all copies. A task waits until others have released theirs.
        fetched_bytes: How much was fetched so far.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.fetched_bytes = 0
        self.folder = folder
        self._copies: dict[Wanted, _Copy] = {}
        self._used_bytes = 0
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        for copy in self._copies.values():
            copy.path.unlink(missing_ok=True)
        self._copies.clear()

    @contextlib.contextmanager
    def copies(self, wanted: Sequence[Wanted]) -> Iterator[list[Path]]:
        """Yield the paths of copies of what is wanted, which last until the block ends.

        A copy of a range is a file of the size of the whole one, in which the rest is missing.

        Raises:
            MrDedupError: If a file cannot be read or has changed, if there is no space, and for
                more than the bound allows.
        """
        copies, missing = self._reserved(wanted)
        try:
            self._fetch(missing)
            for copy in copies:
                copy.is_whole.wait()
                if copy.error is not None:
                    raise copy.error
            yield [copy.path for copy in copies]
        finally:
            with self._changed:
                for copy in copies:
                    copy.users -= 1
                    copy.last_use = next(self._numbers)
                self._changed.notify_all()

    def _reserved(self, wanted: Sequence[Wanted]) -> tuple[list[_Copy], list[tuple[Wanted, _Copy]]]:
        """Return a copy for each that is wanted, and those of them that are to be fetched."""
        distinct = list(dict.fromkeys(wanted))
        with self._changed:
            while True:
                known = {each: self._copies[each] for each in distinct if each in self._copies}
                needed = sum(each.size_bytes for each in distinct if each not in known)
                if self._make_room(needed, set(known)):
                    break
                if not any(c.users for w, c in self._copies.items() if w not in known):
                    raise self._too_large(wanted)
                self._changed.wait()
            missing = []
            for each in distinct:
                if each in known:
                    continue
                name = f"{next(self._numbers):08}-{file_name(each.file.uri)[-100:]}"
                copy = _Copy(self.folder / name.replace("/", "_"), each.size_bytes)
                self._copies[each] = known[each] = copy
                self._used_bytes += copy.size_bytes
                missing.append((each, copy))
            copies = [known[each] for each in wanted]
            for copy in copies:
                copy.users += 1
            return copies, missing

    def _make_room(self, size_bytes: int, kept: set[Wanted]) -> bool:
        """Remove copies that are not in use, the longest unused first; return if it is enough."""
        free = self.max_bytes - self._used_bytes
        unused = [w for w, copy in self._copies.items() if not copy.users and w not in kept]
        if free + sum(self._copies[w].size_bytes for w in unused) < size_bytes:
            return False
        for each in sorted(unused, key=lambda w: self._copies[w].last_use):
            if self.max_bytes - self._used_bytes >= size_bytes:
                break
            self._remove(each)
        return True

    def _remove(self, wanted: Wanted) -> None:
        copy = self._copies.pop(wanted)
        self._used_bytes -= copy.size_bytes
        copy.path.unlink(missing_ok=True)

    def _too_large(self, wanted: Sequence[Wanted]) -> MrDedupError:
        largest = max(wanted, key=lambda each: each.size_bytes)
        total = sum(each.size_bytes for each in wanted)
        return MrDedupError(
            f"{without_secrets(largest.file.uri)}: {total:,} bytes are read at a time, more than "
            f"the {self.max_bytes:,} that --scratch allows"
        )

    def _fetch(self, missing: Sequence[tuple[Wanted, _Copy]]) -> None:
        """Fetch copies, several files at a time, a large one in parallel pieces."""
        if self._pool is None:
            with self._changed:
                self._pool = self._pool or ThreadPoolExecutor(_REQUESTS)
        pool = self._pool
        small = [each for each in missing if each[0].size_bytes <= PIECE_BYTES]
        # a large file's own pieces fill the pool: its task waits outside of it
        tasks = [pool.submit(self._fetch_one, *each, None) for each in small]
        try:
            for each in missing:
                if each[0].size_bytes > PIECE_BYTES:
                    self._fetch_one(*each, pool)
            for task in tasks:
                task.result()
        except BaseException:
            for (_, copy), task in zip(small, tasks, strict=True):
                if task.cancel():
                    self._failed(copy, MrDedupError("interrupted"))
            raise

    def _fetch_one(self, wanted: Wanted, copy: _Copy, pool: ThreadPoolExecutor | None) -> None:
        """Fetch one copy; its error is raised where the copy is used."""
        try:
            if wanted.is_whole:
                fetch(wanted.file, copy.path, pool)
            else:
                fetch_range(wanted, copy.path, pool)
            status = copy.path.stat()
            with self._changed:
                # of a range the file has holes
                self.fetched_bytes += min(status.st_size, 512 * status.st_blocks)
        except BaseException as error:
            self._failed(copy, error)
            if not isinstance(error, Exception):
                raise
        else:
            copy.is_whole.set()

    def _failed(self, copy: _Copy, error: BaseException) -> None:
        with self._changed:
            copy.error = error
            for wanted, other in list(self._copies.items()):
                if other is copy:
                    self._remove(wanted)
            copy.is_whole.set()
            self._changed.notify_all()


def fetch_range(wanted: Wanted, path: Path, pool: ThreadPoolExecutor | None) -> None:
    """Copy a range of a file to the same offset of the new file ``path``; raises MrDedupError."""
    file, size = wanted.file, wanted.file.size_bytes
    assert size is not None
    stop = size if wanted.stop is None else min(wanted.stop, size)
    with writing(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            os.ftruncate(handle, size)
            copy_ranges(file, [Piece(wanted.start, stop)], handle, pool)
            if wanted.through is not None:
                _copy_through(file, handle, Piece(wanted.start, stop), wanted.through)
            require_unchanged(file)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)


_THROUGH_BYTES = 1 << 18


def _copy_through(file: RemoteFile, handle: int, piece: Piece, end: bytes) -> None:
    """Copy what follows a piece up to ``end``, if the piece does not end with it."""
    size, stop = file.size_bytes or 0, piece.stop
    if stop >= size or os.pread(handle, len(end), stop - len(end)) == end:
        return
    if piece.start and not _contains(handle, piece, end):
        # what the piece is part of began before it
        return
    step = _THROUGH_BYTES
    while stop < size:
        following = Piece(stop, min(stop + step, size))
        copy_ranges(file, [following], handle, None)
        if _contains(handle, following, end):
            return
        stop, step = following.stop, min(4 * step, PIECE_BYTES)


def _contains(handle: int, piece: Piece, wanted: bytes) -> bool:
    return any(
        wanted in os.pread(handle, min(PIECE_BYTES, piece.stop - start), start)
        for start in range(piece.start, piece.stop, PIECE_BYTES)
    )


OpenScratch = Callable[[], Scratch]
"""Returns the scratch directory of a command or task, which is made when it is first needed."""
