"""URIs of files and directories, such as ``s3://bucket/crawl/pages.jsonl.gz``."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

_URI = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*://")


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

    >>> joined("s3://crawl/kept/", "documents/a.jsonl")
    's3://crawl/kept/documents/a.jsonl'
    """
    return f"{directory.rstrip('/')}/{name}"


def parent_of(uri: str) -> str:
    """Return the URI of the directory that a file or directory is in.

    >>> parent_of("s3://crawl/kept/"), parent_of("hdfs:///kept")
    ('s3://crawl', 'hdfs://')
    """
    return uri.rstrip("/").rpartition("/")[0]


def file_name(uri: str) -> str:
    """Return the last part of a URI: its endings state format and compression.

    >>> file_name("https://example.org/pages.jsonl.gz?token=1"), file_name("s3://crawl/a?b")
    ('pages.jsonl.gz', 'a?b')
    """
    if scheme_of(uri) in ("http", "https"):
        return unquote(urlsplit(uri).path).rpartition("/")[2]
    return uri.rstrip("/").rpartition("/")[2]


def without_secrets(uri: str) -> str:
    """Return a URI without the password or query that may be its credentials.

    >>> without_secrets("https://user:secret@example.org/a.jsonl?X-Amz-Signature=0a1b")
    'https://example.org/a.jsonl?…'
    """
    scheme, mark, rest = uri.partition("://")
    if scheme.lower() not in ("http", "https"):
        return uri
    host, slash, path = rest.partition("/")
    path, question, _ = path.partition("?")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}{'?…' if question else ''}"
