"""WARC and ARC files of kept records, as other programs read them: each a gzip member or frame."""

import base64
import contextlib
import gzip
import hashlib
import itertools
import json
import random
import subprocess
import sys
import zlib

import pytest
import zstandard
from fastwarc.warc import ArchiveIterator
from warcio.archiveiterator import ArchiveIterator as WarcioIterator
from warcio.cli import main as warcio

from tests.cli.running import Command, by_turns
from tests.formats.documents import test_document_arc
from tests.formats.documents.test_document_warc import page, record

ITEM = "A farmer has nineteen sheep and buys four more on Friday, how many has she on Saturday?"
PACK = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}


def digest(data):
    return base64.b32encode(hashlib.sha1(data).digest())


def crawl(count):
    """Return the records of a crawl, with digests: one of the crawler, requests and pages by turns.

    Every fifth page is a copy of the one before it, every third has an item.
    """
    records = [record(-1, b"software: x\r\n", b"warcinfo", b"application/warc-fields")]
    for number in range(count):
        seed = number - (number % 5 == 4)
        rng = random.Random(seed)
        words = " ".join("".join(rng.choices("abcdefgh", k=6)) for _ in range(60))
        item = f"<p>{ITEM}</p>" * (seed % 3 == 0)
        body = f"<html><body><p>{words}</p>{item}</body></html>".encode()
        block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
        digests = digest(block), digest(body)
        more = b"WARC-Block-Digest: sha1:%s\r\nWARC-Payload-Digest: sha1:%s\r\n" % digests
        records += [
            record(number, b"GET / HTTP/1.1\r\n\r\n", b"request", b"application/http"),
            record(number, block, more=more),
        ]
    return records


def inputs(folder, records):
    """Write files of every kind with all records, in one member or one each; return their paths."""
    for (suffix, pack), packed_by in itertools.product(PACK.items(), ("file", "record")):
        pieces = ([b"".join(records)] if packed_by == "file" else records) if suffix else records
        path = folder / packed_by / f"a.warc{suffix}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"".join(map(pack, pieces)))
        yield path


def gzip_members(data):
    while data:
        member = zlib.decompressobj(31)
        yield member.decompress(data)
        assert member.eof
        data = member.unused_data


def zstd_frames(data):
    while data:
        # with its size in its header
        assert zstandard.frame_content_size(data) > 0
        frame = zstandard.ZstdDecompressor().decompressobj()
        yield frame.decompress(data)
        assert frame.eof
        data = frame.unused_data


def seen_by_warcio(capfd, path, *words):
    """Run a command of warcio, which must succeed; return the lines that it prints."""
    with contextlib.suppress(SystemExit):
        assert not warcio([*words, str(path)])
    captured = capfd.readouterr()
    assert captured.err == ""
    return captured.out.splitlines()


def assert_readable(path, records, capfd):
    """Check that other programs find the records in a file, byte by byte where it says."""
    data = path.read_bytes()
    if path.suffix == ".zst":
        assert list(zstd_frames(data)) == records
    else:
        if path.suffix == ".gz":
            assert list(gzip_members(data)) == records
        else:
            assert data == b"".join(records)
        assert seen_by_warcio(capfd, path, "check") == []
        lines = map(json.loads, seen_by_warcio(capfd, path, "index", "-f", "offset"))
        assert len([line["offset"] for line in lines]) == len(records)
    with path.open("rb") as file:
        assert sum(1 for _ in ArchiveIterator(file)) == len(records)


@by_turns(
    ("command",),
    [["dedup"], ["decontaminate", "--action", "drop"]] * 2,
    ["memory", "memory", "local", "local"],
)
def test_other_programs_read_what_is_kept(tmp_path, capfd, command, runner):
    records = crawl(15)
    more = []
    if command[0] == "dedup":
        expected = [page for number, page in enumerate(records[2::2]) if number % 5 != 4]
    else:
        expected = [page for page in records[2::2] if ITEM.encode() not in page]
        items = tmp_path / "items.jsonl"
        items.write_text(json.dumps({"question": ITEM}) + "\n")
        more = ["--evals", items]
    for number, path in enumerate(inputs(tmp_path, records)):
        out = tmp_path / str(number)
        name, *options = command
        Command(name).done(capfd, path, "-o", out, *options, *more, "-r", runner)
        (kept,) = (out / "documents").rglob("*.*")
        assert kept.suffixes == path.suffixes
        assert_readable(kept, expected, capfd)


