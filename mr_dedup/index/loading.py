"""From an index's files to what it holds: for its writer, and for readers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import numpy as np

from mr_dedup.errors import FormatError
from mr_dedup.formats.folders import Folder
from mr_dedup.index.ids import Ids
from mr_dedup.index.log import Record
from mr_dedup.index.manifest import Manifest, SegmentEntry, read_dead
from mr_dedup.index.segment import Segment
from mr_dedup.index.snapshot import View
from mr_dedup.index.state import Batch, State


def load_state(
    folder: Folder, manifest: Manifest, *, check: bool, known: Mapping[str, Segment] | None = None
) -> State:
    """Return what the segments of an index hold; those that are ``known`` are open already.

    Raises FormatError for files that are damaged, FileNotFoundError for those that are gone.
    """
    views = [
        _view(folder, entry, (known or {}).get(entry.file), check) for entry in manifest.segments
    ]
    for view in views:
        require_kind(view.segment, manifest)
    return State(manifest.k, manifest.named, views)


def require_kind(segment: Segment, manifest: Manifest) -> None:
    """Raise FormatError for a segment that cannot be one of an index."""
    about = segment.description
    if about.k < manifest.k or (about.ids is not None) != manifest.named:
        raise FormatError(segment.path, "header", "is a segment of another index")


def _view(folder: Folder, entry: SegmentEntry, known: Segment | None, check: bool) -> View:
    file = folder / entry.file
    # one of the same name may be of an index that was here before
    segment = known if known is not None and known.is_of(file) else Segment(file, check=check)
    if segment.bytes != entry.bytes:
        reason = f"is of {segment.bytes} bytes, {entry.bytes} by the manifest"
        raise FormatError(segment.path, None, reason)
    if entry.dead is None:
        return View(segment)
    return View(segment, read_dead(folder / entry.dead, segment.documents), entry.dead)


def replay(records: Iterable[Record], state: State) -> None:
    """Make the changes that records of the log tell of.

    Those that follow each other and are alike are made as one: a log of 65,000 single documents
    takes less than a second, most of it to decode them.
    """
    for kind, alike in itertools.groupby(records, key=lambda record: record.kind):
        run = list(alike)
        fingerprints = np.concatenate([record.fingerprints for record in run])
        columns = [record.ids for record in run if record.ids is not None]
        ids = Ids.joined(columns) if columns else None
        if kind == "add":
            batch = Batch.of_columns(fingerprints, ids)
            state.add(batch, state.look_up(batch))
        else:
            state.remove(state.look_up(Batch(fingerprints, ids)))
