"""What the benchmark of stores stores, reads and compares, at small sizes."""

import itertools
import json

import pytest

from bench import processes, store_readers
from bench.measure import Mismatch
from bench.s3_server import BUCKET, serving
from bench.stores import Sizes, require_equal_results, write_pages, write_small

SIZES = Sizes(20, "64KB", 3, folders=2, folder_objects=3, documents=2)


@pytest.fixture(scope="module")
def server():
    with serving() as server:
        yield server


@pytest.fixture
def pages(tmp_path):
    return write_pages(tmp_path / "pages", SIZES)


@pytest.fixture
def store(server, monkeypatch):
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    return server


def documents(folder):
    """The documents of all files of a directory, by id."""
    lines = [line for path in folder.rglob("*.jsonl") for line in path.read_text().splitlines()]
    found = {document["id"]: document for document in map(json.loads, lines)}
    assert len(found) == len(lines)
    return found


def test_variations_have_other_ids_and_words(pages):
    found = documents(pages)
    assert len(found) == 3 * 40
    for number in range(40):
        texts = [found[f"{variation}-{number:08}"]["text"] for variation in range(3)]
        words = [set(text.split()) for text in texts]
        for one, other in itertools.combinations(words, 2):
            assert len(one & other) < 0.4 * len(one | other)


def test_small_files_have_documents_of_their_own(pages, tmp_path):
    small = write_small(tmp_path / "small", pages, SIZES)
    assert len(list(small.glob("*/*.jsonl"))) == 2 * 3
    assert len(documents(small)) == 2 * 3 * 2


@pytest.mark.parametrize("size", [0, 1000, 1 << 20])
def test_get_reads_all_bytes(store, tmp_path, size):
    folder = tmp_path / f"get-{size}"
    folder.mkdir()
    (folder / "a").write_bytes(b"a" * 2500)
    (folder / "b").write_bytes(b"b" * 3000)
    urls = store.upload(folder)
    assert len(urls) == 2
    store_readers.get(str(size), *urls)


def test_get_of_a_missing_object_fails(store):
    with pytest.raises(RuntimeError, match="status 40"):
        store_readers.get("0", f"{store.url}/{BUCKET}/none?")


def test_copies_and_lists_equal_what_was_uploaded(store, pages, tmp_path):
    small = write_small(tmp_path / "small", pages, SIZES)
    store.upload(small)
    uri, out = f"s3://{BUCKET}/small", tmp_path / "out.json"
    files = {path.relative_to(small).as_posix(): path for path in small.glob("*/*.jsonl")}
    store_readers.copies(uri, str(out))
    expected = {name: store_readers.checksum(path) for name, path in files.items()}
    assert json.loads(out.read_text()) == expected
    for lister in (store_readers.listed, store_readers.paginated):
        lister(uri, str(out))
        sizes = {name: path.stat().st_size for name, path in files.items()}
        assert json.loads(out.read_text())["files"] == sizes


def test_results_that_differ_are_a_mismatch(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for out in (one, other):
        (out / "documents").mkdir(parents=True)
        (out / "documents" / "a.jsonl").write_text("{}\n")
        (out / "summary.json").write_text(out.name)
    require_equal_results(one, other)
    (other / "documents" / "a.jsonl").write_text("[]\n")
    with pytest.raises(Mismatch, match=r"a\.jsonl differs"):
        require_equal_results(one, other)
    (other / "documents" / "a.jsonl").unlink()
    with pytest.raises(Mismatch, match="other files"):
        require_equal_results(one, other)


def test_cpu_seconds_of_a_process_grow(store, tmp_path):
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "a").write_bytes(bytes(50_000_000))
    before = store.cpu_seconds
    store.upload(tmp_path / "large")
    assert 0 < before < store.cpu_seconds < before + 60


def test_cpu_seconds_of_no_process_are_0():
    assert processes.cpu_seconds(1 << 30) == 0
