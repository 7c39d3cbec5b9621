"""From the fingerprint files that a command's arguments name to the inputs of its map tasks."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.errors import FormatError

if TYPE_CHECKING:
    from mr_dedup.engines.streaming import Input
    from mr_dedup.formats.fingerprint_chunks import FingerprintChunk
    from mr_dedup.formats.fingerprint_files import FingerprintFile


def corpus_files(names: Sequence[str], arguments: argparse.Namespace) -> list[FingerprintFile]:
    """Return the files that names of this machine stand for; raises MrDedupError if for none."""
    from mr_dedup.files.inputs import expand
    from mr_dedup.formats.fingerprint_files import FingerprintFile

    return [
        FingerprintFile.detect(
            path, format=arguments.corpus_format, byte_order=arguments.byte_order
        )
        for path in expand(names)
    ]


@contextlib.contextmanager
def text_may_be_documents(*formats: str | None) -> Iterator[None]:
    """Name ``--format text`` in the error of a file whose first line is not a fingerprint.

    For commands that read documents too, where the names of text files stand for fingerprints.
    ``formats`` are those of fingerprints that are given: then it is clear what the files are.
    """
    try:
        yield
    except FormatError as error:
        is_text = error.offset == "line 1" and error.reason.startswith("expected a fingerprint")
        if any(formats) or not is_text:
            raise
        reason = f"{error.reason}; --format text reads all files as documents"
        raise FormatError(error.path, error.offset, reason) from error


def described(chunks: Sequence[FingerprintChunk], staging: Path) -> list[Input]:
    """Return descriptions of chunks, for tasks of this machine."""
    from mr_dedup.engines.streaming import Input
    from mr_dedup.formats.chunks import DESCRIPTION_SUFFIX

    inputs = []
    for number, chunk in enumerate(chunks):
        path = staging / f"{number:06}{DESCRIPTION_SUFFIX}"
        path.write_text(chunk.describe())
        inputs.append(Input(str(path), chunk.name))
    return inputs


def chunks_to_send(files: Sequence[FingerprintFile], format: str | None) -> list[FingerprintChunk]:
    """Return what tasks of a cluster read of files of this machine, all of ``format`` if named."""
    from mr_dedup.formats.fingerprint_chunks import (
        CHUNK_FINGERPRINTS,
        FingerprintChunk,
        FingerprintPart,
        cut_into_chunks,
    )

    parts = [FingerprintPart.whole(file) for file in files]
    if format == "parquet":
        # Parquet is sent whole, as a copy of a part would be longs
        return [FingerprintChunk(number, (part,)) for number, part in enumerate(parts)]
    # of one format files stay apart: packed ones do not follow one another
    runs = [[part] for part in parts] if format else [parts]
    return [chunk for run in runs for chunk in cut_into_chunks(run, CHUNK_FINGERPRINTS)]
