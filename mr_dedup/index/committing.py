"""Group commit: the changes of an index from memory to its log and its files, in all their states.

A change is made in memory and appended to the log (``appended``), and acknowledged when it is
forced to the disk (``durable``). All that wait share one force. From time to time the documents of
the log become a segment: new files are written, and a new manifest names them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.files.folder_lock import FolderLock
from mr_dedup.files.folders import Folder, FolderFile
from mr_dedup.files.io_errors import cannot_be_written
from mr_dedup.index.folder import NewFiles, name_of
from mr_dedup.index.hits import QueryBuffers
from mr_dedup.index.loading import load_state, replay
from mr_dedup.index.log import LogWriter, Record, open_log
from mr_dedup.index.manifest import (
    SegmentEntry,
    files_of,
    read_manifest,
    remove_leftovers,
    write_dead,
    write_manifest,
)
from mr_dedup.index.snapshot import SegmentView, Snapshot


class _Appended(NamedTuple):
    """The log after the last change that was appended: its length, and the documents."""

    log_bytes: int
    snapshot: Snapshot


class Wakeup:
    """Wakes the one thread that waits, now or when it will.

    Not an Event: an interrupt that comes as ``set`` has just taken the lock of an Event would leave
    it taken, and the next ``set`` would wait for ever.
    """

    def __init__(self) -> None:
        self._idle = threading.Lock()
        self._idle.acquire()

    def set(self) -> None:
        """Have the thread go on; once, however often it is set before."""
        with contextlib.suppress(RuntimeError):  # is set already
            self._idle.release()

    def wait(self) -> None:
        """Wait until it is set, and reset it."""
        self._idle.acquire()


class Committer:
    """The state and the files of an index that is open for writing.

    Args:
        folder: the directory of the index, which the committer owns.
        lock: its lock, which the committer owns.
        relaxed: force the log once a second, not for each change.
        check: compare segments with their checksums first.
        buffers: how much a query buffers.

    Raises:
        FormatError: a file is damaged or missing.
    """

    def __init__(
        self,
        folder: Folder,
        lock: FolderLock,
        *,
        relaxed: bool,
        check: bool,
        buffers: QueryBuffers,
    ) -> None:
        self.folder = folder
        self._lock = lock
        self._relaxed = relaxed
        # a thread that needs both takes ``changing`` first
        self.changing, self.forcing = threading.RLock(), threading.Lock()
        self.committed = Wakeup()
        """Set when a manifest was replaced."""
        self._open_groups = 0
        self._interrupted = self._closed = False
        self.manifest = read_manifest(folder)
        remove_leftovers(folder, self.manifest)
        try:
            self.state = load_state(folder, self.manifest, check=check, buffers=buffers)
            self.cut_bytes = self._replay()
            """Bytes of incomplete records, left by a loss of power, that were cut off the log."""
        except FileNotFoundError as error:
            raise FormatError(error.filename, None, "is missing") from error
        self._appended = _Appended(self._log.written, self.state.current)
        self.durable = self.state.current

    def _replay(self) -> int:
        """Apply the records of the log, and open it for more; return how many bytes were cut."""
        file = self.folder / self.manifest.log
        with open_log(file) as log:
            replay(log.records(self.manifest.named), self.state)
            cut_bytes = log.length - log.at
            self._log = LogWriter.resume(file, log.at, relaxed=self._relaxed)
        return cut_bytes

    @property
    def log_bytes(self) -> int:
        """The length of the log."""
        return self._log.written

    @contextlib.contextmanager
    def group(self) -> Iterator[None]:
        """Force the changes of a block together, when it ends; other threads' changes wait."""
        sequence = 0
        try:
            with self.changing:
                self._require_changeable()
                self._open_groups += 1
                try:
                    yield
                finally:
                    self._open_groups -= 1
                    if not self._open_groups:
                        sequence = self._appended.snapshot.sequence
        finally:
            self._settle(sequence)

    def _settle(self, sequence: int) -> None:
        """Return when all changes up to number ``sequence`` are on the disk, and queries see them.

        One thread forces all that were appended before; the others find that it is done.
        """
        if self.durable.sequence >= sequence:
            return
        with self.forcing:
            if self.durable.sequence >= sequence:
                return
            appended = self._appended
            self._log.commit(appended.log_bytes)
            self.durable = appended.snapshot

    @contextlib.contextmanager
    def change(self) -> Iterator[None]:
        """Let one thread change the index, as long as memory and disk agree.

        After an expected error they agree, unless the log has grown. Otherwise, as after an
        interrupt or a MemoryError, memory may differ from the files, and changes are refused until
        the index is reopened.
        """
        with self.group():
            try:
                yield
            except (MrDedupError, ValueError):
                if self._log.written > self._appended.log_bytes:
                    self._interrupted = True
                raise
            except BaseException:
                self._interrupted = True
                raise
            self._appended = _Appended(self._log.written, self.state.current)

    def require_open(self) -> None:
        """Raise MrDedupError if the index is closed: its files may be another writer's by now."""
        if self._closed:
            raise MrDedupError(f"{self.folder.path}: is closed")

    def _require_changeable(self) -> None:
        self.require_open()
        if not self._open_groups:
            self._lock.require_same()
        if self._interrupted:
            raise MrDedupError(
                f"{self.folder.path}: a change was interrupted; open the index anew to change it"
            )

    def append(self, record: Record) -> None:
        """Append the record of a change to the log; MrDedupError if it cannot be written."""
        self._log.append(record)

    def reserve(self, kind: str) -> FolderFile:
        """Return a file to be written, with a number that no other file will have."""
        self.manifest = msgspec.structs.replace(self.manifest, number=self.manifest.number + 1)
        return self.folder / name_of(kind, self.manifest.number)

    @contextlib.contextmanager
    def new_files(self) -> Iterator[NewFiles]:
        """Yield new files, which are removed if the block fails before they are committed.

        Then the index is what it was, in memory and on the disk, and can be changed again: also
        after an OSError of any kind, as without file descriptors, which is raised as MrDedupError.
        """
        files = NewFiles(self.folder, self.manifest.number)
        try:
            yield files
        except (MrDedupError, OSError) as error:
            if files.committed:
                self._interrupted = True
                raise
            files.discard()
            if isinstance(error, OSError):
                raise cannot_be_written(self.folder.path, error) from error
            raise
        # after an interrupt the manifest may name them: the next opening removes the others

    def commit(
        self,
        files: NewFiles,
        views: Sequence[SegmentView],
        *,
        design: str | None,
        sealed: bool = False,
        added: int = 0,
    ) -> None:
        """Replace the manifest by one of ``views``, all or nothing.

        Until the manifest is replaced all files are new ones, and after that old ones. What was
        appended to the log is forced before, since the files contain it.

        Args:
            files: the new files.
            views: the segments, oldest first.
            design: of later segments.
            sealed: whether the documents of the log are in the segments; then a new log begins.
            added: the number of documents that were not in the index before.
        """
        self._settle(self._appended.snapshot.sequence)
        settled = [self._with_dead_file(files, view.settled()) for view in views]
        log = self._log
        if sealed:
            log = LogWriter.create(files.next("log"), relaxed=self._relaxed)
            files.on_failure.callback(log.close)
        entries = [
            SegmentEntry(view.segment.path.name, view.segment.bytes, view.dead_file)
            for view in settled
        ]
        manifest = msgspec.structs.replace(
            self.manifest, number=files.number, log=log.path.name, segments=entries, design=design
        )
        if not sealed:
            # the new files contain removals; the documents that replace the removed are in the log
            self._log.force()
        # names reach the disk in any order: those in the manifest have to be there before it
        self._force_folder()
        write_manifest(self.folder, manifest)
        files.committed = True
        old = files_of(self.manifest) - files_of(manifest)
        self.manifest = manifest
        before, self._log = self._log, log
        self.state.replace(settled, sealed=sealed, added=added)
        self._appended = _Appended(log.written, self.state.current)
        if before is not log:
            before.close()
        # until the new names are on the disk a loss of power leaves the old files
        self._force_folder()
        self.durable = self.state.current
        for name in old:
            # files that cannot be removed now are removed at the next opening
            with contextlib.suppress(OSError):
                (self.folder / name).remove()
        self.committed.set()

    def _with_dead_file(self, files: NewFiles, view: SegmentView) -> SegmentView:
        """Return a view whose dead documents are in a file, if it has any."""
        if view.dead is None or view.dead_file is not None:
            return view
        file = files.next("dead")
        write_dead(file, view.segment.documents, view.dead)
        return SegmentView(view.segment, view.dead, file.name)

    def _force_folder(self) -> None:
        try:
            self.folder.force()
        except MrDedupError:
            # it is not known which names are on the disk, and another try would report success
            self._interrupted = True
            raise

    def force(self) -> None:
        """Force all changes to the disk, if the index is relaxed."""
        with self.changing, self.forcing:
            self.require_open()
            self._log.force()

    def close(self) -> None:
        """Force all changes to the disk and release the lock; a second call does nothing."""
        with self.changing:
            if self._closed:
                return
            self._closed = True
            try:
                # of a broken log all changes that wait are refused
                if not self._log.broken:
                    self._settle(self._appended.snapshot.sequence)
            finally:
                try:
                    self._log.close()
                finally:
                    self._lock.release()
                    self.folder.close()
