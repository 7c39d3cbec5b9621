"""Names of the files of kept documents."""

import zlib
from pathlib import PurePosixPath

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.jobs.kept_documents import FileNames, KeptDocuments, numbered_name


def record(source, *records):
    records = records or [b"{}\n"]
    file = pa.array([source] * len(records)).dictionary_encode()
    return pa.table({"file": file, "record": pa.array(records, pa.large_binary())})


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
@pytest.mark.parametrize("batch", [1, 3, 9])
def test_a_member_a_record_of_warc_and_one_for_all_lines(tmp_path, ending, batch):
    """Whatever the batches are: the same bytes."""
    warc = [b"WARC/1.0\r\n%d\r\n\r\n" % number for number in range(9)]
    lines = [b'{"text": "WARC/1.0 %d"}\n' % number for number in range(9)]
    with KeptDocuments(tmp_path) as kept:
        for name, records in (("a.warc", warc), ("b.jsonl", lines)):
            for start in range(0, 9, batch):
                kept.write(record(name + ending, *records[start : start + batch]))
    found = {name: (tmp_path / (name + ending)).read_bytes() for name in ("a.warc", "b.jsonl")}
    if not ending:
        assert found == {"a.warc": b"".join(warc), "b.jsonl": b"".join(lines)}
    elif ending == ".gz":
        assert members(found["b.jsonl"], lambda: zlib.decompressobj(31)) == [b"".join(lines)]
        assert members(found["a.warc"], lambda: zlib.decompressobj(31)) == warc
    else:
        frames = zstandard.ZstdDecompressor().decompressobj
        assert members(found["b.jsonl"], frames) == [b"".join(lines)]
        assert members(found["a.warc"], frames) == warc


def members(data, decompressor):
    """Return the content of each gzip member or zstd frame."""
    contents = []
    while data:
        one = decompressor()
        contents.append(one.decompress(data))
        assert one.eof
        data = one.unused_data
    return contents


def test_files_of_one_name_get_numbers(tmp_path):
    with KeptDocuments(tmp_path) as kept:
        for source in ("/a/x.jsonl", "/b/x-2.jsonl", "/c/x.jsonl", "/d/x.jsonl", "/e/x-2.jsonl"):
            kept.write(record(source))
    names = ["x.jsonl", "x-2.jsonl", "x-3.jsonl", "x-4.jsonl", "x-2-2.jsonl"]
    assert kept.files == [(name, 1) for name in names]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_many_files_of_one_name_are_looked_up_once_or_twice_each():
    class Counting(set):
        looked_up = 0

        def isdisjoint(self, names):
            self.looked_up += 1
            return super().isdisjoint(names)

    names = FileNames()
    names._taken = Counting()
    assert len({names.take(f"/{n}/part-00000.jsonl") for n in range(300)}) == 300
    assert names._taken.looked_up <= 2 * 300


parts = st.sampled_from(
    ["a", "b", ".a", "_b", ".._", "..", "...", "a.x", "a-2", "a-2.x", "a-00000.x", "a-00001"]
)
sources = st.builds(
    lambda root, names: root + "/".join(names),
    st.sampled_from(["", "/", "s3://b/", "./"]),
    st.lists(parts, min_size=1, max_size=3),
).filter(lambda source: not source.endswith("/.."))


@given(st.lists(st.tuples(sources, st.none() | st.integers(1, 3)), max_size=12))
def test_names_are_apart_and_below_the_directory(wanted):
    names = FileNames()
    files = []
    for source, count in wanted:
        name = names.take(source, count)
        files += [name] if count is None else [numbered_name(name, n) for n in range(count)]
    assert len(set(files)) == len(files)
    for name in files:
        path = PurePosixPath(name)
        assert not path.is_absolute()
        assert not any(part.startswith((".", "_")) for part in path.parts)
        assert not {str(folder) for folder in path.parents} & set(files)
