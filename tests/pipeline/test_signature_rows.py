"""Signatures between stages: what is written is read, and the result does not tell of batches."""

import itertools
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.errors import FormatError
from mr_dedup.pipeline import results
from mr_dedup.pipeline.signature_rows import read_signatures, signature_batches, signature_writer
from mr_dedup.signatures.columns import columns_of
from mr_dedup.signatures.methods import parse_method
from mr_dedup.signatures.protocol import Signatures

TEXTS = pa.array([f"one two three four {number // 3} x" for number in range(61)], pa.large_string())
METHODS = [parse_method(text) for text in ("minhash", "minhash:bands=4,rows=3,estimate=0.5")]
SIGNED = [method.sign(TEXTS) for method in METHODS]
TABLE = pa.table(columns_of(METHODS, SIGNED))
SPLITS = [[0, 61], [0, 0, 1, 30, 61], [*range(62)], [0, 16, 32, 48, 61]]


def written(path, edges):
    with signature_writer(path, METHODS) as write:
        for start, stop in itertools.pairwise(edges):
            # other columns, and lists that begin in the midst of an array
            write(TABLE.append_column("id", TEXTS).slice(start, stop - start))
    return path


@pytest.mark.parametrize("edges", SPLITS)
def test_what_is_written_is_read(tmp_path, edges):
    path = written(tmp_path / "signatures.arrow", edges)
    for (method, parts), number in zip(read_signatures(path, METHODS), range(2), strict=True):
        found = Signatures.joined(parts)
        assert method is METHODS[number]
        assert np.array_equal(found.offsets, SIGNED[number].offsets)
        assert np.array_equal(found.keys, SIGNED[number].keys)
        if method.needs_verification:
            assert np.array_equal(found.sketches, SIGNED[number].sketches)
    assert pa.Table.from_batches(signature_batches(path)).equals(TABLE)


def test_pages_of_parts_that_were_read_are_given_back(tmp_path):
    method, rows = parse_method("minhash"), 1 << 13
    part = Signatures(
        np.arange(rows + 1) * 20, np.arange(rows * 20, dtype=np.uint64), np.empty((rows, 0), "u1")
    )
    path = tmp_path / "signatures.arrow"
    with signature_writer(path, [method]) as write:
        for _ in range(32):
            write(pa.table(columns_of([method], [part])))
    ((_, parts),) = read_signatures(path, [method])
    before = mapped_bytes()
    found = []
    for each in parts:
        found.append(each.keys)
        assert np.array_equal(each.keys, part.keys)
    assert mapped_bytes() - before < path.stat().st_size / 4
    # they are valid still
    assert all(np.array_equal(keys, part.keys) for keys in found)


def mapped_bytes():
    """Return the bytes of mapped files that are in the memory of this process."""
    (line,) = re.findall(r"RssFile:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) * 1024


def test_without_methods_nothing_is_written(tmp_path):
    with signature_writer(tmp_path / "signatures.arrow", []) as write:
        write(TABLE)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("cut", [0, 7, 500, -1])
def test_a_damaged_file_is_named(tmp_path, cut):
    path = written(tmp_path / "signatures.arrow", [0, 61])
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(FormatError, match=r"signatures.arrow: not a file of signatures"):
        list(read_signatures(path, METHODS))
    with pytest.raises(FormatError, match=r"signatures.arrow: not a file of signatures"):
        list(signature_batches(path))


@pytest.mark.parametrize("earlier", [0, 1, 17, 61])
def test_the_kept_ones_are_the_same_bytes_whatever_the_batches(tmp_path, earlier, monkeypatch):
    monkeypatch.setattr(results, "_BATCH_ROWS", 10)
    kept = np.random.default_rng(earlier).random(61 - earlier) < 0.6
    made = set()
    for number, edges in enumerate(SPLITS):
        source = written(tmp_path / f"{number}.arrow", edges)
        out = tmp_path / str(number)
        names = results.write_signatures(out, source, METHODS, earlier, kept, 17)
        assert names == sorted(file.name for file in out.iterdir())
        made.add(tuple((out / name).read_bytes() for name in names))
    (contents,) = made
    assert len(contents) == max(1, -(-int(kept.sum()) // 17))
    table = pa.concat_tables(pq.read_table(pa.BufferReader(each)) for each in contents)
    assert table.equals(TABLE.slice(earlier).filter(pa.array(kept)))
