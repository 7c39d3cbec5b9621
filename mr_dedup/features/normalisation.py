"""Unicode normalisation of texts: those that look, or mean, the same become the same bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.features import normalisation_kernels as kernels
from mr_dedup.features.normalisation_table import Form, NormalisationTable, normalisation_table
from mr_dedup.features.unicode_table import unicode_table


def normalised(
    texts: pa.LargeStringArray, form: Form, *, exact: bool = False
) -> pa.LargeStringArray:
    """Return texts in a normalisation form; the array itself where all are in it already.

    Args:
        texts: n texts; nulls stay.
        form: ``nfc``, Unicode's form C; or ``nfkc``, which is its toNFKC_Casefold: form KC, full
            case folding (ß becomes ss), default-ignorable characters such as soft hyphens and
            zero-width joiners dropped.
        exact: Normalise everything. Otherwise what stands between words before and after, such as
            … or a no-break space, may stay in a text that has words, so that most need no copy.

    Returns:
        The texts; but where a character only folds to another one, as A does, in either case: who
        cuts a text into words folds these. Texts of Unicode 15.1; later characters stay.

    About 1 ns a character that is not ASCII, 0.02 ns one that is; 10 to 20 ns each character
    that is rewritten. Memory: those texts once more.

    >>> texts = pa.array(["cafe\\u0301", "Stra\\u00dfe"], pa.large_string())
    >>> normalised(texts, "nfkc").to_pylist()
    ['café', 'Strasse']
    """
    found = _in_form(texts, normalisation_table(form, exact=exact))
    if exact:
        return found
    # asked of what is normalised: = with a solidus over it has a token before, as a mark is one
    has_words = np.empty(len(found), np.bool_)
    kernels.find_words(*slices(found), *unicode_table(), has_words)
    if has_words.all():
        return found
    wordless = pa.array(~has_words)
    part = found.filter(wordless)
    whole = _in_form(part, normalisation_table(form, exact=True))
    return found if whole is part else pc.replace_with_mask(found, wordless, whole)


def _in_form(texts: pa.LargeStringArray, table: NormalisationTable) -> pa.LargeStringArray:
    content, starts, stops = slices(texts)
    rows = np.empty(starts.size, np.int64)
    found = kernels.find_others(content, starts, stops, table, rows)
    if not found:
        return texts
    rows = rows[:found]
    room, together = kernels.room_for_texts(content, starts, stops, rows, table)
    others = int((stops - starts).sum() - (stops[rows] - starts[rows]).sum())
    # marks that are many are ordered in the other half
    characters, classes = (
        np.empty(2 * int(together), np.uint32),
        np.empty(2 * int(together), np.uint8),
    )
    out = np.empty(int(room) + others, np.uint8)
    edges = np.empty(starts.size + 1, np.int64)
    written = kernels.write_texts(
        content, starts, stops, rows, table, characters, classes, out, edges
    )
    out.resize(written, refcheck=False)
    valid = None
    if texts.null_count:
        valid = pa.py_buffer(
            np.packbits(texts.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
        )
    return pa.LargeStringArray.from_buffers(
        len(texts), pa.py_buffer(edges), pa.py_buffer(out), valid
    )


def slices(
    texts: pa.LargeStringArray,
) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the UTF-8 of n texts, and where each starts and stops, uint64[n].

    A null starts and stops past the UTF-8. Raises ValueError for another type of array.
    """
    if not isinstance(texts, pa.LargeStringArray):
        raise ValueError(f"texts must be a pyarrow LargeStringArray, not {type(texts).__name__}")
    _, offsets, content = texts.buffers()
    edges = np.zeros(1, np.uint64)
    if len(texts):
        edges = np.frombuffer(offsets, np.uint64, len(texts) + 1, 8 * texts.offset)
    starts, stops = edges[:-1], edges[1:]
    utf8 = np.frombuffer(content or b"", np.uint8)
    if texts.null_count:
        # what lies under a null is not defined
        are_null = texts.is_null().to_numpy(zero_copy_only=False)
        past = np.uint64(utf8.size + 1)
        starts, stops = np.where(are_null, past, starts), np.where(are_null, past, stops)
    return utf8, starts, stops
