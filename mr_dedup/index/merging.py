"""Merging of segments: which ones, and by a thread in the background.

A query probes every segment, and dead documents take room. So neighbours in age of about the same
size are merged: n documents are then in some 3 log4(n / 65,536) segments, and each document is
written as many times. Neighbours, because the documents of one fingerprint are returned in the
order in which they were added.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.files.folders import FolderFile
from mr_dedup.index.committing import Committer
from mr_dedup.index.segment import ABSENT, Segment
from mr_dedup.index.segment_file import MAX_DOCUMENTS
from mr_dedup.index.segment_writer import StoppedError, write_segment
from mr_dedup.index.snapshot import SegmentView

MERGED = 4
"""Segments that become one."""

_SPAN = 0.75
"""Segments within this many levels (log base MERGED) of the largest count as similar in size."""

_MIN_DOCUMENTS = 1 << 14
"""Smaller segments count as if they had so many documents."""

_DEAD_SHARE = 4
"""A segment with more than 1 / _DEAD_SHARE of its documents deleted is rewritten."""


class Merger:
    """Merges the segments of an index, while others read and write.

    Args:
        committer: of the index.
        background: start a thread that merges whenever there is something to merge.
    """

    def __init__(self, committer: Committer, background: bool) -> None:
        self._committer = committer
        self.exclusive = threading.Lock()
        """The right to merge; a thread that also needs ``committer.changing`` takes it first."""
        self.failure: str | None = None
        """Why the last merge of the thread failed, None if it did not."""
        self._stopping = False
        self._thread: threading.Thread | None = None
        committer.committed.set()
        if background:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop a merge that is running, and the thread."""
        self._stopping = True
        self._committer.committed.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        committed = self._committer.committed
        while True:
            committed.wait()
            try:
                while not self._stopping and self._merge_once():
                    pass
            except (MrDedupError, OSError) as error:
                self.failure = str(error)
            except MemoryError:
                self.failure = "out of memory"
            if self._stopping:
                return

    def _merge_once(self) -> bool:
        with self.exclusive:
            chosen = to_merge(self._committer.state.views)
            if chosen is None:
                return False
            self.merge(chosen)
            self.failure = None
            return True

    def merge(self, chosen: range) -> None:
        """Merge neighbouring segments, by their numbers; the caller has ``exclusive``.

        Raises as ``merge``; the index is then as before.
        """
        committer = self._committer
        with committer.change():
            views = committer.state.views[chosen.start : chosen.stop]
            alive = [view.alive(committer.state.sequence) for view in views]
            file = committer.reserve("segment")
            manifest = committer.manifest
        any_alive = any(each.any() for each in alive)
        try:
            if any_alive:
                merge(
                    file, views, alive, manifest.k, manifest.named, manifest.design,
                    lambda: self._stopping,
                )  # fmt: skip
            self._replace(chosen, alive, file if any_alive else None)
        except StoppedError:
            return

    def _replace(
        self, chosen: range, alive: Sequence[NDArray[np.bool_]], file: FolderFile | None
    ) -> None:
        """Replace the segments ``chosen`` by the merged one, or by none."""
        committer = self._committer
        with committer.change(), committer.new_files() as files:
            views = list(committer.state.views)
            merged = []
            if file is not None:
                files.adopt(file)
                segment = Segment(file, check=False)
                old = views[chosen.start : chosen.stop]
                sequence = committer.state.sequence
                merged.append(SegmentView.of(segment, still_alive(old, alive, sequence, segment)))
            views[chosen.start : chosen.stop] = merged
            committer.commit(files, views, design=committer.manifest.design)


def to_merge(views: Sequence[SegmentView]) -> range | None:
    """Return which neighbours should be merged now, oldest first; None if none.

    A single one is rewritten without its dead documents.
    """
    for number, view in enumerate(views):
        if view.dead_count * _DEAD_SHARE > view.segment.documents:
            return range(number, number + 1)
    return similar_in_size([view.segment.documents for view in views])


def similar_in_size(documents: Sequence[int]) -> range | None:
    """Return the first MERGED neighbours of about one size, or small ones between large ones.

    >>> similar_in_size([10_000_000, 100_000, 90_000, 100_000, 110_000])
    range(1, 5)
    >>> similar_in_size([100_000] * 3)
    """
    levels = [math.log(max(count, _MIN_DOCUMENTS), MERGED) for count in documents]
    start = 0
    while start < len(levels):
        bottom = max(levels[start:]) - _SPAN
        stop = 1 + max(i for i in range(start, len(levels)) if levels[i] >= bottom)
        fits = sum(documents[start : start + MERGED]) <= MAX_DOCUMENTS
        if stop - start >= MERGED and fits:
            return range(start, start + MERGED)
        start = stop
    return None


def merge(
    file: FolderFile,
    views: Sequence[SegmentView],
    alive: Sequence[NDArray[np.bool_]],
    k: int,
    named: bool,
    design: str | None,
    stop: Callable[[], bool],
) -> None:
    """Write the living documents of segments to a new one.

    ``alive`` are bool[documents] of each. Takes the memory of ``write_segment``, and 8 bytes a
    document. Raises FormatError if a segment is damaged, and as ``write_segment``.
    """
    values, ids = [], []
    for view, living in zip(views, alive, strict=True):
        segment = view.segment
        each = segment.distinct()
        if segment.documents != segment.fingerprints:
            each = np.repeat(each, np.diff(segment.document_starts()))
        whole = bool(living.all())
        values.append(each if whole else each[living])
        if named:
            column = segment.ids()
            ids.append(column if whole else column.take(np.flatnonzero(living)))
    write_segment(file, np.concatenate(values), ids if named else None, k, design, stop)


def still_alive(
    views: Sequence[SegmentView], alive: Sequence[NDArray[np.bool_]], sequence: int, merged: Segment
) -> NDArray[np.bool_]:
    """Return which documents of a merged segment are alive, bool[documents].

    ``alive`` are the documents of each of ``views`` that were alive when the merge began.
    """
    living = np.ones(merged.documents, bool)
    for view, before in zip(views, alive, strict=True):
        gone = np.flatnonzero(before & ~view.alive(sequence))
        if not len(gone):
            continue
        if merged.description.ids is None:
            documents = merged.find_fingerprints(view.segment.distinct()[gone])
        else:
            ids = view.segment.ids().take(gone)
            documents = merged.find_ids(ids, ids.hashes())
        living[documents[documents != ABSENT].astype(np.int64)] = False
    return living
