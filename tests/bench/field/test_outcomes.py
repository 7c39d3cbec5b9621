"""What tools kept, in each of the forms that they write."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.field.outcomes import check, kept_documents, with_keepers
from tests.bench.field.made_corpus import write_corpus

IDS = ["b/2", "a/1", "ü \t\"'"]
LINES = "".join(json.dumps({"id": id, "text": "x"}) + "\n" for id in IDS)


def write_arrow(path, ids):
    table = pa.table({"id": pa.array(ids, pa.string())})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def write_zst(path, text):
    with pa.output_stream(str(path), compression="zstd") as file:
        file.write(text.encode())


WRITERS = {
    "kept.parquet": lambda path: pq.write_table(pa.table({"id": IDS}), path),
    "data-00000-of-00001.arrow": lambda path: write_arrow(path, IDS),
    "kept.jsonl": lambda path: path.write_text(LINES),
    "00000.jsonl.gz": lambda path: path.write_bytes(gzip.compress(LINES.encode())),
    "kept.json.zst": lambda path: write_zst(path, LINES),
}


@pytest.mark.parametrize("name", WRITERS)
def test_ids_are_read_from_each_form_in_a_directory_with_other_files(tmp_path, name):
    folder = tmp_path / "out" / "below"
    folder.mkdir(parents=True)
    WRITERS[name](folder / name)
    for other in ("_SUCCESS", ".part.parquet.crc", "state.txt"):
        (folder / other).write_text("{}")
    assert kept_documents(tmp_path / "out").kept.to_pylist() == IDS
    assert kept_documents(folder / name).kept.to_pylist() == IDS


def test_ids_of_many_files_are_joined_in_the_order_of_their_names(tmp_path):
    for number in (1, 0):
        (tmp_path / f"{number}.jsonl").write_text(f'{{"id": "{number}"}}\n')
    write_arrow(tmp_path / "2.arrow", ["2"])
    write_arrow(tmp_path / "3.arrow", [])
    assert kept_documents(tmp_path).kept.to_pylist() == ["0", "1", "2"]


def test_only_files_of_a_pattern_are_read(tmp_path):
    (tmp_path / "state.json").write_text("[]\n")
    write_arrow(tmp_path / "0.arrow", IDS)
    assert kept_documents(tmp_path, "*.arrow").kept.to_pylist() == IDS


@pytest.mark.parametrize("line", ["[]", "{}", "no JSON", "[" * 5000, ""])
def test_a_line_without_an_id_is_an_error_with_its_number(tmp_path, line):
    path = tmp_path / "kept.jsonl"
    path.write_text(f'{{"id": "a"}}\n{line}\n')
    with pytest.raises(ValueError, match=r"kept\.jsonl:2: not a JSON object with an id"):
        kept_documents(path)


def test_a_directory_without_documents_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="contains no documents"):
        kept_documents(tmp_path)


def test_keepers_are_added(tmp_path):
    pq.write_table(pa.table({"id": ["a"], "kept_id": ["b"]}), tmp_path / "dropped.parquet")
    (tmp_path / "kept.jsonl").write_text('{"id": "b"}\n')
    outcome = with_keepers(kept_documents(tmp_path / "kept.jsonl"), tmp_path / "dropped.parquet")
    assert outcome.kept_for.to_pylist() == [{"id": "a", "kept_id": "b"}]


def test_what_was_kept_must_be_in_the_corpus_and_once(tmp_path):
    corpus = tmp_path / "corpus"
    write_corpus(corpus)
    (corpus / "corpus.json").unlink()
    whole = kept_documents(corpus)
    assert check(whole, corpus) == 32
    twice = whole._replace(kept=pa.concat_arrays([whole.kept, whole.kept[:3]]))
    with pytest.raises(ValueError, match="kept 3 documents more than once"):
        check(twice, corpus)
    other = whole._replace(kept=pa.array(["a/page 0", "other"], pa.large_string()))
    with pytest.raises(ValueError, match="1 documents not of the corpus, the first other"):
        check(other, corpus)
