"""Text against Python's own int, line by line; and every mistake named with its line."""

import io
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats import text
from mr_dedup.formats.id_text import escape_id

values = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-100, 100),
    st.sampled_from([-(2**63), -1, 0, 2**63 - 1, 2**63, 2**64 - 1, 10**16, 10**16 - 1, 10**8]),
)
spellings = st.one_of(
    values.map(str),
    values.map(lambda value: f"0x{value % 2**64:016x}"),
    values.map(lambda value: f"0x{value % 2**64:016X}"),
    st.tuples(st.integers(0, 10**6), st.integers(1, 20)).map(lambda pair: f"{pair[0]:0{pair[1]}}"),
    st.integers(0, 9).map(lambda digit: f"-{digit}"),
)
id_texts = st.text(st.characters(blacklist_characters="\n\r\\", blacklist_categories=["Cs"]))
lines = st.tuples(spellings, st.none() | id_texts, st.sampled_from(["\n", "\r\n"]))
blanks = st.sampled_from([("", None, "\n"), ("", None, "\r\n")])


def spelled(records):
    return "".join(
        field + ("" if record_id is None else f"\t{record_id}") + end
        for field, record_id, end in records
    ).encode()


def meant(records):
    return [int(field, 0 if "x" in field else 10) % 2**64 for field, _, _ in records if field]


def read_all(content):
    blocks = list(text.read(io.BytesIO(content), "x.txt"))
    assert all(block.dtype == np.uint64 for block in blocks)
    return [value for block in blocks for value in block.tolist()]


@given(records=st.lists(lines | blanks), last_end=st.booleans(), size=st.integers(1, 300))
def test_reads_what_int_reads(records, last_end, size):
    content = spelled(records)
    if not last_end:
        content = content.removesuffix(b"\n")
    with pytest.MonkeyPatch.context() as patch:
        # blocks that begin and end anywhere
        patch.setattr(text, "_READ_BYTES", size)
        assert read_all(content) == meant(records)


fields = st.one_of(
    spellings,
    st.text("0123456789abcdefxX+- .\r\t_", max_size=24),
    st.integers(-(2**70), 2**70).map(str),
)


@given(block_lines=st.lists(fields, min_size=1, max_size=4))
@example(block_lines=["1844674407370955161" + "5"])
@example(block_lines=["18446744073709551616"])
@example(block_lines=["-9223372036854775809"])
@example(block_lines=["-0x0123456789abcdef"])
@example(block_lines=["123456789\r\r"])
@example(block_lines=["\ta", "1"])
def test_the_fast_parser_accepts_exactly_what_the_slow_one_does(block_lines):
    block = "".join(f"{line}\n" for line in block_lines).encode()
    fast = text._parse_at_once(block)
    try:
        slow = text._parse_by_line(block, "x.txt", 1)
    except FormatError:
        assert fast is None
    else:
        assert fast is not None
        assert fast.tolist() == slow.tolist()


@pytest.mark.parametrize("good", [b"123456789012345678", b"0x0123456789abcdef"])
def test_no_other_byte_passes_for_a_digit(good):
    line = re.compile(rb"((-?[0-9]{1,20}|0x[0-9a-fA-F]{16})(\t.*)?)?\r?")
    for place in range(len(good)):
        for code in range(256):
            changed = good[:place] + bytes([code]) + good[place + 1 :]
            expected = all(line.fullmatch(part) for part in changed.split(b"\n"))
            assert (text._parse_at_once(changed + b"\n") is not None) == expected, changed


