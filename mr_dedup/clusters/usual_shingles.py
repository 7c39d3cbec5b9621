"""What texts are compared by if nobody says."""

AUTO_SHINGLES = "auto"

_SHINGLES, _CJK_SHINGLES = "words:3", "words:5"
"""Of CJK, where each character is a word, more."""

_CJK_SHARE = 1 / 3
"""Of the bytes, from which on half of the words or more are CJK characters."""


def usual_shingles(cjk_bytes: int, text_bytes: int) -> str:
    """Return the shingles for texts of ``text_bytes``, of which ``cjk_bytes`` are CJK's."""
    return _CJK_SHINGLES if cjk_bytes > _CJK_SHARE * text_bytes else _SHINGLES
