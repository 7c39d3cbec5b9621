"""Checksums that stores report of files, and servers of responses, by the names that they have."""

from __future__ import annotations

import base64
import binascii
import hashlib
import importlib
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Protocol


class Digest(Protocol):
    """What ``hashlib`` has, and what has its methods here."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""

    def hexdigest(self) -> str:
        """Return the checksum of all."""


class _Crc:
    """A checksum of 32 or 64 bits, by a function of bytes and the checksum before."""

    def __init__(self, size_bytes: int, add: Callable[[bytes, int], int]) -> None:
        self._size, self._add, self._value = size_bytes, add, 0

    def update(self, data: bytes, /) -> None:
        self._value = self._add(data, self._value)

    def hexdigest(self) -> str:
        return self._value.to_bytes(self._size, "big").hex()


def new_digest(kind: str) -> Digest | None:
    """Return a digest of a kind, such as ``md5``; None for one that needs what is not installed.

    >>> digest = new_digest("crc32")
    >>> digest.update(b"a")
    >>> digest.hexdigest()
    'e8b7be43'
    """
    if kind == "crc32":
        return _Crc(4, zlib.crc32)
    try:
        if kind == "crc32c":
            extend = importlib.import_module("google_crc32c").extend
            return _Crc(4, lambda data, before: int(extend(before, data)))
        if kind == "crc64nvme":
            return _Crc(8, importlib.import_module("awscrt.checksums").crc64nvme)
        return hashlib.new(kind, usedforsecurity=False)
    except (ImportError, ValueError):
        return None


_OF_S3 = ("SHA256", "SHA1", "CRC64NVME", "CRC32C", "CRC32")
_OF_RESPONSES = {"sha-512": "sha512", "sha-256": "sha256", "md5": "md5"}
_DIGEST = re.compile(r"\b(sha-512|sha-256|md5)\s*=\s*:?([A-Za-z0-9+/]+=*):?", re.I)


def checksum_of_head(head: Mapping[str, object]) -> str | None:
    """Return the checksum of a whole object that a response of S3 reports, as ``KIND:HEX``.

    >>> checksum_of_head({"ChecksumCRC32": "6Le+Qw==", "ChecksumType": "FULL_OBJECT"})
    'crc32:e8b7be43'
    """
    if head.get("ChecksumType", "FULL_OBJECT") != "FULL_OBJECT":
        return None
    for kind in _OF_S3:
        value = head.get(f"Checksum{kind}")
        # of parts that were uploaded one by one it has their number
        if isinstance(value, str) and "-" not in value and new_digest(kind.lower()) is not None:
            return described(kind.lower(), value)
    return None


def checksum_of_response(headers: Mapping[str, str], *, is_whole: bool) -> str | None:
    """Return the checksum of the body of a response, which is the whole file or a part of it.

    Of a part there is ``Content-Digest`` alone: some servers send the other headers of the file.

    >>> checksum_of_response({"Content-MD5": "DMF1ucDxtqgxw5niaXcmYQ=="}, is_whole=True)
    'md5:0cc175b9c0f1b6a831c399e269772661'
    """
    names = ("Content-Digest", "Repr-Digest") if is_whole else ("Content-Digest",)
    for name in names:
        if found := _DIGEST.search(headers.get(name, "")):
            return described(_OF_RESPONSES[found[1].lower()], found[2])
    md5 = headers.get("Content-MD5") if is_whole else None
    return described("md5", md5) if md5 else None


def is_other(digest: Digest, checksum: str) -> bool:
    """Return whether a digest differs from a checksum ``KIND:HEX``, if that has its length."""
    found, expected = digest.hexdigest(), checksum.partition(":")[2]
    return len(found) == len(expected) and found != expected


def described(kind: str, value: str) -> str | None:
    """Return a checksum in base64 as ``KIND:HEX``; None for one that is damaged."""
    try:
        return f"{kind}:{base64.b64decode(value, validate=True).hex()}"
    except (binascii.Error, ValueError):
        return None
