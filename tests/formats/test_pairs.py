"""Pairs as text: what is read, and what is reported of the rest."""

import random

import numpy as np
import pytest

from mr_dedup.errors import FormatError
from mr_dedup.formats import pairs
from mr_dedup.formats.content import open_content
from tests.oracles import pairs_within, result_lines


def read(folder, text):
    path = folder / "pairs.tsv"
    path.write_bytes(text)
    with open_content(path, "the pairs") as content:
        found = list(pairs.read(content, "the pairs"))
    return [
        pair
        for left, right in found
        for pair in zip(left.tolist(), right.tolist(), strict=True)
    ]  # fmt: skip


TOP = (1 << 64) - 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"\n\r\n\n", []),
        (b"1\t2", [(1, 2)]),
        (b"1\t2\n", [(1, 2)]),
        (b"1\t2\r\n\r\n3\t3\r\n", [(1, 2), (3, 3)]),
        (b"\n1\t2\t3\t4\n\n5\t6\n", [(1, 2), (1, 3), (1, 4), (5, 6)]),
        (b"-1\t18446744073709551615\t0x8000000000000000\n", [(TOP, TOP), (TOP, 1 << 63)]),
        (b"1\t2:0\t3:64\n4\t5:7\r\n6\t7:3", [(1, 2), (1, 3), (4, 5), (6, 7)]),
    ],
)
def test_lines_of_pairs_are_read(tmp_path, text, expected):
    assert read(tmp_path, text) == expected


@pytest.mark.parametrize("with_distance", [False, True])
def test_what_query_prints_is_read(tmp_path, with_distance):
    rng = random.Random(21)
    values = [rng.getrandbits(12) << 52 for _ in range(300)]
    expected = pairs_within(values, values, 2)
    found = read(tmp_path, result_lines(expected, with_distance).encode())
    assert len(found) == len(expected)
    assert set(found) == expected


def test_files_of_many_blocks_and_lines_longer_than_one(tmp_path):
    rng = np.random.default_rng(22)
    values = rng.integers(0, 2**64, 60_000, dtype=np.uint64).tolist()
    star = [(values[0], value) for value in values[1:20_000]]
    others = list(zip(values[20_000::2], values[20_001::2], strict=True))
    lines = [f"{one}\t{other}" for one, other in others]
    lines.insert(7000, "\t".join(map(str, values[:20_000])))
    found = read(tmp_path, "\n".join(lines).encode())
    assert found == others[:7000] + star + others[7000:]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"5", "expected a fingerprint and, after a TAB each, one or more others"),
        (b"5\t", "expected a fingerprint and, after a TAB each, one or more others"),
        (b"\t5", "expected a fingerprint and, after a TAB each, one or more others"),
        (b"5\t\t6", "expected a fingerprint and, after a TAB each, one or more others"),
        (b"5:3\t6", "expected a fingerprint, a decimal or 0x and 16 hex digits, found '5:3'"),
        (b"5\t6:", "expected a fingerprint, a decimal or 0x and 16 hex digits, found '6:'"),
        (b"5\t6:100", "expected a fingerprint, a decimal or 0x and 16 hex digits, found '6:100'"),
        (b"5\tsix", "expected a fingerprint, a decimal or 0x and 16 hex digits, found 'six'"),
        (b"5 6", "expected a fingerprint, a decimal or 0x and 16 hex digits, found '5 6'"),
        (b"1\r2\t3", r"expected a fingerprint, a decimal or 0x and 16 hex digits, found '1\r2'"),
        (b"5\t18446744073709551616", "expected a decimal from"),
    ],
)
@pytest.mark.parametrize("before", [0, 30_000])
def test_a_mistake_is_told_with_its_line(tmp_path, line, said, before):
    text = b"1\t2\n\n" * (before // 2) + line + b"\n3\t4\n"
    with pytest.raises(FormatError) as raised:
        read(tmp_path, text)
    assert str(raised.value).startswith(f"the pairs, line {before + 1}: {said}")


def test_a_line_that_no_memory_holds_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(pairs, "MAX_LINE_BYTES", 1 << 10)
    with pytest.raises(FormatError, match="line 3: is longer than 1024 bytes"):
        read(tmp_path, b"1\t2\n3\t4\n" + b"\t".join([b"7"] * 300_000))
