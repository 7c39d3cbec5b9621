"""Fingerprints in Parquet: what is written, whose files are read, damage that is reported."""

import random
import resource
import uuid
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats import fingerprint_parquet
from mr_dedup.formats.fingerprint_files import FingerprintFile
from mr_dedup.formats.fingerprint_parquet import create_table, open_table
from tests.strategies import FINGERPRINTS, costly

FEATURES = "words:1, log-tf"

documents = st.lists(
    st.tuples(
        st.text(st.characters(blacklist_categories=["Cs"]), max_size=5),
        st.none() | FINGERPRINTS,
        st.integers(0, 2**63 - 1),
        st.none() | st.text("ab", max_size=3),
    ),
    max_size=40,
)


def write_rows(writer, rows, fields=()):
    ids, fingerprints, lengths, values = zip(*rows, strict=True) if rows else ([], [], [], [])
    writer.write(
        pa.array(ids, pa.large_string()),
        np.array([fingerprint or 0 for fingerprint in fingerprints], dtype=np.uint64),
        np.array([fingerprint is not None for fingerprint in fingerprints], dtype=bool),
        np.array(lengths, dtype=np.int64),
        pa.table({name: pa.array(values, pa.large_string()) for name in fields})
        if fields
        else None,
    )


def table(path, *batches, fields=(), features=FEATURES):
    with create_table(path, features, fields, overwrite=True) as writer:
        for rows in batches:
            write_rows(writer, rows, fields)
    assert writer.rows == sum(map(len, batches))
    return path


def signed(fingerprint):
    return fingerprint - 2**64 if fingerprint is not None and fingerprint >= 2**63 else fingerprint


ROWS = [("a", 5, 10, "x"), ("b", None, 0, None), ("c", 2**64 - 1, 7, ""), ("d", 5, 3, "x")]


# writing


@given(rows=documents, has_field=st.booleans())
@costly
def test_others_read_what_is_written(tmp_path_factory, rows, has_field):
    fields = ["kept"] if has_field else []
    path = table(tmp_path_factory.getbasetemp() / "x.parquet", rows, fields=fields)
    found = pq.read_table(path)
    columns = ["id", "fingerprint", "length", *fields]
    assert found.to_pylist() == [
        dict(zip(columns, (id, signed(fingerprint), *rest), strict=False))
        for id, fingerprint, *rest in rows
    ]


def test_the_layout(tmp_path):
    path = table(tmp_path / "x.parquet", ROWS, fields=["url", "date"])
    file = pq.ParquetFile(path)
    text = pa.large_string()
    assert file.schema_arrow.remove_metadata() == pa.schema(
        [
            pa.field("id", text, nullable=False),
            pa.field("fingerprint", pa.int64()),
            pa.field("length", pa.int64(), nullable=False),
            pa.field("url", text),
            pa.field("date", text),
        ]
    )
    assert file.metadata.metadata[b"mr_dedup.features"] == FEATURES.encode()
    columns = [file.metadata.row_group(0).column(number) for number in range(5)]
    assert [c.compression for c in columns] == ["ZSTD", "UNCOMPRESSED", "UNCOMPRESSED"] + [
        "ZSTD"
    ] * 2
    assert not any("DICTIONARY" in encoding for c in columns for encoding in c.encodings)


@given(rows=documents, cuts=st.lists(st.integers(0, 40), max_size=4).map(sorted))
@costly
def test_equal_rows_make_equal_files_however_they_come(tmp_path_factory, rows, cuts):
    folder = tmp_path_factory.getbasetemp()
    edges = [0, *cuts, len(rows)]
    batches = [rows[start:stop] for start, stop in pairwise(edges)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprint_parquet, "_GROUP_ROWS", 7)
        whole = table(folder / "whole.parquet", rows, fields=["kept"])
        pieces = table(folder / "pieces.parquet", *batches, fields=["kept"])
    assert pieces.read_bytes() == whole.read_bytes()
    groups = pq.ParquetFile(whole).metadata
    sizes = [groups.row_group(number).num_rows for number in range(groups.num_row_groups)]
    assert sizes == [7] * (len(rows) // 7) + [len(rows) % 7] * (len(rows) % 7 > 0)


def test_large_rows_make_smaller_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint_parquet, "_GROUP_BYTES", 10_000)
    rows = [(str(number), number, 1, "x" * 1000) for number in range(95)]
    batches = [rows[start : start + 5] for start in range(0, 95, 5)]
    path = table(tmp_path / "x.parquet", *batches, fields=["kept"])
    groups = pq.ParquetFile(path).metadata
    assert [groups.row_group(number).num_rows for number in range(10)] == [10] * 9 + [5]


