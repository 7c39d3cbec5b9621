"""Right checksums over wrong content: it is reported, or answers are wrong, but no process ends."""

import subprocess
import sys
from pathlib import Path

import pytest
import xxhash

from mr_dedup.errors import FormatError
from mr_dedup.index.folder import MANIFEST_NAME
from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.manifest import VERSION

ROOT = Path(__file__).parent.parent.parent
KINDS = {"MANIFEST", "segment", "dead", "log"}


def outcomes(folder, seeds):
    """Do with wrong indexes what users do; return for each seed the kind of file, and what came."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.index.wrong_content", folder],
        cwd=ROOT, text=True, capture_output=True, check=False,
        input="".join(f"{seed}\n" for seed in seeds),
    )  # fmt: skip
    lines = run.stdout.splitlines()
    where = f"seed {seeds[len(lines) - 1]}" if 0 < len(lines) <= len(seeds) else "end"
    assert (run.returncode, where) == (0, "end"), run.stderr[-2000:]
    assert lines[0] == "ready " + str(["done"] * 6)
    return [line.split() for line in lines[1:]]


def require_reported(found):
    """Most of what is wrong is found when an index is opened, verified or used."""
    assert {kind for kind, *_ in found} == KINDS
    reported = [ends for _, *ends in found if "FormatError" in ends]
    assert len(reported) > len(found) / 2
    # what stops a change is reported by a verification too
    assert not [ends for ends in reported if ends[0] != "FormatError"]


def test_wrong_content_ends_no_process(tmp_path):
    require_reported(outcomes(tmp_path, range(48)))


@pytest.mark.slow
def test_much_wrong_content_ends_no_process(tmp_path):
    require_reported(outcomes(tmp_path, range(1000, 2000)))


CUT = """
import os, sys
from pathlib import Path
from mr_dedup.errors import FormatError
from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.reader import IndexReader
from tests.index.wrong_content import FINGERPRINTS, NAMES, make
folder, length = Path(sys.argv[1]), int(sys.argv[2])
make(folder, named=True)
checked, unchecked = (IndexReader.open(folder, check=check) for check in (True, False))
writer = HammingIndex.open(folder, background=False)
for path in folder.glob("segment-*"):
    os.truncate(path, length)
for use in (
    lambda: checked.query(FINGERPRINTS),
    lambda: unchecked.query(FINGERPRINTS),
    lambda: writer.query(FINGERPRINTS[:1]),
    lambda: writer.add(FINGERPRINTS[:5], NAMES[:5]),
    lambda: writer.remove(NAMES[:5]),
    writer.compact,
):
    try:
        use()
    except FormatError as error:
        print(str(error).partition(": ")[2].partition(":")[0])
writer.close()
"""


@pytest.mark.parametrize("length", [0, 4096, 100_000, 1 << 18])
def test_a_segment_that_is_cut_while_it_is_open_is_reported(tmp_path, length):
    run = subprocess.run(
        [sys.executable, "-c", CUT, tmp_path / "index", str(length)],
        cwd=ROOT, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.splitlines() == ["was changed while it was open"] * 6


@pytest.mark.parametrize("content", [b'{"k": "\xff"}', b"[" * 100_000, b"", b"nothing"])
def test_a_manifest_that_is_no_json_is_reported(tmp_path, content):
    HammingIndex.create(tmp_path / "index").close()
    checksum = xxhash.xxh3_64_hexdigest(content)
    first = b"mr_dedup index, version %d, checksum %s\n" % (VERSION, checksum.encode())
    (tmp_path / "index" / MANIFEST_NAME).write_bytes(first + content)
    with pytest.raises(FormatError, match="its checksum is right, and its content wrong"):
        HammingIndex.open(tmp_path / "index")
