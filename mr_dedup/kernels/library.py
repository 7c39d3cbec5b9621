"""The compiled library: choose the one for this processor, load it, call its functions.

Wheels contain a library for each target in the directory ``libraries``. A checkout has none: the
first entry that is called there has all compiled for this processor, once, and kept in the user's
cache until a source changes.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import json
import os
import platform
import re
import stat
import subprocess
import sys
import tempfile
import threading
from array import array
from collections.abc import Callable, Iterator, Mapping, Set
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mr_dedup.errors import MrDedupError
from mr_dedup.kernels.targets import targets_for

_PACKAGE = Path(__file__).parents[1]

LIBRARIES = Path(__file__).parent / "libraries"
"""Where a wheel has them."""


def targets_here() -> list[str]:
    """Return the names of the targets that this processor runs; see ``targets_for``."""
    flags: Set[str] = frozenset()
    with Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as lines:
        for line in lines:
            if line.startswith("flags"):
                flags = frozenset(line.split())
                break
    return targets_for(platform.machine(), flags)


class Library(NamedTuple):
    """The compiled functions: where they are, and how each is called.

    Attributes:
        path: The file.
        loaded: What it exports.
        functions: The description of each by its name.
    """

    path: Path
    loaded: ctypes.CDLL
    functions: Mapping[str, Any]


_WORD = (1 << 64) - 1
_SIGN = 1 << 63


class Function:
    """A compiled function, called with a tuple of arguments."""

    def __init__(self, library: ctypes.CDLL, name: str, description: Mapping[str, Any]) -> None:
        self._name = name
        self._layouts = description["parameters"]
        self._parameters = [_parameter(each) for each in self._layouts]
        self._results = [_READ[kind] for kind in description["results"]]
        self._is_tuple = description["is_tuple"]
        self._variants = {
            key: _function(library, symbol) for key, symbol in description["variants"].items()
        }
        self._only = self._variants.get("")

    def __call__(self, arguments: tuple[Any, ...]) -> Any:
        """Return the results; see ``entry.Entry``.

        A call of three arrays takes 3.2 us, of which an array takes 0.4, as one of numba does. With
        ``ndarray.ctypes.data`` instead of Arrow's buffers, and an array of ctypes, it took 8.3.
        """
        slots: list[int] = []
        chosen: list[str] = []
        try:
            for put, value in zip(self._parameters, arguments, strict=True):
                put(value, slots, chosen)
        except (AttributeError, TypeError, ValueError) as error:
            raise TypeError(f"{self._name}: {error}") from error
        return self._called(self._only or self._variants[" ".join(chosen)], slots)

    def bind(self, arguments: tuple[Any, ...]) -> Bound:
        """Return a function of the arguments that are VARIES, with the others fixed."""
        slots: list[int] = []
        chosen: list[str] = []
        varying: list[tuple[Put, int, int]] = []
        for put, layout, value in zip(self._parameters, self._layouts, arguments, strict=True):
            if value is VARIES:
                count = 1 + layout.get("dimensions", 0)
                varying.append((put, len(slots), len(slots) + count))
                slots += [0] * count
            else:
                put(value, slots, chosen)
        function = self._only or self._variants[" ".join(chosen)]
        return Bound(functools.partial(self._called, function), slots, varying, arguments)

    def _called(self, function: Any, slots: list[int]) -> Any:
        slots += [0] * (len(self._results) - len(slots))
        space = array("Q", slots)
        if function(space.buffer_info()[0]):
            raise MemoryError(f"{self._name}: out of memory")
        if not self._results:
            return None
        if not self._is_tuple:
            return self._results[0](space[0])
        return tuple([read(slot) for read, slot in zip(self._results, space, strict=False)])


VARIES: Any = object()
"""Stands for an argument that each call of a bound function has: an array, or a number."""


class Bound:
    """A function some of whose arguments are fixed, and kept.

    It is for arrays that many small calls share: a query of the online index takes 18 us if its
    eight are passed each time, 15 if two are (11 with numba's calls).
    """

    def __init__(
        self,
        called: Callable[[list[int]], Any],
        slots: list[int],
        varying: list[tuple[Put, int, int]],
        arguments: tuple[Any, ...],
    ) -> None:
        self._called, self._slots, self._varying = called, slots, varying
        self._kept = arguments

    def __call__(self, *arguments: Any) -> Any:
        """Call the function with the arguments that vary, in their order."""
        slots = self._slots.copy()
        for (put, start, stop), value in zip(self._varying, arguments, strict=True):
            own: list[int] = []
            put(value, own, [])
            slots[start:stop] = own
        return self._called(slots)


Put = Callable[[Any, list[int], list[str]], None]


def _function(library: ctypes.CDLL, symbol: str) -> Any:
    found = getattr(library, symbol)
    found.argtypes = [ctypes.c_uint64]
    return found


def _parameter(layout: Mapping[str, Any]) -> Put:
    """Return a function that appends a value's slots, and its type where that varies."""
    if "tuple" in layout:
        return _tuple_putter([_parameter(each) for each in layout["tuple"]])
    if "array" in layout:
        dtypes = {np.dtype(name): name for name in layout["array"]}
        return _array_putter(dtypes, layout["dimensions"])
    return _number_putter(layout["number"], layout.get("optional", False))


def _tuple_putter(fields: list[Put]) -> Put:
    def put(value: Any, slots: list[int], chosen: list[str]) -> None:
        for put_field, each in zip(fields, value, strict=True):
            put_field(each, slots, chosen)

    return put


def _array_putter(dtypes: Mapping[np.dtype[Any], str], dimensions: int) -> Put:
    varies = len(dtypes) > 1

    def put(value: Any, slots: list[int], chosen: list[str]) -> None:
        if value.dtype not in dtypes or value.ndim != dimensions or not value.flags.c_contiguous:
            raise TypeError(
                f"expected a contiguous array of {' or '.join(dtypes.values())} with {dimensions}"
                f" dimensions, got {value.dtype} with shape {value.shape} and strides"
                f" {value.strides}"
            )
        slots.append(pa.py_buffer(value).address)
        slots.extend(value.shape)
        if varies:
            chosen.append(dtypes[value.dtype])

    return put


def _number_putter(kind: str, is_optional: bool) -> Put:
    def put(value: Any, slots: list[int], chosen: list[str]) -> None:
        if is_optional:
            chosen.append("none" if value is None else kind)
            if value is None:
                return
        if kind == "float64":
            slots.append(int(np.float64(value).view(np.uint64)))
        else:
            slots.append(int(value) & _WORD)

    return put


_READ: dict[str, Callable[[int], Any]] = {
    "float64": lambda slot: float(np.uint64(slot).view(np.float64)),
    "bool": bool,
    "int64": lambda slot: slot - 2 * (slot & _SIGN),
    "uint64": np.uint64,
}


_LOADING = threading.Lock()


@functools.cache
def functions_of(module: str) -> Mapping[str, Function]:
    """Return the compiled functions of a module by name; compile all if none are there yet."""
    library = load_kernels()
    return {
        name.removeprefix(f"{module}."): Function(library.loaded, name, description)
        for name, description in library.functions.items()
        if name.rpartition(".")[0] == module
    }


def load_kernels() -> Library:
    """Load the library of this processor, or return it if it is loaded.

    Raises:
        MrDedupError: There is none for this processor, and none could be compiled.
    """
    with _LOADING:
        return _load()


@functools.cache
def _load() -> Library:
    folder = library_folder()
    path = next(path for name in targets_here() if (path := folder / f"{name}.so").exists())
    try:
        manifest = json.loads((folder / "kernels.json").read_text())
        if hashlib.sha256(path.read_bytes()).hexdigest() != manifest["libraries"][path.stem]:
            raise ValueError(f"the checksum of {path.name} is wrong")
        return Library(path, ctypes.CDLL(os.fspath(path)), manifest["functions"])
    except (OSError, ValueError, KeyError) as error:
        raise MrDedupError(f"{folder}: damaged, install mr-dedup again: {error}") from error


def is_safe(folder: Path) -> bool:
    """Return whether only this user can write to a directory, whose content is executed.

    Not if it is a link. Needs the imports alone that nodes of a cluster have without this package.
    """
    try:
        status = folder.lstat()
    except OSError:
        return False
    ours = status.st_uid in (os.getuid(), 0) and not status.st_mode & 0o022
    return ours and stat.S_ISDIR(status.st_mode)


def library_folder() -> Path:
    """Return a directory with a library that this processor runs; compile it if there is none.

    Raises:
        MrDedupError: There is none for this processor, and none could be compiled.
    """
    names = targets_here()
    if not _PACKAGE.is_dir():
        return _unpacked(names)
    if any((LIBRARIES / f"{name}.so").exists() for name in names):
        return LIBRARIES
    return _compiled_here(names[0])


def _unpacked(names: list[str]) -> Path:
    """Return a directory with the first of ``names`` that a package in a zip file has."""
    inside = resources.files(__package__) / LIBRARIES.name
    for name in names:
        packed = inside / f"{name}.so"
        if packed.is_file():
            manifest = (inside / "kernels.json").read_bytes()
            folder = _writable_cache() / f"{json.loads(manifest)['sources']}-{name}"
            if not folder.is_dir():
                with tempfile.TemporaryDirectory(dir=folder.parent) as made:
                    copy = Path(made, "library")
                    copy.mkdir()
                    (copy / "kernels.json").write_bytes(manifest)
                    (copy / f"{name}.so").write_bytes(packed.read_bytes())
                    with contextlib.suppress(OSError):  # another process has done so
                        copy.rename(folder)
            return folder
    raise MrDedupError(f"{_PACKAGE}: contains no compiled kernels for this processor")


def _writable_cache() -> Path:
    caches = list(_caches())
    for cache in caches:
        with contextlib.suppress(OSError):
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_safe(cache) and os.access(cache, os.W_OK | os.X_OK):
            return cache
    raise MrDedupError(f"compiled kernels can be kept in none of {', '.join(map(str, caches))}")


def _compiled_here(target: str) -> Path:
    """Return a directory with a library for ``target``, made of the present sources."""
    name = f"{sources_digest()}-{target}"
    for cache in _caches():
        if is_safe(cache) and (cache / name).is_dir():
            return cache / name
    folder = _writable_cache() / name
    _compile(folder, target)
    return folder


def _caches() -> Iterator[Path]:
    """Yield the directories where compiled libraries may be.

    That of MR_DEDUP_CACHE_DIR, the user's cache, and one for temporary files: the others may be
    read-only, in an account without a home.
    """
    chosen = os.environ.get("MR_DEDUP_CACHE_DIR")
    if chosen:
        yield Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 (without a home Path raises)
    yield Path(home) / "mr_dedup" / "kernels"
    yield Path(tempfile.gettempdir()) / f"mr_dedup-kernels-{os.getuid()}"


def _compile(folder: Path, target: str) -> None:
    """Compile all kernels in a process of its own; one at a time of all that want the same."""
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return
        if sys.stderr.isatty():
            print("compiling kernels for this processor, once", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            paths = os.pathsep.join([str(_PACKAGE.parent), *filter(None, sys.path)])
            done = subprocess.run(
                [sys.executable, "-m", "mr_dedup.kernels.compiler", f"{made}/library", target],
                env={**os.environ, "PYTHONPATH": paths}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            )  # fmt: skip
            if done.returncode != 0:
                reason = done.stdout.strip().rpartition("\n")[2]
                raise MrDedupError(
                    f"compiled kernels are missing, and compiling them failed: {reason}"
                )
            Path(made, "library").rename(folder)


def kernel_sources(package: Path) -> list[Path]:
    """Return the modules of a package that its kernels are compiled from.

    Those that define kernels, which are named kernels.py or …_kernels.py; the package kernels; and
    all of the package that these import, but for this module.
    """
    imports = re.compile(rb"^\s*(?:from|import) " + package.name.encode() + rb"\.([\w.]+)", re.M)
    found = {package / "kernels" / "library.py"}
    left = [*package.rglob("*kernels.py"), *(package / "kernels").rglob("*.py")]
    while left:
        path = left.pop()
        if path not in found and path.is_file():
            found.add(path)
            names = (name.decode() for name in imports.findall(path.read_bytes()))
            left += (package / f"{name.replace('.', '/')}.py" for name in names)
    return sorted(found - {package / "kernels" / "library.py"})


def sources_digest(package: Path = _PACKAGE) -> str:
    """Return 16 characters that differ when a source of kernels does."""
    digest = hashlib.sha256()
    for path in kernel_sources(package):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]
