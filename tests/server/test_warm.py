"""A server loads all compiled code before its first request."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.server.service import Limits, Service, WarmUpError

ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
import numpy as np
from numba.core.dispatcher import Dispatcher
from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.fingerprint_options import FingerprintOptions
from mr_dedup.server.service import Limits, Service

def loaded():
    return {
        (name, each): len(getattr(module, each).signatures)
        for name, module in list(sys.modules.items())
        if name.startswith("mr_dedup.")
        for each in dir(module)
        if isinstance(getattr(module, each), Dispatcher)
    }

folder, named = sys.argv[1], sys.argv[2] == "named"
with HammingIndex.create(
    folder, named=named, made_from=FingerprintOptions(), memory_documents=30, background=False
) as index:
    Service(index, Limits()).warm_up()
    before = loaded()
    rng = np.random.default_rng(1)
    for size in (1, 20, 20, 100, 1, 40):
        values = rng.integers(0, 1 << 64, size, np.uint64) >> np.uint64(50)
        ids = [str(each) for each in values.tolist()] if named else None
        index.check_and_add(values, ids)
        index.add(values, ids)
        index.query(values)
        index.remove([str(each) for each in values[::3].tolist()])
    index.compact()
    index.query(values, 1, limit=1)
    after = loaded()
print({each: count for each, count in after.items() if count != before.get(each)})
"""


@pytest.mark.parametrize("kind", ["named", "unnamed"])
def test_no_kernel_is_loaded_after_the_start(tmp_path, kind):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "index"), kind]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "{}\n", done.stdout + done.stderr


def test_a_temporary_folder_without_locks(tmp_path, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with HammingIndex.create(tmp_path / "index") as index:
        service = Service(index, Limits())
        monkeypatch.setattr("fcntl.flock", flock)
        with pytest.raises(WarmUpError, match=r"not loaded: .*cannot be locked: No locks"):
            service.warm_up()
    assert list(temporary.iterdir()) == []
