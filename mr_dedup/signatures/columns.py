"""Signatures as columns of Arrow tables: one or two a method, in the order of the methods."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.tables import one_array
from mr_dedup.signatures.protocol import SignatureMethod, Signatures

VERSION = 5
"""Raised when a method gets other signatures of the same text than before."""


def schema_of(methods: Sequence[SignatureMethod]) -> list[pa.Field]:
    """Return the schema of ``columns_of``; sketches only of methods that need verification."""
    fields = []
    for number, method in enumerate(methods):
        fields.append(pa.field(f"keys_{number}", pa.large_list(pa.uint64())))
        if method.needs_verification:
            fields.append(pa.field(f"sketch_{number}", pa.binary(method.sketch_bytes)))
    return fields


def columns_of(
    methods: Sequence[SignatureMethod], signed: Sequence[Signatures]
) -> dict[str, pa.Array]:
    """Return the signatures of n texts by each method as columns of n rows, by column name."""
    columns = {}
    for number, (method, signatures) in enumerate(zip(methods, signed, strict=True)):
        keys = pa.array(signatures.keys)
        columns[f"keys_{number}"] = pa.LargeListArray.from_arrays(signatures.offsets, keys)
        if method.needs_verification:
            content = pa.py_buffer(np.ascontiguousarray(signatures.sketches))
            kind = pa.binary(method.sketch_bytes)
            column = pa.FixedSizeBinaryArray.from_buffers(kind, len(signatures), [None, content])
            columns[f"sketch_{number}"] = column
    return columns


def signatures_in(table: pa.Table, methods: Sequence[SignatureMethod], number: int) -> Signatures:
    """Return the signatures by method ``number`` from the columns of a table.

    Raises:
        MrDedupError: For a table without these columns, or with columns of other types.
    """
    method = methods[number]
    try:
        lists = one_array(table[f"keys_{number}"])
        offsets = lists.offsets.to_numpy()
        # a slice has the values of the whole array
        keys = lists.values.to_numpy()[offsets[0] : offsets[-1]]
        sketches = np.empty((len(lists), 0), np.uint8)
        if method.needs_verification:
            column = one_array(table[f"sketch_{number}"])
            content = np.frombuffer(column.buffers()[1] or b"", np.uint8)
            first = column.offset * method.sketch_bytes
            content = content[first : first + len(column) * method.sketch_bytes]
            sketches = content.reshape(-1, method.sketch_bytes)
        return Signatures(offsets - offsets[0], keys, sketches)
    except (KeyError, ValueError, TypeError, AttributeError, pa.ArrowException) as error:
        raise MrDedupError(f"contains no signatures of {method.name}: {error}") from error
