"""Files that several chunks divide are kept as with one chunk: the same names, bytes and rows."""

import gzip
import itertools
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents import chunks
from mr_dedup.formats.parts import read_parts
from mr_dedup.jobs import kept_pieces
from mr_dedup.jobs.kept_documents import KeptDocuments
from mr_dedup.jobs.kept_pieces import PieceDocuments, join_pieces
from mr_dedup.jobs.kept_records import FILE_KEY
from mr_dedup.pipeline import dedup_stages
from tests.cli.documents import files_of, made_up_documents, write_jsonl
from tests.cli.result_tables import tables_of
from tests.cli.running import Command
from tests.formats.documents import test_document_arc as arc
from tests.formats.documents import test_document_warc as warc

dedup, why = Command("dedup"), Command("why")


@pytest.fixture
def divide(monkeypatch):
    """Return what sets the size of chunks in bytes."""

    def into(size_bytes):
        for name in ("CHUNK_BYTES", "_MIN_BYTES"):
            monkeypatch.setattr(chunks, name, size_bytes)

    monkeypatch.setattr(chunks, "_FILE_BYTES", 10)
    return into


@pytest.fixture
def both(capfd, divide, tmp_path):
    """Return what de-duplicates documents with one chunk, and in chunks of 3,000 bytes."""

    def results(*words, runner="memory"):
        divide(1 << 30)
        dedup.done(capfd, *words, "-o", tmp_path / "one", "-r", "memory")
        divide(3000)
        dedup.done(capfd, *words, "-o", tmp_path / "many", "-r", runner)
        one, many = tmp_path / "one", tmp_path / "many"
        assert len(list((one / "decisions").iterdir())) == 1
        assert len(list((many / "decisions").iterdir())) > 3
        assert not (many / "pieces").exists()
        assert not [path for path in many.rglob("*") if "pieces" in path.name]
        assert tables_of(many) == tables_of(one)
        # files by their names, which later runs and commands read
        documents = files_of(many / "documents")
        for out in (one, many):
            named = read_parts(out / "fingerprints")["file"].to_pylist()
            assert set(named) == documents.keys()
        assert read_parts(many / "fingerprints").equals(read_parts(one / "fingerprints"))
        assert list_of_files(many) == documents.keys()
        return one, many

    return results


def list_of_files(out):
    """The files of documents in the list of the files of a result."""
    listed = json.loads((out / ".files.json").read_text())["files"]
    names = [name for name in listed if name.startswith("documents/")]
    return {name.removeprefix("documents/") for name in names}


def assert_same_documents(one, many):
    assert files_of(many / "documents") == files_of(one / "documents")


def pages_of(texts):
    """Texts with near-duplicates, in random order."""
    rng = random.Random(texts)
    found = []
    for number in range(texts):
        words = [f"word{rng.randrange(500)}" for _ in range(40)]
        found.append(" ".join(words))
        if number % 3 == 0:
            found.append(" ".join([*words[:-1], "other"]))
    rng.shuffle(found)
    return found


@pytest.mark.parametrize("runner", ["memory", "inline", "local"])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_json_lines(both, tmp_path, runner, end):
    path = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(1, 200))
    path.write_bytes(path.read_bytes().removesuffix(b"\n") + end)
    one, many = both(path, runner=runner)
    assert_same_documents(one, many)
    assert [each.name for each in (many / "documents").iterdir()] == ["pages.jsonl"]


def test_lines_with_counts(both, tmp_path):
    path = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(2, 200))
    one, many = both(path, "--add-counts", "--seen", "score")
    assert_same_documents(one, many)
    lines = (many / "documents" / "pages.jsonl").read_text().splitlines()
    assert all("duplicates_total" in json.loads(line) for line in lines)


def archive(folder, kind, pack, name, texts, version=1):
    """Write a file of WARC or ARC with pages, and what is before the first one."""
    if kind == "arc":
        before = arc.version_block(version)
        pages = [arc.page(n, version, text.encode()) for n, text in enumerate(texts)]
    else:
        before = warc.record(-1, b"software: x\r\n", b"warcinfo", b"application/warc-fields")
        pages = [warc.page(n, b"<p>%s" % text.encode()) for n, text in enumerate(texts)]
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(map(pack, [before, *pages])))
    return path


