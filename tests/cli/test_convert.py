"""mr-dedup convert: every format to every other, temporary files, usage errors."""

import functools
import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.cli import convert
from mr_dedup.cli.main import main
from mr_dedup.formats.fingerprint_files import FingerprintFile
from mr_dedup.formats.fingerprint_writer import create

VALUES = [5, 2**64 - 1, 5, 0, 2**63, 7, 0]
DISTINCT = [0, 5, 7, 2**63, 2**64 - 1]
ENDINGS = [".longs", ".txt", ".fpz", ".longs.gz", ".tsv.zst", ".fpz.zst"]


def write(path, values):
    if path.suffix == ".parquet":
        fingerprints = pa.array([None, *values], pa.uint64())
        ids = [f"page {number}" for number in range(len(fingerprints))]
        pq.write_table(pa.table({"id": ids, "fingerprint": fingerprints}), path)
        return path
    if ".fpz" in path.suffixes:
        values = sorted(set(values))
    with create(path) as writer:
        writer.write(np.array(values, dtype=np.uint64))
    return path


def read(path):
    return FingerprintFile.detect(path).read().tolist()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("source", [*ENDINGS, ".parquet"])
@pytest.mark.parametrize("target", ENDINGS)
def test_every_format_to_every_other(tmp_path, capsys, source, target):
    path = write(tmp_path / f"in{source}", VALUES)
    out = tmp_path / f"out{target}"
    assert main(["convert", str(path), "-o", str(out)]) == 0
    kept = DISTINCT if "fpz" in source + target else VALUES
    assert read(out) == kept
    output = capsys.readouterr()
    assert output.out == ""
    read_count = len(DISTINCT if "fpz" in source else VALUES)
    kind = "distinct fingerprints" if "fpz" in target else "fingerprints"
    assert output.err == (
        f"mr-dedup: read {read_count} fingerprints from 1 file; wrote {len(kept)} {kind} to {out}, "
        f"{out.stat().st_size / len(kept):.3f} bytes each\n"
    )


def test_several_files_become_one_in_the_order_given(tmp_path, capsys):
    first, second = write(tmp_path / "b.longs", [3, 1]), write(tmp_path / "a.txt.gz", [2, 3])
    arguments = ["convert", str(first), str(second), "-o"]
    assert main([*arguments, str(tmp_path / "all.txt")]) == 0
    assert (tmp_path / "all.txt").read_text() == "3\n1\n2\n3\n"
    assert main([*arguments, str(tmp_path / "all.fpz")]) == 0
    assert read(tmp_path / "all.fpz") == [1, 2, 3]
    assert "read 4 fingerprints from 2 files; wrote 3 distinct" in capsys.readouterr().err


