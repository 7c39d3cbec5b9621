"""mr-dedup inspect: reports of intact and of damaged files."""

import gzip
import json
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.cli.inspect import inspect
from mr_dedup.cli.main import main
from mr_dedup.formats.fingerprint_files import FingerprintFile
from mr_dedup.formats.fingerprint_writer import create


def write(path, values):
    with create(path) as writer:
        writer.write(np.array(values, dtype=np.uint64))
    return path


def reports(capsys, *arguments, code=0):
    assert main(["inspect", "--json", *map(str, arguments)]) == code
    output = capsys.readouterr()
    assert output.err == ""
    return json.loads(output.out)


@pytest.mark.parametrize("ending", [".longs", ".txt", ".fpz", ".longs.gz", ".tsv.zst", ".fpz.gz"])
def test_an_intact_file(tmp_path, capsys, ending):
    rng = random.Random(ending)
    values = sorted({rng.getrandbits(64) for _ in range(1000)})
    path = write(tmp_path / f"x{ending}", values)
    (report,) = reports(capsys, path)
    file = FingerprintFile.detect(path)
    size_bytes = path.stat().st_size
    assert report == {
        "path": str(path),
        "format": file.format,
        "byte_order": "big" if file.format == "longs" else None,
        "compression": file.compression,
        "bytes": size_bytes,
        "bytes_per_fingerprint": size_bytes / 1000,
        "count": 1000,
        "order": "strictly_ascending",
        "distinct": 1000,
        "smallest": values[0],
        "largest": values[-1] - 2**64,
        "leading_counts": [sum(v >> 60 == pattern for v in values) for pattern in range(16)],
        "damage": None,
    }


@pytest.mark.parametrize(
    ("values", "order", "distinct"),
    [
        ([], "strictly_ascending", 0),
        ([7], "strictly_ascending", 1),
        ([1, 2**63, 2**64 - 1], "strictly_ascending", 3),
        ([1, 1, 2, 2, 2], "ascending", 2),
        ([2**64 - 1, 1], "unsorted", None),
        ([1, 2, 2, 1], "unsorted", None),
    ],
)
def test_order_is_that_of_unsigned_numbers(tmp_path, capsys, values, order, distinct):
    (report,) = reports(capsys, write(tmp_path / "x.txt", values))
    assert (report["order"], report["distinct"]) == (order, distinct)
    assert report["count"] == len(values)


def test_order_across_batches(tmp_path):
    def report(path):
        return inspect(FingerprintFile.detect(path), 4, batch_count=2)

    for values, order in (([1, 2, 3, 4], "strictly_ascending"), ([1, 2, 2, 3], "ascending")):
        assert report(write(tmp_path / f"{order}.longs", values))["order"] == order
    found = report(write(tmp_path / "x.longs", [1, 9, 8, 10]))
    assert (found["order"], found["distinct"]) == ("unsorted", None)
    assert (found["smallest"], found["largest"]) == (1, 10)


def test_parquet(tmp_path, capsys):
    path = tmp_path / "x.parquet"
    fingerprints = pa.array([5, None, -1], pa.int64())
    pq.write_table(pa.table({"id": ["a", "b", "c"], "fingerprint": fingerprints}), path)
    (report,) = reports(capsys, path)
    assert (report["format"], report["count"], report["damage"]) == ("parquet", 2, None)
    assert (report["smallest"], report["largest"]) == (5, -1)
    assert report["bytes_per_fingerprint"] == path.stat().st_size / 2
    path.write_bytes(path.read_bytes()[:-1])
    (report,) = reports(capsys, path, code=1)
    assert "x.parquet: the Parquet data is damaged" in report["damage"]


@pytest.mark.parametrize("bits", [1, 2, 16])
def test_leading_bits(tmp_path, capsys, bits):
    values = [0, 2**63, 2**63 + 5, 2**64 - 1]
    (report,) = reports(capsys, write(tmp_path / "x.longs", values), "--bits", bits)
    counts = [0] * 2**bits
    counts[0], counts[2 ** (bits - 1)], counts[-1] = 1, 2, counts[-1] + 1
    if bits == 1:
        counts = [1, 3]
    assert report["leading_counts"] == counts


