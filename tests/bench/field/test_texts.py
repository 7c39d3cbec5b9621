"""Which files are documents, and their texts."""

import pytest

from bench.field.archives import ArchivedFile, Unread
from bench.field.texts import MIN_BYTES, Skipped, Text, kind_of, text_of

LONG = "Wörter und words. " * 20


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("usr/share/doc/a/index.HTML", "html"),
        ("a.xhtml", "html"),
        ("usr/share/man/de/man1/ls.1", "manual"),
        ("usr/share/man/man3/printf.3posix", "manual"),
        ("a/README", "prose"),
        ("a/README.md", "prose"),
        ("usr/share/doc/a/changelog.Debian", "prose"),
        ("a/b.py", "py"),
        ("a/b.d.ts", "ts"),
        ("a/b.min.css", None),
        ("a/b", None),
        ("a.py/b", None),
        ("", None),
    ],
)
def test_kinds(path, kind):
    assert kind_of(path) == kind


@pytest.mark.parametrize(
    ("path", "content", "expected"),
    [
        ("a.txt", LONG.encode(), Text(LONG, "prose")),
        ("a.txt", b"\xef\xbb\xbf" + LONG.encode(), Text(LONG, "prose")),
        ("a.txt", LONG.encode("latin-1"), Skipped.ENCODING),
        ("a.txt", LONG.encode("utf-16"), Skipped.ENCODING),
        ("a.txt", (LONG + "\0").encode(), Skipped.ENCODING),
        ("a.txt", b"a" * (MIN_BYTES - 1), Skipped.SHORT),
        ("a.txt", Unread.LARGE, Skipped.LARGE),
        ("a.txt", Unread.DAMAGED, Skipped.DAMAGED),
        ("a.png", Unread.UNWANTED, Skipped.KIND),
        ("a.png", b"", Skipped.KIND),
        ("a.html", b"<script>" + b"a" * 300 + b"</script>", Skipped.SHORT),
        ("a.html", b"<p>" * 600_000, Skipped.HTML),
    ],
)
def test_texts(path, content, expected):
    assert text_of(ArchivedFile(path, content)) == expected


def test_the_text_of_a_page_is_what_a_reader_sees():
    page = f"<html><style>p {{}}</style><body><p>{LONG}</p><p>Caf&eacute;</p></body></html>"
    text = text_of(ArchivedFile("index.html", page.encode()))
    assert isinstance(text, Text)
    assert "Café" in text.text
    assert "style" not in text.text
    assert text.kind == "html"
