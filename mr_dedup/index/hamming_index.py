"""The index on disk, for the process that writes to it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.folder_lock import FolderLock
from mr_dedup.formats.folders import Folder, FolderFile
from mr_dedup.formats.io_errors import cannot_be_written
from mr_dedup.hamming.design import designs_for
from mr_dedup.index import manifest as manifests
from mr_dedup.index import merging
from mr_dedup.index.ids import Ids
from mr_dedup.index.loading import load_state, replay
from mr_dedup.index.lock import locked
from mr_dedup.index.log import LogWriter, Record, open_log
from mr_dedup.index.made_from import MadeFrom
from mr_dedup.index.manifest import (
    Manifest,
    SegmentEntry,
    files_of,
    read_manifest,
    remove_leftovers,
    write_dead,
    write_manifest,
)
from mr_dedup.index.memory_table import MemoryTable
from mr_dedup.index.new_files import NewFiles, make_folder, name_of
from mr_dedup.index.protocol import Checked, Fingerprints, IndexMatches
from mr_dedup.index.segment import ABSENT, Segment
from mr_dedup.index.segment_file import MAX_K
from mr_dedup.index.segment_writer import StoppedError, write_segment
from mr_dedup.index.snapshot import Snapshot, View
from mr_dedup.index.state import Batch, checked, parsed_fingerprints
from mr_dedup.index.stats import IndexStats, stats_of

MEMORY_DOCUMENTS = 1 << 16
"""Documents that the memory table takes until it is sealed as a segment, in some 80 ms."""

_LOG_BYTES = 64 << 20
"""A log is begun anew past so many bytes: removals fill it and not the memory table."""

_NO_FINGERPRINTS = np.empty(0, np.uint64)


class _Appended(NamedTuple):
    """What was appended to the log: up to which byte, and the documents after its last change."""

    log_bytes: int
    snapshot: Snapshot


class HammingIndex:
    """An index in a folder, open for writing; one process at a time, several threads.

    What a method that changes it was returned from survives a loss of power; if ``relaxed``, the
    end of the process, and of a loss of power all but what was added in the last second and, if
    nothing came after that, since. An error leaves it as it was; after an interrupt in the midst of
    a change it can be queried, and has to be opened anew to be changed. Queries never wait.

    Files are found by the open folder, never by its path alone. If the folder, or what was in it,
    is moved, removed or replaced, changes raise MrDedupError and queries go on; what is at the path
    then is not touched. A folder that is moved back can be changed again.
    """

    def __init__(
        self,
        folder: Folder,
        lock: FolderLock,
        *,
        relaxed: bool,
        check: bool,
        background: bool,
        memory_documents: int,
    ) -> None:
        """Open an index whose lock is taken, as ``open`` says."""
        self.folder = folder.path
        self._folder, self._lock = folder, lock
        self._memory_documents = memory_documents
        self._relaxed = relaxed
        # who has both took _changing first
        self._changing, self._forcing = threading.RLock(), threading.Lock()
        self._grouped = 0
        self._interrupted = self._closed = False
        self._merging = threading.Lock()
        self._manifest = read_manifest(folder)
        remove_leftovers(folder, self._manifest)
        try:
            self._state = load_state(folder, self._manifest, check=check)
            self.cut_bytes = self._replay()
            """Bytes of records that a loss of power left half there, and that were cut off."""
        except FileNotFoundError as error:
            raise FormatError(error.filename, None, "is missing") from error
        self._appended = _Appended(self._log.written, self._state.current)
        self._durable = self._state.current
        self._stopping = False
        self._merge_failure: str | None = None
        self._wake = threading.Event()
        self._wake.set()
        self._thread: threading.Thread | None = None
        if background:
            self._thread = threading.Thread(target=self._merge_always, daemon=True)
            self._thread.start()

    @classmethod
    def create(
        cls,
        folder: str | Path,
        *,
        k: int = 3,
        named: bool = True,
        features: str | None = None,
        made_from: MadeFrom | None = None,
        design: str | None = None,
        relaxed: bool = False,
        background: bool = True,
        memory_documents: int = MEMORY_DOCUMENTS,
    ) -> HammingIndex:
        """Make an empty index, and open it.

        For distances up to ``k``; of documents with ids, or without if not ``named``. ``features``
        says what the fingerprints are made from, unless ``made_from`` does; ``design`` is the name
        of the table design that all segments have, None for the best for each. The rest as
        ``open``. Raises ValueError for a k, design or features that are none, MrDedupError if the
        folder is not empty or cannot be written.
        """
        if not 0 <= k <= MAX_K:
            raise ValueError(f"k must be from 0 to {MAX_K}, not {k}")
        _refuse_design(k, design)
        folder = Path(folder)
        make_folder(folder)
        with _opened(folder) as (opened, lock):
            if (opened / manifests.NAME).stat() is not None:
                raise MrDedupError(f"{folder}: contains an index already")
            remove_leftovers(opened)
            LogWriter.create(opened / name_of("log", 1), relaxed=False).close()
            if made_from is not None:
                features = made_from.maker().described
            manifest = Manifest(k, named, features, made_from, design, 1, name_of("log", 1), [])
            opened.force()
            write_manifest(opened, manifest)
            opened.force()
            with Folder(opened.absolute.parent) as parent:
                parent.force()
            return cls(
                opened, lock, relaxed=relaxed, check=True, background=background,
                memory_documents=memory_documents,
            )  # fmt: skip

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        relaxed: bool = False,
        check: bool = True,
        background: bool = True,
        memory_documents: int = MEMORY_DOCUMENTS,
    ) -> HammingIndex:
        """Open an index for writing.

        With ``relaxed`` changes are forced to the disk once a second, not each. With ``check`` all
        of it is read and held against checksums first, some GB a second; else each block is when it
        is first needed. Without ``background`` segments are merged by ``compact`` alone. Of more
        than ``memory_documents`` new documents a segment is made. Raises IndexInUseError if another
        has it open, FormatError where it is damaged, MrDedupError if there is none.
        """
        with _opened(Path(folder), existing=True) as (opened, lock):
            return cls(
                opened, lock, relaxed=relaxed, check=check, background=background,
                memory_documents=memory_documents,
            )  # fmt: skip

    def _replay(self) -> int:
        """Make the changes of the log, and open it for more; return how many bytes were cut."""
        file = self._folder / self._manifest.log
        with open_log(file) as log:
            replay(log.records(self.named), self._state)
            cut_bytes = log.length - log.at
            self._log = LogWriter.resume(file, log.at, relaxed=self._relaxed)
        return cut_bytes

    @property
    def k(self) -> int:
        """The largest distance that queries may ask for."""
        return self._manifest.k

    @property
    def named(self) -> bool:
        """Whether documents have ids of their own."""
        return self._manifest.named

    @property
    def features(self) -> str | None:
        """What the fingerprints are made from, if that is known."""
        return self._manifest.features

    @property
    def made_from(self) -> MadeFrom | None:
        """How to make fingerprints of the same kind of texts, if that is known."""
        return self._manifest.made_from

    def __len__(self) -> int:
        return len(self._durable)

    def query(
        self,
        fingerprints: Fingerprints,
        k: int | None = None,
        *,
        limit: int | None = None,
        most: int | None = None,
    ) -> IndexMatches:
        """Return the documents within ``k`` bits, as ``protocol.FingerprintIndex.query``.

        With ``most`` raises ValueError if there are more, of all queries together: no more than
        these are ever in memory.
        """
        return self._durable.query(fingerprints, k, limit=limit, most=most)

    def snapshot(self) -> Snapshot:
        """Return the index as it is now, to be queried while the index changes."""
        return self._durable

    @contextlib.contextmanager
    def group(self) -> Iterator[None]:
        """Make the changes of a block together: they share one force to the disk, when it ends.

        Each sees those before it; queries, and other processes, see none until all are on the disk.
        Changes of other threads wait meanwhile. Raises MrDedupError at the end of the block if the
        changes cannot be forced to the disk: then none of them is acknowledged.

        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with folder, HammingIndex.create(folder.name) as index:
        ...     with index.group():
        ...         first = index.check_and_add(np.array([7], np.uint64), ["a"], only_new=True)
        ...         second = index.check_and_add(np.array([7], np.uint64), ["b"], only_new=True)
        ...         before = len(index)
        ...     first.added.item(), second.added.item(), before, len(index)
        (True, False, 0, 1)
        """
        sequence = 0
        try:
            with self._changing:
                self._refuse_change()
                self._grouped += 1
                try:
                    yield
                finally:
                    self._grouped -= 1
                    if not self._grouped:
                        sequence = self._appended.snapshot.sequence
        finally:
            self._settle(sequence)

    def _settle(self, sequence: int) -> None:
        """Return when all changes up to number ``sequence`` are on the disk, and queries see them.

        One thread forces for all that were appended before; the others find that it is done.
        """
        if self._durable.sequence >= sequence:
            return
        with self._forcing:
            if self._durable.sequence >= sequence:
                return
            appended = self._appended
            self._log.commit(appended.log_bytes)
            self._durable = appended.snapshot

    def add(self, fingerprints: Fingerprints, ids: Sequence[str] | pa.Array | None = None) -> int:
        """Add documents, as ``protocol.FingerprintIndex.add``.

        More than go to memory become a segment at once: that is how an index is
        built, 1 to 2 million a second.
        """
        batch = Batch.of(fingerprints, ids, self.named)
        with self._change():
            return self._add(batch)

    def _add(self, batch: Batch) -> int:
        if not len(batch):
            return 0
        if len(batch) > self._memory_documents:
            return self._add_segment(batch)
        self._make_room(len(batch))
        # all that a damaged segment can refuse comes first: what is in the log is made
        held = self._state.look_up(batch)
        self._log.append(Record("add", batch.fingerprints, batch.ids))
        return self._state.add(batch, held)

    def remove(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """Remove documents; return which of ``ids`` were held, bool[n]."""
        if self.named:
            fingerprints, column = _NO_FINGERPRINTS, Ids.of(ids)
        else:
            fingerprints, column = parsed_fingerprints(ids), None
        with self._change():
            # a new segment moves what was looked up
            self._make_room(0)
            held = self._state.look_up(Batch(fingerprints, column))
            if not held.any.any():
                return held.any
            self._log.append(Record("remove", fingerprints, column))
            return self._state.remove(held)

    def check_and_add(
        self,
        fingerprints: Fingerprints,
        ids: Sequence[str] | None = None,
        k: int | None = None,
        *,
        limit: int | None = None,
        only_new: bool = False,
        most: int | None = None,
    ) -> Checked:
        """Query and add with nothing in between, as ``protocol.FingerprintIndex.check_and_add``.

        With ``most`` raises ValueError if there are more matches; then nothing was added.
        """
        batch = Batch.of(fingerprints, ids, self.named)
        # nothing is changed while it looks: if memory runs out then, the index is what it was
        with self.group():
            found = checked(self._state.current, fingerprints, ids, k, limit, only_new, most)
            if not found.added.all():
                batch = Batch.of(fingerprints[found.added], found.chosen(ids), self.named)
            with self._change():
                self._add(batch)
            return found

    def compact(self, design: str | None = None) -> None:
        """Make one segment of all, without what is dead; the others may read and write meanwhile.

        ``design`` names the table design that this and all further segments have, ``auto`` the best
        for each. Takes some 30 ns a document and table. Raises ValueError for a design that is
        none, MrDedupError if it cannot be written: the index is as it was then.
        """
        wanted = self._manifest.design if design is None else design
        wanted = None if wanted == "auto" else wanted
        _refuse_design(self.k, wanted)
        with self._merging:
            with self._change():
                self._seal(wanted)
                views = self._state.views
            if views:
                self._merge(range(len(views)))

    def stats(self) -> IndexStats:
        """Return what the index contains and takes; MrDedupError if it is closed."""
        with self._changing:
            self._refuse_closed()
            return stats_of(
                self._folder, self._manifest, self._state, len(self), self._merge_failure
            )

    def force(self) -> None:
        """Force all changes to the disk, if the index is relaxed."""
        with self._changing, self._forcing:
            self._refuse_closed()
            self._log.force()

    def close(self) -> None:
        """Force all changes to the disk and let others write; a merge on its way is given up.

        Further changes raise MrDedupError, also those of other threads that wait for their turn.
        """
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        with self._merging, self._changing:
            if self._closed:
                return
            self._closed = True
            try:
                # of a broken one all who wait are refused
                if not self._log.broken:
                    self._settle(self._appended.snapshot.sequence)
            finally:
                try:
                    self._log.close()
                finally:
                    self._lock.release()
                    self._folder.close()

    def __enter__(self) -> HammingIndex:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        """Let one thread change the index, as long as what is in memory is what is on the disk.

        After an error that is expected it is, unless the log has grown. Then, and after an
        interrupt, or when memory ran out, nobody knows: the files are right, and the index has to
        be opened anew.
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
            self._appended = _Appended(self._log.written, self._state.current)

    def _refuse_closed(self) -> None:
        # its files may be another's by now, and what is in their place anything
        if self._closed:
            raise MrDedupError(f"{self.folder}: is closed")

    def _refuse_change(self) -> None:
        self._refuse_closed()
        if not self._grouped:
            self._lock.require_same()
        if self._interrupted:
            raise MrDedupError(
                f"{self.folder}: a change was interrupted; open the index anew to change it"
            )

    def _make_room(self, count: int) -> None:
        """Seal the memory table if so many more documents do not fit, or the log is long."""
        full = self._state.memory.count + count > self._memory_documents
        if full or self._log.written > _LOG_BYTES:
            self._seal()

    def _seal(self, design: str | Literal[False] | None = False) -> None:
        """Make a segment of the memory table, and begin a log; ``design`` is for later ones."""
        memory = self._state.memory
        views = list(self._state.views)
        slots = memory.held()
        with self._new_files() as files:
            if len(slots):
                file = files.next("segment")
                write_segment(
                    file, memory.values[slots], self._ids_of(memory, slots), self.k,
                    self._manifest.design,
                )  # fmt: skip
                views.append(View(Segment(file, check=False)))
            self._commit(files, views, sealed=True, design=design)

    def _ids_of(self, memory: MemoryTable, slots: NDArray[np.int64]) -> list[Ids] | None:
        if not self.named:
            return None
        keys = [memory.keys[slot] for slot in slots.tolist()]
        return [Ids.from_bytes([key for key in keys if isinstance(key, bytes)])]

    def _add_segment(self, batch: Batch) -> int:
        """Add documents as a segment of their own; after it the memory table is empty."""
        self._seal()
        sequence = self._state.sequence
        held = self._state.held(batch.fingerprints, batch.ids, range(len(batch)))
        old = held.any
        views = list(self._state.views)
        if batch.ids is None:
            batch = batch.only(~old)
        else:
            for place, documents in enumerate(held.in_views):
                alive = views[place].alive(sequence)
                alive[documents[documents != ABSENT].astype(np.int64)] = False
                if (documents != ABSENT).any():
                    views[place] = View.of(views[place].segment, alive)
        if not len(batch):
            return 0
        with self._new_files() as files:
            file = files.next("segment")
            ids = None if batch.ids is None else [batch.ids]
            write_segment(file, batch.fingerprints, ids, self.k, self._manifest.design)
            views.append(View(Segment(file, check=False)))
            self._commit(files, views, sealed=False, added=int((~old).sum()))
        return int((~old).sum())

    def _commit(
        self,
        files: NewFiles,
        views: Sequence[View],
        *,
        sealed: bool,
        added: int = 0,
        design: str | Literal[False] | None = False,
    ) -> None:
        """Make ``views`` what the index is; with ``sealed`` a log is begun, and the last one ends.

        All or nothing: there are new files until the manifest is replaced, and then old ones. What
        was appended to the log is settled before, since the files are made of it.
        """
        self._settle(self._appended.snapshot.sequence)
        settled = []
        for view in views:
            view = view.settled()
            if view.dead is not None and view.dead_file is None:
                file = files.next("dead")
                write_dead(file, view.segment.documents, view.dead)
                view = View(view.segment, view.dead, file.name)
            settled.append(view)
        log = self._log
        if sealed:
            log = files.keep(LogWriter.create(files.next("log"), relaxed=self._relaxed))
        entries = [
            SegmentEntry(view.segment.path.name, view.segment.bytes, view.dead_file)
            for view in settled
        ]
        manifest = msgspec.structs.replace(
            self._manifest, number=files.number, log=log.path.name, segments=entries,
            design=self._manifest.design if design is False else design,
        )  # fmt: skip
        if not sealed:
            # removals are in the new files too, and what replaces the removed is in the log alone
            self._log.force()
        # a manifest may be on the disk before names that are older; it must not name what is not
        self._force_folder()
        write_manifest(self._folder, manifest)
        files.committed = True
        old = files_of(self._manifest) - files_of(manifest)
        self._manifest = manifest
        before, self._log = self._log, log
        self._state.replace(settled, sealed=sealed, added=added)
        self._appended = _Appended(log.written, self._state.current)
        if before is not log:
            before.close()
        # until the new names are on the disk the old files are what a loss of power leaves
        self._force_folder()
        self._durable = self._state.current
        for name in old:
            # what stays is removed at the next opening
            with contextlib.suppress(OSError):
                (self._folder / name).remove()
        self._wake.set()

    def _force_folder(self) -> None:
        try:
            self._folder.force()
        except MrDedupError:
            # which names are on the disk is not known, and another try would say that all are
            self._interrupted = True
            raise

    @contextlib.contextmanager
    def _new_files(self) -> Iterator[NewFiles]:
        """Yield new files, which are given up if the block fails before they are committed.

        Then the index is what it was, in memory and on the disk, and can be changed again: also
        after an OSError of any kind, as without file descriptors, which is raised as MrDedupError.
        """
        files = NewFiles(self._folder, self._manifest.number)
        try:
            yield files
        except (MrDedupError, OSError) as error:
            if files.committed:
                self._interrupted = True
                raise
            files.give_up()
            if isinstance(error, OSError):
                raise cannot_be_written(self.folder, error) from error
            raise
        # after an interrupt the manifest may name them: the next opening removes what it does not

    def _merge_always(self) -> None:
        """Merge whenever there is something to merge, until the index is closed."""
        while True:
            self._wake.wait()
            self._wake.clear()
            try:
                while not self._stopping and self._merge_once():
                    pass
            except (MrDedupError, OSError) as error:
                self._merge_failure = str(error)
            except MemoryError:
                self._merge_failure = "memory was short"
            if self._stopping:
                return

    def _merge_once(self) -> bool:
        with self._merging:
            places = merging.to_merge(self._state.views)
            if places is None:
                return False
            self._merge(places)
            self._merge_failure = None
            return True

    def _merge(self, places: range) -> None:
        """Merge neighbouring segments, while others read and write."""
        with self._change():
            views = self._state.views[places.start : places.stop]
            alive = [view.alive(self._state.sequence) for view in views]
            # numbers are taken under the lock, so that nothing else is called the same
            self._manifest = msgspec.structs.replace(
                self._manifest, number=self._manifest.number + 1
            )
            file = self._folder / name_of("segment", self._manifest.number)
            design = self._manifest.design
        lives = any(each.any() for each in alive)
        try:
            if lives:
                merging.merge(
                    file, views, alive, self.k, self.named, design, lambda: self._stopping
                )
            self._replace(places, alive, file if lives else None)
        except StoppedError:
            return

    def _replace(
        self, places: range, alive: Sequence[NDArray[np.bool_]], file: FolderFile | None
    ) -> None:
        """Put a merged segment in the place of those it was made of."""
        with self._change(), self._new_files() as files:
            views = list(self._state.views)
            merged = []
            if file is not None:
                files.adopt(file)
                segment = Segment(file, check=False)
                old = views[places.start : places.stop]
                sequence = self._state.sequence
                lives = merging.died_meanwhile(old, alive, sequence, segment)
                merged.append(View.of(segment, lives))
            views[places.start : places.stop] = merged
            self._commit(files, views, sealed=False)


@contextlib.contextmanager
def _opened(path: Path, *, existing: bool = False) -> Iterator[tuple[Folder, FolderLock]]:
    """Yield a folder and its lock, which an error in the block closes and releases.

    With ``existing`` raises MrDedupError if there is no index, and leaves the folder as it is.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(Folder(path))
        if existing:
            read_manifest(folder)
        lock = locked(folder)
        stack.callback(lock.release)
        yield folder, lock
        stack.pop_all()


def _refuse_design(k: int, design: str | None) -> None:
    designs = designs_for(k)
    if design is not None and design not in designs:
        raise ValueError(f"design for k = {k} must be one of {', '.join(designs)}, not {design!r}")
