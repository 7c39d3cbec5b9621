"""What was written, read back by the standard library alone; slow, obvious similarities."""

import gzip
import json
import re
import unicodedata
from collections.abc import Sequence
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import zstandard

SHINGLE = {"en": 3, "zh": 5}


def slow_tokens(text: str) -> list[str]:
    """Runs of letters or digits, and single Chinese characters, a character at a time."""
    found: list[str] = []
    inside = False
    for character in unicodedata.normalize("NFKC", text).lower():
        if "\u4e00" <= character <= "\u9fff":
            found.append(character)
            inside = False
        elif character.isalnum():
            if inside:
                found[-1] += character
            else:
                found.append(character)
            inside = True
        else:
            inside = False
    return found


def slow_shingles(tokens: Sequence[str], size: int) -> set[tuple[str, ...]]:
    return {tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1)}


def slow_jaccard(one: set[tuple[str, ...]], other: set[tuple[str, ...]]) -> float:
    either = len(one | other)
    return float(Fraction(len(one & other), either)) if either else 0.0


class _Body(HTMLParser):
    """The text of the body, by element."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.in_body = False
        self.open: list[str] = []
        self.title = ""
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.in_body |= tag == "body"
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, "elements are nested"

    def handle_data(self, data: str) -> None:
        if self.in_body:
            self.texts.append(data)
        elif self.open and self.open[-1] == "title":
            self.title += data


def body_text(document: str) -> str:
    """What an HTML document shows; its elements must be closed in order."""
    assert document.startswith("<!DOCTYPE html>\n")
    parser = _Body()
    parser.feed(document)
    parser.close()
    assert parser.open == []
    assert parser.title
    return "\n".join(parser.texts)


def decoded(data: bytes) -> str:
    """An HTML file in the character set that it declares."""
    declared = re.search(rb'<meta charset="([a-z0-9-]+)">', data)
    assert declared is not None
    return data.decode(declared[1].decode())


def file_lines(folder: Path) -> list[bytes]:
    """The lines of all files of documents, in the order of their names."""
    lines: list[bytes] = []
    for path in sorted(folder.glob("documents-*")):
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        elif path.suffix == ".zst":
            data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
        lines += data.splitlines(keepends=True)
    return lines


def read_documents(folder: Path) -> list[dict[str, Any]]:
    """Every document, what a reader sees of it under ``shown``."""
    documents = [json.loads(line.decode()) for line in file_lines(folder)]
    for document in documents:
        if "file" in document:
            document["shown"] = body_text(decoded((folder / document["file"]).read_bytes()))
        elif "html" in document:
            document["shown"] = body_text(document["html"])
        else:
            document["shown"] = document["text"]
    return documents


def read_pairs(path: Path) -> list[tuple[str, str, float]]:
    header, *lines = path.read_text(encoding="ascii").splitlines()
    assert header == "id_a\tid_b\tjaccard"
    rows = [line.split("\t") for line in lines]
    return [(one, other, float(jaccard)) for one, other, jaccard in rows]
