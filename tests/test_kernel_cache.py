"""Where compiled kernels are kept when the places numba knows are closed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mr_dedup

PROBE = """
import os
import numpy as np
from mr_dedup.formats.decimal_kernels import signed_decimals
signed_decimals(np.zeros(1, np.uint64), np.zeros(1, np.uint8))
print(os.environ.get("NUMBA_CACHE_DIR"))
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
    """Import kernels as a user to whom permissions apply; return NUMBA_CACHE_DIR then."""
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
    from mr_dedup import kernel_cache

    theirs = tmp_path / f"mr_dedup-kernels-{os.getuid()}"
    theirs.mkdir()
    theirs.chmod(0o777)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(kernel_cache, "_numbas_places", tuple)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    kernel_cache.ensure_kernel_cache()
    assert "NUMBA_CACHE_DIR" not in os.environ
    theirs.chmod(0o700)
    kernel_cache.ensure_kernel_cache()
    assert os.environ["NUMBA_CACHE_DIR"] == str(theirs)
