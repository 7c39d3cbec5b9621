"""Results in stores, opened from Python: the same as those of this machine."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mr_dedup
from mr_dedup.formats.parts import ParquetParts
from tests.cli.documents import made_up_documents, write_jsonl

# those of several directories, of a name that is quoted in URIs too
LINES = Path("more pages", "b.jsonl")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two results here, of tables and of lines."""
    folder = tmp_path_factory.mktemp("results")
    documents = made_up_documents(3)
    tables = mr_dedup.dedup(documents, folder / "tables")
    pages = folder / "pages"
    (pages / LINES).parent.mkdir(parents=True)
    for seed, name in enumerate(("a.jsonl", LINES)):
        write_jsonl(pages / name, made_up_documents(seed))
    lines = mr_dedup.dedup(pages, folder / "lines")
    # parts of a few rows
    for name in ("decisions", "clusters"):
        table = getattr(tables, name)
        with ParquetParts(folder / "tables" / name, table.schema, part_rows=2) as parts:
            parts.write_table(table)
        assert len(parts.names) > 1
    return tables, lines


def uploaded(result, place, name):
    """The same result in a store."""
    folder = Path(result.folder)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            place.write(f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return mr_dedup.DedupResult(place.of(name))


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """The directory of temporary files, which is empty."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_result_in_a_store_is_read_as_one_here(results, listing, scratch, tmp_path):
    here, _ = results
    there = uploaded(here, listing, "kept")
    assert repr(there) == f"DedupResult({listing.of('kept')!r})"
    assert there.summary == here.summary
    for name in ("kept", "decisions", "clusters"):
        assert getattr(there, name).equals(getattr(here, name))
        assert pa.Table.from_batches(there.batches(name)).equals(
            pa.Table.from_batches(here.batches(name))
        )
    ids = [id for id in here.decisions["id"].to_pylist() if id]
    assert [there.why(id) for id in (ids[0], ids[-1])] == [here.why(id) for id in (ids[0], ids[-1])]
    with pytest.raises(KeyError):
        there.why("none")
    there.report().save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_bytes() == Path(here.folder, "report.html").read_bytes()
    shown, shown_here = (each._repr_html_().partition("</caption>") for each in (there, here))
    assert shown[2] == shown_here[2]
    assert shown[0].endswith(str(there.folder))
    assert there.kept_files == [listing.of("kept/documents/part-00000.parquet")]
    assert list(scratch.iterdir()) == []


def test_files_of_other_formats_are_named(results, listing):
    _, here = results
    there = uploaded(here, listing, "kept")
    names = [listing.of(f"kept/documents/{name}") for name in ("a.jsonl", LINES)]
    assert there.kept_files == names
    with pytest.raises(mr_dedup.MrDedupError, match="documents: not Parquet; see kept_files"):
        _ = there.kept
    with pytest.raises(mr_dedup.MrDedupError, match="not Parquet"):
        next(there.batches("kept"))
    # they are read again where they are
    with mr_dedup.dedup(names[0]) as again:
        assert again.summary["documents_read"] > 0


def test_a_result_is_made_in_a_store_and_read_there(writable):
    documents = made_up_documents(3)
    made = mr_dedup.dedup(documents, writable.of("made"))
    assert made.folder == writable.of("made")
    with mr_dedup.dedup(documents) as expected:
        assert made.kept.equals(expected.kept)
        assert made.decisions["reason"].equals(expected.decisions["reason"])


def test_one_part_at_a_time_is_on_this_machine(results, s3, scratch):
    here, _ = results
    there = uploaded(here, s3, "kept")

    def copies():
        return [path for path in scratch.rglob("*") if path.is_file()]

    batches = there.batches("decisions")
    assert s3.proxy.requests == []
    for _ in range(3):
        batch = next(batches)
        assert batch.num_rows == 2
        (copy,) = copies()
        assert pq.read_table(copy).num_rows == 2
    requests = " ".join(map(str, s3.proxy.requests))
    assert "part-00002" in requests
    assert "part-00003" not in requests
    # one that is left before its end
    batches.close()
    assert list(scratch.iterdir()) == []


def test_damage_is_reported_by_the_uri(results, s3, scratch):
    here, _ = results
    there = uploaded(here, s3, "kept")
    uri = s3.of("kept/decisions/part-00001.parquet")
    content = s3.read("kept/decisions/part-00001.parquet")
    # a byte of a page, which the checksum of the page covers
    s3.write("kept/decisions/part-00001.parquet", content[:100] + b"\xff" + content[101:])
    for read in (lambda: there.decisions, lambda: list(there.batches("decisions"))):
        with pytest.raises(mr_dedup.MrDedupError, match="cannot be read: ") as raised:
            read()
        assert str(raised.value).startswith(f"{uri}: cannot be read: ")
        assert str(scratch) not in str(raised.value)
    with pytest.raises(mr_dedup.MrDedupError, match="cannot be read: "):
        there.why(here.decisions["id"][0].as_py())
    assert list(scratch.iterdir()) == []


def test_what_is_missing_is_reported_by_the_uri(results, s3):
    here, _ = results
    there = mr_dedup.DedupResult(s3.of("none"))
    for name in ("summary", "kept", "decisions"):
        with pytest.raises(mr_dedup.MrDedupError, match=f"{s3.of('none')}/.*: no such file"):
            getattr(there, name)
    with pytest.raises(mr_dedup.MrDedupError, match=r"report\.html: no such file"):
        there.report()
    assert there.kept_files == []
    folder = Path(here.folder)
    for name in ("part-00000.parquet", "part-00002.parquet"):
        s3.write(f"kept/decisions/{name}", (folder / "decisions" / name).read_bytes())
    with pytest.raises(mr_dedup.MrDedupError) as raised:
        _ = mr_dedup.DedupResult(s3.of("kept")).decisions
    assert str(raised.value) == f"{s3.of('kept/decisions')}: its part 1 is missing"


def test_results_in_stores_are_evaluated(results, s3, tmp_path):
    here, _ = results
    there = uploaded(here, s3, "kept")
    truth = pa.table({"id_a": ["d20"], "id_b": ["d30"], "jaccard": [0.9]})
    assert mr_dedup.evaluate(there, truth) == mr_dedup.evaluate(here, truth)
