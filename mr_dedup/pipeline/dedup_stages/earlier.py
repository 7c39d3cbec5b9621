"""The stage of earlier documents: the texts of those that are in a cluster with a new document.

The keep job reads them from earlier results, on this machine whatever the runner, and they are
written to files for the resolve job. Usually few documents of earlier results are concerned; later
stages find no file if there are no earlier results.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mr_dedup.engines.engine import JobOutput
from mr_dedup.files.outputs import whole_file
from mr_dedup.formats.documents.chunks import DocumentChunk, cut_into_chunks
from mr_dedup.formats.documents.files import DocumentFile
from mr_dedup.formats.tables import read_table
from mr_dedup.jobs.fingerprint_labels import read_labels
from mr_dedup.jobs.keep import KeepJob, KeptRows
from mr_dedup.pipeline.dedup_stages.contract import Completed, DedupOptions, RunJob
from mr_dedup.pipeline.dedup_stages.files import LABELS, ROWS
from mr_dedup.pipeline.document_rows import Locations, Rows
from mr_dedup.pipeline.results import EarlierResult
from mr_dedup.pipeline.run_decisions import changed

_CHUNK_BYTES = 16 << 20
"""The size of the files that share a task. A file is read by one, as its documents are counted."""

_PART_BYTES = 16 << 20
"""The approximate size of the texts in a file for the resolve job, which is a task."""


_KEPT = "earlier-kept.parquet"


def find_earlier_texts(folder: Path, options: DedupOptions, run_job: RunJob) -> Completed:
    """Write the texts of the earlier documents that have labels, to files of about 16 MB.

    Columns are the number of a document instead of its id, its text, and its position in its file;
    the first two have the names of the id and the text in the documents of this run. One such file
    is in memory. Raises FormatError and MrDedupError if documents are missing, damaged, or not
    those that were kept.
    """
    for path in _parts(folder):
        # of a killed run
        path.unlink()
    rows, labels = Rows.read(folder / ROWS), read_labels(folder / LABELS)
    _, wanted = labels.of(rows.fingerprints[: rows.earlier])
    wanted &= rows.has_fingerprint[: rows.earlier]
    id_name, text_name = options.reading.id_names[0], options.reading.text_name
    # no field of documents has the name that their position has here
    names = [id_name, text_name, id_name + text_name]
    parts: list[str] = []
    first = 0
    for count, result in enumerate(options.against):
        needed = _Needed.of(result, first, wanted)
        first += result.documents
        if not needed.chunks:
            continue
        kept = np.zeros_like(needed.wanted)
        KeptRows(kept, needed.wanted, ranges=dict(needed.ranges)).write(folder / _KEPT)
        job = KeepJob(reading=result.read_options(), kept=str(folder / _KEPT))
        with run_job.run_locally(job, f"earlier-{count}", needed.chunks) as output:
            for table in _batched(_texts(output, needed)):
                _check(table, rows, result)
                parts.append(f"earlier-{len(parts):06}.parquet")
                numbers = table["number"].cast(pa.large_string())
                columns = [numbers, table["text"], table["position"]]
                with whole_file(folder / parts[-1], overwrite=True) as file:
                    pq.write_table(
                        pa.table(columns, names=names),
                        file,
                        compression="zstd",
                        write_page_checksum=True,
                    )
    return Completed(parts, {})


def _parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("earlier-[0-9]*.parquet"))


def as_documents(folder: Path) -> list[DocumentFile]:
    """Return files of earlier documents, as the resolve job reads them."""
    return [DocumentFile(path, path.name, "parquet") for path in _parts(folder)]


def earlier_locations(
    folder: Path, results: Sequence[EarlierResult], numbers: NDArray[np.int64]
) -> Locations:
    """Return the locations of earlier documents, by their numbers, ascending.

    Files are named relative to documents/ of their result.
    """
    positions = np.zeros(len(numbers), np.int64)
    for path in _parts(folder):
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            schema = file.schema_arrow.names
            table = file.read([schema[0], schema[2]])
        here = table.column(0).cast(pa.int64()).to_numpy()
        known = np.isin(here, numbers)
        positions[numbers.searchsorted(here[known])] = table.column(1).to_numpy()[known]
    names = [name for result in results for name, _ in result.files]
    counts = [count for result in results for _, count in result.files]
    indices = np.searchsorted(np.cumsum(counts), numbers, side="right").astype(np.int32)
    files = pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(names, pa.large_string()))
    return Locations(files, pa.array(positions))


def read_earlier_texts(folder: Path, numbers: NDArray[np.int64]) -> dict[int, str]:
    """Return the texts of those of ``numbers`` that are in files, by number."""
    found: dict[int, str] = {}
    for path in _parts(folder):
        table = read_table(path)
        here = table.column(0).cast(pa.int64()).to_numpy()
        rows = np.flatnonzero(np.isin(here, numbers))
        texts = table.column(1).take(pa.array(rows)).to_pylist()
        found.update(zip(here[rows].tolist(), texts, strict=True))
    return found


@dataclass(frozen=True)
class _Needed:
    """The files of one result with documents whose texts are needed, as chunks of whole files.

    ``numbers`` int64[m] are those of all their documents, ``wanted`` bool[m] marks the needed ones;
    ``ranges`` are the start and stop of each chunk in both.
    """

    chunks: Sequence[DocumentChunk]
    ranges: Mapping[int, tuple[int, int]]
    numbers: NDArray[np.int64]
    wanted: NDArray[np.bool_]

    @classmethod
    def of(cls, result: EarlierResult, first: int, wanted: NDArray[np.bool_]) -> _Needed:
        """Return the needed files of a result whose first document has the number ``first``."""
        files, counts, numbers = [], {}, [np.empty(0, np.int64)]
        for file, (_, count) in zip(result.document_files(), result.files, strict=True):
            if wanted[first : first + count].any():
                files.append(file)
                counts[file.name] = count
                numbers.append(np.arange(first, first + count))
            first += count
        chunks = cut_into_chunks(files, _CHUNK_BYTES, split=False)
        sizes = [sum(counts[part.file.name] for part in chunk.parts) for chunk in chunks]
        edges = [0, *itertools.accumulate(sizes)]
        ranges = dict(enumerate(itertools.pairwise(edges)))
        joined = np.concatenate(numbers)
        return cls(chunks, ranges, joined, wanted[joined])


def _texts(output: JobOutput, needed: _Needed) -> Iterator[pa.Table]:
    """Yield the numbers, texts and positions of the documents of a job's output, in order."""
    for chunk, table in output:
        numbers = needed.numbers[needed.ranges[chunk][0] + table["row"].to_numpy()]
        yield pa.table({"number": numbers, "text": table["text"], "position": table["position"]})


def _batched(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables concatenated to about _PART_BYTES."""
    buffered: list[pa.Table] = []
    for table in tables:
        buffered.append(table)
        if sum(part.nbytes for part in buffered) >= _PART_BYTES:
            yield pa.concat_tables(buffered)
            buffered = []
    if buffered:
        yield pa.concat_tables(buffered)


def _check(table: pa.Table, rows: Rows, result: EarlierResult) -> None:
    """Raise MrDedupError if a text is not as long as it was."""
    import pyarrow.compute as pc

    numbers = table["number"].to_numpy()
    lengths = pc.binary_length(table["text"]).to_numpy()
    others = np.flatnonzero(lengths != rows.lengths[numbers])
    if others.size:
        (id,) = rows.ids_of(numbers[others[:1]]).to_pylist()
        raise changed(result.name, id)
