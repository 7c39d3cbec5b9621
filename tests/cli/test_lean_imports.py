"""What a command keeps out of its process changes nothing that it does."""

import os
import subprocess
import sys

import pytest

LEAN = "from mr_dedup.lean_imports import lean_imports; lean_imports();"

KERNELS = """
import sys, numpy as np
from numba import njit

@njit(cache=True)
def total(values):
    parts = np.empty(values.size, np.int64)
    found = 0
    for number in range(values.size):
        parts[number] = values[number] ** 2
        found += parts[number]
    return found

@njit(cache=True)
def ordered(values):
    return np.sort(values)[::-1].copy(), np.median(values.astype(np.float64))
"""

USE = """
import many, sys
print(many.total(np.arange(10)))
print("numba.np.linalg" in sys.modules)
if len(sys.argv) > 1:
    print(many.ordered(np.arange(4))[0].tolist(), many.total(np.arange(10).astype(np.int32)))
print(sum(many.total.stats.cache_hits.values()))
"""


def said(code, folder, *arguments):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True,
        cwd=folder, env=environment,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.fixture
def kernels(tmp_path):
    (tmp_path / "many.py").write_text(KERNELS)
    code = "import sys; sys.path.insert(0, '.');" + LEAN + "import numpy as np" + USE
    return lambda *arguments: said(code, tmp_path, *arguments)


def test_a_kernel_that_is_cached_is_loaded_without_the_compiler(kernels):
    # what is compiled needs all of numba
    assert kernels() == ["285", "True", "0"]
    assert kernels() == ["285", "False", "1"]


def test_what_is_not_cached_is_compiled_after_what_is(kernels):
    kernels()
    assert kernels("more") == ["285", "False", "[3, 2, 1, 0] 285", "1"]
    assert kernels("more") == ["285", "False", "[3, 2, 1, 0] 285", "2"]


def test_a_function_of_numba_that_nobody_looked_at_stays(tmp_path):
    code = LEAN + (
        "import types;"
        "caching = types.SimpleNamespace(Cache=type('Cache', (), {'load_overload': len}));"
        "from mr_dedup import lean_imports as lean;"
        "lean._load_kernels_plainly(caching);"
        "print(caching.Cache.load_overload is len);"
        "caching.Cache.load_overload = lambda self, sig, context: context.other();"
        "kept = caching.Cache.load_overload;"
        "lean._load_kernels_plainly(caching);"
        "print(caching.Cache.load_overload is kept)"
    )
    assert said(code, tmp_path) == ["True", "True"]


def test_numba_is_still_the_one_that_was_looked_at(tmp_path):
    code = LEAN + (
        "import numba.core.caching as caching;"
        "print(caching.Cache.load_overload.__module__, caching.__name__, caching.__spec__.name)"
    )
    assert said(code, tmp_path) == ["mr_dedup.lean_imports numba.core.caching numba.core.caching"]


def test_modules_and_settings_of_others_stay_where_a_library_is_used(tmp_path):
    code = (
        "import gc, os, sys; before = gc.get_threshold();"
        "import mr_dedup.cli.main, mr_dedup.signatures.combined;"
        "print(gc.get_threshold() == before, sys.modules.get('scipy', 0) is None,"
        "'OPENBLAS_NUM_THREADS' in os.environ)"
    )
    assert said(code, tmp_path) == ["True False False"]
