"""What an index holds, and what it takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mr_dedup.index.manifest import Manifest
from mr_dedup.index.state import State


@dataclass(frozen=True)
class SegmentStats:
    """One segment: its documents, how many of them are dead, its bytes, and its tables."""

    file: str
    documents: int
    dead: int
    bytes: int
    design: str
    tables: int


@dataclass(frozen=True)
class IndexStats:
    """What an index holds and takes; ``merge_failure`` says why the last merge failed, if so."""

    documents: int
    k: int
    named: bool
    features: str | None
    segments: tuple[SegmentStats, ...]
    memory_documents: int
    log_bytes: int
    disk_bytes: int
    merge_failure: str | None = None


def stats_of(folder: Path, manifest: Manifest, state: State, failure: str | None) -> IndexStats:
    """Return what an index holds, and what its files take now."""
    segments = tuple(
        SegmentStats(
            view.segment.path.name, view.segment.documents, view.dead_count, view.segment.bytes,
            view.segment.design.name, len(view.segment.design.masks),
        )
        for view in state.views
    )  # fmt: skip
    log = folder / manifest.log
    log_bytes = log.stat().st_size if log.exists() else 0
    dead = [folder / entry.dead for entry in manifest.segments if entry.dead]
    dead_bytes = sum(path.stat().st_size for path in dead if path.exists())
    disk_bytes = sum(each.bytes for each in segments) + log_bytes + dead_bytes
    return IndexStats(
        len(state.current), manifest.k, manifest.named, manifest.features, segments,
        len(state.memory.slots), log_bytes, disk_bytes, failure,
    )  # fmt: skip
