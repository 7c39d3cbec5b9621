"""The index in a directory, for processes that only query it, while another one writes to it."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.files.folders import Folder
from mr_dedup.index.folder import MANIFEST_NAME
from mr_dedup.index.loading import load_state, replay
from mr_dedup.index.log import LogReader
from mr_dedup.index.manifest import DescribedIndex, Manifest, read_manifest
from mr_dedup.index.protocol import Fingerprints, IndexMatches
from mr_dedup.index.segment import Segment
from mr_dedup.index.snapshot import Snapshot
from mr_dedup.index.stats import IndexStats, stats_of

_TRIES = 50


class IndexReader(DescribedIndex):
    """An index in a directory, open for queries, by any number of processes and threads.

    A query sees all changes that were acknowledged before it began: two system calls look for new
    ones, and the reader replays the log as far as it was written. It never waits for the writer,
    nor the writer for it.

    If the directory is moved and another index of the same kind takes its path, as when one that
    was built anew is renamed, queries read the other one from then on. They raise
    MrDedupError as long as there is none, or one that differs in k, in what fingerprints are made
    from, or in whether documents have ids.

    Args:
        folder: the directory of the index.
        check: read all segments first and compare them with their checksums; otherwise each block
            when it is first used.

    Raises:
        FormatError: a file is damaged.
        MrDedupError: there is no index, or it cannot be read.

    >>> import tempfile
    >>> import numpy as np
    >>> from mr_dedup.index.hamming_index import HammingIndex
    >>> folder = tempfile.TemporaryDirectory()
    >>> with folder, HammingIndex.create(folder.name) as index:
    ...     with IndexReader.open(folder.name) as reader:
    ...         _ = index.add(np.array([5], np.uint64), ["a"])
    ...         reader.query(np.array([7], np.uint64)).ids
    ('a',)
    """

    def __init__(self, folder: Path, *, check: bool = True) -> None:
        self.folder = folder
        with Folder(folder) as self._opened:
            self._manifest_path = str(self._opened.absolute / MANIFEST_NAME)
        self._check = check
        self._refreshing = threading.Lock()
        self._segments: dict[str, Segment] = {}
        self._stamped: tuple[int, ...] | None = ()
        self._loaded: Manifest | None = None
        self._closing = contextlib.ExitStack()
        self._load()

    @classmethod
    def open(cls, folder: str | Path, *, check: bool = True) -> IndexReader:
        """Open an index as the constructor does."""
        return cls(Path(folder), check=check)

    @property
    def _manifest(self) -> Manifest:
        assert self._loaded is not None
        return self._loaded

    def __len__(self) -> int:
        return len(self.snapshot())

    def query(
        self, fingerprints: Fingerprints, k: int | None = None, *, limit: int | None = None
    ) -> IndexMatches:
        """Return the documents within ``k`` bits, as ``HammingIndex.query``."""
        return self.snapshot().query(fingerprints, k, limit=limit)

    def snapshot(self) -> Snapshot:
        """Return the documents of this moment, to be queried while the index changes."""
        self.refresh()
        return self._state.current

    def stats(self) -> IndexStats:
        """Return counts and sizes."""
        with self._refreshing:
            self._refresh()
            documents = len(self._state.current)
            return stats_of(self._opened, self._manifest, self._state, documents, None)

    def refresh(self) -> None:
        """Apply the changes that were written since; each query does so first.

        Raises FormatError if the index is damaged, each time until it is repaired.
        """
        with self._refreshing:
            self._refresh()

    def _refresh(self) -> None:
        try:
            if self._stamp() != self._stamped:
                self._check = False
                self._load()
            else:
                self._follow()
        except BaseException:
            # records may have been read and not applied: load everything anew
            self._stamped = ()
            raise

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._manifest_path)  # noqa: PTH116 (a third of what Path's takes)
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns

    def _load(self) -> None:
        """Open the files that the manifest names; again, if it was replaced meanwhile."""
        for attempt in range(_TRIES):
            stamped = self._stamp()
            with contextlib.ExitStack() as stack:
                folder = stack.enter_context(self._opened.reopened())
                manifest = read_manifest(folder)
                self._require_same_kind(manifest)
                try:
                    state = load_state(folder, manifest, check=self._check, opened=self._segments)
                    log = LogReader(folder / manifest.log)
                except FileNotFoundError as error:
                    if self._stamp() == stamped or attempt == _TRIES - 1:
                        raise FormatError(error.filename, None, "is missing") from error
                    continue
                stack.callback(log.close)
                replay(log.records(manifest.named, log.marks()[0]), state)
                self._closing.close()
                self._closing = stack.pop_all()
            self._opened, self._stamped, self._loaded = folder, stamped, manifest
            self._segments = {view.segment.path.name: view.segment for view in state.views}
            self._state, self._log = state, log
            return

    def _require_same_kind(self, manifest: Manifest) -> None:
        if self._loaded is not None and _kind(self._loaded) != _kind(manifest):
            raise MrDedupError(
                f"{self.folder}: was replaced by an index of another kind; open it anew"
            )

    def _follow(self) -> None:
        """Apply the records that were written since."""
        written = self._log.marks()[0]
        if written > self._log.at:
            replay(self._log.records(self.named, written), self._state)

    def close(self) -> None:
        """Close the log; snapshots that were taken can still be queried."""
        self._closing.close()

    def __enter__(self) -> IndexReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _kind(manifest: Manifest) -> tuple[object, ...]:
    """Return the properties that the results of queries depend on."""
    return manifest.k, manifest.named, manifest.features, manifest.made_from
