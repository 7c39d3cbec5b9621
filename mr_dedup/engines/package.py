"""This package as one file that is shipped to the nodes of a cluster."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import mr_dedup

# equal content makes equal files, and sources of one age for what is keyed by it
_DATE = (2020, 1, 1, 0, 0, 0)


def pack(path: Path) -> str:
    """Write the package to ``path``, a zip; return a digest of its content, 16 characters."""
    root = Path(mr_dedup.__file__).parent
    digest = hashlib.sha256()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(root.rglob("*")):
            if "__pycache__" in source.parts or not source.is_file():
                continue
            name, content = f"{root.name}/{source.relative_to(root)}", source.read_bytes()
            digest.update(f"{name} {len(content)}\n".encode())
            digest.update(content)
            entry = zipfile.ZipInfo(name, _DATE)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return digest.hexdigest()[:16]