def test_the_report_as_text(tmp_path, capsys):
    path = write(tmp_path / "x.longs", [0, 1, 2**62, 2**64 - 1])
    empty = tmp_path / "empty.txt.gz"
    empty.write_bytes(gzip.compress(b"", mtime=0))
    assert main(["inspect", str(path), str(empty), "--bits", "2"]) == 0
    assert capsys.readouterr().out == (
        f"{path}\n"
        "  format        longs, big-endian\n"
        "  fingerprints  4\n"
        "  order         strictly ascending\n"
        "  distinct      4\n"
        "  size          32 bytes, 8.000 each\n"
        "  smallest      0 (0x0000000000000000)\n"
        "  largest       -1 (0xffffffffffffffff)\n"
        "  by the leading 2 bits\n"
        "    00  50.000% ########################################\n"
        "    01  25.000% ####################\n"
        "    10   0.000%\n"
        "    11  25.000% ####################\n"
        f"{empty}\n"
        "  format        text, gzip\n"
        "  fingerprints  0\n"
        "  order         strictly ascending\n"
        "  distinct      0\n"
        "  size          20 bytes\n"
    )


def test_format_and_byte_order_may_be_named(tmp_path, capsys):
    path = tmp_path / "dump.bin"
    np.array([1, 2], dtype="<u8").tofile(path)
    (report,) = reports(capsys, path, "--format", "longs", "--byte-order", "little")
    assert (report["smallest"], report["largest"], report["byte_order"]) == (1, 2, "little")


def test_damage_is_reported_after_what_precedes_it(tmp_path, capsys):
    path = tmp_path / "x.txt"
    path.write_text("5\n" * 300_000 + "five\n")
    assert main(["inspect", str(path)]) == 1
    output = capsys.readouterr()
    assert output.err == ""
    lines = output.out.splitlines()
    assert "  order         ascending" in lines
    assert (
        f"  DAMAGED       {path}, line 300001: expected a fingerprint, "
        "a decimal or 0x and 16 hex digits, found 'five'"
    ) in lines
    (report,) = reports(capsys, path, code=1)
    assert f"  fingerprints  {report['count']:,} before the damage" in lines
    assert report["count"] == 4 << 16
    assert report["bytes_per_fingerprint"] is None
    assert report["damage"].startswith(f"{path}, line 300001: ")


def test_damage_of_one_file_does_not_hide_the_others(tmp_path, capsys):
    longs = tmp_path / "a.longs"
    longs.write_bytes(bytes(9))
    packed = write(tmp_path / "b.fpz", [1, 2, 3])
    content = bytearray(packed.read_bytes())
    content[70] ^= 1
    packed.write_bytes(content)
    cut = tmp_path / "c.txt.gz"
    cut.write_bytes(gzip.compress(b"1\n")[:-1])
    good = write(tmp_path / "d.longs", [4])
    found = reports(capsys, tmp_path, code=1)
    assert [report["path"] for report in found] == list(map(str, (longs, packed, cut, good)))
    assert [report["damage"] and report["damage"].split(": ", 1)[0] for report in found] == [
        f"{longs}, byte 8",
        f"{packed}, block 0",
        f"{cut}, decompressed byte 2",
        None,
    ]
    assert [report["count"] for report in found] == [0, 0, 0, 1]


def test_usage_errors_are_one_line(tmp_path, capsys):
    odd = tmp_path / "odd.xyz"
    odd.touch()
    for arguments, message in (
        ([tmp_path / "none.longs"], "none.longs: no such file"),
        ([odd], "odd.xyz: the format is not known by its ending"),
    ):
        assert main(["inspect", *map(str, arguments)]) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.startswith("mr-dedup: error: ")
        assert message in output.err
        assert output.err.count("\n") == 1


@pytest.mark.parametrize("bits", ["0", "17", "-1", "four", "٤", ""])
def test_invalid_numbers_of_bits(capsys, bits):
    with pytest.raises(SystemExit) as caught:
        main(["inspect", "x.longs", f"--bits={bits}"])
    assert caught.value.code == 2
    assert "is not a number from 1 to 16" in capsys.readouterr().err