@pytest.mark.parametrize(
    ("kind", "ending", "version"),
    [("warc", "", 1), ("warc", ".gz", 1), ("arc", "", 1), ("arc", "", 2), ("arc", ".gz", 1)],
)
def test_archives(both, tmp_path, kind, ending, version):
    """Those that are compressed are not divided; several of them are of several chunks."""
    pack = gzip.compress if ending else bytes
    texts = pages_of(60)
    edges = [0, len(texts)] if not ending else range(0, len(texts) + 1, len(texts) // 8)
    paths = [
        archive(tmp_path, kind, pack, f"crawl-{n}.{kind}{ending}", texts[start:stop], version)
        for n, (start, stop) in enumerate(itertools.pairwise(edges))
    ]
    one, many = both(*paths)
    assert_same_documents(one, many)
    assert {path.name for path in paths} == files_of(many / "documents").keys()
    for path in paths:
        content = (many / "documents" / path.name).read_bytes()
        content = gzip.decompress(content) if ending else content
        begins = b"filedesc://" if kind == "arc" else b"WARC/1.0\r\n"
        assert content.startswith(begins)
        if kind == "arc":
            assert content.count(b"filedesc://") == 1
            assert content.startswith(b"filedesc://%s 0.0.0.0 " % path.name.encode())


@pytest.mark.parametrize("kind", ["warc", "arc"])
def test_an_archive_beside_a_compressed_one(both, tmp_path, kind):
    texts = pages_of(60)
    plain = archive(tmp_path / "plain", kind, bytes, f"a.{kind}", texts)
    packed = archive(tmp_path / "packed", kind, gzip.compress, f"a.{kind}.gz", texts[:30])
    one, many = both(plain, packed, "--verify", "off")
    assert_same_documents(one, many)


METADATA = {b"made by": b"a test", b"ARROW": b"not of Arrow"}


@pytest.mark.parametrize("runner", ["memory", "local"])
def test_parquet(both, tmp_path, runner):
    texts = pages_of(150)
    columns = {
        "id": [f"p{n}" for n in range(len(texts))],
        "text": texts,
        "more": pa.array([[n, None] for n in range(len(texts))], pa.list_(pa.int16())),
        "kind": pa.array([str(n % 3) for n in range(len(texts))]).dictionary_encode(),
    }
    table = pa.table(columns).replace_schema_metadata(METADATA)
    path = tmp_path / "pages.parquet"
    pq.write_table(table, path, row_group_size=17)
    one, many = both(path, runner=runner)
    (expected,) = (pq.read_table(each) for each in (one / "documents").iterdir())
    (found,) = (pq.read_table(each) for each in (many / "documents").iterdir())
    assert files_of(many / "documents").keys() == {"pages.parquet"}
    assert found.equals(expected, check_metadata=True)
    kept = found["id"].to_pylist()
    assert 100 < len(kept) < len(texts)
    assert found.equals(table.filter(pa.compute.is_in(table["id"], pa.array(kept))))
    assert {name: found.schema.metadata[name] for name in METADATA} == METADATA
    assert FILE_KEY not in found.schema.metadata


def test_files_of_one_name(both, tmp_path):
    paths = []
    for number, folder in enumerate(("x", "y", "z")):
        (tmp_path / folder).mkdir()
        documents = made_up_documents(number + 5, 100 if folder != "z" else 5)
        paths.append(write_jsonl(tmp_path / folder / "pages.jsonl", documents))
    one, many = both(*paths, "--verify", "1")
    assert_same_documents(one, many)
    assert files_of(many / "documents").keys() == {"pages.jsonl", "pages-2.jsonl", "pages-3.jsonl"}


def test_files_in_directories(both, tmp_path):
    for number, name in enumerate(("pages.jsonl", "deep/pages.jsonl", "deep/er/pages.jsonl")):
        path = tmp_path / "in" / name
        path.parent.mkdir(exist_ok=True)
        write_jsonl(path, made_up_documents(number + 5, 100))
    one, many = both(tmp_path / "in")
    assert_same_documents(one, many)
    assert len(files_of(many / "documents")) == 3


@pytest.mark.parametrize("empty", ["first", "last", "all"])
def test_chunks_that_keep_nothing(both, tmp_path, empty):
    """Documents of one file are dropped for those of another."""
    texts = pages_of(90)
    documents = [{"id": f"a{n}", "text": text, "score": 1} for n, text in enumerate(texts)]
    better = [{**each, "id": f"b{n}", "score": 2} for n, each in enumerate(documents)]
    better = {"first": better[:40], "last": better[-40:], "all": better}[empty]
    paths = [
        write_jsonl(tmp_path / "a.jsonl", documents), write_jsonl(tmp_path / "b.jsonl", better)
    ]  # fmt: skip
    one, many = both(*paths, "--keep", "highest:score")
    assert_same_documents(one, many)
    assert files_of(many / "documents").keys() == {
        "b.jsonl",
        *(["a.jsonl"] if empty != "all" else []),
    }


@pytest.mark.parametrize("end", ["", ".gz"])
def test_lines_beside_files_that_are_not_divided(both, tmp_path, end):
    """A chunk may have the end of one file and the beginning of another."""
    paths = []
    for number, count in enumerate((7, 130, 3, 5, 90, 2)):
        path = write_jsonl(tmp_path / f"{number}.jsonl", made_up_documents(number + 40, count))
        if end and number % 2 == 0:
            packed = path.with_name(f"{path.name}.gz")
            packed.write_bytes(gzip.compress(path.read_bytes()))
            path = packed
        paths.append(path)
    one, many = both(*paths)
    assert_same_documents(one, many)


def test_later_commands_read_what_was_joined(both, capfd, divide, tmp_path):
    documents = made_up_documents(9, 300)
    first = write_jsonl(tmp_path / "first.jsonl", documents[:200])
    second = write_jsonl(tmp_path / "second.jsonl", documents[100:])
    one, many = both(first)
    ids = sorted({each["id"] for each in documents[:200]})
    assert why.done(capfd, many, *ids) == why.done(capfd, one, *ids)
    for size, against in itertools.product((1 << 30, 3000), (one, many)):
        divide(size)
        out = tmp_path / f"{against.name}-{size}"
        dedup.done(capfd, second, "-o", out, "--against", against, "--add-counts")
    expected = tmp_path / f"one-{1 << 30}"
    for name in (f"many-{1 << 30}", "one-3000", "many-3000"):
        assert files_of(tmp_path / name / "documents") == files_of(expected / "documents")
        found, wanted = tables_of(tmp_path / name), tables_of(expected)
        for of in ("clusters", "fingerprints", "counts", "signatures"):
            assert found[of] == wanted[of]
        for tables in (found, wanted):
            # they name the earlier result
            del tables["decisions"]["earlier_result"]
        assert found["decisions"] == wanted["decisions"]
    counts = json.loads((expected / "summary.json").read_text())
    assert counts["documents_dropped_for_earlier"] >= 100
    # what is kept can be read as documents again
    again = tmp_path / "again"
    dedup.done(capfd, many / "documents", "-o", again)
    assert json.loads((again / "summary.json").read_text())["documents_dropped"] == 0
    assert files_of(again / "documents") == files_of(many / "documents")


@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_a_run_that_is_ended_while_pieces_are_joined_goes_on(
    capfd, divide, tmp_path, monkeypatch, when
):
    divide(3000)
    for number in range(3):
        write_jsonl(tmp_path / f"{number}.jsonl", made_up_documents(number + 60, 100))
    paths = [tmp_path / f"{number}.jsonl" for number in range(3)]
    dedup.done(capfd, *paths, "-o", tmp_path / "undisturbed")
    usual, appended = kept_pieces._append_piece, []

    def ended(*_):
        raise KeyboardInterrupt

    def ended_later(append, source, path):
        usual(append, source, path)
        appended.append(path)
        if len(appended) == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if when == "before":
            patch.setattr(dedup_stages, "join_pieces", ended)
        elif when == "between":
            patch.setattr(kept_pieces, "_append_piece", ended_later)
        else:
            patch.setattr(dedup_stages, "_write_earlier_counts", ended)
            patch.setattr(
                dedup_stages, "join_pieces", lambda *given: join_pieces(*given) and ended()
            )
        assert dedup(capfd, *paths, "-o", tmp_path / "out")[0] == 130
    result = tmp_path / ".out.unfinished" / "result"
    assert (result / "pieces").exists() == (when != "after")
    assert not (tmp_path / "out").exists()
    dedup.done(capfd, *paths, "-o", tmp_path / "out", "--resume")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "undisturbed")
    assert not (tmp_path / "out" / "pieces").exists()
    assert not result.parent.exists()


