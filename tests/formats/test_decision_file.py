"""Files of decisions, and other files."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.decision_file import read_decisions

PART = "part-00000.parquet"


def written(folder, ids, originals, **others):
    path = folder / "decisions" / "part-00000.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": ids, "kept_id": originals, **others}), path, row_group_size=2)
    return path


def refusal(path):
    with pytest.raises(FormatError) as error:
        read_decisions(path)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_file_or_the_folder_it_is_in(tmp_path, kind):
    ids = pa.array(["a", "b", "ç", "d", "e"], kind)
    path = written(tmp_path, ids, pa.array(["a", "a", "ç", "ç", "a"], kind), reason=["x"] * 5)
    for named in (path, path.parent, tmp_path):
        decided = read_decisions(named)
        assert decided.ids.to_pylist() == ["a", "b", "ç", "d", "e"]
        assert decided.kept_rows.tolist() == [0, 0, 2, 2, 0]
        assert decided.kept.tolist() == [True, False, True, False, False]


def test_several_parts(tmp_path):
    ids, kept_ids = list("abcde"), list("adcde")
    folder = written(tmp_path, ids[:2], kept_ids[:2]).parent
    for number, rows in enumerate([slice(2, 2), slice(2, 5)], 1):
        table = pa.table({"id": ids[rows], "kept_id": kept_ids[rows]})
        table = table.cast(pa.schema([("id", pa.string()), ("kept_id", pa.string())]))
        pq.write_table(table, folder / f"part-{number:05}.parquet")
    assert read_decisions(tmp_path).kept_rows.tolist() == [0, 3, 2, 3, 4]
    # errors name the part, and the row in it
    last = folder / "part-00002.parquet"
    pq.write_table(pa.table({"id": list("cea"), "kept_id": list("cea")}), last)
    assert refusal(tmp_path) == f"{last}, row 2: repeats the document 'a' of {PART}, row 0"
    pq.write_table(pa.table({"id": list("cec"), "kept_id": list("cec")}), last)
    assert refusal(tmp_path) == f"{last}, row 2: repeats the document 'c' of row 0"
    pq.write_table(pa.table({"id": list("cdf"), "kept_id": list("cex")}), last)
    assert refusal(tmp_path) == f"{last}, row 1: its kept document 'e' is not in the directory"
    last.write_bytes(last.read_bytes()[:-9])
    assert refusal(tmp_path).startswith(f"{last}: the Parquet data is damaged: ")
    (folder / "part-00001.parquet").unlink()
    assert refusal(tmp_path) == f"{folder}: its part 1 is missing"


def test_no_documents(tmp_path):
    nothing = pa.array([], pa.large_string())
    decided = read_decisions(written(tmp_path, nothing, nothing))
    assert (len(decided.ids), decided.kept_rows.dtype) == (0, np.int64)


@pytest.mark.parametrize(
    ("ids", "originals", "reason"),
    [
        (list("abca"), list("abca"), "row 3: repeats the document 'a' of row 0"),
        (list("abc"), list("axc"), "row 1: its kept document 'x' is not in the file"),
        (list("abc"), list("bcc"), "row 0: its kept document 'b' is not kept"),
        (["a", None], ["a", "a"], "its column 'id' has rows without an id"),
        (["a", "b"], ["a", None], "its column 'kept_id' has rows without an id"),
        (["a", "b"], [[1], [2]], "its column 'kept_id' is not text"),
    ],
)
def test_invalid_decisions(tmp_path, ids, originals, reason):
    path = written(tmp_path, ids, originals)
    assert refusal(path) in (f"{path}, {reason}", f"{path}: {reason}")


def test_kept_documents_of_earlier_runs_are_documents_too(tmp_path):
    none = pa.array([None] * 4, pa.large_string())
    earlier = pa.array([None, "one", "one", "two"], pa.large_string())
    decided = read_decisions(written(tmp_path, list("abcd"), list("axxy"), earlier_result=earlier))
    assert decided.ids.to_pylist() == list("abcdxy")
    assert decided.kept_rows.tolist() == [0, 4, 4, 5, 4, 5]
    # an id of both this run and another, or of two others: documents of their own
    decided = read_decisions(written(tmp_path, list("abcd"), list("aaxy"), earlier_result=earlier))
    assert decided.ids.to_pylist() == list("abcdaxy")
    assert decided.kept_rows.tolist() == [0, 4, 5, 6, 4, 5, 6]
    decided = read_decisions(written(tmp_path, list("abcd"), list("axxx"), earlier_result=earlier))
    assert decided.ids.to_pylist() == list("abcdxx")
    assert decided.kept_rows.tolist() == [0, 4, 4, 5, 4, 5]
    plain = read_decisions(written(tmp_path, list("abcd"), list("aacc"), earlier_result=none))
    assert plain.kept_rows.tolist() == [0, 0, 2, 2]
    path = written(tmp_path, ["a"], ["a"], earlier_result=[[1]])
    assert refusal(path) == f"{path}: its column 'earlier_result' is not text"


def located(tmp_path, documents, originals, earlier=(None,) * 4):
    """Decisions on documents that are all called the same, by their files and positions."""
    columns = {"earlier_result": pa.array(earlier, pa.large_string())}
    for prefix, locations in (("", documents), ("kept_", originals)):
        columns[f"{prefix}file"] = [file for file, _ in locations]
        columns[f"{prefix}position"] = [position for _, position in locations]
    ids = ["same"] * len(documents)
    return written(tmp_path, ids, ids, **columns)


def test_documents_with_the_same_id_are_identified_by_position(tmp_path):
    locations = [("a", 0), ("a", 10), ("a1", 0), ("b", 10)]
    kept = [locations[0], locations[0], locations[2], locations[2]]
    decided = read_decisions(located(tmp_path, locations, kept))
    assert decided.ids.to_pylist() == ["same"] * 4
    assert decided.kept_rows.tolist() == [0, 0, 2, 2]
    of_earlier = [None, "one", "two", "one"]
    decided = read_decisions(located(tmp_path, locations, [locations[0]] * 4, of_earlier))
    assert decided.kept_rows.tolist() == [0, 4, 5, 4, 4, 5]
    path = located(tmp_path, [*locations[:3], locations[1]], kept)
    assert refusal(path) == f"{path}, row 3: repeats the document 'same' of row 1"
    path = located(tmp_path, locations, [*kept[:3], ("c", 0)])
    assert "row 3: its kept document 'same' is not in the file" in refusal(path)


def test_other_files(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": ["a"]}), path)
    assert refusal(path) == f"{path}: not a file of decisions: it has no column 'kept_id'"
    path.write_bytes(b"PAR1 and no more")
    assert refusal(path).startswith(f"{path}: the Parquet data is damaged: ")
    with pytest.raises(MrDedupError, match=r"none\.parquet: cannot be read: No such file"):
        read_decisions(tmp_path / "none.parquet")
    (tmp_path / "summary.json").write_text("{}")
    only = f"{tmp_path}: contains no directory decisions, and not only Parquet files"
    assert refusal(tmp_path) == only
    (tmp_path / "decisions").mkdir()
    with pytest.raises(MrDedupError, match="decisions: contains no files"):
        read_decisions(tmp_path)


def test_a_changed_byte_is_detected_or_harmless(tmp_path):
    path = written(tmp_path, list("abcdef"), list("aaccef"))
    pq.write_table(pq.read_table(path), path, write_page_checksum=True)
    expected = read_decisions(path)
    sound = path.read_bytes()
    noticed = 0
    for offset in range(0, len(sound), 7):
        path.write_bytes(sound[:offset] + bytes([sound[offset] ^ 0x20]) + sound[offset + 1 :])
        try:
            found = read_decisions(path)
        except FormatError:
            noticed += 1
        else:
            assert found.ids == expected.ids
            assert found.kept_rows.tolist() == [0, 0, 2, 2, 4, 5]
    assert noticed > 10
