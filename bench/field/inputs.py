"""The forms of a corpus that tools read: they are made before a tool is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.field.tools.tool import JSON_LINES, ONE_PARQUET, PARQUET

_NAMES = {PARQUET: "parquet", JSON_LINES: "documents", ONE_PARQUET: "corpus.parquet"}


def converted(corpus: Path, form: str, folder: Path) -> Path:
    """Return a corpus in a form, below a directory; make it unless it is there.

    Parquet files are links to those of the corpus, without its report. The other forms have only
    id and text; JSON lines as many files as the corpus.
    """
    made = folder / _NAMES[form]
    if made.exists():
        return made
    partial = folder / f"{made.name}.partial"
    folder.mkdir(parents=True, exist_ok=True)
    if form == ONE_PARQUET:
        _write_one(corpus, partial)
    elif form == JSON_LINES:
        _write_lines(corpus, partial)
    else:
        _link(corpus, partial)
    return partial.rename(made)


def _link(corpus: Path, out: Path) -> None:
    out.mkdir(exist_ok=True)
    for path in sorted(corpus.glob("*.parquet")):
        (out / path.name).symlink_to(path.resolve())


def _write_one(corpus: Path, out: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("text", pa.string())])
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for path in sorted(corpus.glob("*.parquet")):
            for batch in pq.ParquetFile(path).iter_batches(4096, columns=["id", "text"]):
                writer.write_table(pa.Table.from_batches([batch]).cast(schema))


def _write_lines(corpus: Path, out: Path) -> None:
    out.mkdir(exist_ok=True)
    for path in sorted(corpus.glob("*.parquet")):
        with (out / f"{path.stem}.jsonl").open("w", encoding="utf-8") as file:
            for batch in pq.ParquetFile(path).iter_batches(4096, columns=["id", "text"]):
                for row in batch.to_pylist():
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
