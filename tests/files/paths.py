"""Files by their paths, as the index opens them by their directories."""

from mr_dedup.files.folders import Folder, FolderFile


def file_at(path) -> FolderFile:
    """Return the file at a path, its directory opened."""
    return Folder(path.parent) / path.name