bad_lines = {
    "abc": "expected a fingerprint",
    "1.5": "expected a fingerprint",
    " 1": "expected a fingerprint",
    "1 ": "expected a fingerprint",
    "+1": "expected a fingerprint",
    "1_000": "expected a fingerprint",
    "-": "expected a fingerprint",
    "--1": "expected a fingerprint",
    "٣": "expected a fingerprint",
    "\tid": "expected a fingerprint",
    "1\r\tid": "expected a fingerprint",
    "0x123": "expected a fingerprint",
    "0x0123456789abcdef0": "expected a fingerprint",
    "0X0123456789abcdef": "expected a fingerprint",
    "0x0123456789abcdeg": "expected a fingerprint",
    "-0x0123456789abcdef": "expected a fingerprint",
    "\x00": "expected a fingerprint",
    "18446744073709551616": "expected a decimal from",
    "-9223372036854775809": "expected a decimal from",
    "99999999999999999999": "expected a decimal from",
    "000000000000000000001": "expected a decimal from",
    "9" * 60_000: "expected a decimal from",
}


@pytest.mark.parametrize("bad", bad_lines, ids=lambda line: ascii(line[:25]))
@pytest.mark.parametrize("before", [0, 1, 100_000])
def test_a_mistake_is_named_with_its_line(bad, before):
    content = b"-123\n" * before + bad.encode() + b"\r\n7\n"
    with pytest.raises(FormatError, match=bad_lines[bad]) as caught:
        read_all(content)
    assert caught.value.offset == f"line {before + 1}"
    message = str(caught.value)
    assert message.isprintable()
    assert message.isascii()
    assert len(message) < 250


def test_what_was_found_is_shown_escaped():
    with pytest.raises(FormatError) as caught:
        read_all(b"5\n\n\x1b[2J\xff\n")
    assert str(caught.value) == (
        "x.txt, line 3: expected a fingerprint, a decimal or 0x and 16 hex digits, "
        r"found '\x1b[2J\xff'"
    )


def test_the_fingerprints_before_a_mistake_are_yielded():
    blocks = text.read(io.BytesIO(b"1\n" * 200_000 + b"oops\n"), "x.txt")
    assert next(blocks).tolist() == [1] * (1 << 17)
    with pytest.raises(FormatError, match="line 200001"):
        next(blocks)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_line_may_be_as_long_as_the_limit_and_no_longer(end):
    longest = b"1\t" + b"i" * (text.MAX_LINE_BYTES - 2)
    assert read_all(b"3\n" + longest + end) == [3, 1]
    with pytest.raises(FormatError, match=f"line 2: is longer than {text.MAX_LINE_BYTES} bytes"):
        read_all(b"3\n" + longest + b"i" + end)


def test_a_line_without_end_is_not_read_whole():
    class Endless(io.RawIOBase):
        given_bytes = 0

        def read(self, size=-1):
            self.given_bytes += size
            return b"7" * size

    stream = Endless()
    with pytest.raises(FormatError, match="line 1: is longer than"):
        next(text.read(stream, "x.txt"))
    assert stream.given_bytes < 1 << 20


@pytest.mark.parametrize("content", [b"", b"\n", b"\r\n\n", b"\n" * 1000])
def test_nothing_but_empty_lines_is_no_fingerprints(content):
    assert read_all(content) == []


def test_an_id_is_whatever_follows_the_first_tab():
    assert read_all(b"1\tone\n2\t\xff\xfe\n3\ta b\tc\r\n4\t\n5\n") == [1, 2, 3, 4, 5]


@given(values=st.lists(values.map(lambda value: value % 2**64), max_size=50))
def test_writes_signed_decimals(values):
    file = io.BytesIO()
    text.write(file, np.array(values, dtype=np.uint64))
    signed = [value - 2**64 if value >= 2**63 else value for value in values]
    assert file.getvalue().decode() == "".join(f"{value}\n" for value in signed)
    assert read_all(file.getvalue()) == values


def test_writes_every_length_and_more_than_a_piece():
    powers = [10**digits + shift for digits in range(19) for shift in (-1, 0, 1)]
    values = [value % 2**64 for power in powers for value in (power, -power)] * 200
    file = io.BytesIO()
    text.write(file, np.array(values, dtype=np.uint64))
    assert [int(line) % 2**64 for line in file.getvalue().split()] == values
    assert read_all(file.getvalue()) == values


# ids


def read_identified(content):
    """All fingerprints of a text with their ids."""
    pairs = []
    for fingerprints, ids in text.read_identified(io.BytesIO(content), "x.txt"):
        ids.validate(full=True)
        pairs += zip(fingerprints.tolist(), ids.to_pylist(), strict=True)
    return pairs


