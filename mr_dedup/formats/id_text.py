r"""Ids as fields of text files: one field on one line, and every id another field.

TAB, CR and LF are written as ``\t``, ``\r`` and ``\n``. Backslashes are doubled where these escapes
could be mistaken: in a run of backslashes before a TAB, CR, LF or a letter t, r or n. All other
backslashes stay as they are, so that most ids that have some, as ``C:\Users``, are their own field.
Every field without TAB, CR and LF is one of exactly one id: a file that is read and written again
has the same fields.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_ESCAPES = {"\t": r"\t", "\r": r"\r", "\n": r"\n"}
_CHARACTERS = {"t": "\t", "r": "\r", "n": "\n"}

_AMBIGUOUS = r"(\\+)([trn\t\r\n])"
_ESCAPED = r"(\\+)([trn])"
"""For RE2, which is linear in its input whatever the pattern."""

_RUN = re.compile(r"(\\+)([trn\t\r\n]?)")
"""For Python's re: it consumes each run of backslashes, so that none is read twice."""


def escape_ids(ids: pa.LargeStringArray) -> pa.LargeStringArray:
    r"""Return ids as fields of text; null stays null.

    Args:
        ids: large_string[n].

    Examples:
        >>> import pyarrow as pa
        >>> for field in escape_ids(pa.array(["a\tb", r"a\tb", r"C:\Users"], pa.large_string())):
        ...     print(field)
        a\tb
        a\\tb
        C:\Users
    """
    import pyarrow.compute as pc

    ids = pc.replace_substring_regex(ids, _AMBIGUOUS, r"\1\1\2")
    for character, escape in _ESCAPES.items():
        ids = pc.replace_substring(ids, character, escape)
    return ids


def unescape_ids(fields: pa.LargeStringArray) -> pa.LargeStringArray:
    r"""Return the ids of fields that ``escape_ids`` made; null stays null.

    Args:
        fields: large_string[n].

    Examples:
        >>> import pyarrow as pa
        >>> unescape_ids(pa.array([r"a\tb", r"a\\tb"], pa.large_string())).to_pylist()
        ['a\tb', 'a\\tb']
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    has_escapes = pc.fill_null(pc.match_substring_regex(fields, _ESCAPED), False)
    if not pc.any(has_escapes).as_py():
        return fields
    escaped = fields.filter(has_escapes).to_pylist()
    ids = pa.array([unescape_id(field) for field in escaped], fields.type)
    return pc.replace_with_mask(fields, has_escapes, ids)


def escape_id(id: str) -> str:
    """Return one id as a field of text."""
    id = _RUN.sub(_doubled, id)
    for character, escape in _ESCAPES.items():
        id = id.replace(character, escape)
    return id


def unescape_id(field: str) -> str:
    """Return the id of one field."""
    return _RUN.sub(_unescaped, field)


def _doubled(found: re.Match[str]) -> str:
    run, character = found[1], found[2]
    return run + run + character if character else run


def _unescaped(found: re.Match[str]) -> str:
    run, letter = found[1], found[2]
    if letter not in _CHARACTERS:
        return run + letter
    kept = "\\" * (len(run) // 2)
    return kept + (_CHARACTERS[letter] if len(run) % 2 else letter)
