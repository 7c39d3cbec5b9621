"""Directories as they are: what cannot be read, JSON that is no lines, and files of other kinds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.files.inputs import expand
from mr_dedup.formats.documents.chunks import DocumentChunk, cut_into_chunks
from mr_dedup.formats.documents.files import find_documents
from tests.formats.documents.reading import read

_PRETTY = json.dumps({"name": "x", "list": [1, {"b": 2}], "of": {"c": {}}}, indent=2).encode()
_RECORD = b'{"id": "1", "text": "one two"}\n'
_SPREAD = {
    "pretty": _PRETTY,
    "mark": b"\xef\xbb\xbf" + _PRETTY,
    "blank lines": b"\n \n\r\n" + _PRETTY,
    "CR LF": _PRETTY.replace(b"\n", b"\r\n"),
    "array": b'[{"id": "1", "text": "one"}]',
    "array a line each": b'[\n{"text": "a"},\n{"text": "b"}\n]\n',
    "array alone": b"[",
    "GeoJSON": b'{"type": "F", "features": [\n{"text": "a"},\n{"text": "b"}\n]}\n',
    "GeoJSON below a brace": b'{\n"features": [\n{"text": "a"},\n{"text": "b"}\n]\n}\n',
    "comment": b"// made by hand\n" + _PRETTY,
    "comment of lines": b"/* made\nby hand */\n" + _PRETTY,
    "JSON5": b"{\n  // of x\n  name: 'x',\n}\n",
    "concatenated": _PRETTY + b"\n" + _PRETTY + b"\n",
    "long": json.dumps({"of": list(range(50_000))}, indent=1).encode(),
}
_LINES = {
    "no closing quote": (b'{"id": "0", "text": "abc\n' + 2 * _RECORD, 2, 1),
    "cut in a value": (b'{"id": "0", "text":\n' + 2 * _RECORD, 2, 1),
    "cut in the members": (b'{"id": "0",\n' + _RECORD, 1, 1),
    "comment": (b"# of records\n" + _RECORD, 1, 1),
    "a record, then others": (_RECORD + b'{\n"text": "a"\n}\n', 1, 3),
    "no JSON": (b"hello\nworld\n", 0, 2),
    "empty": (b"", 0, 0),
    "blank": (b"\n\n", 0, 0),
}


@pytest.mark.parametrize("name", _SPREAD)
@pytest.mark.parametrize("part_bytes", [20, 1 << 20])
def test_json_that_is_no_lines_is_one_reject(tmp_path, name, part_bytes):
    (tmp_path / "a.json").write_bytes(_SPREAD[name])
    chunks = cut_into_chunks(find_documents([str(tmp_path)]).files, part_bytes)
    found = read(*(part for chunk in chunks for part in chunk.parts))
    assert found.documents == []
    ((_, reason),) = found.reasons
    assert "jq -c" in reason


@pytest.mark.parametrize("name", _LINES)
def test_damaged_lines_are_rejects_of_their_own(tmp_path, name):
    content, documents, rejects = _LINES[name]
    (tmp_path / "a.json").write_bytes(content)
    found = read(*find_documents([str(tmp_path)]).files)
    assert (len(found.documents), len(found.reasons)) == (documents, rejects)


def make_folder(folder):
    for name in ("a/1.txt", "b/2.txt", "b/deep/3.html"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("one two three")
    (folder / "dangling.html").symlink_to("nothing")
    (folder / "loop.txt").symlink_to("loop.txt")
    (folder / "b/deep/up").symlink_to("..")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "c.parquet.gz").write_bytes(b"")


@pytest.mark.parametrize("pattern", ["", "/**", "/*", "/**/*", "/[a-z]*"])
def test_what_cannot_be_read_is_one_reject_each(tmp_path, pattern):
    make_folder(tmp_path)
    files = find_documents([f"{tmp_path}{pattern}"]).files
    (chunk,) = cut_into_chunks(files, 1 << 20)
    for parts in (chunk.parts, DocumentChunk.from_description(chunk.describe()).parts):
        found = read(*parts)
        assert [text for _, text, _ in found.documents] == ["one two three"] * 3
        assert Counter(reason.partition(";")[0] for _, reason in found.reasons) == {
            "cannot be read: No such file or directory": 1,
            "cannot be read: Too many levels of symbolic links": 1,
            "is a pipe, expected a file of documents": 1,
            "is Parquet inside gzip, which is not read": 1,
        }


def test_what_is_named_alone_is_an_error(tmp_path):
    make_folder(tmp_path)
    for name in ("dangling.html", "loop.txt", "pipe.jsonl", "c.parquet.gz", "none.txt"):
        with pytest.raises(MrDedupError, match=name):
            find_documents([str(tmp_path / name)])
    names = [str(tmp_path / name) for name in ("a/1.txt", "dangling.html")]
    assert len(read(*find_documents(names).files).reasons) == 1
    with pytest.raises(MrDedupError, match="no such file"):
        find_documents([*names, str(tmp_path / "none.txt")])


def test_a_file_that_vanishes_is_one_reject(tmp_path):
    make_folder(tmp_path)
    files = find_documents([str(tmp_path / "a"), str(tmp_path / "b")]).files
    (tmp_path / "a/1.txt").unlink()
    (chunk,) = cut_into_chunks(files, 1 << 20)
    found = read(*chunk.parts)
    assert len(found.documents) == 2
    assert found.reasons == [(None, "cannot be read: No such file or directory")]


_WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search",
                   "--inh-caps=-dac_override,-dac_read_search"]  # fmt: skip


@pytest.mark.parametrize("pattern", ["in", "in/**", "in/*", "in/*/*.txt"])
def test_a_closed_directory_is_one_reject(tmp_path, pattern):
    """Root is denied nothing, but for what it gives up."""
    for name in ("in/open/a.txt", "in/open/b.txt", "in/closed/c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one two")
    (tmp_path / "in/open/b.txt").chmod(0)
    (tmp_path / "in/closed").chmod(0)
    code = (
        "import sys\n"
        "from mr_dedup.formats.documents.files import find_documents\n"
        "from tests.formats.documents.reading import read\n"
        "found = read(*find_documents([sys.argv[1]]).files)\n"
        "print(len(found.documents), *sorted(reason for _, reason in found.reasons), sep='\\n')\n"
    )
    command = [] if os.geteuid() else _WITHOUT_RIGHTS
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    run = subprocess.run(
        [*command, sys.executable, "-c", code, str(tmp_path / pattern)],
        capture_output=True, text=True, env=environment, check=True,
    )  # fmt: skip
    (tmp_path / "in/closed").chmod(0o700)
    assert run.stdout.splitlines() == [
        "1",
        "cannot be read: Permission denied",
        "is a directory that cannot be read: Permission denied",
    ]


def test_files_of_other_kinds_are_counted_by_ending(tmp_path):
    names = ["a.txt", "x.PAGE", "y.page", "z.cpp", "Makefile", "d.tar.gz", "e.txt.bz2", "what. now"]
    for name in names:
        (tmp_path / name).touch()
    kinds = {".page": 2, ".cpp": 1, ".tar.gz": 1, ".txt.bz2": 1, "without an ending": 2}
    for name in (str(tmp_path), str(tmp_path / "*")):
        found = find_documents([name])
        assert [file.path.name for file in found.files] == ["a.txt"]
        assert found.skipped == kinds


def test_a_link_to_a_directory_above_ends(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/1.txt").touch()
    (tmp_path / "a/up").symlink_to("..")
    assert expand([str(tmp_path / "**")]) == [tmp_path / "a/1.txt"]
    assert expand([str(tmp_path / "**/*.txt")]) == [tmp_path / "a/1.txt"]
