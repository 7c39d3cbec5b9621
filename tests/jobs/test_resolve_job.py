"""The map tasks of the resolve job: each document under its key, in few tables, cached or not."""

import contextlib
import itertools
import json
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingle_sets import shingle_sets
from mr_dedup.features.text_hashes import text_hashes
from mr_dedup.formats import lines
from mr_dedup.formats.documents.files import DocumentFile
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.read import read_documents
from mr_dedup.formats.documents.rejects import Rejects
from mr_dedup.formats.shards import write_shard
from mr_dedup.formats.table_store import TableStore
from mr_dedup.jobs.cached_documents import columns_of_hashes, columns_of_sets, take_sets
from mr_dedup.jobs.contract import TaskInput
from mr_dedup.jobs.fingerprint import FingerprintJob
from mr_dedup.jobs.order_decisions import is_size
from mr_dedup.jobs.part_cache import PartCache
from mr_dedup.jobs.reading import chunk_of
from mr_dedup.jobs.resolve import ResolveJob, reduce_keys_for
from tests.files.test_outputs import files_of_at_most

SHINGLES = FeatureOptions(unit="auto", weighting="binary")
KEYS = 7


def key_of(label):
    return (label * 0x9E3779B97F4A7C15 % 2**64 >> 32) % KEYS


def write_rows(folder, job, part):
    """Write the rows of a chunk as a job has them, and keep what the job caches."""
    tables = [table for _, table in job.map(part, Counter())]
    write_shard(str(folder / "rows"), chunk_of(part, None).number, tables)


def write_attached(folder, chunk, documents, rows, nodes, labels, lengths):
    """Write which of so many documents of a chunk are in clusters, as the attach job does."""
    size = pa.table({"chunk": [chunk], "documents": [documents]})
    columns = {
        "chunk": np.full(len(rows), chunk),
        "row": np.array(rows, np.int64),
        "node": np.array(nodes, np.uint64),
        "label": np.array(labels, np.uint64),
        "length": np.array(lengths, np.int64),
    }
    write_shard(str(folder / "attached"), chunk, [size, *([pa.table(columns)] if rows else [])])


def job_in(folder, **options):
    """Return a job over the shards in a directory."""
    rows_at, attached = str(folder / "rows"), str(folder / "attached")
    return ResolveJob(rows_at=rows_at, attached=attached, shingles=SHINGLES, **options)


def mapped(job, part):
    """Return the tables of documents of a map task by key; check that of the size of the chunk."""
    *tables, (key, size) = job.map(part, Counter())
    assert key == 0
    assert size.to_pylist()[0]["chunk"] == chunk_of(part, None).number
    assert not any(is_size(table) for _, table in tables)
    return tables


