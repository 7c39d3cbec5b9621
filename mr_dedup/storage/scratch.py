"""Copies of remote files on this machine, with a bound on their size."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from mr_dedup.errors import MrDedupError, UnreadableError
from mr_dedup.files.io_errors import writing
from mr_dedup.files.temporary import temporary_folder
from mr_dedup.interrupts import removed_at_forced_end
from mr_dedup.storage.fetching import (
    Piece,
    copy_ranges,
    fetch,
    piece_bytes,
    require_unchanged,
    stream,
)
from mr_dedup.storage.listing import RemoteFile
from mr_dedup.storage.uris import file_name, without_secrets
from mr_dedup.storage.web import NoRangesError

_REQUESTS = 16
"""Requests at a time."""

_AHEAD = 4
"""Calls of ``fetch_ahead`` that are served at a time."""

_NAME_BYTES = 100
"""Of the end of a file's name, in the name of its copy."""

_CHUNK_BYTES = 1 << 20
"""What is searched of a copy at a time."""

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
    """A copy of a file, or of a range of it at the same offset.

    Attributes:
        path: Its path.
        size_bytes: What it takes of the bound: about at first, exactly once it is made.
        users: The threads that use it or wait for it.
        is_kept: Whether it may be wanted again once it has no users.
        last_use: A number that grows with each use.
        is_made: Set once it is complete, or has failed.
        error: Why it failed.
    """

    path: Path
    size_bytes: int
    users: int = 0
    is_kept: bool = False
    last_use: int = 0
    is_made: threading.Event = field(default_factory=threading.Event)
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
        """How large the copy is, without what ``through`` adds; 0 if the store does not report."""
        size = self.file.size_bytes or 0
        return max(0, (size if self.stop is None else min(self.stop, size)) - self.start)

    @property
    def has_pieces(self) -> bool:
        """Whether it takes more than one request."""
        return self.size_bytes > piece_bytes(self.file.uri)


class Scratch:
    """Copies of remote files in a directory, kept for further use while there is room.

    A context manager, which removes them. Threads may share it; other processes have their own.

    Attributes:
        folder: An existing directory.
        max_bytes: The size of all copies. A thread waits until others have released theirs. What
            ``through`` adds to a copy, and a file of unknown size, count once they are copied.
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
        self._ahead: ThreadPoolExecutor | None = None
        self._stopped = threading.Event()

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self._stopped.set()
        for pool in self._ahead, self._pool:
            if pool is not None:
                pool.shutdown(cancel_futures=True)
        with self._changed:
            for wanted in list(self._copies):
                self._remove(wanted)

    @contextlib.contextmanager
    def copies(self, wanted: Sequence[Wanted], is_kept: bool = True) -> Iterator[list[Path]]:
        """Yield the paths of copies of what is wanted, which last until the block ends.

        A copy of a range is a file of the size of the whole one, in which the rest is missing.

        Args:
            wanted: Files and ranges.
            is_kept: Whether copies stay after that, while there is room: they are wanted again.

        Raises:
            MrDedupError: If a file cannot be read or has changed, if there is no space, and for
                more than the bound allows.
        """
        with self.copies_or_errors(wanted, is_kept) as found:
            for path in found:
                if isinstance(path, UnreadableError):
                    raise path
            yield [path for path in found if isinstance(path, Path)]

    @contextlib.contextmanager
    def copies_or_errors(
        self, wanted: Sequence[Wanted], is_kept: bool = True
    ) -> Iterator[list[Path | UnreadableError]]:
        """Yield the same, with the error in place of the path of each file that cannot be read."""
        copies, missing = self._reserved(wanted, is_kept)
        try:
            self._fetch(missing)
            for copy in copies:
                copy.is_made.wait()
                if copy.error is not None and not isinstance(copy.error, UnreadableError):
                    raise copy.error
            yield [
                copy.error if isinstance(copy.error, UnreadableError) else copy.path
                for copy in copies
            ]
        finally:
            self._release(zip(wanted, copies, strict=True))

    def fetch_ahead(self, wanted: Sequence[Wanted]) -> None:
        """Start to make copies of what ``copies`` will be called with, and do not wait for them.

        Nothing is done without room for all of them, or if that is used. An error is raised by a
        call of ``copies`` that waits for the copy; a later one fetches again.
        """
        with self._changed:
            missing = [each for each in dict.fromkeys(wanted) if each not in self._copies]
            size = sum(each.size_bytes for each in missing)
            if not missing or self._stopped.is_set() or not self._make_room(size, set(wanted)):
                return
            begun = [(each, self._add(each, is_kept=True)) for each in missing]
            for _, copy in begun:
                copy.users = 1
            if self._ahead is None:
                self._ahead = ThreadPoolExecutor(_AHEAD)
        self._ahead.submit(self._fetch_and_release, begun)

    def _fetch_and_release(self, missing: Sequence[tuple[Wanted, _Copy]]) -> None:
        try:
            self._fetch(missing)
        finally:
            self._release(missing)

    def _release(self, used: Iterable[tuple[Wanted, _Copy]]) -> None:
        with self._changed:
            for wanted, copy in used:
                copy.users -= 1
                copy.last_use = next(self._numbers)
                # one that failed is removed
                if not copy.users and not copy.is_kept and self._copies.get(wanted) is copy:
                    self._remove(wanted)
            self._changed.notify_all()

    def _add(self, wanted: Wanted, is_kept: bool) -> _Copy:
        """Add a copy that is not made yet."""
        copy = _Copy(self.folder / self._name_of(wanted), wanted.size_bytes, is_kept=is_kept)
        self._copies[wanted] = copy
        self._used_bytes += copy.size_bytes
        return copy

    def _reserved(
        self, wanted: Sequence[Wanted], is_kept: bool
    ) -> tuple[list[_Copy], list[tuple[Wanted, _Copy]]]:
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
                known[each] = self._add(each, is_kept)
                missing.append((each, known[each]))
            copies = [known[each] for each in wanted]
            for copy in copies:
                copy.users += 1
                copy.is_kept = is_kept
            return copies, missing

    def _name_of(self, wanted: Wanted) -> str:
        """Return the name of a new copy: with the file's endings, and of a bounded length."""
        name = os.fsencode(file_name(wanted.file.uri).replace("/", "_").replace("\0", "_"))
        end = name[-_NAME_BYTES:].decode(errors="ignore")
        return f"{next(self._numbers):08}-{end}"

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
        try:
            pool = self._threads()
            large = [each for each in missing if each[0].has_pieces]
            tasks = [
                pool.submit(self._fetch_one, *each, None)
                for each in missing
                if not each[0].has_pieces
            ]
            # a large file's own pieces fill the pool: its task waits outside of it
            for each in large:
                self._fetch_one(*each, pool)
            for task in tasks:
                task.result()
        except BaseException as error:
            # other threads may wait for these; tasks that run remove what they make
            for _, copy in missing:
                self._made(copy, MrDedupError(f"interrupted: {type(error).__name__}"))
            raise

    def _threads(self) -> ThreadPoolExecutor:
        with self._changed:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_REQUESTS)
            return self._pool

    def _fetch_one(self, wanted: Wanted, copy: _Copy, pool: ThreadPoolExecutor | None) -> None:
        """Fetch one copy; its error is raised where the copy is used."""
        if copy.is_made.is_set():
            return
        try:
            if wanted.is_whole:
                fetch(wanted.file, copy.path, pool, max_bytes=self.max_bytes, stopped=self._stopped)
            else:
                fetch_range(wanted, copy.path, pool, self._stopped)
        except Exception as error:
            self._made(copy, error)
        else:
            self._made(copy)

    def _made(self, copy: _Copy, error: BaseException | None = None) -> None:
        """Note that a copy is complete or, with an error, has failed and is removed."""
        with self._changed:
            if copy.is_made.is_set():
                if copy.error is not None:
                    # it failed before: what was made since then is not used
                    copy.path.unlink(missing_ok=True)
                return
            if error is None:
                status = copy.path.stat()
                # of a range the file has holes
                size = min(status.st_size, 512 * status.st_blocks)
                self.fetched_bytes += size
                self._used_bytes += max(size, copy.size_bytes) - copy.size_bytes
                copy.size_bytes = max(size, copy.size_bytes)
            else:
                copy.error = error
                for wanted, other in list(self._copies.items()):
                    if other is copy:
                        self._remove(wanted)
            copy.is_made.set()
            self._changed.notify_all()


