"""What map tasks over fingerprints read: the description of a chunk, or a file."""

from __future__ import annotations

import argparse
from pathlib import Path

from mr_dedup.formats.chunks import DESCRIPTION_SUFFIX
from mr_dedup.formats.fingerprint_chunks import FingerprintChunk, FingerprintPart
from mr_dedup.formats.fingerprint_files import FingerprintFile
from mr_dedup.jobs.job import Job


def chunk_of(options: argparse.Namespace, path: str, uri: str) -> FingerprintChunk:
    """Return the chunk at ``path``, a copy of what is at ``uri``, by a job's options.

    ``options`` has ``corpus_format`` and ``byte_order``. Raises as Chunk.read and
    FingerprintFile.detect.
    """
    if path.endswith(DESCRIPTION_SUFFIX):
        return FingerprintChunk.read(Path(path))
    file = FingerprintFile.detect(
        Path(path), name=uri, format=options.corpus_format, byte_order=options.byte_order
    )
    return FingerprintChunk(0, (FingerprintPart.whole(file),))


def refuse_stdin(job: Job) -> None:
    """End with a mistake if the corpus is to come from where mrjob would not leave it whole."""
    from_stdin = not job.options.args or "-" in job.options.args
    if from_stdin and job.options.corpus_format != "text":
        # it adds a line end to what has none
        job.arg_parser.error(
            "no corpus files; standard input is read with --corpus-format text only"
        )