id_bytes = st.binary(max_size=12) | st.text(max_size=8).map(str.encode)


@given(
    records=st.lists(
        st.tuples(values.map(lambda value: b"%d" % value), st.none() | id_bytes) | st.none()
    ),
    end=st.sampled_from([b"\n", b"\r\n"]),
    last_end=st.booleans(),
    size=st.integers(1, 300),
)
@example(records=[(b"1", b"\xff"), (b"2", None)], end=b"\n", last_end=True, size=300)
@example(records=[(b"1", b""), (b"2", b"\t\r"), None], end=b"\r\n", last_end=True, size=300)
def test_reads_the_ids_that_partition_finds(records, end, last_end, size):
    lines = [b"" if record is None else b"\t".join(filter_none(record)) for record in records]
    content = b"".join(line + end for line in lines)
    if not last_end:
        content = content.removesuffix(end)
    expected = []
    # an id of any bytes may hold line ends of its own
    for line in content.split(b"\n"):
        field, tab, id = line.removesuffix(b"\r").partition(b"\t")
        if field + tab:
            expected.append((field, id.decode(errors="backslashreplace") if tab else None))
    assume(all(re.fullmatch(rb"-?[0-9]+", field) for field, _ in expected))
    assume(all(-(2**63) <= int(field) < 2**64 for field, _ in expected))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_READ_BYTES", size)
        assert read_identified(content) == [(int(field) % 2**64, id) for field, id in expected]


def filter_none(record):
    return [part for part in record if part is not None]


def test_a_mistake_is_named_where_ids_are_read_too():
    with pytest.raises(FormatError, match="line 3: expected a fingerprint"):
        read_identified(b"1\ta\n\nx\tb\n")


def test_hex_fingerprints_have_ids_too():
    assert read_identified(b"0x00000000000000ff\ta\n7\tb") == [(255, "a"), (7, "b")]


def write_identified(values, ids):
    file = io.BytesIO()
    array = np.array(values, dtype=np.uint64)
    text.write_identified(file, "x.txt", array, pa.array(ids, pa.large_string()))
    return file.getvalue()


@given(
    pairs=st.lists(
        st.tuples(
            values.map(lambda value: value % 2**64),
            st.none() | st.text(st.characters(blacklist_categories=["Cs"]), max_size=8),
        ),
        max_size=50,
    ),
    count=st.integers(1, 60),
)
@example(pairs=[(1, "a\tb\r\nc\\t"), (2, ""), (3, None)], count=60)
def test_writes_ids_with_what_would_end_their_lines_escaped(pairs, count):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_WRITE_COUNT", count)
        content = write_identified([value for value, _ in pairs], [id for _, id in pairs])
    shown = []
    for value, id in pairs:
        shown.append((value, None if id is None else escape_id(id)))
    signed = [value - 2**64 if value >= 2**63 else value for value, _ in shown]
    lines = [
        f"{value}\n" if id is None else f"{value}\t{id}\n"
        for value, (_, id) in zip(signed, shown, strict=True)
    ]
    assert content.decode() == "".join(lines)
    assert read_identified(content) == [*pairs]


def test_ids_of_a_slice_are_written():
    ids = pa.array(["a", "b", None, "d"], pa.large_string())[1:]
    file = io.BytesIO()
    text.write_identified(file, "x.txt", np.array([1, 2, 3], dtype=np.uint64), ids)
    assert file.getvalue() == b"1\tb\n2\n3\td\n"


def test_an_id_is_as_long_as_a_line_allows_and_no_longer():
    longest = "i" * (text.MAX_LINE_BYTES - 2)
    assert read_identified(write_identified([3, 1], ["a", longest])) == [(3, "a"), (1, longest)]
    message = f"x.txt: an id makes a line of {text.MAX_LINE_BYTES + 1} bytes"
    with pytest.raises(MrDedupError, match=message):
        write_identified([3, 1], ["a", longest + "i"])
