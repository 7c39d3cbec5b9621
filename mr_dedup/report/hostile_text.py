"""Replace characters of untrusted text that could affect how the page around it is displayed.

The template escapes markup. Replaced here are control characters, lone surrogates, and marks and
overrides of text direction.
"""

from __future__ import annotations

import re

_PICTURES = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
"""The visible symbol of each control character."""

_TEXT_PICTURES = {code: picture for code, picture in _PICTURES.items() if chr(code) not in "\t\n"}

# controls of Latin 1, marks and overrides of direction, surrogates, noncharacters, interlinear
# annotation, and tag characters, which are invisible
_INVISIBLE = re.compile(
    "[\x80-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef"
    "\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def shown_text(text: str) -> str:
    """Return ``text`` for display, with its line breaks (LF or CR LF) and tabs."""
    plain = text.replace("\r\n", "\n").translate(_TEXT_PICTURES)
    return _INVISIBLE.sub(_REPLACEMENT, plain)


def shown_name(name: str, max_characters: int = 100) -> str:
    """Return ``name`` for display on one line; of a longer one the beginning and the end.

    Of a path the end is of whole names, if these are short enough.

    >>> shown_name("a" * 20, max_characters=8)
    'aaaa…aaa'
    >>> shown_name("site/articles/of/2024/page-17.html", max_characters=29)
    'site/articles/o…/page-17.html'
    """
    if len(name) > max_characters:
        tail = name[-((max_characters - 1) // 2) :]
        tail = tail[max(0, tail.find("/")) :]
        head = name[: max_characters - 1 - len(tail)]
        name = f"{head}…{tail}"
    return _INVISIBLE.sub(_REPLACEMENT, name.translate(_PICTURES))
