"""Documents in Parquet: the columns, odd rows, row groups, damage."""

import datetime
import decimal
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.documents.chunks import document_parts
from mr_dedup.formats.documents.files import DocumentFile, DocumentPart
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.read import read_documents
from mr_dedup.formats.documents.rejects import Rejects
from tests.formats.documents.reading import read


def write(tmp_path, columns, name="a.parquet", **how):
    path = tmp_path / name
    pq.write_table(pa.table(columns), path, **how)
    return path


def test_ids_and_texts(tmp_path):
    path = write(tmp_path, {"id": ["a", "b"], "text": ["one", "早"], "more": [1, 2]})
    assert read(path).documents == [("a", "one", 0), ("b", "早", 1)]


TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.string_view()]


@pytest.mark.parametrize("type", [*TYPES, pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_types_of_text(tmp_path, type):
    texts = ["one", "two", "one", "", "早"] * 100
    ids = [str(number) for number in range(500)]
    how = {} if pa.types.is_dictionary(type) else {"use_dictionary": False}
    path = write(tmp_path, {"id": pa.array(ids, type), "text": pa.array(texts, type)}, **how)
    assert read(path).documents == list(zip(ids, texts, range(500), strict=True))


def test_what_a_document_is_called(tmp_path):
    path = write(
        tmp_path,
        {
            "id": pa.array([5, None, None, None], pa.int64()),
            "url": ["v", "w", "", None],
            "text": ["t"] * 4,
        },
    )
    assert read(DocumentFile(path, "x", "parquet")).ids == ["5", "w", "x:2", "x:3"]
    assert read(path, id_names=["url"]).ids == ["v", "w", f"{path}:2", f"{path}:3"]
    assert read(path, id_names=["no"]).ids == [f"{path}:{row}" for row in range(4)]


def test_rows_that_are_rejected(tmp_path):
    texts = [b"good", None, b"bad \xff", b"x" * 101, b"x" * 100, b"\xed\xa0\x80", b""]
    names = ["a", "b", "c", "d", "e", "f", "g"]
    path = write(tmp_path, {"id": names, "text": pa.array(texts, pa.binary())})
    reading = read(path, max_record_bytes=100)
    assert reading.ids == ["a", "e", "g"]
    assert reading.reasons == [
        ("row 1", "its 'text' is null"),
        ("row 2", "is not UTF-8"),
        ("row 3", "is longer than 100 bytes"),
        ("row 5", "is not UTF-8"),
    ]
    with pytest.raises(FormatError, match=r"a\.parquet, row 1: its 'text' is null"):
        read(path, strict=True)


def test_strings_that_are_not_utf8_although_they_should_be(tmp_path):
    damaged = pa.Array.from_buffers(pa.string(), 2, pa.array([b"a\xff", b"b"]).buffers())
    good = pa.array(["c", "d"])
    reading = read(write(tmp_path, {"id": good, "text": damaged}))
    assert (reading.reasons, reading.ids) == ([("row 0", "is not UTF-8")], ["d"])
    in_list = pa.ListArray.from_arrays([0, 1, 2], damaged)
    path = write(tmp_path, {"id": damaged, "text": good, "f": damaged, "l": in_list})
    reading = read(path, fields=["f", "l"])
    # as bytes
    assert reading.ids == ["61ff", "b"]
    assert reading.fields == [{"f": "61ff", "l": None}, {"f": "b", "l": '["b"]'}]
    assert reading.rejects.count == 0


def test_html_columns(tmp_path):
    html = pa.array([b"<p>one", "<p>déjà".encode("latin1"), None, b"<p>" * 600_000], pa.binary())
    path = write(tmp_path, {"id": list("abcd"), "html": html, "text": [None, None, "t", None]})
    reading = read(path)
    assert reading.texts == ["one", "déjà", "t"]
    assert reading.reasons == [("row 3", "its HTML has more than 500000 tags")]
    assert read(write(tmp_path, {"url": ["u"], "html": ["<b>x"]})).documents == [("u", "x", 0)]


def test_fields_are_text_of_any_type(tmp_path):
    when = datetime.datetime(2024, 5, 6, 7, 8, 9)
    path = write(
        tmp_path,
        {
            "id": ["a", "b"],
            "text": ["t", "t"],
            "number": [1.5, None],
            "time": pa.array([when, None], pa.timestamp("s")),
            "price": [decimal.Decimal("1.20"), None],
            "list": [[1, 2], None],
            "struct": [{"k": "v"}, None],
            "raw": [b"raw", None],
            "flag": [True, None],
        },
    )
    names = ["number", "time", "price", "list", "struct", "raw", "flag", "none"]
    values = ["1.5", "2024-05-06 07:08:09.000", "1.20", "[1,2]", '{"k":"v"}', "raw", "true", None]
    reading = read(path, fields=names)
    assert reading.fields == [dict(zip(names, values, strict=True)), dict.fromkeys(names)]


def test_records_are_the_rows_with_all_their_columns(tmp_path):
    table = pa.table(
        {"id": ["a", "b", "c"], "text": ["x", None, "z"], "n": pa.array([1, 2, 3], pa.int8())}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    other = tmp_path / "b.jsonl"
    other.write_bytes(b'{"id": "d", "text": "y"}\n')
    files = [DocumentFile.detect(path) for path in (other, tmp_path / "a.parquet", other)]
    batches = list(read_documents(files, Rejects(), ReadOptions(keep_records=True)))
    assert [batch.ids.to_pylist() for batch in batches] == [["d"], ["a", "c"], ["d"]]
    assert batches[1].records.schema.remove_metadata() == table.schema
    assert batches[1].records.to_pylist() == table.take([0, 2]).to_pylist()


def test_row_groups_are_read_by_themselves(tmp_path):
    rng = random.Random(1)
    texts = [rng.randbytes(rng.randrange(200)).hex() for _ in range(1000)]
    path = write(tmp_path, {"id": [str(n) for n in range(1000)], "text": texts}, row_group_size=90)
    whole = read(path).documents
    assert whole == [(str(n), text, n) for n, text in enumerate(texts)]
    file = DocumentFile.detect(path)
    for size in (1, 30_000, 100_000, 1 << 30):
        assert read(*document_parts(file, size)).documents == whole
    assert len(document_parts(file, 1)) == 12
    assert len(document_parts(file, 1 << 30)) == 1
    assert read(DocumentPart(file, 2, 3)).documents == whole[180:270]
    assert read(DocumentPart(file, 12)).documents == []
    batches = read(path, batch_bytes=10_000).batches
    assert sum(batches) == 1000
    assert max(batches) < 150


def test_files_without_what_documents_take(tmp_path):
    for columns, reason in (
        ({"id": ["a"]}, "has neither a column 'text' nor 'html'"),
        ({"id": ["a"], "text": [1]}, "its column 'text' is of type int64, not text"),
        ({"id": ["a"], "text": [["a"]]}, "its column 'text' is of type list<element: string>"),
    ):
        (reject,) = read(write(tmp_path, columns)).rejects.listed
        assert reject.position is None
        assert reject.reason.startswith(reason)
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pq.write_table(table, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").reasons == [(None, "has 2 columns 'text'")]
    empty = write(tmp_path, {"id": pa.array([], pa.string()), "text": pa.array([], pa.string())})
    assert read(empty).documents == []


def test_damage_anywhere_is_told_and_is_no_traceback(tmp_path):
    columns = {"id": [str(n) for n in range(200)], "text": [f"text {n}" for n in range(200)]}
    path = write(tmp_path, columns, row_group_size=50, write_page_checksum=True)
    data = path.read_bytes()
    for cut in (0, 3, 4, 12, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        reading = read(path)
        assert (reading.documents, reading.rejects.count) == ([], 1)
        assert "the Parquet data is damaged" in reading.reasons[0][1]
    rng = random.Random(2)
    for _ in range(150):
        at = rng.randrange(len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :])
        # the footer has no checksum: a changed name or number may pass
        read(path)
    path.unlink()
    reading = read(DocumentFile(path, "gone", "parquet"))
    assert reading.documents == []
    assert reading.reasons == [(None, "cannot be read: No such file or directory")]


def test_a_damaged_row_group_keeps_those_before(tmp_path):
    texts = ["first part"] * 50 + ["second part"] * 50
    ids = [str(n) for n in range(100)]
    path = write(
        tmp_path, {"id": ids, "text": texts}, row_group_size=50, write_page_checksum=True,
        compression="none", write_statistics=False, store_schema=False,
    )  # fmt: skip
    data = path.read_bytes()
    assert data.count(b"second part") == 1
    path.write_bytes(data.replace(b"second part", b"sXcond part"))
    reading = read(path)
    assert reading.ids == ids[:50]
    assert reading.rejects.count == 1


def damaged_group(tmp_path, column, **how):
    """Return a file of 1,000 rows in groups of 100, page 3 of ``column`` damaged in group 4."""
    rng = random.Random(1)
    texts = [f"row {n} " + rng.randbytes(40).hex() for n in range(1000)]
    path = write(
        tmp_path,
        {"id": [f"name {n}" for n in range(1000)], "text": texts, "more": texts[::-1]},
        row_group_size=100,
        data_page_size=1,
        write_batch_size=10,
        **{"use_dictionary": False, "compression": "zstd", **how},
    )
    chunk = pq.ParquetFile(path).metadata.row_group(4).column(["id", "text", "more"].index(column))
    data = bytearray(path.read_bytes())
    begin = chunk.data_page_offset
    at = begin + chunk.total_compressed_size * 3 // 10
    data[at : at + 20] = bytes(20)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("column", ["text", "id"])
@pytest.mark.parametrize(
    "how", [{}, {"use_dictionary": True}, {"write_page_checksum": True}], ids=str
)
def test_a_damaged_row_group_is_read_up_to_there_and_the_others_whole(tmp_path, column, how):
    path = damaged_group(tmp_path, column, **how)
    whole = read(path)
    first = 400 + sum(400 <= place < 500 for _, _, place in whole.documents)
    assert 400 < first < 500
    expected = [*range(first), *range(500, 1000)]
    assert [place for _, _, place in whole.documents] == expected
    assert whole.ids == [f"name {n}" for n in expected]
    ((place, reason),) = whole.reasons
    assert place == f"row {first}"
    assert reason.endswith(f"; {500 - first} rows of row group 4 are lost")
    file = DocumentFile.detect(path)
    for size in (1, 20_000):
        for batch_bytes in (300, 1 << 20):
            for keep_records in (False, True):
                how = {"batch_bytes": batch_bytes, "keep_records": keep_records}
                parts = read(*document_parts(file, size), **how)
                assert parts.documents == whole.documents, (size, how)
                assert parts.rejects.listed == whole.rejects.listed, (size, how)
    with pytest.raises(FormatError, match=rf"row {first}: the Parquet data is damaged"):
        read(path, strict=True)


def test_records_of_which_only_other_columns_are_damaged_cannot_be_kept(tmp_path):
    path = damaged_group(tmp_path, "more")
    assert len(read(path).documents) == 1000
    with pytest.raises(MrDedupError, match=r"row 4\d\d: its text can be read, but not all of its"):
        read(path, keep_records=True)


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_encodings_that_are_no_dictionaries(tmp_path, encoding):
    texts = [f"text {n % 7}" for n in range(1000)]
    path = write(
        tmp_path,
        {"id": [str(n) for n in range(1000)], "text": texts},
        use_dictionary=False,
        column_encoding={"text": encoding, "id": encoding},
        row_group_size=300,
    )
    assert read(path).documents == [(str(n), text, n) for n, text in enumerate(texts)]