def test_misuse_is_refused_and_leaves_nothing(tmp_path):
    text = pa.large_string()
    good = {
        "ids": pa.array(["a"], text),
        "fingerprints": np.array([1], np.uint64),
        "has_fingerprint": np.array([True]),
        "lengths": np.array([1], np.int64),
        "fields": pa.table({"url": pa.array(["u"], text)}),
    }
    for change, message in (
        ({"ids": pa.array([None], text)}, "ids: expected large_string, none null, got .* 1 null"),
        ({"ids": pa.array(["a"])}, "ids: expected large_string, none null, got string"),
        ({"fingerprints": np.array([1])}, r"fingerprints: expected uint64\[1\], got int64\[1\]"),
        (
            {"has_fingerprint": np.array([1])},
            r"has_fingerprint: expected bool\[1\], got int64\[1\]",
        ),
        (
            {"has_fingerprint": np.array([], bool)},
            r"has_fingerprint: expected bool\[1\], got bool\[0\]",
        ),
        ({"lengths": np.array([1], np.uint64)}, r"lengths: expected int64\[1\], got uint64\[1\]"),
        ({"lengths": np.array([1, 2])}, r"lengths: expected int64\[1\], got int64\[2\]"),
        ({"fields": None}, r"fields: expected large_string \['url'\], got \[\]"),
        ({"fields": pa.table({"url": ["u"]})}, r"fields: expected large_string \['url'\], got"),
        ({"fields": pa.table({"x": pa.array(["u"], text)})}, r"fields: expected large_string \['u"),
        ({"fields": pa.table({"url": pa.array([], text)})}, "fields: expected 1 rows, got 0"),
    ):
        with (
            pytest.raises(ValueError, match=message),
            create_table(tmp_path / "x.parquet", FEATURES, ["url"]) as writer,
        ):
            writer.write(**{**good, **change})
    for fields in (["id"], ["fingerprint"], ["length"], ["url", "url"]):
        with (
            pytest.raises(ValueError, match="fields: expected distinct names other than id, fing"),
            create_table(tmp_path / "x.parquet", FEATURES, fields),
        ):
            pass
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_kept_unless_told_otherwise(tmp_path):
    path = table(tmp_path / "x.parquet", ROWS)
    before = path.read_bytes()
    with (
        pytest.raises(MrDedupError, match="exists; give --overwrite"),
        create_table(path, FEATURES),
    ):
        pass
    assert path.read_bytes() == before


