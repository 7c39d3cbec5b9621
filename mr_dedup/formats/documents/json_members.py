"""Members of JSON objects, read and appended; the rest of an object stays as it is.

What is not read may be no JSON in two ways that many programs write and read: NaN, Infinity and
-Infinity, and escapes of half a surrogate pair.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_BLANKS = b" \t\r\n"

_QUOTE, _BACKSLASH, _U, _LINE_END = b'"\\u\n'
_NO_NUMBER = re.compile(rb"(?<![\w.+-])(NaN|-?Infinity)(?!\w)")
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_LONGEST_ESCAPE = len(rb"\ud83d\ude00")


class ClashError(ValueError):
    """An object that has a member which is to be appended: ``name``."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"has a member {name!r} already")


def with_members(lines: pa.LargeBinaryArray, members: pa.Table) -> pa.LargeBinaryArray:
    r"""Return lines of JSON objects with further members before the end of each object.

    10 microseconds a line of a kilobyte, most of it to copy lines to Python and back.

    Args:
        lines: n objects, each with the end of its line.
        members: n rows; columns of integers or text are the members.

    Raises:
        ClashError: For an object that has one of the members, also where it is null.

    >>> with_members(pa.array([b'{"id": 1.50 }\n'], pa.large_binary()), pa.table({"n": [2]}))[0]
    <pyarrow.LargeBinaryScalar: b'{"id": 1.50 ,"n":2}\n'>
    """
    names = members.column_names
    added = [json.encode() for json in _as_json(members).to_pylist()]
    written = []
    for line, more in zip(lines.to_pylist(), added, strict=True):
        for name, value in zip(names, members_of(line, names), strict=True):
            if value:
                raise ClashError(name)
        end = line.rindex(b"}")
        comma = b"" if line[:end].rstrip(_BLANKS).endswith(b"{") else b","
        written.append(b"".join((line[:end], comma, more, line[end:])))
    return pa.array(written, pa.large_binary())


def members_of(line: bytes, names: Sequence[str]) -> list[bytes]:
    """Return the JSON of members of an object as it stands there, empty for those that it lacks.

    Of several members of a name that is the last one.

    Raises:
        ValueError: If the line is not an object in JSON, but for what the module says.
        RecursionError: If it is nested too deeply.

    >>> members_of(b'{"id": 1.50, "score": NaN, "id": 2}', ["id", "text", "score"])
    [b'2', b'', b'NaN']
    """
    return [line[start:stop] for start, stop in member_spans(line, names)]


def member_spans(line: bytes, names: Sequence[str]) -> list[tuple[int, int]]:
    """Return where the JSON of members begins and ends, as ``members_of``; 0 and 0 for none."""
    record, spans_of = _decoded(line, members_decoder(tuple(names)))
    return spans_of(msgspec.structs.astuple(record))


def all_member_spans(line: bytes) -> dict[str, tuple[int, int]]:
    """Return where the JSON of each member of an object begins and ends, by its name."""
    record, spans_of = _decoded(line, _ALL_MEMBERS)
    return dict(zip(record, spans_of(record.values()), strict=True))


_ALL_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])

_Spans = Callable[[Iterable[msgspec.Raw]], list[tuple[int, int]]]


def _decoded(line: bytes, decoder: msgspec.json.Decoder[Any]) -> tuple[Any, _Spans]:
    """Return an object, and a function from values in it to where they are in the line."""
    try:
        decoded, record = line, decoder.decode(line)
    except msgspec.DecodeError:
        decoded = standard_json(line)
        if decoded == line:
            raise
        record = decoder.decode(decoded)
    begin = _address(decoded)

    def spans_of(values: Iterable[msgspec.Raw]) -> list[tuple[int, int]]:
        spans = []
        for value in values:
            # a slice of the line
            size = len(memoryview(value))
            start = _address(value) - begin if size else 0
            if decoded[start : start + size] != bytes(value):
                raise AssertionError("the value of a member was copied")
            spans.append((start, start + size))
        return spans

    return record, spans_of


def _address(view: bytes | msgspec.Raw) -> int:
    return int(np.frombuffer(view, np.uint8).ctypes.data)


