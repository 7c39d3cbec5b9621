"""The file of the labels of the fingerprints that are in clusters of several documents."""

from __future__ import annotations

from pathlib import Path

from mr_dedup.clusters.components import Labels
from mr_dedup.formats.tables import read_side_file, write_side_file


def read_labels(path: Path) -> Labels:
    """Return what ``write_labels`` wrote; FormatError if it is damaged."""
    table, _ = read_side_file(path, ["fingerprint", "label"])
    return Labels(table["fingerprint"].to_numpy(), table["label"].to_numpy())


def write_labels(path: Path, labels: Labels) -> None:
    """Write a side file."""
    write_side_file(path, {"fingerprint": labels.nodes, "label": labels.labels})
