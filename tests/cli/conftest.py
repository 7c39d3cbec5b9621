"""Inputs small enough for tests, of several tasks all the same."""

import pytest

from mr_dedup.formats import fingerprint_chunks
from mr_dedup.formats.documents import chunks as document_chunks


@pytest.fixture
def small_chunks(monkeypatch):
    """Let a few KB of documents take several tasks."""
    monkeypatch.setattr(document_chunks, "CHUNK_BYTES", 2000)
    monkeypatch.setattr(document_chunks, "_MIN_BYTES", 2000)
    monkeypatch.setattr(document_chunks, "_FILE_BYTES", 10)


@pytest.fixture
def staged(monkeypatch):
    """A list to which the chunks of fingerprints are added that tasks are given."""
    given = []
    chunk = fingerprint_chunks.FingerprintChunk
    usual = chunk.describe
    monkeypatch.setattr(chunk, "describe", lambda self: given.append(self) or usual(self))
    return given
