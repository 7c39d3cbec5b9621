"""Kept documents by the offsets of their lines: as if the documents had been decoded again."""

import gzip
import json
import os
import random

import pytest

from mr_dedup.cli.main import main
from mr_dedup.formats import lines as lines_module
from mr_dedup.formats.documents import chunks
from mr_dedup.formats.parts import read_parts
from mr_dedup.jobs import keep as module


@pytest.mark.parametrize(("chunk_bytes", "same_print"), [(3000, True), (1 << 21, False)])
def test_what_is_kept_is_the_same_whether_lines_are_decoded_or_not(
    tmp_path, monkeypatch, chunk_bytes, same_print
):
    """Files with all that lines may be: blank, rejected, long, with a mark before or no end."""
    monkeypatch.setattr(chunks, "_MIN_BYTES", chunk_bytes)
    monkeypatch.setattr(chunks, "_FILE_BYTES", 1)
    monkeypatch.setattr(lines_module, "_READ_BYTES", 1000)
    rng = random.Random(3)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(6):
        lines = []
        for n in range(150):
            words = " ".join(f"w{rng.randrange(60)}" for _ in range(rng.choice([3, 30, 300])))
            document = {"id": f"{number}-{n}", "text": words, "more": [number, n]}
            line = json.dumps(document).encode()
            lines += [line] * rng.choice([1, 1, 2])
            lines.append(rng.choice([b"", b"  ", b"no json", b'{"id": 1}', b"[]", b"\xff"]))
        rng.shuffle(lines)
        content = rng.choice([b"\n", b"\r\n"]).join(lines)
        content = (b"\xef\xbb\xbf" if number % 2 else b"") + content
        name = f"{number}.jsonl" + (".gz" if number == 3 else "")
        (folder / name).write_bytes(gzip.compress(content) if number == 3 else content)
    # two names that would be printed the same way
    line = json.dumps({"id": "last", "text": "of two names like one"}).encode()
    for name, content in (
        (os.fsdecode(b"a\xff.jsonl"), line),
        ("a\\xff.jsonl", b"\n" * 2000 + line.replace(b"two", b"2")),
    ):
        if same_print:
            (folder / name).write_bytes(content)
    used = []
    by_offsets = module.KeepJob._by_offsets
    monkeypatch.setattr(
        module.KeepJob, "_by_offsets",
        lambda job, *arguments: used.append(1) or by_offsets(job, *arguments),
    )  # fmt: skip
    outs, decisions = {}, {}
    for name in ("memory", "decoded", "inline", "local"):
        with monkeypatch.context() as patch:
            if name == "decoded":
                patch.setattr(module, "has_offsets", lambda chunk: False)
            before = len(used)
            out = tmp_path / name
            words = ["dedup", str(folder), "-o", str(out), "--cores", "2", "--max-rejected", "1"]
            assert main([*words, "-r", name.replace("decoded", "memory")]) == 0
            # tasks of local are in processes of their own
            assert (len(used) > before) == (name in ("memory", "inline"))
        decisions[name] = read_parts(out / "decisions").to_pydict()
        outs[name] = {
            path.relative_to(out).as_posix(): path.read_bytes()
            for names in ("documents/*", "report.html")
            for path in out.glob(names)
        }
    assert len(outs["memory"]) == 7 + 2 * same_print
    assert outs["memory"] == outs["decoded"] == outs["inline"] == outs["local"]
    assert len(decisions["memory"]["id"]) > 900
    assert decisions["memory"] == decisions["decoded"] == decisions["inline"] == decisions["local"]