@pytest.mark.parametrize("cache_bytes", [None, 10_000, 1 << 30])
@pytest.mark.parametrize("fields", [(), ("day",)])
def test_a_chunk_of_many_batches_is_one_table_a_key(tmp_path, monkeypatch, cache_bytes, fields):
    """However small the batches are: tables of a few rows would cost more than the rows."""
    rng = random.Random(5)
    texts = [" ".join(f"w{rng.randrange(9)}" for _ in range(40)) for _ in range(300)]
    texts = [rng.choice(texts[: i + 1]) for i in range(300)]
    path = tmp_path / "pages.jsonl"
    records = [{"id": f"p{i}", "text": text, "day": str(i % 4)} for i, text in enumerate(texts)]
    written = [json.dumps(record) + "\n" for record in records]
    path.write_text("".join(written))
    starts = [0, *itertools.accumulate(map(len, written))]
    first = {text: i for i, text in reversed(list(enumerate(texts)))}
    labels = [first[text] // 3 for text in texts]
    # copies of a text are all in one cluster, or in none
    rows = [i for i in range(300) if first[texts[i]] % 5]
    lengths = [len(texts[i].encode()) for i in rows]
    write_attached(
        tmp_path, 0, 300, rows, [first[texts[i]] for i in rows], [labels[i] for i in rows], lengths
    )
    cache = PartCache(cache_bytes) if cache_bytes else None
    part = TaskInput(path, "pages.jsonl", cache=cache)
    monkeypatch.setattr(lines, "_READ_BYTES", 2000)
    small = ReadOptions(batch_bytes=2000)
    assert len(list(read_documents([DocumentFile.detect(path)], Rejects(), small))) > 10
    fingerprints = FingerprintJob(
        cached_sets=SHINGLES, keep=tuple(f"newest:{name}" for name in fields), reading=small
    )
    write_rows(tmp_path, fingerprints, part)
    keep = ("lowest:day",) if fields else ("first",)
    job = job_in(tmp_path, reduce_keys=KEYS, keep=keep, reading=small)
    with cache or contextlib.nullcontext():
        found = dict(tables := mapped(job, part))
    assert len(tables) == len(found) == KEYS
    sent = set()
    for key, table in found.items():
        expected = [i for i in rows if key_of(labels[i]) == key]
        assert table["row"].to_pylist() == expected
        assert table["id"].to_pylist() == [f"p{i}" for i in expected]
        assert table["label"].to_pylist() == [labels[i] for i in expected]
        assert table["length"].to_pylist() == [len(texts[i]) for i in expected]
        assert set(table["chunk"].to_pylist()) == {0}
        assert table["position"].to_pylist() == [starts[i] for i in expected]
        assert set(table["file"].to_pylist()) == {"pages.jsonl"}
        if fields:
            assert table["field_day"].to_pylist() == [str(i % 4) for i in expected]
        if cache_bytes:
            sets = shingle_sets(pa.array([texts[i] for i in expected], pa.large_string()), SHINGLES)
            edges = itertools.pairwise(sets.offsets)
            hashes = [sets.hashes[slice(*edge)].tolist() for edge in edges]
            with_text = table["has_text"].to_pylist()
            assert table["shingles"].to_pylist() == [
                each if is_sent else [] for each, is_sent in zip(hashes, with_text, strict=True)
            ]
            assert sum(with_text) < len(expected)
            for i, is_sent in zip(expected, with_text, strict=True):
                assert is_sent or texts[i] in sent
                sent.add(texts[i])
            continue
        for i, text in zip(expected, table["text"].to_pylist(), strict=True):
            assert text == (None if texts[i] in sent else texts[i])
            sent.add(texts[i])
    assert sent == {texts[i] for i in rows}


def test_texts_that_were_sent_are_remembered_in_bounded_memory(tmp_path, monkeypatch):
    """Forgotten ones are sent again: what is decided is the same."""
    path = tmp_path / "pages.jsonl"
    texts = [f"text number {i % 1500}" for i in range(3000)]
    lines_of = [json.dumps({"id": str(i), "text": text}) + "\n" for i, text in enumerate(texts)]
    path.write_text("".join(lines_of))
    labels = [0] * 3000
    write_attached(tmp_path, 0, 3000, range(3000), labels, labels, [len(text) for text in texts])
    part = TaskInput(path, "pages.jsonl")
    monkeypatch.setattr(lines, "_READ_BYTES", 1000)
    reading = ReadOptions(batch_bytes=1000)
    write_rows(tmp_path, FingerprintJob(), part)
    sent, decided = {}, {}
    for stored_bytes in (16 << 7, 1 << 24):
        job = job_in(tmp_path, reading=reading, stored_bytes=stored_bytes)
        tables = [table for _, table in mapped(job, part)]
        sent[stored_bytes] = sum(len(table) - table["text"].null_count for table in tables)
        decided[stored_bytes] = job._decided(job._resolved(tables))
    # 16 texts are remembered
    assert list(sent.values()) == pytest.approx([3000, 1500], abs=50)
    few, many = decided.values()
    assert len(few) == 3000
    assert few.to_pydict() == many.to_pydict()


@pytest.mark.parametrize("are_sets", [True, False])
def test_texts_and_sets_of_a_cluster_are_let_go_as_they_are_read(tmp_path, are_sets):
    """Tables from a file share its memory: a column that stays must not keep the texts."""
    rng = random.Random(2)
    job = job_in(tmp_path, stored_bytes=1 << 16)
    in_memory = []
    with TableStore(1 << 17, tmp_path) as store:
        for chunk in range(60):
            texts = [" ".join(str(rng.randrange(10**6)) for _ in range(300)) for _ in range(30)]
            texts = pa.array(texts, pa.large_string())
            columns = {"id": pa.array(map(str, range(30)), pa.large_string())}
            for name, kind in (("length", np.int64), ("label", np.uint64)):
                columns[name] = np.full(30, 7, kind)
            columns["fingerprint"] = np.arange(30, dtype=np.uint64)
            columns |= columns_of_hashes(text_hashes(texts))
            if are_sets:
                columns["has_text"] = np.ones(30, bool)
                columns |= columns_of_sets(shingle_sets(texts, SHINGLES, job.max_hashes))
            else:
                columns["text"] = texts
            columns["row"], columns["chunk"] = np.arange(30), np.full(30, chunk)
            store.add(0, pa.table(columns))
        size_bytes = store.size_bytes

        def read():
            for table in store.take(0):
                yield table
                del table
                in_memory.append(pa.total_allocated_bytes())

        assert len(job._resolved(read()).table) == 1800
    assert size_bytes > 3_000_000
    assert max(in_memory[20:]) - in_memory[0] < size_bytes / 4


def test_of_a_chunk_without_clustered_documents_only_its_size_is_known(tmp_path):
    path = tmp_path / "pages.jsonl"
    path.write_text('{"id": "a", "text": "b"}\n')
    write_attached(tmp_path, 0, 1, [], [], [], [])
    for cache in (None, PartCache(1 << 20)):
        part = TaskInput(path, "pages.jsonl", cache=cache)
        write_rows(tmp_path, FingerprintJob(cached_sets=SHINGLES), part)
        ((key, table),) = job_in(tmp_path).map(part, Counter())
        assert (key, table.to_pylist()) == (0, [{"chunk": 0, "documents": 1}])


@pytest.mark.parametrize("what", ["length", "number"])
def test_documents_that_have_changed_are_noticed(tmp_path, what):
    path = tmp_path / "pages.jsonl"
    path.write_text('{"id": "a", "text": "one two"}\n' * 3)
    part = TaskInput(path, "pages.jsonl")
    write_rows(tmp_path, FingerprintJob(), part)
    lengths = [7, 8 if what == "length" else 7]
    write_attached(tmp_path, 0, 3 + (what == "number"), [0, 2], [1, 1], [1, 1], lengths)
    with pytest.raises(MrDedupError, match=r"^pages\.jsonl: has other documents than when it was"):
        list(job_in(tmp_path).map(part, Counter()))


def test_what_does_not_fit_the_memory_is_in_a_file_and_what_not_the_disk_is_dropped(tmp_path):
    paths = [tmp_path / f"pages{number}.jsonl" for number in range(20)]
    for number, path in enumerate(paths):
        texts = [" ".join(f"{number}w{i}x{j}" for j in range(200)) for i in range(20)]
        path.write_text("".join(json.dumps({"id": t[:4], "text": t}) + "\n" for t in texts))

    def kept(cache):
        parts = [TaskInput(path, path.name, n, cache=cache) for n, path in enumerate(paths)]
        for part in parts:
            list(FingerprintJob(cached_sets=SHINGLES).map(part, Counter()))
        return [take_sets(cache, chunk_of(part, None).number) is not None for part in parts]

    with PartCache(200_000, tmp_path) as cache:
        assert kept(cache) == [True] * 20
    with PartCache(200_000, tmp_path) as cache, files_of_at_most(150_000):
        assert 0 < sum(kept(cache)) < 20


def test_reduce_keys_grow_with_the_root_of_many_texts():
    """A key for each 32 MB up to 2 GB; of a hundred times that ten times the keys."""
    assert [reduce_keys_for(size << 20) for size in (0, 31, 32, 2047, 2048)] == [1, 1, 2, 64, 65]
    assert [reduce_keys_for((2 << 30) * times) for times in (4, 100)] == [129, 641]


def test_copies_of_a_text_whose_set_was_dropped_are_compared_by_its_text(tmp_path):
    """The sets of the copies in a later chunk are empty: the first one had it."""
    words = [" ".join(f"w{i}x{j}" for j in range(60)) for i in range(4)]
    similar = [f"{text} more" for text in words]
    paths = [tmp_path / f"pages{number}.jsonl" for number in range(3)]
    for path, texts in zip(paths, (words, [*similar, *words], [*words, *similar]), strict=True):
        path.write_text("".join(json.dumps({"id": t[-4:], "text": t}) + "\n" for t in texts))
    found = [(path, line) for path in paths for line in path.read_text().splitlines()]
    texts = [json.loads(line)["text"] for _, line in found]
    labels = [words.index(text.removesuffix(" more")) for text in texts]
    chunks = [chunk_of(TaskInput(path, path.name, n), None).number for n, path in enumerate(paths)]
    for number, (start, stop) in zip(chunks, [(0, 4), (4, 12), (12, 20)], strict=True):
        some, rows = labels[start:stop], range(stop - start)
        lengths = [len(text) for text in texts[start:stop]]
        write_attached(tmp_path, number, stop - start, rows, some, some, lengths)
    job = job_in(tmp_path)

    def resolved(cache, dropped=()):
        parts = [TaskInput(path, path.name, n, cache=cache) for n, path in enumerate(paths)]
        for part in parts:
            write_rows(tmp_path, FingerprintJob(cached_sets=SHINGLES), part)
        for number in dropped:
            assert take_sets(cache, chunks[number]) is not None
        tables = [table for part in parts for _, table in job.map(part, Counter())]
        found = [each for _, each in job.resolve_clusters(iter([(0, iter(tables))]), Counter())]
        return [sorted(map(str, table.to_pylist())) for table in found]

    expected = resolved(None)
    sizes, (decided, *_) = expected[:3], expected[3:]
    numbers = zip(chunks, (4, 8, 8), strict=True)
    assert sizes == [[str({"chunk": n, "documents": count})] for n, count in numbers]
    assert len(decided) == 20
    assert sum("'similarity': 1.0" in row for row in decided) == 8
    assert sum("'similarity': 0.9" in row for row in decided) == 8
    for dropped in ((), (0,), (1,), (0, 1), (0, 2), (0, 1, 2)):
        with PartCache(1 << 20) as cache:
            assert resolved(cache, dropped) == expected
