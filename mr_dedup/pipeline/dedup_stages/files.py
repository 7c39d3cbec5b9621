"""The files that the stages of a run leave in its directory."""

from __future__ import annotations

import json
from pathlib import Path

from mr_dedup.files.outputs import whole_file
from mr_dedup.pipeline import results

RESULT = "result"
"""The directory, in that of the stages, that becomes the result."""

ROWS, LABELS, KEPT = "rows.parquet", "labels.parquet", "kept.parquet"
SIGNATURES = "signatures.arrow"
CLUSTERED = "clustered.parquet"
SAMPLES, SHOWN = "samples.json", "shown.json"
REJECTS = f"{RESULT}/{results.REJECTS}"
DECISIONS, CLUSTERS = f"{RESULT}/decisions.parquet", f"{RESULT}/clusters.parquet"
DOCUMENTS = f"{RESULT}/{results.DOCUMENTS}"
FINGERPRINTS = f"{RESULT}/{results.FINGERPRINTS}"
KEPT_SIGNATURES = f"{RESULT}/{results.SIGNATURES}"


def write_json(path: Path, content: object) -> None:
    """Write ``content`` as a JSON file that appears whole; replace one of this name."""
    with whole_file(path, overwrite=True) as file:
        file.write(json.dumps(content).encode())
