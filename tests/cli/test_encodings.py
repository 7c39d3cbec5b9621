"""Pages, texts and lines in twenty encodings, declared in all ways, through the commands."""

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from tests.cli.running import Command
from tests.formats.documents.languages import CODEC, LANGUAGES, texts

DEDUP = Command("dedup")
PAGES = 20


def encoded(text, encoding):
    return text.encode(CODEC.get(encoding, encoding))


def kept_texts(folder):
    """Return the texts of kept documents, which are JSON lines."""
    found = []
    for path in sorted(Path(folder, "documents").iterdir()):
        with path.open("rb") as file:
            data = zstandard.ZstdDecompressor().stream_reader(file).read()
        found += [json.loads(line)["text"] for line in data.splitlines()]
    return found


def response(number, page, content_type):
    http = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n".encode() + page
    head = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:{number}>\r\n"
        f"Content-Type: application/http\r\nContent-Length: {len(http)}\r\n\r\n"
    )
    return head.encode() + http + b"\r\n\r\n"


def html(text, head=""):
    return f"<html><head>{head}</head><body><p>{text}</p></body></html>"


@pytest.mark.parametrize("declared", ["http", "meta", "xml", "wrong", "nowhere"])
def test_as_many_pages_are_kept_as_there_are(capfd, tmp_path, declared):
    """Of all encodings in one archive, each with its pages, that are all different."""
    expected, records = [], []
    for encoding, languages in LANGUAGES.items():
        is_wide = encoding.startswith("utf-")
        if is_wide and declared in ("meta", "xml"):
            continue
        for text in texts(languages[0], encoding, 4, seed=encoding):
            head = f"<meta charset={encoding}>" if declared == "meta" else ""
            charset = {"http": f"; charset={encoding}", "wrong": "; charset=utf-8"}
            page = html(text, head)
            if declared == "xml":
                page = f'<?xml version="1.0" encoding="{encoding}"?>\n{page}'
            kind = f"text/html{charset.get(declared, '')}"
            records.append(response(len(records), encoded(page, encoding), kind))
            expected.append(" ".join(text.split()))
    path = tmp_path / "pages.warc.gz"
    path.write_bytes(b"".join(map(gzip.compress, records)))
    DEDUP.done(capfd, path, "-o", tmp_path / "out", "--documents", "jsonl", "--html", "page")
    found = kept_texts(tmp_path / "out")
    assert len(found) == len(expected)
    if declared in ("http", "meta", "xml"):
        assert found == expected
    else:
        # of some forty words each letter of a single-byte encoding may be another's
        assert sum(map(str.__eq__, found, expected)) >= len(expected) * 0.97


def test_text_is_read_in_its_encoding(capfd, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    expected = {}
    for encoding, language in (
        ("cp949", "korean"), ("shift_jis", "japanese"), ("gb18030", "chinese"),
        ("koi8-r", "russian"), ("windows-1250", "polish"), ("utf-16-le", "greek"),
        ("utf-32", "arabic"), ("utf-8", "thai"),
    ):  # fmt: skip
        for number, text in enumerate(texts(language, encoding, 3, seed=encoding)):
            name = f"{encoding}-{number}{'.md' if number else '.txt'}"
            (folder / name).write_bytes(encoded(text, encoding))
            expected[name] = text
    DEDUP.done(capfd, folder, "-o", tmp_path / "out", "--documents", "jsonl")
    assert sorted(kept_texts(tmp_path / "out")) == sorted(expected.values())


def lines_of(found):
    rows = [{"id": str(number), "text": text} for number, text in enumerate(found)]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp949", "gbk"])
@pytest.mark.parametrize("runner", ["memory", "local"])
def test_lines_in_other_encodings_are_read_and_kept_as_utf8(capfd, tmp_path, encoding, runner):
    language = "chinese" if encoding == "gbk" else "korean"
    found = texts(language, encoding, 300)
    lines = lines_of(found)
    path = tmp_path / "docs.jsonl"
    path.write_bytes(lines.encode(encoding))
    stated = [] if encoding in ("utf-16", "utf-32") else ["--encoding", encoding]
    out = tmp_path / "out"
    DEDUP.done(capfd, path, "-o", out, "-r", runner, *stated)
    assert (out / "documents/docs.jsonl").read_text() == lines
    # the result is read again, as it is written
    DEDUP.done(capfd, path, "-o", tmp_path / "again", "--against", out, *stated)
    assert not list((tmp_path / "again/documents").iterdir())


def test_what_is_not_in_the_stated_encoding_is_rejected(capfd, tmp_path):
    lines = lines_of(texts("korean", "cp949", 20)).encode("cp949").splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"text": "', b'"text": "\xff\xff')
    (tmp_path / "docs.jsonl").write_bytes(b"".join(lines))
    (tmp_path / "bad.txt").write_bytes(b"\xff\xff")
    out = tmp_path / "out"
    rejects = tmp_path / "docs.jsonl", tmp_path / "bad.txt"
    _, err = DEDUP.done(capfd, *rejects, "-o", out, "--encoding", "euc-kr")
    assert "documents: 19, rejected: 2" in err
    data = b"".join(path.read_bytes() for path in (out / "rejects").iterdir())
    reasons = zstandard.ZstdDecompressor().stream_reader(data).read().decode()
    assert '"reason":"is not UTF-8"' in reasons
    assert '"reason":"is not CP949"' in reasons


def test_an_unknown_encoding_is_a_usage_error(capfd, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    for name in ("no-such", "rot13", "", "utf-7"):
        said = DEDUP.mistake(capfd, tmp_path / "a.txt", "-o", tmp_path / "out", "--encoding", name)
        assert f"--encoding: no encoding is called {name!r}" in said


MARK = b"\xef\xbb\xbf"


def test_marks_before_lines_of_lists_are_skipped(capfd, tmp_path, monkeypatch):
    """As of lists that were concatenated."""
    monkeypatch.chdir(tmp_path)
    Path("f.txt").write_bytes(MARK + b"1\ta\n2\tb\n" + MARK + b"3\tc\r\n" + 2 * MARK + b"\n4\td")
    Command("convert").done(capfd, "f.txt", "-o", "f.longs")
    assert Path("f.longs").read_bytes() == b"".join(n.to_bytes(8, "big") for n in range(1, 5))
    Command("index", "create").done(capfd, "made", "f.txt")
    Path("ids.txt").write_bytes(MARK + b"a\n" + MARK + b"c\r\n" + MARK + b"d")
    _, said = Command("index", "remove").done(capfd, "made", "ids.txt")
    assert "3 ids, 3 of them removed, 1 in the index" in said
    said, _ = Command("index", "query").done(capfd, "made", "f.txt", "-k", 0)
    assert said == "a\nb\tb\nc\nd\n"
    Path("urls.txt").write_bytes(MARK + b"http://a.b/\n" + MARK + b"http://a.b/\n")
    said, _ = Command("urls", "filter").done(capfd, "--store", "store", "urls.txt")
    assert said == "http://a.b/\n"
