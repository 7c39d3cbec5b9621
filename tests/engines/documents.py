"""Documents of every kind, and what two runs over them must have in common."""

import gzip
import json
import random
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from mr_dedup.cli.main import main
from tests.formats.documents.test_document_warc import page

NAME = "odd [1] #é.jsonl"


def records(count, seed=1):
    """Records with texts of very different lengths, and a field that not all of them have."""
    rng = random.Random(seed)
    for number in range(count):
        words = rng.choices(range(10_000), k=rng.choice([0, 3, 30, 300]))
        text = " ".join(f"word{word}" for word in words)
        yield {"id": f"{seed}-{number}", "text": text, **({"lang": "ü"} if number % 3 else {})}


def json_lines(count, seed=1):
    """The same as lines."""
    return [json.dumps(record).encode() + b"\n" for record in records(count, seed)]


def write_documents(folder: Path) -> list[Path]:
    """Write documents of every kind, and records that are none; return what to name of them."""
    lines = json_lines(60)
    lines[20] = b"no JSON\n"
    lines[40] = b'{"text": "\xff"}\n'
    write = {
        NAME: b"".join(lines),
        "b.jsonl.gz": gzip.compress(b"".join(json_lines(50, 2))),
        "c.ndjson.zst": zstandard.compress(b"".join([*json_lines(50, 3), b"[]\n"])),
        "e.warc": b"".join(page(number) for number in range(20)) + page(20)[:-40],
        "f.warc.gz": b"".join(gzip.compress(page(number)) for number in range(30, 40)),
        "g.jsonl.gz": gzip.compress(b"".join(json_lines(50, 4)))[:-200],
        "pages/h.txt": b"a page of text",
        "pages/deep/i.html": b"<html><title>x</title><p>a page of HTML, with some words",
        "pages/picture.png": b"\x89PNG",
    }
    for name, content in write.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    pq.write_table(pa.Table.from_pylist(list(records(50, 5))), folder / "d.parquet")
    return sorted(path for path in folder.iterdir())


def awkward_lines(min_bytes: int) -> bytes:
    """Lines that begin with a mark, end in every way, hold CRs and tabs, or are no documents."""
    rng = random.Random(7)
    odd = [
        b'{"id": "cr",\r"text": "in the middle"}\n', b'{"id": "crlf", "text": "one two"}\r\n',
        b"\n", b'\t{"text": "behind a tab"}\n', b"bad\n", b'{"text": "\xff"}\n', b"17\tbad\n",
        b'{"id": "long", "text": "' + b"y" * 300_000 + b'"}\n',
    ]  # fmt: skip
    lines, size = [b"\xef\xbb\xbf"], 0
    for number, line in enumerate(json_lines(min_bytes // 300, 8)):
        lines.append(line if number % 20 else rng.choice(odd))
        size += len(lines[-1])
        if size >= min_bytes:
            break
    return b"".join(lines).removesuffix(b"\n")


def fingerprints_inline(*arguments, out: Path) -> None:
    """Compute them in this process."""
    assert main(["fingerprint", *map(str, arguments), "-r", "inline", "-o", str(out)]) == 0


def assert_same(found: Path, expected: Path, here: Path | None = None, there: str = "") -> None:
    """Compare two results and their rejects: by bytes, or, if names differ, by what they say.

    What the one calls ``there/x`` is the other's ``here/x``. Of a file that was split the first
    knows no numbers of lines.
    """
    pairs = [(found, expected), (rejects_of(found), rejects_of(expected))]
    if here is None:
        assert [one.read_bytes() == other.read_bytes() for one, other in pairs] == [True, True]
        return
    rows, wanted = (pq.read_table(path).to_pylist() for path in pairs[0])
    assert rows == [{**row, "id": row["id"].replace(str(here), there)} for row in wanted]
    rows, wanted = (
        [json.loads(line) for line in path.read_text().splitlines()] for path in pairs[1]
    )
    for row, reject in zip(rows, wanted, strict=True):
        position = reject["position"]
        if position and not row["position"].startswith("line"):
            position = re.sub(r"^line \d+ \((.*)\)$", r"\1", position)
        file = reject["file"].replace(str(here), there)
        assert row == {**reject, "file": file, "position": position}


def rejects_of(out: Path) -> Path:
    """The file of a result's rejects."""
    return out.with_name(f"{out.name}.rejects.jsonl")