@pytest.mark.parametrize("count", [10, 10_000])
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, count):
    """Where what is written last finds no room, and where the first group does not."""
    path = tmp_path / "x.parquet"
    rng = np.random.default_rng(1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, limits[1]))
    try:
        with (
            pytest.raises(MrDedupError, match=r"x\.parquet: cannot be written: File too large"),
            create_table(path, FEATURES) as writer,
        ):
            write_rows(writer, [(str(n), int(rng.integers(2**63)), 1, None) for n in range(count)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


# reading


def read(path, *bounds):
    with open_table(path) as rows:
        return [value for batch in rows.batches(*bounds) for value in batch.tolist()]


def read_identified(path):
    with open_table(path) as rows:
        return [
            pair
            for fingerprints, ids in rows.identified()
            for pair in zip(fingerprints.tolist(), ids.to_pylist(), strict=True)
        ]


@given(
    rows=documents,
    start=st.integers(0, 45),
    stop=st.none() | st.integers(0, 45),
    group_rows=st.integers(1, 50),
)
@costly
def test_ranges_are_of_rows_and_nulls_are_skipped(tmp_path_factory, rows, start, stop, group_rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprint_parquet, "_GROUP_ROWS", group_rows)
        path = table(tmp_path_factory.getbasetemp() / "x.parquet", rows)
    fingerprints = [fingerprint for _, fingerprint, *_ in rows]
    assert read(path) == [f for f in fingerprints if f is not None]
    assert read(path, start, stop) == [f for f in fingerprints[start:stop] if f is not None]
    assert read_identified(path) == [(f, id) for id, f, *_ in rows if f is not None]
    with open_table(path) as opened:
        assert (opened.row_count, opened.features) == (len(rows), FEATURES)


def test_more_rows_than_are_decoded_at_once(tmp_path):
    values = np.random.default_rng(2).integers(0, 2**64, 300_000, dtype=np.uint64)
    rows = [(f"id {n}", None if n % 1000 == 7 else value, n, None)
            for n, value in enumerate(values.tolist())]  # fmt: skip
    path = table(tmp_path / "x.parquet", rows)
    file = FingerprintFile.detect(path)
    assert file.count() == 300_000
    expected = [(fingerprint, id) for id, fingerprint, *_ in rows if fingerprint is not None]
    assert file.read().tolist() == [fingerprint for fingerprint, _ in expected]
    assert read_identified(path) == expected
    # across the edges of row groups
    for start, stop in ((131_000, 131_100), (100_000, 290_000), (262_143, 262_145)):
        wanted = [fingerprint for _, fingerprint, *_ in rows[start:stop] if fingerprint is not None]
        assert [v for b in file.batches(start, stop) for v in b.tolist()] == wanted


def write(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("type", [pa.int64(), pa.uint64()])
def test_integers_of_either_sign(tmp_path, type):
    values = np.array([0, 2**63, 2**64 - 1, 5], dtype=np.uint64)
    column = pa.array(values.view(np.int64) if type == pa.int64() else values)
    path = write(tmp_path / "x.parquet", text=["t"] * 4, fingerprint=column)
    assert read(path) == values.tolist()
    assert read_identified(path) == [(value, None) for value in values.tolist()]
    with open_table(path) as opened:
        assert opened.features is None


TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(),
         pa.dictionary(pa.int32(), pa.string())]  # fmt: skip


@pytest.mark.parametrize("type", TEXTS, ids=str)
def test_ids_of_any_type_of_text(tmp_path, type):
    ids = pa.array(["a", None, "早", "a"]).cast(type)
    path = write(tmp_path / "x.parquet", id=ids, fingerprint=[1, 2, 3, None])
    assert read_identified(path) == [(1, "a"), (2, None), (3, "早")]


def test_ids_that_are_integers(tmp_path):
    ids = pa.array([7, None, 2**64 - 1], pa.uint64())
    path = write(tmp_path / "x.parquet", id=ids, fingerprint=[1, 2, 3])
    assert read_identified(path) == [(1, "7"), (2, None), (3, "18446744073709551615")]


def test_ids_that_are_not_utf8_are_hexadecimal(tmp_path):
    damaged = pa.Array.from_buffers(pa.string(), 2, pa.array([b"a\xff", b"b"]).buffers())
    for ids in (damaged, pa.array([b"a\xff", b"b"])):
        path = write(tmp_path / "x.parquet", id=ids, fingerprint=[1, 2])
        assert read(path) == [1, 2]
        assert read_identified(path) == [(1, "61ff"), (2, "b")]


def test_ids_of_other_types(tmp_path):
    for ids, texts in (
        ([1.5, 2.0], ["1.5", "2"]),
        (pa.array([uuid.UUID(int=1).bytes] * 2, pa.uuid()), [str(uuid.UUID(int=1))] * 2),
        (pa.array(["a", "b"], pa.string_view()), ["a", "b"]),
        ([["a"], ["b"]], [None, None]),
    ):
        path = write(tmp_path / "x.parquet", id=ids, fingerprint=[1, 2])
        assert read_identified(path) == list(zip([1, 2], texts, strict=True))


def test_files_without_fingerprints_are_named(tmp_path):
    path = tmp_path / "x.parquet"
    double = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["fingerprint"] * 2)
    ids = pa.Table.from_arrays(
        [pa.array([1]), pa.array(["a"]), pa.array(["b"])], names=["fingerprint", "id", "id"]
    )
    for columns, reason in (
        ({"id": ["a"], "text": ["t"]}, "has no column 'fingerprint'; its columns are 'id', 'text'"),
        ({str(n): [n] for n in range(9)}, "its columns are '0', '1', '2', '3', '4', …"),
        ({}, "has no column 'fingerprint'; its columns are none"),
        ({"fingerprint": pa.array([1], pa.int32())}, "is of type int32, not int64 or uint64"),
        ({"fingerprint": ["1"]}, "its column 'fingerprint' is of type string, not int64 or uint64"),
        ({"fingerprint": [[1]]}, "its column 'fingerprint' is of type list"),
        (double, "has 2 columns 'fingerprint'"),
    ):
        pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path)
        file = FingerprintFile.detect(path)
        for use in (file.count, file.read, partial(next, file.identified())):
            with pytest.raises(FormatError) as caught:
                use()
            assert caught.value.path == str(path)
            assert reason in caught.value.reason
    pq.write_table(ids, path)
    assert read(path) == [1]
    with pytest.raises(FormatError, match="has 2 columns 'id'"):
        read_identified(path)


