"""mr-dedup fingerprint on a real Hadoop: what it reads, splits and writes there."""

import sys

import pytest

from mr_dedup.engines import streaming
from mr_dedup.engines.streaming import ClusterSettings, Input
from mr_dedup.engines.streaming.engine import StreamingEngine
from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.chunks import bundle, cut_into_chunks
from mr_dedup.formats.documents.files import DocumentFile
from mr_dedup.jobs.fingerprint import FingerprintJob
from tests import text_input
from tests.engines.documents import (
    assert_same,
    awkward_lines,
    fingerprints_inline,
    json_lines,
    rejects_of,
    write_documents,
)

pytestmark = pytest.mark.hadoop

SPLIT = "mapreduce.input.fileinputformat.split.maxsize"
ONCE = ("-D", "mapreduce.map.maxattempts=1")


def parts(path, size_bytes):
    """How many parts Hadoop makes of a file."""
    [cut] = text_input.splits([path.stat().st_size], 1, size_bytes, 1)
    assert len(cut) > 1
    return len(cut)


def test_documents_of_this_machine_equal_inline_byte_for_byte(client, tmp_path):
    folder = tmp_path / "documents"
    named = write_documents(folder)
    # what is not small goes as it is, and is split there
    large = folder / "z.jsonl"
    large.write_bytes(b"".join(json_lines(33_000, 9)))
    assert 16 << 20 < large.stat().st_size < 32 << 20
    outs = tmp_path / "found.parquet", tmp_path / "inline.parquet"
    options = [*named, large, "--keep-field", "lang"]
    fingerprints_inline(*options, out=outs[1])
    said = client.fingerprint(*options, "-D", f"{SPLIT}={8 << 20}", "-o", outs[0])
    assert_same(*outs)
    assert "files: 10 (1 of other kinds skipped: 1 .png), documents: 33,2" in said
    assert client.last_job()["mapsTotal"] == 1 + parts(large, 8 << 20)


def test_documents_in_the_cluster_equal_inline(client, tmp_path):
    folder = tmp_path / "documents"
    write_documents(folder)
    (folder / "y.jsonl").write_bytes(awkward_lines(3 << 20))
    names = [f"{client.folder}/docs/{name}" for name in ("*.jsonl", "[b-g].*", "pages")]
    client.put(folder, name="docs")
    # files that Hadoop passes over, and so is done here
    client.hadoop("fs", "-touchz", f"{client.folder}/docs/pages/_SUCCESS.html")
    outs = tmp_path / "found.parquet", tmp_path / "inline.parquet"
    listed = [*sorted(folder.glob("*.jsonl")), *sorted(folder.glob("[b-g].*")), folder / "pages"]
    options = ["--keep-field", "lang", "--max-record-size", "200KB"]
    fingerprints_inline(*listed, *options, out=outs[1])
    client.fingerprint(*names, *options, "-D", f"{SPLIT}={1 << 20}", "-o", outs[0])
    assert_same(*outs, here=folder, there=f"{client.folder}/docs")
    assert client.last_job()["mapsTotal"] == 9 + parts(folder / "y.jsonl", 1 << 20)


def test_a_line_that_hadoop_leaves_out_is_told(client, tmp_path):
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        file.write(b'{"text": "before"}\n')
        file.seek(70 << 20, 1)
        file.write(b'\n{"text": "behind"}\n')
    outs = tmp_path / "found.tsv", tmp_path / "inline.tsv"
    fingerprints_inline(path, out=outs[1])
    address = f"{client.put(path)}/long.jsonl"
    client.fingerprint(address, "-o", outs[0], "-D", f"{SPLIT}={40 << 20}", *ONCE)
    for one, other in (outs, map(rejects_of, outs)):
        expected = other.read_text().replace(str(path), address)
        assert one.read_text() == expected.replace("line 2 (byte 19)", "byte 19")
    assert outs[0].read_text().count("\n") == 2
    assert client.last_job()["mapsTotal"] == parts(path, 40 << 20)


def test_strict_ends_at_the_first_bad_record_wherever_it_is(client, tmp_path):
    lines = json_lines(3000)
    (tmp_path / "x.jsonl").write_bytes(b"".join([*lines, b"bad\n"]))
    address = f"{client.put(tmp_path / 'x.jsonl')}/x.jsonl"
    out = tmp_path / "out.parquet"
    error = client.mistake(
        address, "-o", out, "--strict", "-D", f"{SPLIT}=500000", *ONCE, name="fingerprint"
    )
    assert f"error: {address}, byte {sum(map(len, lines))}: is not JSON" in error
    assert list(tmp_path.glob("*out*")) == []


def test_what_is_not_there_is_named(client, tmp_path):
    client.hadoop("fs", "-touchz", f"{client.folder}/picture.png")
    here = tmp_path / "a.jsonl"
    here.write_bytes(b"{}\n")
    for name, options, said in [
        (f"{client.folder}/none.jsonl", (), "none.jsonl: no such file"),
        (client.folder, (), f"{client.folder}: contains no file of documents"),
        (tmp_path / "none.jsonl", (), "none.jsonl: no such file"),
        (here, ("-D", f"{SPLIT}=1m"), f"error: {SPLIT}=1m: expected a number of bytes"),
    ]:
        error = client.mistake(name, "-o", tmp_path / "x.longs", *options, name="fingerprint")
        assert said in error
        assert list(tmp_path.glob("*x.longs*")) == []


def test_a_damaged_bundle_is_named_after_what_is_in_it(client, in_this_process, tmp_path):
    files = []
    for number in range(2):
        (tmp_path / f"{number}.jsonl").write_bytes(b"".join(json_lines(20)))
        files.append(DocumentFile.detect(tmp_path / f"{number}.jsonl"))
    [chunk] = cut_into_chunks(files, 1 << 20, split=False)
    path = tmp_path / "damaged.documents.zip"
    bundle(chunk, path)
    path.write_bytes(path.read_bytes().replace(b"word", b"w\0rd", 1))
    settings = ClusterSettings(
        properties=("mapreduce.map.maxattempts=1",), python_bin=sys.executable
    )
    with (
        streaming.staging_folder() as staging,
        pytest.raises(MrDedupError) as raised,
        StreamingEngine("hadoop", staging, cluster=settings).run(
            FingerprintJob(), [Input(str(path), chunk.name)]
        ),
    ):
        raise AssertionError("it ran")
    assert str(raised.value).startswith(f"{files[0].name} and 1 more: not a bundle of documents")


def test_the_result_goes_to_the_cluster(client, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join([*json_lines(50), b"bad\n"]))
    inline = tmp_path / "inline.parquet"
    fingerprints_inline(path, out=inline)
    folder = f"{client.folder}/new folder"
    out = f"{folder}/found.parquet"
    said = client.fingerprint(path, "-o", out)
    assert f"{out}.rejects.jsonl says why\n" in said
    assert f"wrote {out} in " in said
    client.hadoop("fs", "-get", folder, (tmp_path / "got").as_uri())
    found = tmp_path / "got" / "found.parquet"
    assert_same(found, inline)
    assert set(found.parent.iterdir()) == {found, rejects_of(found)}
    error = client.mistake(path, "-o", out, name="fingerprint")
    assert f"{out}: exists; give --overwrite to replace it" in error
