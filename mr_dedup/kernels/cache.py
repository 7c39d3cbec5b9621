"""The directory where numba keeps compiled kernels: writable, and without outdated ones.

Numba caches a compiled function under the content of its own module. A function that it inlines or
calls from another module is part of the compiled code, but not of that key: after an upgrade that
changed only the other module, the old code would run. So compiled kernels are removed when any
module that they are compiled from has changed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_VARIABLE = "NUMBA_CACHE_DIR"

_STAMP = "mr_dedup-kernels.txt"


class _Cache(NamedTuple):
    """A directory where numba looks for compiled functions, and the one in it for each of ours."""

    root: Path
    folder_of: Callable[[Path], Path]


def prepare_cache() -> Path | None:
    """Remove outdated kernels from numba's cache; return a directory for it if it has none.

    Numba looks in NUMBA_CACHE_DIR, beside the sources, and in the user's cache directory. All of
    these may be read-only: a package that root installed, in an account without a home. Then a
    directory of this user's for temporary files is returned, None if there is none either. Takes 2
    ms.
    """
    package = Path(__file__).parents[1]
    for cache in _numbas_caches(package):
        if _writable(cache.root):
            _remove_stale(package, cache)
            return None
    folder = _temporary_folder()
    if folder is not None:
        _remove_stale(package, _by_digest(folder))
    return folder


def _numbas_caches(package: Path) -> Iterator[_Cache]:
    """Yield the directories where numba looks, in its order."""
    chosen = os.environ.get(_VARIABLE)
    if chosen:
        yield _by_digest(Path(chosen))
    yield _Cache(package / "__pycache__", lambda folder: folder / "__pycache__")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 (without a home Path raises)
    yield _by_digest(Path(home) / "numba")


def _by_digest(root: Path) -> _Cache:
    def folder_of(folder: Path) -> Path:
        import hashlib

        digest = hashlib.sha1(str(folder.absolute()).encode(), usedforsecurity=False).hexdigest()
        return root / f"{folder.name}_{digest}"

    return _Cache(root, folder_of)


def _remove_stale(package: Path, cache: _Cache) -> None:
    """Remove compiled kernels unless they were compiled from the present sources.

    A file in the cache has a digest of the sizes and times of all sources, which is compared each
    time, and one of the content of those that kernels are compiled from, which is compared where
    the first differs.
    """
    if not package.is_dir():
        return  # in a zip file: numba compares its time and size itself
    modules = dict(sorted(_modules(str(package))))
    seen = repr(list(modules.items()))
    stamp = cache.folder_of(package) / _STAMP
    try:
        was_seen, _, was_made_of = stamp.read_text().partition("\n")
    except (OSError, ValueError):
        was_seen = was_made_of = ""
    now_seen = _digest(seen.encode())
    if was_seen == now_seen:
        return
    paths = [Path(path) for path in modules]
    made_of = _digest(*(path.read_bytes() for path in kernel_sources(package, paths)))
    # a directory without permission is left as it is; another process may remove kernels meanwhile
    with contextlib.suppress(OSError):
        if was_made_of != made_of:
            for folder in {path.parent for path in paths}:
                for compiled in cache.folder_of(folder).glob("*.nb[ic]"):
                    compiled.unlink(missing_ok=True)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        written = stamp.with_name(f"{_STAMP}.{os.getpid()}")
        written.write_text(f"{now_seen}\n{made_of}")
        written.replace(stamp)


def _modules(folder: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the path of each module below a directory, with its size in bytes and time in ns."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                status = entry.stat()
                yield entry.path, (status.st_size, status.st_mtime_ns)
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _modules(entry.path)


def kernel_sources(package: Path, modules: list[Path]) -> list[Path]:
    """Return those ``modules`` of a package that kernels are compiled from.

    Those that import the decorator or numba, and all that they import of the package.
    """
    import re

    imports = re.compile(rb"^\s*(?:from|import) " + package.name.encode() + rb"\.([\w.]+)", re.M)
    by_name = {path.relative_to(package).with_suffix("").as_posix(): path for path in modules}
    found: dict[Path, None] = {}
    left = [
        path
        for path in modules
        if re.search(rb"^(?:from|import) (?:numba|[\w.]+\.kernels\.jit)", path.read_bytes(), re.M)
    ]
    while left:
        path = left.pop()
        if path not in found:
            found[path] = None
            names = imports.findall(path.read_bytes())
            left += filter(None, (by_name.get(name.decode().replace(".", "/")) for name in names))
    return sorted(found)


def _digest(*parts: bytes) -> str:
    import hashlib

    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def _temporary_folder() -> Path | None:
    """Return a directory that only this user can write to, since its content is executed."""
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
        return False  # no permission to look
