"""Which files of packages are documents, and their texts."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from bench.field.archives import ArchivedFile, Unread
from mr_dedup.formats.documents.html_text import HtmlError, text_of_html

MIN_BYTES = 200
"""Shorter texts are stubs, such as ``__init__.py`` or a redirection."""

_HTML = frozenset({"html", "htm", "xhtml"})
_PROSE = frozenset({"adoc", "markdown", "md", "mdx", "org", "rst", "tex", "txt", "texi"})
_PROSE_NAMES = frozenset({"changelog", "changelog.Debian", "NEWS", "README"})
_CODE = frozenset(
    {
        *("c", "cc", "cpp", "cs", "cxx", "erl", "ex", "fs", "go", "groovy", "h", "hh", "hpp", "hs"),
        *("java", "jl", "js", "jsx", "kt", "lua", "m", "mjs", "ml", "php", "pl", "pm", "ps1", "py"),
        *("pyi", "r", "rb", "rs", "scala", "sh", "sql", "swift", "tcl", "ts", "tsx", "vue", "zig"),
    }
)
_MANUAL = re.compile(r"/man/(?:[a-z_A-Z]+/)?man\d/[^/]+\.\d\w*$")


class Skipped(Enum):
    """Why a file is not a document."""

    KIND = "another kind of file"
    LARGE = "too large"
    SHORT = "too short"
    ENCODING = "not UTF-8"
    HTML = "hostile HTML"
    DAMAGED = "damaged"
    REPEATED = "a path that the archive has twice"
    REST = "beyond the bytes taken of a package"


class Text(NamedTuple):
    """The text of a document, and its kind: html, prose, manual, or the suffix of code."""

    text: str
    kind: str


_UNREAD = {
    Unread.UNWANTED: Skipped.KIND,
    Unread.LARGE: Skipped.LARGE,
    Unread.DAMAGED: Skipped.DAMAGED,
}


def text_of(file: ArchivedFile) -> Text | Skipped:
    """Return the text of a file; of a page in HTML what a reader sees."""
    kind = kind_of(file.path)
    if kind is None:
        return Skipped.KIND
    if isinstance(file.content, Unread):
        return _UNREAD[file.content]
    if len(file.content) < MIN_BYTES:
        return Skipped.SHORT
    try:
        text = file.content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Skipped.ENCODING
    if "\0" in text:
        return Skipped.ENCODING
    if kind == "html":
        try:
            text = text_of_html(text, "page").text
        except HtmlError:
            return Skipped.HTML
        if len(text.encode()) < MIN_BYTES:
            return Skipped.SHORT
    return Text(text, kind)


def kind_of(path: str) -> str | None:
    """Return the kind of document at a path, None if it is none.

    >>> kind_of("usr/share/doc/bash/index.html"), kind_of("src/main.go"), kind_of("logo.png")
    ('html', 'go', None)
    """
    name = path.rpartition("/")[2]
    suffix = name.rpartition(".")[2].lower() if "." in name else ""
    if suffix in _HTML:
        return "html"
    if _MANUAL.search(path):
        return "manual"
    if suffix in _PROSE or name in _PROSE_NAMES:
        return "prose"
    return suffix if suffix in _CODE else None


def is_code(kind: str) -> bool:
    """Return whether documents of a kind are code.

    >>> is_code("py"), is_code("html")
    (True, False)
    """
    return kind in _CODE
