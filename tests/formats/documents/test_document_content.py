"""Content: all that is before damage, then the damage; bombs in small pieces."""

import gzip
import random
import re
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.content import open_content
from mr_dedup.formats.fingerprint_files import FingerprintFile
from tests.formats.documents.reading import read, small_blocks, standard_input

LINES = [b'{"id": "%d", "text": "%s"}\n' % (n, random.Random(n).randbytes(30).hex().encode())
         for n in range(2000)]  # fmt: skip


def everything(path, compression=None, step=7000):
    """Return the content, and the error at its end if there is one."""
    found = b""
    with open_content(path, "name", compression) as content:
        try:
            while piece := content.read(step):
                found += piece
        except FormatError as error:
            return found, error
    return found, None


def test_plain_content_goes_back_and_forth(tmp_path):
    path = tmp_path / "a"
    data = bytes(range(256)) * 300
    path.write_bytes(data)
    with open_content(path, "name", piece_bytes=100) as content:
        assert content.size == len(data)
        assert content.peek(300) == data[:300]
        assert content.read(250) == data[:250]
        assert content.position == 250
        assert content.peek_at(700, 50) == data[950:1000]
        assert content.peek_some(1000) == data[250:300]
        assert content.search(re.compile(b"\x10"), 0, 5000) == (22, 23)
        assert content.search(re.compile(b"\x10\x11"), 23, 5000) == (278, 280)
        assert content.search(re.compile(b"\x10\x12"), 0, 5000) is None
        assert content.position == 250
        assert content.skip(950) == 950
        assert content.read(3) == data[1200:1203]
        content.seek(1210)
        view = bytearray(5)
        assert content.readinto(memoryview(view)) == 5
        assert bytes(view) == data[1210:1215]
        content.seek(len(data) - 2)
        assert content.peek(10) == data[-2:]
        assert content.skip(10) == 2
        assert content.read(1) == b""
        content.seek(0)
        assert content.read(1) == data[:1]


def test_a_gzip_file_damaged_or_cut_anywhere_gives_all_before(tmp_path):
    data = b"".join(LINES[:60])
    packed = gzip.compress(data[:1500]) + bytes(7) + gzip.compress(data[1500:])
    path = tmp_path / "a"
    path.write_bytes(packed + bytes(30))
    assert everything(path, "gzip") == (data, None)
    second = packed.rindex(b"\x1f\x8b")
    for cut in [*range(1, 40), *range(second - 12, second - 7), *range(second + 1, len(packed), 7)]:
        path.write_bytes(packed[:cut])
        found, error = everything(path, "gzip")
        decoder = zlib.decompressobj(31)
        reached = decoder.decompress(packed[:cut])
        if decoder.eof:
            reached += zlib.decompressobj(31).decompress(decoder.unused_data.lstrip(b"\0"))
        assert found == reached
        assert "cut short" in str(error)
        assert error.offset == f"decompressed byte {len(reached)}"
    for at in range(second + 10, len(packed), 5):
        path.write_bytes(packed[:at] + bytes([packed[at] ^ 0x55]) + packed[at + 1 :])
        found, error = everything(path, "gzip")
        assert found[:1500] == data[:1500]
        assert error is not None
    path.write_bytes(packed + b"more")
    found, error = everything(path, "gzip")
    assert found == data
    assert "damaged" in str(error)


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_files_that_are_not_compressed_at_all(tmp_path, compression):
    path = tmp_path / "a"
    for data, reason in ((b"", "an empty file is not"), (b"plain text", "damaged")):
        path.write_bytes(data)
        found, error = everything(path, compression)
        assert found == b""
        assert reason in str(error)


def test_a_zstd_file_that_is_damaged_gives_the_frames_before(tmp_path):
    frames = [zstandard.compress(data) for data in (LINES[0], LINES[1])]
    path = tmp_path / "a"
    path.write_bytes(b"".join(frames)[:-3])
    found, error = everything(path, "zstd")
    assert found.startswith(LINES[0])
    assert "cut short" in str(error)
    path.write_bytes(frames[0] + b"garbage!")
    found, error = everything(path, "zstd")
    assert found == LINES[0]
    assert error.offset == f"decompressed byte {len(LINES[0])}"


def frame_of_window(log, data):
    """Return a zstd frame that says its window has 2**log bytes, with data as it is."""
    header = b"\x28\xb5\x2f\xfd\x00" + bytes([(log - 10) << 3])
    return header + (len(data) << 3 | 1).to_bytes(3, "little") + data


@pytest.mark.parametrize("log", [10, 27, 28, 31])
def test_zstd_frames_with_windows_of_any_size(tmp_path, log):
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(frame_of_window(log, LINES[0]) + zstandard.compress(LINES[1]))
    assert everything(path, "zstd") == (LINES[0] + LINES[1], None)
    assert read(path).ids == ["0", "1"]
    fingerprints = tmp_path / "a.txt.zst"
    fingerprints.write_bytes(frame_of_window(log, b"7\n"))
    assert [batch.tolist() for batch in FingerprintFile.detect(fingerprints).batches()] == [[7]]


def test_zstd_windows_that_no_frame_has(tmp_path):
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(frame_of_window(32, LINES[0]))
    found, error = everything(path, "zstd")
    assert found == b""
    assert "damaged" in str(error)


@pytest.mark.parametrize("ending", ["gz", "zst"])
@pytest.mark.parametrize("fault", ["cut", "flip"])
def test_damage_keeps_what_is_before_and_is_one_reject(tmp_path, ending, fault):
    pack = (
        gzip.compress if ending == "gz" else zstandard.ZstdCompressor(write_checksum=True).compress
    )
    first, second = pack(b"".join(LINES[:1000])), pack(b"".join(LINES[1000:]))
    if fault == "cut":
        second = second[: len(second) // 2]
    else:
        at = len(second) // 2
        second = second[:at] + bytes([second[at] ^ 0xFF]) + second[at + 1 :]
    path = tmp_path / f"a.jsonl.{ending}"
    path.write_bytes(first + second)
    other = tmp_path / "b.jsonl"
    other.write_bytes(LINES[0])
    reading = read(path, other)
    ids = [int(id) for id in reading.ids]
    assert ids[-1] == 0  # the other file
    assert ids[:1000] == list(range(1000))
    if fault == "cut":
        assert reading.rejects.count == 1
    last = reading.rejects.listed[-1]
    assert last.file == str(path)
    assert last.position.startswith("decompressed byte ")
    with pytest.raises(FormatError, match=r"damaged|cut short|not JSON"):
        read(path, strict=True)


@given(st.binary(max_size=3000), st.integers(1, 400), st.booleans())
def test_any_content_comes_back(tmp_path_factory, data, size, gz):
    path = tmp_path_factory.mktemp("content") / "a"
    path.write_bytes(gzip.compress(data) if gz else zstandard.compress(data))
    with pytest.MonkeyPatch.context() as monkeypatch, small_blocks(monkeypatch, size):
        assert everything(path, "gzip" if gz else "zstd", size) == (data, None)


def test_standard_input_and_files_that_cannot_be_read(tmp_path):
    with standard_input(b"some input"):
        assert everything(None) == (b"some input", None)
    with standard_input(None), pytest.raises(MrDedupError, match="standard input is closed"):
        everything(None)
    with pytest.raises(MrDedupError, match="name: cannot be read: No such file"):
        everything(tmp_path / "none")
    with pytest.raises(MrDedupError, match="name: cannot be read: Is a directory"):
        everything(tmp_path)
