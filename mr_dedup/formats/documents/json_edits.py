"""Replace parts of the text of a JSON line, and nothing else of the line."""

from __future__ import annotations

from string import hexdigits

import msgspec
import numpy as np
from numpy.typing import NDArray

from mr_dedup.formats.documents.json_members import escapes_in, member_spans

_DIGITS = np.array([int(chr(byte), 16) if chr(byte) in hexdigits else 0 for byte in range(256)])
"""The value of each byte as a hexadecimal digit."""


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
    ((start, stop),) = member_spans(line, [name])
    return (start, stop) if line[start : start + 1] == b'"' else None


def offsets_in_string(string: bytes, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where in a string of JSON offsets in its text are.

    Args:
        string: With its quotes.
        offsets: int64[c], bytes of the text in UTF-8, at edges of characters.

    Example:
        >>> offsets_in_string(rb'"a\\nb\\u00e9c"', np.array([0, 1, 2, 3, 5, 6])).tolist()
        [1, 2, 4, 5, 11, 12]
    """
    content = np.frombuffer(string, np.uint8)
    escapes = escapes_in(content)
    if not escapes.size:
        return offsets + 1
    surplus = np.ones(escapes.size, np.int64)
    is_code = content[escapes + 1] == ord("u")
    surplus[is_code] = _surplus_of_codes(content, escapes[is_code])
    before = np.append(0, np.cumsum(surplus))
    found: NDArray[np.int64] = offsets + 1
    found += before[np.searchsorted(escapes - 1 - before[:-1], offsets)]
    return found


def _surplus_of_codes(content: NDArray[np.uint8], escapes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many bytes fewer than the 6 of each escape its character has in UTF-8."""
    digits = _DIGITS[content[escapes[:, None] + np.arange(2, 6)]]
    codes = digits @ np.array([1 << 12, 1 << 8, 1 << 4, 1])
    size = 1 + (codes >= 0x80) + (codes >= 0x800)
    # two for one character of 4 bytes, all of which the second one has
    size[(codes >= 0xD800) & (codes < 0xDC00)] = 0
    size[(codes >= 0xDC00) & (codes < 0xE000)] = 4
    surplus: NDArray[np.int64] = 6 - size
    return surplus


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
