"""Names of the files of kept documents."""

import pyarrow as pa

from mr_dedup.jobs.kept_documents import KeptDocuments


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


def test_many_files_of_one_name_are_looked_up_once_or_twice_each(tmp_path):
    class Counting(dict):
        looked_up = 0

        def __contains__(self, name):
            self.looked_up += 1
            return super().__contains__(name)

    kept = KeptDocuments(tmp_path)
    kept._counts = Counting()
    for n in range(300):
        kept._counts[kept._free_name(f"/{n}/part-00000.jsonl")] = 1
    assert len(kept._counts) == 300
    assert kept._counts.looked_up <= 2 * 300
