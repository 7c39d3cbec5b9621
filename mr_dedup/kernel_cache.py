"""A folder where numba may keep compiled kernels: without any it refuses to compile them.

Looked after before numba is imported, which reads NUMBA_CACHE_DIR then.
"""

from __future__ import annotations

import os
from pathlib import Path

_VARIABLE = "NUMBA_CACHE_DIR"


def ensure_kernel_cache() -> None:
    """Set NUMBA_CACHE_DIR to a folder of this user's for temporary files, if numba finds no other.

    It looks in NUMBA_CACHE_DIR, beside the sources, and in the user's cache folder; all of these
    may be read-only: a package that root installed, in an account without a home.
    """
    chosen = os.environ.get(_VARIABLE)
    if any(_writable(folder) for folder in (chosen, *_numbas_places()) if folder):
        return
    folder = _temporary_place()
    if folder is not None:
        os.environ[_VARIABLE] = str(folder)


def _numbas_places() -> tuple[str | Path, ...]:
    package = Path(__file__).parent
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 (without a home Path raises)
    return package / "__pycache__", home


def _temporary_place() -> Path | None:
    """Return a folder that nobody else can write to: what is in it is run."""
    import tempfile

    try:
        folder = Path(tempfile.gettempdir()) / f"mr_dedup-kernels-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        ours = status.st_uid == os.getuid() and not status.st_mode & 0o022
        return folder if ours and not folder.is_symlink() and _writable(folder) else None
    except OSError:
        return None


def _writable(folder: str | Path) -> bool:
    """Return whether files can be made in ``folder``, or it can be made itself."""
    path = Path(folder).absolute()
    try:
        while not path.exists() and path != path.parent:
            path = path.parent
        return path.is_dir() and os.access(path, os.W_OK | os.X_OK)
    except OSError:
        return False  # in a folder that is closed to us
