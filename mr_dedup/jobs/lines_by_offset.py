"""Lines of documents whose offsets are known, which are read again without decoding them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.formats.documents.batch import BatchBuilder
from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.formats.documents.files import DocumentPart
from mr_dedup.formats.documents.jsonl import read_jsonl
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.rejects import Rejects, Report
from mr_dedup.formats.lines import LineBlock


def parts_with_offsets(
    chunk: DocumentChunk, documents: Iterable[tuple[pa.DictionaryArray, NDArray[np.int64]]]
) -> Iterator[tuple[DocumentPart, NDArray[np.int64]]]:
    """Yield the parts of a chunk, and the offsets at which its documents begin in each."""
    names: dict[str, int] = {}
    numbers, offsets = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for files, begin in documents:
        known = [names.setdefault(name, len(names)) for name in files.dictionary.to_pylist()]
        numbers.append(np.array(known, np.int64)[files.indices.to_numpy()])
        offsets.append(begin)
    number, offset = np.concatenate(numbers), np.concatenate(offsets)
    # offsets ascend within a file: a new one begins where the name changes or the offset does not
    # increase
    new = np.append(True, (number[1:] != number[:-1]) | (offset[1:] <= offset[:-1]))[: number.size]
    starts = np.append(np.flatnonzero(new), number.size).tolist()
    files_in_order = list(names)
    run = 0
    for part in chunk.parts:
        begin = end = starts[run]
        if run + 1 < len(starts) and files_in_order[int(number[begin])] == part.file.name:
            end = starts[run + 1]
            if part.stop is not None:
                end = begin + int(np.searchsorted(offset[begin:end], part.stop))
            if end == starts[run + 1]:
                run += 1
            else:
                starts[run] = end
        yield part, offset[begin:end]


def text_of_line(line: pa.LargeBinaryScalar, options: ReadOptions) -> pa.LargeStringArray | None:
    """Return the text of the document that a line is, an array of one; None if it is none."""
    builder = BatchBuilder(options)
    content = bytearray(line.as_buffer())
    # not the first line of a file, which might begin with a byte order mark
    blocks = [LineBlock(1, content, len(content))]
    report = Report("", "byte", Rejects(), strict=False)
    batches = [*read_jsonl(blocks, None, options, report, builder), *builder.finish()]
    return batches[0].texts if batches else None
