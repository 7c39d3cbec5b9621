"""mr-dedup fingerprint on EMR: what it reads, splits and writes in S3."""

import pytest

from tests import text_input
from tests.engines.documents import (
    NAME,
    assert_same,
    awkward_lines,
    fingerprints_inline,
    json_lines,
    write_documents,
)
from tests.engines.emr.test_query_on_emr import containers

SPLIT = "mapreduce.input.fileinputformat.split.maxsize"


@pytest.mark.emr
def test_documents_here_and_in_s3_equal_inline(client, tmp_path, capfd):
    folder = tmp_path / "documents"
    write_documents(folder)
    lines = folder / "y.jsonl"
    lines.write_bytes(awkward_lines(1_200_000))
    sent = [folder / name for name in ("b.jsonl.gz", "d.parquet", "e.warc", "y.jsonl")]
    there = client.put(*sent)
    outs = tmp_path / "found.parquet", tmp_path / "inline.parquet"
    (tmp_path / "here").mkdir()
    here = [(folder / name).rename(tmp_path / "here" / name) for name in (NAME, "pages")]
    options = ["--keep-field", "lang", "--max-record-size", "200KB"]
    fingerprints_inline(*here, *sent, *options, out=outs[1])
    capfd.readouterr()
    code, out, err = client.command(
        "fingerprint", *here, there, *options, "-D", f"{SPLIT}=500000", "-o", outs[0]
    )
    assert (code, out) == (0, ""), err
    assert_same(*outs, here=folder, there=there)
    assert "files: 7 (1 of other kinds skipped: 1 .png), documents: " in err
    (cluster,) = client.clusters
    [parts] = text_input.splits([lines.stat().st_size], 1, 500_000, 1)
    assert len(parts) > 2
    # a bundle, three files, and the parts of one
    assert containers(cluster) == 1 + 3 + len(parts)
    assert client.left() == []


def test_the_result_goes_to_s3_with_its_rejects(client, tmp_path, capfd):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join([*json_lines(50), b"bad\n"]))
    inline = tmp_path / "inline.parquet"
    fingerprints_inline(path, out=inline)
    out = f"s3://{client.bucket}/new folder/found.parquet"
    code, _, err = client.command("fingerprint", path, "-o", out)
    assert code == 0, err
    assert f"{out}.rejects.jsonl says why\n" in err
    got = tmp_path / "got"
    got.mkdir()
    for name in ("found.parquet", "found.parquet.rejects.jsonl"):
        (got / name).write_bytes(client.service.files.get(out.replace("found.parquet", name)))
    assert_same(got / "found.parquet", inline)
    code, _, err = client.command("fingerprint", path, "-o", out)
    assert (code, err) == (
        2, f"mr-dedup: error: {out}: exists; give --overwrite to replace it\n"
    )  # fmt: skip
    assert len(client.clusters) == 1
