"""Merging segments: which of them, and how.

A query looks into every segment, and a document that is dead takes room. So neighbours in age that
are about as large become one: of n documents there are then some 3 log4(n / 65,536) segments, and
each document is written so often. Neighbours, because the documents of one fingerprint are told in
the order in which they were added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mr_dedup.formats.folders import FolderFile
from mr_dedup.index.segment import ABSENT, Segment
from mr_dedup.index.segment_file import MAX_DOCUMENTS
from mr_dedup.index.segment_writer import write_segment
from mr_dedup.index.snapshot import View

MERGED = 4
"""Segments that become one."""

_SPAN = 0.75
"""How far below the largest, in powers of MERGED, a segment is about as large."""

_LEAST_DOCUMENTS = 1 << 14
"""Segments of fewer count as if of so many."""

_DEAD_SHARE = 4
"""A segment of which more than one document in so many is dead is written anew."""


def to_merge(views: Sequence[View]) -> range | None:
    """Return which neighbours should be merged now, oldest first; None if none.

    One alone is to be rid of its dead.
    """
    for place, view in enumerate(views):
        if view.dead_count * _DEAD_SHARE > view.segment.documents:
            return range(place, place + 1)
    return alike([view.segment.documents for view in views])


def alike(documents: Sequence[int]) -> range | None:
    """Return the first MERGED neighbours that are about as large, or smaller among larger ones."""
    levels = [math.log(max(count, _LEAST_DOCUMENTS), MERGED) for count in documents]
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
    views: Sequence[View],
    alive: Sequence[NDArray[np.bool_]],
    k: int,
    named: bool,
    design: str | None,
    stop: Callable[[], bool],
) -> None:
    """Write the living documents of segments to a new one.

    ``alive`` bool[documents] are those of each. Reads whole segments, and raises FormatError where
    one is damaged, else as ``write_segment``. Memory as that, and 8 bytes a document.
    """
    values, ids = [], []
    for view, lives in zip(views, alive, strict=True):
        segment = view.segment
        each = segment.distinct()
        if segment.documents != segment.fingerprints:
            each = np.repeat(each, np.diff(segment.document_starts()))
        whole = bool(lives.all())
        values.append(each if whole else each[lives])
        if named:
            held = segment.ids()
            ids.append(held if whole else held.take(np.flatnonzero(lives)))
    write_segment(file, np.concatenate(values), ids if named else None, k, design, stop)


def died_meanwhile(
    views: Sequence[View], alive: Sequence[NDArray[np.bool_]], sequence: int, merged: Segment
) -> NDArray[np.bool_]:
    """Return which documents of a merged segment are alive, if ``alive`` were when it was begun."""
    lives = np.ones(merged.documents, bool)
    for view, before in zip(views, alive, strict=True):
        gone = np.flatnonzero(before & ~view.alive(sequence))
        if not len(gone):
            continue
        if merged.description.ids is None:
            documents = merged.find_fingerprints(view.segment.distinct()[gone])
        else:
            ids = view.segment.ids().take(gone)
            documents = merged.find_ids(ids, ids.hashes())
        lives[documents[documents != ABSENT].astype(np.int64)] = False
    return lives