def test_a_folder_stands_for_its_files(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    write(folder / "part-1.longs", [4])
    write(folder / "part-0.txt", [9])
    assert main(["convert", str(folder), "-o", str(tmp_path / "all.txt")]) == 0
    assert (tmp_path / "all.txt").read_text() == "9\n4\n"


def test_formats_and_byte_order_may_be_named(tmp_path):
    source, target = tmp_path / "dump.bin", tmp_path / "out.bin"
    np.array([1, 2**64 - 2], dtype="<u8").tofile(source)
    named = ["--from", "longs", "--byte-order", "little", "--to", "text"]
    assert main(["convert", str(source), "-o", str(target), *named]) == 0
    assert target.read_text() == "1\n-2\n"
    # written longs are big-endian
    named[-1] = "longs"
    assert main(["convert", str(source), "-o", str(target), *named, "--overwrite"]) == 0
    assert target.read_bytes() == bytes(7) + b"\1" + b"\xff" * 7 + b"\xfe"


@pytest.mark.parametrize("ending", ENDINGS)
def test_empty_files(tmp_path, capsys, ending):
    (tmp_path / "in.txt").touch()
    out = tmp_path / f"out{ending}"
    assert main(["convert", str(tmp_path / "in.txt"), "-o", str(out)]) == 0
    assert read(out) == []
    assert capsys.readouterr().err.startswith("mr-dedup: read 0 fingerprints from 1 file; wrote 0 ")


def test_a_file_may_be_replaced_by_its_own_conversion(tmp_path):
    path = write(tmp_path / "x.fpz", VALUES)
    assert main(["convert", str(path), "-o", str(path), "--overwrite"]) == 0
    assert read(path) == DISTINCT


def test_runs_are_beside_the_output_and_removed_after_a_failure(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        convert, "sorted_distinct", functools.partial(convert.sorted_distinct, run_count=10)
    )
    out = tmp_path / "out"
    out.mkdir()
    seen = []

    def blocks(file, **options):
        for value in range(100):
            seen.append(len(list(out.glob(".x.fpz.*/*"))))
            yield np.array([value], dtype=np.uint64)
        raise KeyboardInterrupt

    monkeypatch.setattr(FingerprintFile, "batches", blocks)
    path = write(tmp_path / "x.longs", [1])
    assert main(["convert", str(path), "-o", str(out / "x.fpz")]) == 130
    assert seen[-1] == 9
    assert names(out) == []
    assert capsys.readouterr().err == "mr-dedup: error: interrupted\n"


# usage errors


def failure(capsys, *arguments):
    """The message of a usage error: one line."""
    assert main(["convert", *map(str, arguments)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    prefix, line, rest = output.err.partition("mr-dedup: error: ")
    assert (prefix, line) == ("", "mr-dedup: error: ")
    assert rest.endswith("\n")
    assert rest.count("\n") == 1
    return rest


def test_usage_errors_are_one_line_and_write_nothing(tmp_path, capsys):
    good = write(tmp_path / "good.longs", VALUES)
    odd = tmp_path / "odd.xyz"
    odd.touch()
    before = names(tmp_path)
    out = tmp_path / "out.fpz"
    assert "none.longs: no such file" in failure(capsys, tmp_path / "none.longs", "-o", out)
    assert "odd.xyz: the format is not known" in failure(capsys, odd, "-o", out)
    assert "out.xyz: the format is not known" in failure(capsys, good, "-o", tmp_path / "out.xyz")
    assert "good.longs: exists; give --overwrite" in failure(capsys, good, "-o", good)
    assert "is a directory" in failure(capsys, good, "-o", tmp_path, "--to", "text")
    (tmp_path / "there.parquet").touch()
    for name in ("out.parquet", "there.parquet"):
        assert f"{name}: Parquet is written by mr-dedup fingerprint only" in failure(
            capsys, good, "-o", tmp_path / name
        )
    (tmp_path / "there.parquet").unlink()
    documents = tmp_path / "documents.parquet"
    pq.write_table(pa.table({"id": ["a"], "text": ["b"]}), documents)
    assert (
        "documents.parquet: has no column 'fingerprint'; its columns are 'id', 'text'"
        in failure(capsys, documents, "-o", out)
    )
    documents.unlink()
    missing = tmp_path / "missing" / "x.fpz"
    assert "does not exist" in failure(capsys, good, "-o", missing)
    assert names(tmp_path) == before


@pytest.mark.parametrize("target", ["out.longs", "out.txt.gz", "out.fpz"])
def test_damage_is_one_line_and_leaves_no_output(tmp_path, capsys, target):
    good = write(tmp_path / "good.longs", VALUES)
    text = tmp_path / "bad.txt"
    text.write_text("1\n2\nx\n")
    longs = tmp_path / "bad.longs"
    longs.write_bytes(bytes(100))
    cut = tmp_path / "bad.longs.gz"
    cut.write_bytes(gzip.compress(bytes(100))[:-5])
    packed = tmp_path / "bad.fpz"
    packed.write_bytes(write(tmp_path / "good.fpz", VALUES).read_bytes()[:-1])
    before = names(tmp_path)
    out = tmp_path / target
    assert "bad.txt, line 3: expected a fingerprint" in failure(capsys, good, text, "-o", out)
    assert "bad.longs, byte 96: ends inside a long" in failure(capsys, good, longs, "-o", out)
    assert "bad.longs.gz, decompressed byte 100: the gzip data is cut" in failure(
        capsys, good, cut, "-o", out
    )
    assert "bad.fpz, header: the file is cut short" in failure(capsys, packed, "-o", out)
    assert names(tmp_path) == before


def test_unknown_formats_are_refused_by_the_parser(tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["convert", "x.longs", "-o", "y", "--to", "parquet"])
    assert caught.value.code == 2
    assert "invalid choice: 'parquet'" in capsys.readouterr().err
