"""Readers: any number of processes that query an index while one writes to it."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from types import TracebackType

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.folders import Folder
from mr_dedup.index import manifest as manifests
from mr_dedup.index.loading import load_state, replay
from mr_dedup.index.log import LogReader
from mr_dedup.index.made_from import MadeFrom
from mr_dedup.index.manifest import Manifest, read_manifest
from mr_dedup.index.protocol import Fingerprints, IndexMatches
from mr_dedup.index.segment import Segment
from mr_dedup.index.snapshot import Snapshot
from mr_dedup.index.stats import IndexStats, stats_of

_TRIES = 50


class IndexReader:
    """An index that is only read, in a process of its own.

    A query sees what any writer was told is kept before the query began: two system calls look for
    news, and a reader goes through the log as the writer did. It never waits for the writer, and
    the writer never for it. Several threads may query.

    If the folder is moved and another index of the same kind replaces it, as when one that was
    built anew is renamed to the old one's path, queries run on the other one from then on.
    They raise MrDedupError as long as there is none, or one that differs in k, in what fingerprints
    are made from, or in whether documents have ids.
    """

    def __init__(self, folder: Path, *, check: bool = True) -> None:
        """Open an index; with ``check`` read all of it first, else each block when it is needed.

        Raises MrDedupError if there is none, FormatError where it is damaged.
        """
        self.folder = folder
        with Folder(folder) as self._opened:
            self._manifest_path = str(self._opened.absolute / manifests.NAME)
        self._check = check
        self._refreshing = threading.Lock()
        self._segments: dict[str, Segment] = {}
        self._stamped: tuple[int, ...] | None = ()
        self._closing = contextlib.ExitStack()
        self._load()

    @classmethod
    def open(cls, folder: str | Path, *, check: bool = True) -> IndexReader:
        """Open an index as the constructor does."""
        return cls(Path(folder), check=check)

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
        return len(self.snapshot())

    def query(
        self, fingerprints: Fingerprints, k: int | None = None, *, limit: int | None = None
    ) -> IndexMatches:
        """Return the documents within ``k`` bits, as ``protocol.FingerprintIndex.query``."""
        return self.snapshot().query(fingerprints, k, limit=limit)

    def snapshot(self) -> Snapshot:
        """Return what is held now, to be queried while the index changes."""
        self.refresh()
        return self._state.current

    def stats(self) -> IndexStats:
        """Return what the index holds and takes."""
        self.refresh()
        documents = len(self._state.current)
        return stats_of(self._opened, self._manifest, self._state, documents, None)

    def refresh(self) -> None:
        """Take in what was written since; by itself before each query.

        Raises FormatError where the index is damaged, again each time until it is repaired.
        """
        with self._refreshing:
            try:
                if self._stamp() != self._stamped:
                    self._check = False
                    self._load()
                else:
                    self._follow()
            except BaseException:
                # the log may be read further than its records were applied: load all anew
                self._stamped = ()
                raise

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._manifest_path)  # noqa: PTH116 (a third of what Path's takes)
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns

    def _load(self) -> None:
        """Open what the manifest names; again, if it was replaced meanwhile."""
        for attempt in range(_TRIES):
            stamped = self._stamp()
            with contextlib.ExitStack() as stack:
                folder = stack.enter_context(self._opened.reopened())
                manifest = read_manifest(folder)
                self._refuse_another_kind(manifest)
                try:
                    state = load_state(folder, manifest, check=self._check, known=self._segments)
                    log = LogReader(folder / manifest.log)
                except FileNotFoundError as error:
                    if self._stamp() == stamped or attempt == _TRIES - 1:
                        raise FormatError(error.filename, None, "is missing") from error
                    continue
                stack.callback(log.close)
                replay(log.records(manifest.named, log.marks()[0]), state)
                self._closing.close()
                self._closing = stack.pop_all()
            self._opened, self._stamped, self._manifest = folder, stamped, manifest
            self._segments = {view.segment.path.name: view.segment for view in state.views}
            self._state, self._log = state, log
            return

    def _refuse_another_kind(self, manifest: Manifest) -> None:
        before = getattr(self, "_manifest", manifest)
        if _kind(before) != _kind(manifest):
            raise MrDedupError(
                f"{self.folder}: was replaced by an index of another kind; open it anew"
            )

    def _follow(self) -> None:
        """Take in the records that were written since."""
        written = self._log.marks()[0]
        if written > self._log.at:
            replay(self._log.records(self.named, written), self._state)

    def close(self) -> None:
        """Close the log; snapshots that were taken can still be queried."""
        self._closing.close()

    def __enter__(self) -> IndexReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _kind(manifest: Manifest) -> tuple[object, ...]:
    """Return what queries rely on, whichever documents there are."""
    return manifest.k, manifest.named, manifest.features, manifest.made_from
