"""This package as one file that is shipped to the nodes of a cluster."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import mr_dedup
from mr_dedup.kernels.library import LIBRARIES, library_folder

FILE_LIST = "mr_dedup_files"
"""The member of the package with the names of all others, a line each."""

# equal content makes equal files, and sources of one age for what is keyed by it
_DATE = (2020, 1, 1, 0, 0, 0)


def pack(path: Path) -> str:
    """Write the package to ``path``, a zip; return a digest of its content, 16 characters.

    With the compiled kernels, those of this machine if the package has none of its own, and a list
    of its files.
    """
    root = Path(mr_dedup.__file__).parent
    files = {
        f"{root.name}/{source.relative_to(root)}": source
        for source in root.rglob("*")
        if "__pycache__" not in source.parts and source.is_file()
    }
    libraries = library_folder()
    inside = f"{root.name}/{LIBRARIES.relative_to(root)}"
    files |= {f"{inside}/{source.name}": source for source in libraries.iterdir()}
    contents = {name: source.read_bytes() for name, source in sorted(files.items())}
    contents[FILE_LIST] = "".join(f"{name}\n" for name in contents).encode()
    digest = hashlib.sha256()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            digest.update(f"{name} {len(content)}\n".encode())
            digest.update(content)
            entry = zipfile.ZipInfo(name, _DATE)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return digest.hexdigest()[:16]