def test_old_line_ends_and_odd_fields(tmp_path, capfd):
    """What is kept of such records is read as often as they are."""
    records = [
        page(number, f"<p>{'page':-<{number + 9}} {number}".encode() * 9) for number in range(9)
    ]
    records[1] = records[1].replace(b"WARC-Type", b"warc-type")
    records[2] = records[2].replace(b"Content-Length: ", b"Content-Length:\r\n ", 1)
    records[3] = records[3].replace(b"WARC/1.0", b"WARC/0.18")
    path = tmp_path / "a.warc.gz"
    path.write_bytes(gzip.compress(b"".join(records)))
    Command("dedup").done(capfd, path, "-o", tmp_path / "out")
    kept = (tmp_path / "out" / "documents" / "a.warc.gz").read_bytes()
    assert list(gzip_members(kept)) == records


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    ("engine", "name"), [("memory", "a.arc"), ("local", "a.arc"), ("memory", "a.warc")]
)
def test_kept_arc_is_arc_to_another_program(tmp_path, capfd, version, suffix, engine, name):
    pages = [test_document_arc.page(number // 2, version) for number in range(8)]
    records = [test_document_arc.version_block(version), *pages]
    pack = PACK[suffix]
    (tmp_path / f"{name}{suffix}").write_bytes(b"".join(map(pack, records)))
    arguments = [tmp_path / f"{name}{suffix}", "-o", tmp_path / "out", "-r", engine]
    Command("dedup").done(capfd, *arguments)
    (path,) = (tmp_path / "out" / "documents").iterdir()
    with path.open("rb") as file:
        kept = [
            (each.rec_type, each.rec_headers.get_header("WARC-Target-URI"),
             each.content_stream().read())
            for each in WarcioIterator(file, arc2warc=True)
        ]  # fmt: skip
    assert [kind for kind, _, _ in kept] == ["warcinfo", *["response"] * 4]
    # warcio takes the further fields of version 2 for a part of the URL
    assert [url[:20] for _, url, _ in kept[1:]] == [f"http://example.com/{n}" for n in range(4)]
    assert all(f"page {n}".encode() in content for n, (_, _, content) in enumerate(kept[1:]))
    content = path.read_bytes() if not suffix else gzip.decompress(path.read_bytes())
    assert content.endswith(b"".join(pages[::2]))
    if suffix:
        assert len(list(gzip_members(path.read_bytes()))) == 5


def test_wat_is_refused_by_what_it_is(tmp_path, capfd):
    (tmp_path / "a.warc.wat.gz").write_bytes(gzip.compress(b"WARC/1.0\r\n"))
    code, _, err = Command("dedup")(capfd, tmp_path / "a.warc.wat.gz", "-o", tmp_path / "out")
    assert code == 2
    assert "WAT has metadata of pages and not their texts; read the WARC or WET files" in err


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_arc_by_standard_input_is_called_so(tmp_path, suffix):
    records = [test_document_arc.version_block(), *map(test_document_arc.page, range(3))]
    command = [sys.executable, "-m", "mr_dedup", "dedup", "-", "-o", str(tmp_path / "out")]
    subprocess.run(
        command, input=b"".join(map(PACK[suffix], records)), check=True, capture_output=True
    )
    (path,) = (tmp_path / "out" / "documents").iterdir()
    assert path.name == f"stdin.arc{suffix}"
    content = gzip.decompress(path.read_bytes()) if suffix else path.read_bytes()
    assert content.startswith(b"filedesc://stdin.arc")
    assert content.endswith(b"".join(records[1:]))
