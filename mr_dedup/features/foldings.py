"""Letters that are written in two ways, made one: parameters of the normalisation of texts.

None is on by default, since what is one letter in two ways in a language may be two in another.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

from mr_dedup.errors import not_one_of

_APOSTROPHE = "\u02bc"
_HAMZA_ABOVE, _HAMZA_BELOW = "\u0654\u0655"


def _run(first: int, last: int) -> str:
    return "".join(map(chr, range(first, last + 1)))


def _without(characters: str) -> dict[str, str]:
    return dict.fromkeys(characters, "")


_OF_PERSIAN = {
    "ك": "ک", "ي": "ی", "ى": "ی",
    **dict(zip(_run(0x0660, 0x0669), _run(0x06F0, 0x06F9), strict=True)),
}  # fmt: skip

FOLDINGS: Mapping[str, Mapping[str, str]] = {
    # a letter of Hawaiian, Uzbek, Ukrainian and others, and what is typed for it
    "apostrophe": dict.fromkeys("'`\u00b4\u1ffd‘’‛′\u02b9ʻʽʾʿꞋꞌ", _APOSTROPHE),
    # signs of vowels, of doubled letters and for reading aloud; tatweel; alef wasla
    "arabic-marks": {
        **_without(
            _run(0x0610, 0x061A) + "\u0640" + _run(0x064B, 0x0652) + _run(0x0656, 0x065F)
            + "\u0670" + _run(0x06D6, 0x06DC) + _run(0x06DF, 0x06E4) + "\u06e7\u06e8"
            + _run(0x06EA, 0x06ED)
        ),
        "ٱ": "ا",
    },
    "hamza": dict.fromkeys(("ا" + _HAMZA_ABOVE, "ا" + _HAMZA_BELOW), "ا"),
    # signs of vowels and for reading aloud, but no punctuation
    "hebrew-points": _without(
        "".join(c for c in _run(0x0591, 0x05C7) if unicodedata.combining(c))
    ),
    # ARABIC LETTER YEH, ALEF MAKSURA and KAF, Arabic digits, heh with a hamza
    "persian": {**_OF_PERSIAN, "ه" + _HAMZA_ABOVE: "ۀ"},
    "romanian": {"s\u0327": "ș", "t\u0327": "ț"},
    "russian": {"е\u0308": "е"},
    # I without a dot or an accent is the capital of ı, with a dot that of i
    "turkish": {
        "I": "ı", "İ": "ı\u0307", "ı\u0307": "i",
        **{
            "ı" + mark: unicodedata.normalize("NFC", "i" + mark)
            for mark in "\u0300\u0301\u0302\u0303\u0304\u0306\u0308\u0309\u030c\u030f\u0311"
            "\u0323\u0328\u0330"
        },
    },
    "urdu": {**_OF_PERSIAN, "ه": "ہ", "ە" + _HAMZA_ABOVE: "ۂ"},
}  # fmt: skip
"""What each folding makes of characters, and of letters with a mark, in form D."""

FORMS = ("nfkc", "nfc", "none")


def checked_normalization(normalize: str) -> str:
    """Return the name of a normalisation in its one form: its foldings in order, each once.

    Raises:
        ValueError: For an unknown form or folding.

    Example:
        >>> checked_normalization("nfkc+persian+hamza")
        'nfkc+hamza+persian'
    """
    form, *names = normalize.split("+")
    if form not in FORMS:
        raise ValueError(f"normalize must be {not_one_of(form, FORMS)}")
    if names and form != "nfkc":
        raise ValueError(f"normalize must be nfkc where letters are folded, not {normalize!r}")
    for name in names:
        if name not in FOLDINGS:
            raise ValueError(
                f"normalize must be nfkc and after each + {not_one_of(name, tuple(FOLDINGS))}"
            )
    return "+".join([form, *sorted(set(names))])
