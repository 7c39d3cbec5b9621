"""Chunks of documents: cut, described, bundled; damage is reported."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.documents import chunks
from mr_dedup.formats.documents.chunks import (
    DocumentChunk,
    bundle,
    chunk_bytes,
    cut_into_chunks,
    document_parts,
    total_bytes,
    unbundle,
)
from mr_dedup.formats.documents.files import DocumentFile, find_documents
from tests.files.test_outputs import files_of_at_most
from tests.formats.documents.reading import read
from tests.strategies import costly


def write_lines(path, first, count):
    lines = [json.dumps({"id": str(n), "text": f"text {n}"}) for n in range(first, first + count)]
    path.write_text("".join(line + "\n" for line in lines))
    return DocumentFile.detect(path)


@costly
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=8),
    st.integers(1, 1500),
    st.booleans(),
    st.integers(0, 300),
)
def test_whatever_the_sizes_chunks_have_all_documents_in_order(
    tmp_path_factory, counts, size, split, file_bytes
):
    folder = tmp_path_factory.mktemp("docs")
    files, first = [], 0
    for number, count in enumerate(counts):
        files.append(write_lines(folder / f"{number}.jsonl", first, count))
        first += count
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "_FILE_BYTES", file_bytes)
        made = cut_into_chunks(files, size, split=split)
    assert [chunk.number for chunk in made] == list(range(len(made)))
    ids = [id for chunk in made for id in read(*chunk.parts).ids]
    assert ids == [str(n) for n in range(first)]
    for chunk in made:
        cost = sum(
            file_bytes + part.file.path.stat().st_size // len(document_parts(part.file, size))
            for part in chunk.parts
        )
        assert len(chunk.parts) == 1 or cost <= size
    if not split:
        assert all(part.stop is None and part.start == 0 for c in made for part in c.parts)


def test_many_small_files_share_a_chunk_and_large_ones_are_cut(tmp_path):
    small = [write_lines(tmp_path / f"{n:03}.jsonl", n, 1) for n in range(300)]
    assert len(cut_into_chunks(small, 4 << 20)) == 2
    large = write_lines(tmp_path / "large.jsonl", 0, 100_000)
    size = chunk_bytes([large], 1)
    assert 1 << 20 < size < total_bytes([large])
    assert len(cut_into_chunks([large], size)) == -(-total_bytes([large]) // size)
    assert chunk_bytes([large], 1) >= chunk_bytes([large], 8)


def test_descriptions_bring_back_what_they_describe(tmp_path):
    files = [write_lines(tmp_path / name, 0, 20) for name in ("a.jsonl", "ü #[1].jsonl")]
    files.append(DocumentFile(None, "stdin", "jsonl"))
    for chunk in cut_into_chunks(files, 300):
        path = tmp_path / "description"
        path.write_text(chunk.describe())
        assert DocumentChunk.read(path) == chunk


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"number": 1, "parts": []}', "\xff"])
def test_a_damaged_description_is_reported(tmp_path, text):
    path = tmp_path / "x.chunk.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(FormatError, match="not the description of a chunk"):
        DocumentChunk.read(path)


def test_a_bundle_has_files_and_names(tmp_path):
    folder = tmp_path / "pages"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("first")
    (folder / "deep" / "b ü.html").write_text("<p>second</p>")
    files = find_documents([str(folder)]).files
    (chunk,) = cut_into_chunks(files, 1 << 20, split=False)
    bundle(chunk, tmp_path / "bundle.zip")
    for file in files:
        file.path.unlink()
    unpacked = unbundle(tmp_path / "bundle.zip", tmp_path / "unpacked")
    found = read(*unpacked.parts)
    assert found.documents == [("a.txt", "first", 0), ("deep/b ü.html", "second", 0)]
    assert found.files == ["a.txt", "deep/b ü.html"]
    bundle(chunk, tmp_path / "again.zip")
    unpacked = unbundle(tmp_path / "again.zip", tmp_path / "none")
    reason = "cannot be read: No such file or directory"
    assert read(*unpacked.parts).reasons == [(None, reason), (None, reason)]


def test_a_full_disk_is_not_blamed_on_the_file_that_is_bundled(tmp_path):
    (chunk,) = cut_into_chunks([write_lines(tmp_path / "a.jsonl", 0, 50)], 1 << 20, split=False)
    path = tmp_path / "bundle.zip"
    with (
        pytest.raises(MrDedupError, match=f"^{path}: cannot be written: File too large$"),
        files_of_at_most(500),
    ):
        bundle(chunk, path)


def test_a_damaged_bundle_is_reported(tmp_path):
    (chunk,) = cut_into_chunks([write_lines(tmp_path / "a.jsonl", 0, 50)], 1 << 20, split=False)
    path = tmp_path / "bundle.zip"
    bundle(chunk, path)
    whole = path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole.replace(b"text 17", b"text 71")):
        assert damaged != whole
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match="not a bundle of documents"):
            unbundle(path, tmp_path / "unpacked")


def test_a_file_that_is_gone_is_reported(tmp_path):
    file = write_lines(tmp_path / "a.jsonl", 0, 1)
    file.path.unlink()
    assert total_bytes([file]) == 0
    (chunk,) = cut_into_chunks([file], 1)
    assert read(*chunk.parts).reasons == [(None, "cannot be read: No such file or directory")]


def test_a_damaged_file_is_left_to_its_reader(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    file = DocumentFile.detect(tmp_path / "a.parquet")
    (chunk,) = cut_into_chunks([file], 1)
    assert chunk.parts == (file.whole(),)
    assert read(*chunk.parts).rejects.count == 1