# piece by piece


def lines_of(source, *records):
    file = pa.array([source] * len(records)).dictionary_encode()
    return pa.table({"file": file, "record": pa.array(records, pa.large_binary())})


def write_pieces(folder, chunk, names, *batches):
    """Write batches of a chunk; return the names and counts of its files."""
    with PieceDocuments(
        KeptDocuments(folder / "documents"), folder / "pieces", names, chunk
    ) as writer:
        for batch in batches:
            writer.write(batch)
    return writer.files


def test_pieces_are_joined_in_the_order_of_chunks(tmp_path):
    names = {"b": "b.jsonl", "a": "deep/a.jsonl"}
    found = [
        write_pieces(tmp_path, 100, names, lines_of("a", b"5\n"), lines_of("c", b"6\n")),
        write_pieces(tmp_path, 20, names, lines_of("b", b"1\n"), lines_of("b", b"2\n", b"3\n")),
        write_pieces(tmp_path, 21, names),
        write_pieces(tmp_path, 99, names, lines_of("b", b"4\n"), lines_of("a", b"0\n")),
    ]
    assert found == [
        [("deep/a.jsonl", 1), ("c", 1)],
        [("b.jsonl", 3)],
        [],
        [("b.jsonl", 1), ("deep/a.jsonl", 1)],
    ]
    assert files_of(tmp_path / "documents") == {"c": b"6\n"}
    assert join_pieces(tmp_path / "pieces", tmp_path / "documents", names, 3) == 2
    expected = {"c": b"6\n", "b.jsonl": b"1\n2\n3\n4\n", "deep/a.jsonl": b"0\n5\n"}
    assert files_of(tmp_path / "documents") == expected
    assert not (tmp_path / "pieces").exists()


def test_without_pieces_nothing_is_joined(tmp_path):
    assert join_pieces(tmp_path / "pieces", tmp_path / "documents", {"a": "a.jsonl"}, 2) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    names = {"a": "a.jsonl"}
    write_pieces(tmp_path, 0, names, lines_of("a", b"1\n"))
    (tmp_path / "documents" / "a.jsonl").mkdir(parents=True)
    with pytest.raises(
        MrDedupError, match=r"documents/a\.jsonl: cannot be written: Is a directory"
    ):
        join_pieces(tmp_path / "pieces", tmp_path / "documents", names, 1)
