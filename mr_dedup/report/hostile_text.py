"""Text of pages made fit to be shown: whatever it holds, it changes nothing but itself.

Escaping is left to the template. What it lets through and should not act is replaced here:
control characters, halves of surrogate pairs, and what changes the direction of text.
"""

from __future__ import annotations

import re

_PICTURES = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
"""Control characters, by what shows them: a zero byte by the symbol for one."""

_TEXT_PICTURES = {code: picture for code, picture in _PICTURES.items() if chr(code) not in "\t\n"}

# controls of Latin 1, marks and overrides of direction, surrogates, no characters, interlinear
# annotation, and the tag characters, which spell text that nobody sees
_UNSHOWN = re.compile(
    "[\x80-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef"
    "\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def shown_text(text: str) -> str:
    """Return ``text`` as it is shown, lines and tabs kept. CR LF is a line's end as LF is."""
    plain = text.replace("\r\n", "\n").translate(_TEXT_PICTURES)
    return _UNSHOWN.sub(_REPLACEMENT, plain)


def shown_name(name: str, most: int = 200) -> str:
    """Return ``name`` on one line; of a longer one than ``most`` characters the two ends."""
    if len(name) > most:
        name = f"{name[: most - most // 4 - 1]}…{name[-(most // 4) :]}"
    return _UNSHOWN.sub(_REPLACEMENT, name.translate(_PICTURES))