def fetch_range(
    wanted: Wanted,
    path: Path,
    pool: ThreadPoolExecutor | None,
    stopped: threading.Event | None = None,
) -> None:
    """Copy a range of a file to the same offset of the new file ``path``; raises MrDedupError."""
    file, size = wanted.file, wanted.file.size_bytes
    assert size is not None
    wanted_piece = Piece(wanted.start, size if wanted.stop is None else min(wanted.stop, size))
    copied = wanted_piece
    if wanted.through is not None:
        # in most cases the end is there
        copied = Piece(wanted.start, min(wanted_piece.stop + _THROUGH_BYTES, size))
    with writing(path), removed_at_forced_end(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            os.ftruncate(handle, size)
            _copy_piece(file, copied, handle, pool, stopped)
            if wanted.through is not None:
                _copy_through(file, handle, wanted_piece, copied, wanted.through)
            require_unchanged(file)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)


def _copy_piece(
    file: RemoteFile,
    piece: Piece,
    handle: int,
    pool: ThreadPoolExecutor | None,
    stopped: threading.Event | None = None,
) -> None:
    try:
        copy_ranges(file, [piece], handle, pool, stopped=stopped)
    except NoRangesError:
        stream(file, handle, piece)


_THROUGH_BYTES, _MAX_THROUGH_BYTES = 1 << 18, 1 << 23


def _copy_through(file: RemoteFile, handle: int, piece: Piece, copied: Piece, end: bytes) -> None:
    """Copy what follows a piece up to ``end``, if the piece does not end with it.

    ``copied`` is the piece with what was copied of this before.
    """
    size, stop = file.size_bytes or 0, piece.stop
    if stop >= size or os.pread(handle, len(end), max(piece.start, stop - len(end))) == end:
        return
    if piece.start and not _contains(handle, piece, end):
        # what the piece is part of began before it
        return
    step = _THROUGH_BYTES
    while stop < size:
        following = Piece(stop, min(stop + step, size))
        missing = Piece(max(stop, copied.stop), following.stop)
        if missing.start < missing.stop:
            _copy_piece(file, missing, handle, None)
        # one may begin in what precedes
        if _contains(handle, Piece(max(piece.start, stop - len(end) + 1), following.stop), end):
            return
        stop, step = following.stop, min(4 * step, _MAX_THROUGH_BYTES)


def _contains(handle: int, piece: Piece, wanted: bytes) -> bool:
    """Return whether a range of a file contains ``wanted``."""
    return any(
        wanted in os.pread(handle, min(_CHUNK_BYTES + len(wanted) - 1, piece.stop - start), start)
        for start in range(piece.start, piece.stop, _CHUNK_BYTES)
    )


OpenScratch = Callable[[], Scratch]
"""Returns the scratch directory of a command or task, which is made when it is first needed."""
