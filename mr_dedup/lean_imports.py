"""Keep out of a process of ours what the packages we import would do for nothing.

Only for commands: who uses mr_dedup as a library may need what is kept out.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_OBJECTS_BETWEEN_COLLECTIONS = 250_000
"""New objects until Python looks for garbage that refers to itself; as it comes, 700."""

_CACHING = "numba.core.caching"


def lean_imports() -> None:
    """Have mrjob find Python's own distutils, and numba import what it compiles with when it does.

    Setuptools puts itself in the place of distutils, of which mrjob takes one function: 0.2 s.
    Numba looks through scipy for linear algebra, which no kernel here has: 0.15 s. Objects that
    imports make stay: to go through them every 700 took 0.15 s of a de-duplication of 30 MB, every
    50,000 still 0.05 s. Arrow's own allocator takes memory in huge pages for each thread, and the
    system cleared them for 0.1 s, used or not.
    """
    # no kernel has linear algebra, and NumPy's starts a thread for each core
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])
    if "numba" not in sys.modules:
        sys.modules.setdefault("scipy", None)  # type: ignore[arg-type]
        sys.meta_path.insert(0, _CachingFinder())
    if sys.version_info >= (3, 12) or "distutils" in sys.modules:
        return
    hack = sys.modules.get("_distutils_hack")
    if hack is not None:
        hack.remove_shim()


class _CachingFinder:
    """Finds numba's module of cached kernels, once, and has it changed when it is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how the module is loaded, None for every other one."""
        if fullname != _CACHING:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _CachingLoader(spec.loader)  # type: ignore[assignment]
        return spec


class _CachingLoader:
    """Loads the module as another loader does, and changes it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to the other loader."""
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Leave it to the other loader, then change what it made."""
        self._loader.exec_module(module)
        _load_kernels_plainly(module)


def _load_kernels_plainly(caching: Any) -> None:
    """Have cached kernels loaded without everything that is known to compile one.

    Numba imports 60 modules and enters all their functions before it loads the first kernel, 0.15
    to 0.2 s, and does so again before it compiles one. A kernel that is loaded needs of it only
    the memory management that it was linked with. Where numba's function is not the one that was
    looked at, it stays.
    """
    function = getattr(caching.Cache, "load_overload", None)
    code = getattr(function, "__code__", None)
    expected = ("refresh", "_guard_against_spurious_io_errors", "_load_overload")
    if code is None or code.co_names != expected:
        return

    def load_overload(self: Any, sig: Any, target_context: Any) -> Any:
        from numba.core.runtime import rtsys

        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    caching.Cache.load_overload = load_overload
