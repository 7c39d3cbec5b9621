"""URIs of files and directories, such as ``s3://bucket/crawl/pages.jsonl.gz``."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from mr_dedup.errors import MrDedupError
from mr_dedup.redaction import redacted

_URI = re.compile(r"(?!(?i:file):)[A-Za-z][A-Za-z0-9+.-]*://")
_ENDINGS = re.compile(r"(\.[A-Za-z0-9]+){0,2}$")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_WEB = ("http", "https")


def is_uri(text: str) -> bool:
    """Return whether ``text`` is a URI such as hdfs://…, not the path of a local file.

    >>> is_uri("s3://crawl/pages.jsonl"), is_uri("pages.jsonl"), is_uri("file:///pages.jsonl")
    (True, False, False)
    """
    return _URI.match(text) is not None


def scheme_of(uri: str) -> str:
    """Return the scheme of a URI in lower case.

    >>> scheme_of("S3://crawl/pages.jsonl")
    's3'
    """
    return uri.partition("://")[0].lower()


def joined(directory: str, name: str) -> str:
    """Return the URI of ``name`` in a directory.

    >>> joined("s3://crawl/kept/", "documents/a.jsonl"), joined("hdfs:///", "kept")
    ('s3://crawl/kept/documents/a.jsonl', 'hdfs:///kept')
    """
    scheme, mark, path = directory.rpartition("://")
    return f"{scheme}{mark}{path.rstrip('/')}/{name}"


def parent_of(uri: str) -> str:
    """Return the URI of the directory that a file or directory is in.

    >>> parent_of("s3://crawl/kept/"), parent_of("hdfs:///kept")
    ('s3://crawl', 'hdfs://')
    """
    scheme, mark, path = uri.partition("://")
    return f"{scheme}{mark}{path.rstrip('/').rpartition('/')[0]}"


def file_name(uri: str) -> str:
    """Return the last part of a URI: its endings state format and compression.

    >>> file_name("https://example.org/pages.jsonl.gz?token=1"), file_name("s3://crawl/a?b")
    ('pages.jsonl.gz', 'a?b')
    """
    if scheme_of(uri) in _WEB:
        return unquote(urlsplit(uri).path).rpartition("/")[2]
    return uri.rstrip("/").rpartition("/")[2]


def endings_of(name: str) -> str:
    """Return up to two endings of the name of a file, which state format and compression.

    >>> endings_of("pages.2024.jsonl.gz"), endings_of("pages")
    ('.jsonl.gz', '')
    """
    found = _ENDINGS.search(name)
    return found[0] if found else ""


def name_below(uri: str, directory: str) -> str:
    """Return the name of a file relative to a directory that it is in, for a copy of it.

    Raises MrDedupError for a name by which the copy would be elsewhere: stores have any names.

    >>> name_below("s3://crawl/kept/documents/a.jsonl", "s3://crawl/kept")
    'documents/a.jsonl'
    >>> name_below("s3://crawl/kept/../../a.jsonl", "s3://crawl/kept")
    Traceback (most recent call last):
    mr_dedup.errors.MrDedupError: s3://crawl/kept/../../a.jsonl: its name leads out of s3://crawl/kept
    """
    name = uri.removeprefix(directory.rstrip("/") + "/")
    if name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise MrDedupError(f"{without_secrets(uri)}: its name leads out of {directory}")
    return name


HIDDEN_QUERY = "?…"
"""What ``without_secrets`` shows of the query of a web address."""


def without_secrets(uri: str) -> str:
    """Return a URI for messages: without the password or query that may be its credentials.

    It is one line: control characters are shown as they are quoted in web addresses.

    >>> without_secrets("https://user:secret@example.org/a.jsonl?X-Amz-Signature=0a1b")
    'https://example.org/a.jsonl?…'
    """
    shown = redacted(uri)
    if scheme_of(uri) in _WEB:
        path, question, query = shown.partition("?")
        shown = path + (HIDDEN_QUERY if query else question)
    return _CONTROL.sub(lambda found: f"%{ord(found[0]):02X}", shown)
