"""Load the documents of an index from its files, for its writer and for readers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import numpy as np

from mr_dedup.errors import FormatError
from mr_dedup.files.folders import Folder
from mr_dedup.index.hits import QUERY_BUFFERS, QueryBuffers
from mr_dedup.index.ids import Ids
from mr_dedup.index.log import Record
from mr_dedup.index.manifest import Manifest, SegmentEntry, read_dead
from mr_dedup.index.segment import Segment
from mr_dedup.index.snapshot import SegmentView
from mr_dedup.index.state import Batch, State


def load_state(
    folder: Folder,
    manifest: Manifest,
    *,
    check: bool,
    opened: Mapping[str, Segment] | None = None,
    buffers: QueryBuffers = QUERY_BUFFERS,
) -> State:
    """Return the documents in the segments of an index.

    Args:
        folder: the directory of the index.
        manifest: names the segments.
        check: compare segments with their checksums first.
        opened: segments that are open already, by name.
        buffers: how much a query buffers.

    Raises:
        FormatError: a file is damaged.
        FileNotFoundError: a file is missing.
    """
    views = [
        _view(folder, entry, (opened or {}).get(entry.file), check) for entry in manifest.segments
    ]
    for view in views:
        require_kind(view.segment, manifest)
    return State(manifest.k, manifest.named, views, buffers)


def require_kind(segment: Segment, manifest: Manifest) -> None:
    """Raise FormatError unless a segment fits the index of ``manifest``."""
    about = segment.description
    if about.k < manifest.k or (about.ids is not None) != manifest.named:
        raise FormatError(segment.path, "header", "is a segment of another index")


def _view(folder: Folder, entry: SegmentEntry, opened: Segment | None, check: bool) -> SegmentView:
    file = folder / entry.file
    # a file of the same name may be of an index that was here before
    segment = opened if opened is not None and opened.is_of(file) else Segment(file, check=check)
    if segment.bytes != entry.bytes:
        reason = f"is of {segment.bytes} bytes, {entry.bytes} by the manifest"
        raise FormatError(segment.path, None, reason)
    if entry.dead is None:
        return SegmentView(segment)
    return SegmentView(segment, read_dead(folder / entry.dead, segment.documents), entry.dead)


def replay(records: Iterable[Record], state: State) -> None:
    """Apply the records of a log.

    Runs of one kind are applied as one change: a log of 65,000 single documents takes less than a
    second, most of it to decode them.
    """
    for kind, group in itertools.groupby(records, key=lambda record: record.kind):
        run = list(group)
        fingerprints = np.concatenate([record.fingerprints for record in run])
        columns = [record.ids for record in run if record.ids is not None]
        ids = Ids.joined(columns) if columns else None
        if kind == "add":
            batch = Batch.of_columns(fingerprints, ids)
            state.add(batch, state.look_up(batch))
        else:
            state.remove(state.look_up(Batch(fingerprints, ids)))
