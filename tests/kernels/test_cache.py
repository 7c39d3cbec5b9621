"""Where compiled kernels are kept when the places numba knows are closed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mr_dedup
from mr_dedup.kernels.cache import kernel_sources

PROBE = """
import os
import numpy as np
from mr_dedup.formats.decimal_kernels import signed_decimals
signed_decimals(np.zeros(1, np.uint64), np.zeros(1, np.uint8))
import numba
print(numba.config.CACHE_DIR or None)
"""


@pytest.fixture
def installed(tmp_path):
    """A copy of the package, without compiled kernels, in which nobody may write."""
    site = tmp_path / "site"
    shutil.copytree(
        Path(mr_dedup.__file__).parent,
        site / "mr_dedup",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    folders = [site, *(path for path in site.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    yield site
    for folder in folders:
        folder.chmod(0o755)


def probe(site, temporary, **environment):
    """Import kernels as a user whose permissions are checked; return numba's CACHE_DIR then."""
    command = [sys.executable, "-B", "-c", PROBE]
    usual = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    if os.getuid() == 0:
        # root may write anywhere that is not mounted read-only
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    done = subprocess.run(
        command,
        env={**usual, "PYTHONPATH": str(site), "TMPDIR": str(temporary), **environment},
        cwd=temporary,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_folder_for_temporary_files_serves_where_all_else_is_closed(installed, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    chosen = probe(installed, temporary, HOME="/proc/none", XDG_CACHE_HOME="/proc/none")
    assert chosen == str(temporary / f"mr_dedup-kernels-{os.getuid()}")
    assert Path(chosen).stat().st_mode & 0o777 == 0o700
    assert list(Path(chosen).rglob("*.nbi"))


def test_what_numba_finds_is_left_to_it(installed, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    assert probe(installed, home, HOME=str(home), XDG_CACHE_HOME=str(home)) == "None"
    assert not list(home.glob("mr_dedup*"))


def test_a_folder_of_somebody_elses_is_not_used(monkeypatch, tmp_path):
    from mr_dedup.kernels import cache

    theirs = tmp_path / f"mr_dedup-kernels-{os.getuid()}"
    theirs.mkdir()
    theirs.chmod(0o777)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(cache, "_numbas_caches", lambda package: ())
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert cache.prepare_cache() is None
    theirs.chmod(0o700)
    assert cache.prepare_cache() == theirs


INNER = """
from mr_dedup.kernels.jit import kernel
@kernel
def inner():
    return 1
"""
OUTER = """
from mr_dedup.formats.inner_kernels import inner
from mr_dedup.kernels.jit import kernel
@kernel
def outer():
    return 10 * inner()
"""
CALL = """
from mr_dedup.hamming.outer_kernels import outer
print(outer(), sum(outer.stats.cache_hits.values()))
"""


@pytest.fixture
def upgraded(tmp_path):
    """A copy of the package with a kernel that calls one of another module."""
    site = tmp_path / "site"
    package = Path(mr_dedup.__file__).parent
    shutil.copytree(package, site / "mr_dedup", ignore=shutil.ignore_patterns("__pycache__"))
    (site / "mr_dedup" / "formats" / "inner_kernels.py").write_text(INNER)
    (site / "mr_dedup" / "hamming" / "outer_kernels.py").write_text(OUTER)
    return site


def call(site, **environment):
    """What the outer kernel returns in a process of its own, and how often it came from a cache."""
    usual = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment = {**usual, "PYTHONPATH": str(site), **environment}
    command = [sys.executable, "-B", "-c", CALL]
    done = subprocess.run(
        command, env=environment, cwd=Path(site).parent, capture_output=True, text=True, check=True
    )
    return tuple(map(int, done.stdout.split()))


@pytest.mark.parametrize("place", ["beside the sources", "NUMBA_CACHE_DIR", "a home"])
def test_a_kernel_is_compiled_anew_where_one_that_it_calls_has_changed(upgraded, tmp_path, place):
    folders = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home")}
    if place == "NUMBA_CACHE_DIR":
        folders["NUMBA_CACHE_DIR"] = str(tmp_path / "chosen")
    if place == "a home":
        for folder in upgraded.rglob("mr_dedup/**/"):
            # no folder can be made where a file is
            (folder / "__pycache__").write_text("")
    assert call(upgraded, **folders) == (10, 0)
    assert call(upgraded, **folders) == (10, 1)
    inner = upgraded / "mr_dedup" / "formats" / "inner_kernels.py"
    inner.write_text(INNER.replace("return 1", "return 2"))
    assert call(upgraded, **folders) == (20, 0)
    assert call(upgraded, **folders) == (20, 1)
    # what is no part of a kernel, and a file that is only written anew
    (upgraded / "mr_dedup" / "cli" / "main.py").write_text("")
    inner.touch()
    assert call(upgraded, **folders) == (20, 1)


def test_a_package_in_a_zip_file_is_left_to_numba(upgraded, tmp_path):
    packed = shutil.make_archive(str(tmp_path / "packed"), "zip", upgraded)
    folders = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home")}
    assert call(packed, **folders)[0] == 10


def test_modules_that_kernels_are_made_of_are_found():
    package = Path(mr_dedup.__file__).parent
    modules = sorted(package.rglob("*.py"))
    found = [path.relative_to(package).as_posix() for path in kernel_sources(package, modules)]
    with_decorators = [
        path.relative_to(package).as_posix() for path in modules if "@kernel" in path.read_text()
    ]
    assert {*with_decorators, "features/unicode_table.py"} <= {*found}
    assert not any(name.startswith(("cli", "jobs", "report")) for name in found)
