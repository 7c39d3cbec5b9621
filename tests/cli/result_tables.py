"""A result of dedup as tables and records, however it is divided into files."""

import gzip
import re

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from mr_dedup.formats.parts import part_files, read_parts
from tests.cli.documents import rejects_in

TABLES = ("decisions", "clusters", "fingerprints", "signatures", "counts", "earlier_counts")


def unpacked(path):
    content = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(content)
    if path.suffix == ".zst":
        return zstandard.ZstdDecompressor().decompressobj().decompress(content)
    return content


def kept_records(out, pattern=r"(-\d{5})+(?=\.)"):
    """The kept records by the name of their file, without the number of its part."""
    found = {}
    for path in sorted((out / "documents").rglob("*")):
        if path.is_file():
            name = re.sub(pattern, "", str(path.relative_to(out / "documents")))
            if path.suffix == ".parquet":
                continue
            found[name] = found.get(name, b"") + unpacked(path)
    return {name: content for name, content in found.items() if content}


def tables_of(out):
    """The tables of a result, its kept records, and its rejects."""
    found = {}
    for name in TABLES:
        if (out / name).is_dir():
            table = read_parts(out / name).combine_chunks()
            if name == "fingerprints":
                # the names of files differ by the numbers of parts
                names = [re.sub(r"(-\d{5})+(?=\.)", "", text) for text in table["file"].to_pylist()]
                table = table.set_column(table.schema.names.index("file"), "file", pa.array(names))
            found[name] = table.to_pydict()
    found["documents"] = kept_records(out)
    found["parquet"] = parquet_of(out)
    found["rejects"] = rejects_in(out) if (out / "rejects").is_dir() else []
    return found


def parquet_of(out):
    folder = out / "documents"
    if not any(folder.glob("*.parquet")):
        return None
    return pa.concat_tables([pq.read_table(path) for path in part_files(folder)]).to_pydict()
