"""Settings that suit a process of ours, a command or a task, and no process of others."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys

PROCESS_VARIABLES = {
    # no kernel has linear algebra, and NumPy's library starts a thread for each core
    "OPENBLAS_NUM_THREADS": "1",
    # batches take the memory again that the ones before have freed: it is kept for 100 ms, not
    # given back after 10 ms and cleared by the system each time; for a second, 50 MB more were kept
    "ARROW_DEFAULT_MEMORY_POOL": "mimalloc",
    "MIMALLOC_PURGE_DELAY": "100",
}
"""Variables of the environment that suit a process of ours, unless they are set."""

_M_ARENA_MAX = -8
"""The parameter of ``mallopt`` in glibc."""

_OBJECTS_BETWEEN_COLLECTIONS = 250_000
"""New objects until Python collects garbage; its default is 700."""


def set_variables() -> None:
    """Set the variables that the user has not set; NumPy and PyArrow read them when imported."""
    for name, value in PROCESS_VARIABLES.items():
        os.environ.setdefault(name, value)


def collect_rarely() -> None:
    """Have Python collect garbage less often: 0.3 s of a de-duplication of 30 MB.

    Objects that imports make stay: to traverse them every 700 objects takes 0.15 s.
    """
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])


def use_one_arena() -> None:
    """Have all threads allocate from one arena, so that what one of them has freed others use.

    30 MB less of a run with two threads, in the same time.
    """
    # of glibc alone
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def release_memory() -> None:
    """Give memory that was freed back to the system, between stages that need it for other things.

    Of 1.25 million short texts a run takes 1.1 GB with it, 1.4 without, and no more time.
    """
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    # of glibc alone
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class _WithoutPandas:
    """A finder of modules that finds no pandas."""

    @staticmethod
    def find_spec(name: str, path: object, target: object = None) -> None:
        """Raise ModuleNotFoundError for pandas; leave others to the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError(f"{name} is not looked for", name=name)


def leave_out_pandas() -> None:
    """Keep PyArrow from importing pandas with its first array, which takes 0.2 s.

    It does so if pandas is installed, to recognise its columns, of which ours makes no array. It
    looks once; whatever needs pandas later, as Spark may, imports it as always.
    """
    import pyarrow as pa

    sys.meta_path.insert(0, _WithoutPandas)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_WithoutPandas)
