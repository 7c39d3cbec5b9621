"""What map tasks over fingerprints read: the description of a chunk, or a file."""

from __future__ import annotations

import argparse

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.chunks import DESCRIPTION_SUFFIX
from mr_dedup.formats.fingerprint_chunks import FingerprintChunk, FingerprintPart
from mr_dedup.formats.fingerprint_files import FingerprintFile, Format
from mr_dedup.formats.longs import ByteOrder
from mr_dedup.jobs.contract import TaskInput


def chunk_of(part: TaskInput, format: Format | None, byte_order: ByteOrder) -> FingerprintChunk:
    """Return the chunk that a map task reads.

    Args:
        part: The input of the task: the description of a chunk, or a file of fingerprints.
        format: The format of such a file; by default by its name.
        byte_order: That of longs in such a file.

    Raises:
        FormatError, UnknownFormatError: As FingerprintChunk.read and FingerprintFile.detect.
    """
    if part.path.name.endswith(DESCRIPTION_SUFFIX):
        return FingerprintChunk.read(part.path)
    # the copy of a file on a cluster has its endings; what the user calls it may not
    file = FingerprintFile.detect(part.path, format=format, byte_order=byte_order)
    return FingerprintChunk(part.number, (FingerprintPart.whole(file),))


def refuse_stdin(arguments: argparse.Namespace) -> None:
    """Raise MrDedupError for standard input that is not text: mrjob would add a line end to it.

    Args:
        arguments: Those of a job that is run alone: the names of the inputs, ``args``, and
            ``corpus_format``.
    """
    from_stdin = not arguments.args or "-" in arguments.args
    if from_stdin and arguments.corpus_format != "text":
        raise MrDedupError("no corpus files; standard input is read with --corpus-format text only")
