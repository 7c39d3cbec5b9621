"""Names of the files of kept documents."""

import time

import pyarrow as pa

from mr_dedup.pipeline.kept_documents import KeptDocuments


def record(source):
    file = pa.array([source]).dictionary_encode()
    return pa.table({"file": file, "record": pa.array([b"{}\n"], pa.large_binary())})


def test_files_of_one_name_get_numbers(tmp_path):
    with KeptDocuments(tmp_path) as kept:
        for source in ("/a/x.jsonl", "/b/x-2.jsonl", "/c/x.jsonl", "/d/x.jsonl", "/e/x-2.jsonl"):
            kept.write(record(source))
    names = ["x.jsonl", "x-2.jsonl", "x-3.jsonl", "x-4.jsonl", "x-2-2.jsonl"]
    assert kept.files == [(name, 1) for name in names]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_many_files_of_one_name_take_linear_time(tmp_path):
    kept = KeptDocuments(tmp_path)
    started = time.process_time()
    for n in range(2000):
        kept._counts[kept._free_name(f"/{n}/part-00000.jsonl")] = 1
    assert time.process_time() - started < 2
