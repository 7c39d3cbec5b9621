"""The online index: fingerprints of documents on disk, searched in microseconds, safe to kill."""