PLACEHOLDERS = (b"0E0", b"\xff")
"""What values have in which ``standard_json`` replaced something, and hardly any other."""


def standard_json(line: bytes) -> bytes:
    r"""Return lines, of as many bytes, with numbers and bytes as placeholders for what JSON lacks.

    >>> standard_json(rb'["NaN", NaN, -Infinity, "\ud83d!", "\ud83d\ude00"]')
    b'["NaN", 0E0, -0E000000, "\xff\xff\xff\xff\xff\xff!", "\\ud83d\\ude00"]'
    """
    padded = np.frombuffer(line + bytes(_LONGEST_ESCAPE), np.uint8).copy()
    content = padded[: len(line)]
    escapes = escapes_in(content)
    quotes = np.flatnonzero(content == _QUOTE)
    quotes = quotes[~np.isin(quotes - 1, escapes)]
    ends = np.flatnonzero(content == _LINE_END)
    for found in _NO_NUMBER.finditer(line):
        start, stop = found.span()
        at = ends.searchsorted(start)
        begin = ends[at - 1] if at else 0
        if (quotes.searchsorted(start) - quotes.searchsorted(begin)) % 2 == 0:
            start += line.startswith(b"-", start)
            content[start:stop] = ord("0")
            content[start + 1] = ord("E")
    units = escapes[padded[escapes + 1] == _U]
    digits = padded[units[:, None] + np.arange(2, 6)] | 0x20
    # of a surrogate the first digit is D, the second from 8 on, of the second half from C on
    is_surrogate = (digits[:, 0] == ord("d")) & (digits[:, 1] >= ord("8"))
    is_surrogate &= np.isin(digits, _DIGITS).all(axis=1)
    is_low = is_surrogate & (digits[:, 1] >= ord("c"))
    is_high = is_surrogate & ~is_low
    follows = np.append(np.diff(units) == 6, False)[: units.size]
    is_pair = is_high & follows & np.append(is_low[1:], False)[: units.size]
    is_half = (is_high | is_low) & ~is_pair & ~np.append(False, is_pair[:-1])[: units.size]
    for unit in units[is_half].tolist():
        padded[unit : unit + 6] = 0xFF
    return content.tobytes()


def escapes_in(content: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return where the backslashes are that begin an escape, int64[e]."""
    slashes = np.flatnonzero(content == _BACKSLASH)
    # of several in a row the first, the third and so on begin an escape
    new = np.append(True, np.diff(slashes) != 1)[: slashes.size]
    index = np.arange(slashes.size)
    escapes: NDArray[np.int64] = slashes[
        (index - np.maximum.accumulate(np.where(new, index, 0))) % 2 == 0
    ]
    return escapes


@lru_cache(maxsize=4)
def members_decoder(names: Sequence[str]) -> msgspec.json.Decoder[Any]:
    """Return a decoder of lines that leaves members as they are in JSON: ``member_0`` and so on.

    To make one takes a millisecond, as much as to read a small file.
    """
    types = [(f"member_{number}", msgspec.Raw, msgspec.Raw()) for number in range(len(names))]
    rename = {f"member_{number}": name for number, name in enumerate(names)}
    return msgspec.json.Decoder(msgspec.defstruct("Members", types, rename=rename, gc=False))


def _as_json(members: pa.Table) -> pa.LargeStringArray:
    """Return each row as the text of members, without braces."""
    parts = []
    for name, column in zip(members.column_names, members.columns, strict=True):
        values = column.combine_chunks().dictionary_encode()
        texts = [msgspec.json.encode(value).decode() for value in values.dictionary.to_pylist()]
        json = pa.array([*texts, "null"], pa.large_string())
        chosen = json.take(values.indices.fill_null(len(texts)))
        key = pa.scalar(f"{msgspec.json.encode(name).decode()}:", pa.large_string())
        parts.append(pc.binary_join_element_wise(key, chosen, pa.scalar("", pa.large_string())))
    return pc.binary_join_element_wise(*parts, pa.scalar(",", pa.large_string()))
