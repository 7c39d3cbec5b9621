"""Document frequencies that tasks read: once a process, however many tasks it runs."""

from __future__ import annotations

from pathlib import Path

from mr_dedup.errors import MrDedupError
from mr_dedup.features.document_frequencies import DocumentFrequencies
from mr_dedup.features.options import FeatureOptions

_last_read: dict[tuple[str, int, int, int], DocumentFrequencies] = {}
"""The frequencies that were read last, by their file."""


def read_frequencies(
    path: str | None, features: FeatureOptions | None = None
) -> DocumentFrequencies | None:
    """Return the document frequencies in a file; None if ``path`` is None.

    Raises MrDedupError if they cannot be read, or are of other features than ``features``.
    """
    if path is None:
        return None
    try:
        status = Path(path).stat()
        file = (path, status.st_dev, status.st_ino, status.st_mtime_ns)
    except OSError:
        # reading it raises the error
        file = (path, 0, 0, 0)
    found = _last_read.get(file)
    if found is None:
        found = DocumentFrequencies.read(Path(path))
        _last_read.clear()
        _last_read[file] = found
    if features is not None:
        try:
            found.check_features(features)
        except MrDedupError as error:
            raise MrDedupError(f"{path}: {error}") from error
    return found
