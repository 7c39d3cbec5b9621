"""Document frequencies that tasks read: once a process, however many tasks it runs."""

from __future__ import annotations

import threading
from functools import lru_cache
from pathlib import Path

from mr_dedup.errors import MrDedupError
from mr_dedup.features.document_frequencies import DocumentFrequencies
from mr_dedup.features.options import FeatureOptions


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
    with _reading:
        found = _read(file)
    if features is not None:
        try:
            found.check_features(features)
        except MrDedupError as error:
            raise MrDedupError(f"{path}: {error}") from error
    return found


_reading = threading.Lock()


# a job reads up to two: weights of features and of keywords
@lru_cache(maxsize=2)
def _read(file: tuple[str, int, int, int]) -> DocumentFrequencies:
    """Read a file, named with what changes if it is replaced."""
    return DocumentFrequencies.read(Path(file[0]))
