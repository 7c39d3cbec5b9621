"""The files that the stages of a run leave in its directory."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from mr_dedup.files.outputs import whole_file
from mr_dedup.pipeline import results

RESULT = "result"
"""The directory, in that of the stages, that becomes the result."""

ROWS, LABELS, KEPT = "rows.parquet", "labels.parquet", "kept.parquet"
SIGNATURES = "signatures.arrow"
COLUMNS = "columns.arrow"
MEMBERS = "members.parquet"
CLUSTERED = "clustered.parquet"
SAMPLES, SHOWN = "samples.json", "shown.json"
REJECTS = f"{RESULT}/{results.REJECTS}"
DECISIONS, CLUSTERS = f"{RESULT}/{results.DECISIONS}", f"{RESULT}/{results.CLUSTERS}"
DOCUMENTS = f"{RESULT}/{results.DOCUMENTS}"
FINGERPRINTS = f"{RESULT}/{results.FINGERPRINTS}"
COUNTS, EARLIER_COUNTS = f"{RESULT}/{results.COUNTS}", f"{RESULT}/{results.EARLIER_COUNTS}"
KEPT_SIGNATURES = f"{RESULT}/{results.SIGNATURES}"
"""Directories of the result: documents, and datasets of parts."""


def files_in(folder: str, names: Iterable[str]) -> list[str]:
    """Return the files ``names`` of a directory of the run, relative to that of the run.

    >>> files_in(CLUSTERS, ["part-00000.parquet"])
    ['result/clusters/part-00000.parquet']
    """
    return [f"{folder}/{name}" for name in names]


def write_json(path: Path, content: object) -> None:
    """Write ``content`` as a JSON file that appears whole; replace one of this name."""
    with whole_file(path, overwrite=True) as file:
        file.write(json.dumps(content).encode())
