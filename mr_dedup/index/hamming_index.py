"""The index in a directory, for the process that writes to it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError, not_one_of
from mr_dedup.files.folder_lock import FolderLock
from mr_dedup.files.folders import Folder
from mr_dedup.hamming.design import designs_for
from mr_dedup.index.committing import Committer
from mr_dedup.index.fingerprint_options import FingerprintOptions
from mr_dedup.index.folder import MANIFEST_NAME, locked, make_folder, name_of
from mr_dedup.index.hits import QUERY_BUFFERS, QueryBuffers
from mr_dedup.index.ids import Ids
from mr_dedup.index.log import LogWriter, Record
from mr_dedup.index.manifest import (
    DescribedIndex,
    Manifest,
    read_manifest,
    remove_leftovers,
    write_manifest,
)
from mr_dedup.index.memory_table import MemoryTable
from mr_dedup.index.merging import Merger
from mr_dedup.index.protocol import CheckAndAddResult, Fingerprints, IndexMatches
from mr_dedup.index.segment import ABSENT, Segment
from mr_dedup.index.segment_file import MAX_K
from mr_dedup.index.segment_writer import write_segment
from mr_dedup.index.snapshot import SegmentView, Snapshot
from mr_dedup.index.state import Batch, checked
from mr_dedup.index.stats import IndexStats, stats_of

MEMORY_DOCUMENTS = 1 << 16
"""Documents in the memory table before it is sealed as a segment, which takes some 80 ms."""

_MAX_LOG_BYTES = 64 << 20
"""The length of a log before it is sealed: removals fill it and not the memory table."""


class HammingIndex(DescribedIndex):
    """An index in a directory, open for writing: by one process at a time, and several threads.

    Made by ``create`` and ``open``.

    A change survives a loss of power when the method that makes it has returned. If ``relaxed``, it
    survives the end of the process, and a loss of power undoes the changes since the log was last
    forced: the first change that comes a second later forces it. An error leaves the index as it
    was; after an interrupt during a change it can be queried, and has to be opened anew to be
    changed. Queries never wait.

    Files are found by the open directory, not by its path. If it or its content is moved, removed
    or replaced, changes raise MrDedupError, queries continue, and what is at the path then
    is not touched. A directory that is moved back can be changed again.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with folder, HammingIndex.create(folder.name, k=3) as index:
    ...     index.add(np.array([5, 1 << 40], np.uint64), ["a", "b"])
    ...     found = index.check_and_add(np.array([7], np.uint64), ["c"], only_new=True)
    ...     found.matches.ids, found.added.item(), len(index)
    2
    (('a',), False, 2)
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
        buffers: QueryBuffers,
    ) -> None:
        """Open the index of a directory whose lock is taken, with the arguments of ``open``."""
        self.folder = folder.path
        self._memory_documents = memory_documents
        self._committer = Committer(folder, lock, relaxed=relaxed, check=check, buffers=buffers)
        self._state = self._committer.state
        self._merger = Merger(self._committer, background)

    @classmethod
    def create(
        cls,
        folder: str | Path,
        *,
        k: int = 3,
        named: bool = True,
        features: str | None = None,
        made_from: FingerprintOptions | None = None,
        design: str | None = None,
        relaxed: bool = False,
        background: bool = True,
        memory_documents: int = MEMORY_DOCUMENTS,
        buffers: QueryBuffers = QUERY_BUFFERS,
    ) -> HammingIndex:
        """Make an empty index, and open it.

        Args:
            folder: made if it is missing; it may contain nothing but leftovers of an index.
            k: the largest distance of a query, in bits, 0 to 32.
            named: whether documents have ids; without, each fingerprint is its own document.
            features: what the fingerprints are made from, in print.
            made_from: the options that they are made by, which ``features`` then describe.
            design: the name of the table design of all segments, None for the best for each.
            relaxed: as for ``open``.
            background: as for ``open``.
            memory_documents: as for ``open``.
            buffers: as for ``open``.

        Raises:
            ValueError: ``k``, ``design`` or ``made_from`` is not valid.
            MrDedupError: the directory is not empty or cannot be written.
        """
        if not 0 <= k <= MAX_K:
            raise ValueError(f"k must be from 0 to {MAX_K}, not {k}")
        _require_design(k, design)
        folder = Path(folder)
        make_folder(folder)
        with _opened(folder) as (opened, lock):
            if (opened / MANIFEST_NAME).stat() is not None:
                raise MrDedupError(f"{folder}: contains an index already")
            remove_leftovers(opened)
            LogWriter.create(opened / name_of("log", 1), relaxed=False).close()
            if made_from is not None:
                features = made_from.fingerprinter().described
            manifest = Manifest(k, named, features, made_from, design, 1, name_of("log", 1), [])
            opened.force()
            write_manifest(opened, manifest)
            opened.force()
            with Folder(opened.absolute.parent) as parent:
                parent.force()
            return cls(
                opened, lock, relaxed=relaxed, check=True, background=background,
                memory_documents=memory_documents, buffers=buffers,
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
        buffers: QueryBuffers = QUERY_BUFFERS,
    ) -> HammingIndex:
        """Open an index for writing.

        Args:
            folder: the directory of the index.
            relaxed: force changes to the disk once a second, not each.
            check: read all segments first and compare them with their checksums, some GB a second;
                otherwise each block when it is first used.
            background: merge segments in a thread; otherwise ``compact`` alone merges them.
            memory_documents: new documents that are in memory before they become a segment.
            buffers: how much a query buffers.

        Raises:
            IndexInUseError: another writer has the index open.
            FormatError: a file is damaged.
            MrDedupError: there is no index, or it cannot be written.
        """
        with _opened(Path(folder), existing=True) as (opened, lock):
            return cls(
                opened, lock, relaxed=relaxed, check=check, background=background,
                memory_documents=memory_documents, buffers=buffers,
            )  # fmt: skip

    @property
    def _manifest(self) -> Manifest:
        return self._committer.manifest

    @property
    def cut_bytes(self) -> int:
        """Bytes of incomplete records, left by a loss of power, that were cut off the log."""
        return self._committer.cut_bytes

    def __len__(self) -> int:
        return len(self._committer.durable)

    def query(
        self,
        fingerprints: Fingerprints,
        k: int | None = None,
        *,
        limit: int | None = None,
        max_matches: int | None = None,
    ) -> IndexMatches:
        """Return the documents within ``k`` bits; exact: all of them and no others.

        Args:
            fingerprints: uint64[n].
            k: the largest distance of a match, by default the index's k.
            limit: the number of matches of a query that are returned, the nearest ones; all if
                None.
            max_matches: the most matches of all queries together; no more are ever in memory.

        Raises:
            ValueError: ``k`` is larger than the index's, ``limit`` is less than 1, or there are
                more matches than ``max_matches``.
        """
        return self._committer.durable.query(fingerprints, k, limit=limit, max_matches=max_matches)

    def fingerprints_of(self, ids: Sequence[str]) -> list[int | None]:
        """Return the fingerprints of documents by their ids, None for ids that it does not have.

        Waits for a change in progress, and takes some hundred microseconds each.

        Raises:
            ValueError: ``ids`` are not ids.
            MrDedupError: the index is closed.
        """
        batch = Batch.to_remove(ids, self.named)
        with self._committer.changing:
            self._committer.require_open()
            return self._state.fingerprints(self._state.look_up(batch))

    def snapshot(self) -> Snapshot:
        """Return the documents of this moment, to be queried while the index changes."""
        return self._committer.durable

    @contextlib.contextmanager
    def group(self) -> Iterator[None]:
        """Make the changes of a block together: they share one force to the disk, when it ends.

        Each sees those before it; queries, and other processes, see none until all are on the disk.
        Changes of other threads wait meanwhile.

        Raises:
            MrDedupError: the changes cannot be forced to the disk: at the end of the block, and
                none of them is acknowledged.

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
        with self._committer.group():
            yield

    def add(self, fingerprints: Fingerprints, ids: Sequence[str] | pa.Array | None = None) -> int:
        """Add documents, all of them or none.

        An id that is in the index, or repeated, keeps the last document that it is given. More
        than ``memory_documents`` become a segment at once, 1 to 2 million a second.

        Args:
            fingerprints: uint64[n].
            ids: n ids, or None for an index without.

        Returns:
            The number of documents that were not in the index before.

        Raises:
            TypeError: ``ids`` is one text instead of several; nothing was added.
            ValueError: the arguments are not as above; nothing was added.
            MrDedupError: the documents cannot be stored; nothing was added.
        """
        batch = Batch.of(fingerprints, ids, self.named)
        with self._committer.change():
            return self._add(batch)

    def _add(self, batch: Batch) -> int:
        if not len(batch):
            return 0
        if len(batch) > self._memory_documents:
            return self._add_segment(batch)
        self._make_room(len(batch))
        # what a damaged segment can refuse comes first: a change in the log has to succeed
        located = self._state.look_up(batch)
        self._committer.append(Record("add", batch.fingerprints, batch.ids))
        return self._state.add(batch, located)

    def remove(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """Remove documents, all of them or none; return which were in the index, bool[n].

        Raises:
            TypeError: ``ids`` is one text instead of several; nothing was removed.
            ValueError: ``ids`` are not ids; nothing was removed.
            MrDedupError: the removal cannot be stored; nothing was removed.
        """
        batch = Batch.to_remove(ids, self.named)
        with self._committer.change():
            # before they are looked up: a new segment moves documents
            self._make_room(0)
            located = self._state.look_up(batch)
            if not located.stored.any():
                return located.stored
            self._committer.append(Record("remove", batch.fingerprints, batch.ids))
            return self._state.remove(located)

    def check_and_add(
        self,
        fingerprints: Fingerprints,
        ids: Sequence[str] | None = None,
        k: int | None = None,
        *,
        limit: int | None = None,
        only_new: bool = False,
        max_matches: int | None = None,
        match_same_id: bool = False,
    ) -> CheckAndAddResult:
        """Query and add documents one after another, as one change.

        Each is compared with the index and with the documents that the call added before it. The
        document that it replaces, of the same id, is not a match unless ``match_same_id``.

        Args:
            fingerprints: uint64[n].
            ids: n ids, or None for an index without.
            k: as for ``query``.
            limit: as for ``query``.
            only_new: add only documents without a match; what is stored under the id of another
                one stays.
            max_matches: as for ``query``.
            match_same_id: compare each also with the document of its own id.

        Returns:
            The matches, and which documents were added.

        Raises:
            ValueError: as ``add`` and ``query``; nothing was added.
            MrDedupError: as ``add``.
        """
        batch = Batch.of(fingerprints, ids, self.named)
        # nothing is changed while it queries: if memory runs out then, the index is as before
        with self._committer.group():
            found = checked(
                self._state.current, fingerprints, ids, k, limit, only_new, max_matches,
                match_same_id,
            )  # fmt: skip
            if not found.added.all():
                batch = Batch.of(fingerprints[found.added], found.added_ids(ids), self.named)
            with self._committer.change():
                self._add(batch)
            return found

    def compact(self, design: str | None = None) -> None:
        """Merge all documents into one segment, without the dead; others read and write meanwhile.

        Takes some 30 ns a document and table.

        Args:
            design: the table design of this and later segments, by default as it was; ``auto`` is
                the best for each.

        Raises:
            ValueError: there is no such design.
            MrDedupError: the segment cannot be written; the index is as before.
        """
        wanted = self._manifest.design if design is None else design
        wanted = None if wanted == "auto" else wanted
        _require_design(self.k, wanted)
        with self._merger.exclusive:
            with self._committer.change():
                self._seal(wanted)
                views = self._state.views
            if views:
                self._merger.merge(range(len(views)))

    def stats(self) -> IndexStats:
        """Return counts and sizes; MrDedupError if the index is closed."""
        with self._committer.changing:
            self._committer.require_open()
            return stats_of(
                self._committer.folder, self._manifest, self._state, len(self),
                self._merger.failure,
            )  # fmt: skip

    def force(self) -> None:
        """Force all changes to the disk, if the index is relaxed."""
        self._committer.force()

    def close(self) -> None:
        """Force all changes to the disk and let others write; a merge is stopped.

        Further changes raise MrDedupError, also those of other threads that wait for their turn.
        """
        self._merger.stop()
        with self._merger.exclusive:
            self._committer.close()

    def __enter__(self) -> HammingIndex:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _make_room(self, count: int) -> None:
        """Seal the memory table if ``count`` more documents do not fit, or the log is long."""
        full = self._state.memory.count + count > self._memory_documents
        if full or self._committer.log_bytes > _MAX_LOG_BYTES:
            self._seal(self._manifest.design)

    def _seal(self, design: str | None) -> None:
        """Make a segment of the memory table, and begin a log; ``design`` is that of later ones."""
        memory = self._state.memory
        views = list(self._state.views)
        slots = memory.living()
        with self._committer.new_files() as files:
            if len(slots):
                file = files.next("segment")
                write_segment(
                    file, memory.values[slots], self._ids_of(memory, slots), self.k,
                    self._manifest.design,
                )  # fmt: skip
                views.append(SegmentView(Segment(file, check=False)))
            self._committer.commit(files, views, design=design, sealed=True)

    def _ids_of(self, memory: MemoryTable, slots: NDArray[np.int64]) -> list[Ids] | None:
        if not self.named:
            return None
        keys = [memory.keys[slot] for slot in slots.tolist()]
        return [Ids.from_bytes([key for key in keys if isinstance(key, bytes)])]

    def _add_segment(self, batch: Batch) -> int:
        """Add documents as a segment of their own; after it the memory table is empty."""
        self._seal(self._manifest.design)
        sequence = self._state.sequence
        # the memory table is empty: no keys are needed for it
        located = self._state.look_up(batch, range(len(batch)))
        old = located.stored
        views = list(self._state.views)
        if batch.ids is None:
            batch = batch.only(~old)
        else:
            for number, documents in enumerate(located.in_views):
                alive = views[number].alive(sequence)
                alive[documents[documents != ABSENT].astype(np.int64)] = False
                if (documents != ABSENT).any():
                    views[number] = SegmentView.of(views[number].segment, alive)
        if not len(batch):
            return 0
        added = int((~old).sum())
        design = self._manifest.design
        with self._committer.new_files() as files:
            file = files.next("segment")
            ids = None if batch.ids is None else [batch.ids]
            write_segment(file, batch.fingerprints, ids, self.k, design)
            views.append(SegmentView(Segment(file, check=False)))
            self._committer.commit(files, views, design=design, added=added)
        return added


@contextlib.contextmanager
def _opened(path: Path, *, existing: bool = False) -> Iterator[tuple[Folder, FolderLock]]:
    """Yield a directory and its lock, which an error in the block closes and releases.

    With ``existing`` raises MrDedupError if there is no index, and leaves the directory as it is.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(Folder(path))
        if existing:
            read_manifest(folder)
        lock = locked(folder)
        stack.callback(lock.release)
        yield folder, lock
        stack.pop_all()


def _require_design(k: int, design: str | None) -> None:
    designs = designs_for(k)
    if design is not None and design not in designs:
        raise ValueError(f"design for k = {k} must be {not_one_of(design, [*designs])}")
