"""Replace parts of the text of a JSON line, and nothing else of the line."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[^u]"
)


def text_member(line: bytes, name: str) -> tuple[int, int] | None:
    """Return where in a line the string of a member begins and ends, with its quotes.

    Of several members of the name that is the last one, as readers take it. None if the line has
    none, or another value.

    Raises:
        ValueError: If the line is not an object in JSON.

    Example:
        >>> line = b'{"a": {"text": 1}, "text": "x"}'
        >>> start, stop = text_member(line, "text")
        >>> line[start:stop]
        b'"x"'
    """
    value = memoryview(_decoder(name).decode(line).member)
    if bytes(value[:1]) != b'"':
        return None
    # the value is a slice of the line
    start = _address(value) - _address(memoryview(line))
    stop = start + len(value)
    if line[start:stop] != bytes(value):
        raise AssertionError("the value of a member was copied")
    return start, stop


@lru_cache(maxsize=4)
def _decoder(name: str) -> msgspec.json.Decoder[Any]:
    """Return a decoder of one member, as readers have: what else is in a line it skips."""
    members = [("member", msgspec.Raw, msgspec.Raw())]
    return msgspec.json.Decoder(msgspec.defstruct("Record", members, rename={"member": name}))


def _address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).ctypes.data)


def offsets_in_string(string: bytes, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where in a string of JSON offsets in its text are.

    Args:
        string: With its quotes.
        offsets: int64[c], bytes of the text in UTF-8, at edges of characters.

    Example:
        >>> offsets_in_string(rb'"a\\nb\\u00e9c"', np.array([0, 1, 2, 3, 5, 6])).tolist()
        [1, 2, 4, 5, 11, 12]
    """
    if b"\\" not in string:
        return offsets + 1
    # after each escape: how many bytes more the string has than the text so far
    ends, more = [0], [0]
    surplus = 0
    for escape in _ESCAPE.finditer(string):
        surplus += len(escape[0]) - _size_of(escape[0])
        ends.append(escape.end() - 1 - surplus)
        more.append(surplus)
    at = np.searchsorted(np.array(ends), offsets, "right") - 1
    found: NDArray[np.int64] = offsets + 1 + np.array(more)[at]
    return found


def _size_of(escape: bytes) -> int:
    """Return the bytes of what an escape stands for."""
    if len(escape) == 2:
        return 1
    if len(escape) == 12:
        return 4
    code = int(escape[2:], 16)
    return 1 if code < 0x80 else 2 if code < 0x800 else 3


def added_member(line: bytes, name: str, text: str) -> tuple[int, bytes]:
    """Return where in a line, of an object with members, one is to be added, and its bytes.

    Raises:
        ValueError: If the line does not end as an object does.

    Example:
        >>> at, member = added_member(b'{"html": "<p>a"}\\n', "text", "a")
        >>> at, member
        (15, b',"text":"a"')
    """
    at = line.rindex(b"}")
    return at, b"," + msgspec.json.encode({name: text})[1:-1]
