"""What map tasks over fingerprints read: the description of a chunk, or a file."""

from __future__ import annotations

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