def test_names_that_are_not_utf8(tmp_path):
    path = table(tmp_path / "odd \udcff #é.parquet", ROWS)
    assert read(path) == [5, 2**64 - 1, 5]


# damage


def test_every_cut_and_a_changed_byte_of_the_data_are_noticed(tmp_path):
    rows = [(f"id {number}", number * 2**55, number, None) for number in range(300)]
    path = table(tmp_path / "x.parquet", rows)
    content = path.read_bytes()
    footer_bytes = int.from_bytes(content[-8:-4], "little")
    for length in (*range(0, len(content), 97), len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(FormatError, match=r"x\.parquet: the Parquet data is damaged"):
            read(path)
    rng = random.Random(1)
    noticed = 0
    for at in rng.sample(range(4, len(content) - footer_bytes - 8), 200):
        changed = bytes([content[at] ^ (1 << rng.randrange(8))])
        path.write_bytes(content[:at] + changed + content[at + 1 :])
        try:
            found = read_identified(path)
        except FormatError:
            noticed += 1
            continue
        # where lengths are, which are not read, or in a page's header, and it means nothing
        assert found == [(fingerprint, id) for id, fingerprint, *_ in rows]
    assert noticed > 140


def test_a_damaged_footer_is_no_traceback(tmp_path):
    path = table(tmp_path / "x.parquet", ROWS * 10, fields=["kept"])
    content = path.read_bytes()
    footer_bytes = int.from_bytes(content[-8:-4], "little")
    rng = random.Random(2)
    refused = 0
    for at in rng.sample(range(len(content) - footer_bytes - 8, len(content)), 300):
        changed = bytes([content[at] ^ (1 << rng.randrange(8))])
        path.write_bytes(content[:at] + changed + content[at + 1 :])
        file = FingerprintFile.detect(path)
        for use in (file.count, file.read, partial(list, file.identified())):
            try:
                use()
            except FormatError:
                refused += 1
    # the footer has no checksum: a changed name or number may pass
    assert refused > 50


def test_damage_keeps_the_row_groups_before_it(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint_parquet, "_GROUP_ROWS", 50)
    values = np.random.default_rng(3).integers(0, 2**63, 100).tolist()
    path = table(tmp_path / "x.parquet", [(str(n), v, 1, None) for n, v in enumerate(values)])
    content = path.read_bytes()
    target = values[77].to_bytes(8, "little")
    assert content.count(target) == 1
    path.write_bytes(content.replace(target, bytes(8)))
    with open_table(path) as opened:
        batches = opened.batches()
        assert next(batches).tolist() == values[:50]
        with pytest.raises(FormatError, match=r"the Parquet data is damaged: .*CRC"):
            next(batches)
