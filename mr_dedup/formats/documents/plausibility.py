"""Which characters of a text are implausible, as of bytes that were decoded in a wrong encoding.

Words are of one script, and of one case after their first letter; letters with accents, symbols
and rare characters are rare. That holds in all languages, and no frequencies of letters are needed.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from functools import cache

# l, a, c, g: small letters of ASCII, other Latin, Cyrillic, Greek; L, A, C, G: capital ones;
# h, r, t: Hebrew, Arabic, Thai; k, z, o: kana, hanzi, hangul; f, Z, O: those of them that are
# rare; u: other scripts; p: punctuation; q: that before words; s: symbols; m: combining
# characters; n, v: marks of Thai letters, vowels before them; x: what is no character
_SCRIPTS = [
    (0x00, "l"), (0x80, "a"), (0x250, "u"), (0x370, "g"), (0x400, "c"), (0x530, "u"),
    (0x591, "h"), (0x600, "r"), (0x700, "u"), (0xE00, "t"), (0xE80, "u"), (0x1E00, "a"),
    (0x1F00, "g"), (0x2000, "u"), (0x3005, "k"), (0x3100, "u"), (0x3400, "z"), (0xA000, "u"),
    (0xAC00, "o"), (0xD7A4, "u"), (0xF900, "Z"), (0xFB00, "u"), (0xFF21, "p"), (0xFF61, "f"),
    (0xFFA0, "u"), (0x20000, "Z"), (0x30000, "u"),
]  # fmt: skip
_SCRIPT_STARTS = [start for start, _ in _SCRIPTS]

_IMPLAUSIBLE = re.compile(
    # not a character; a rare one
    "[xuZO]"
    # a symbol beside a letter, a capital after a small one
    "|(?<=[aAcCgGhrtkzo])s|(?<=[lLaAcCgGhrt])q|(?<=[lL])s(?=[lLaA])|s(?=[aAcCgGhrtkzo])"
    "|(?<=[alm])A|(?<=a)L|(?<=c)C|(?<=g)G"
    # two scripts in a word
    "|(?<=[lLaA])[cCgGhrt]|(?<=[cCgGhrt])[lLaA]|(?<=[cC])[gGhrt]|(?<=[gG])[cChrt]"
    "|(?<=[hrt])[cCgG]|(?<=[hr])t|(?<=h)r|(?<=r)h|(?<=t)[hr]"
    "|(?<=[aAcCgGhrt])[kzof]|(?<=[kzof])[aAcCgGhrt]"
    "|(?<=[kzZ])f|(?<=f)[kzZ]|(?<=k)o|(?<=o)[kf]|(?<=zo)z|(?<=oz)o|ff"
    # one or two characters of East Asia in a word of Latin
    "|(?<=[lL])[zko](?=[zko]?l)"
    # as no word begins or goes on
    "|(?<=[aA]{3})[aA]|(?<![lLaAcCgGm])m|(?<![tn])n|(?<=nn)n|v(?!t)"
)
_KANA = re.compile("k")


def implausible_share(text: str, *, has_kana: bool = True, of_all: bool = False) -> float:
    """Return the share of the characters beyond ASCII that are implausible.

    Args:
        text: what was decoded.
        has_kana: whether kana is plausible; else only fullwidth punctuation of Japanese is.
        of_all: whether of all characters, of those of ASCII too.
    """
    kinds = text.translate({ord(character): _kind(character) for character in set(text)})
    beyond_ascii = len(text) if of_all else sum(map("\x7f".__lt__, text))
    found = len(_IMPLAUSIBLE.findall(kinds))
    if not has_kana:
        found += len(_KANA.findall(kinds))
    return found / beyond_ascii if beyond_ascii else float(found > 0)


@cache
def _kind(character: str) -> str:
    category = unicodedata.category(character)
    if category in ("Cc", "Cn", "Co", "Cs") or character == "\ufffd":
        return " " if character in "\b\t\n\f\r\x1b" else "x"
    if character < "\x80":
        return ("L" if category == "Lu" else "l") if category[0] == "L" else " "
    if category[0] == "S" or character in "ªº¶§²³¹¼½¾" or "\u0e50" <= character <= "\u0e59":
        return "s"
    if character in "¿¡":
        return "q"
    if category[0] in "PZN" or category == "Cf":
        return "f" if "\uff61" <= character <= "\uff65" else "p"
    if "\u0300" <= character <= "\u036f":
        return "m"
    if "\u0e00" <= character < "\u0e80":
        return "v" if "\u0e40" <= character <= "\u0e44" else "n" if category == "Mn" else "t"
    kind = _SCRIPTS[bisect_right(_SCRIPT_STARTS, ord(character)) - 1][1]
    if kind == "z":
        return "z" if character in _common() else "Z"
    if kind == "o":
        return "o" if character in _common() else "O"
    return kind.upper() if category in ("Lu", "Lt") and kind in "acg" else kind


@cache
def _common() -> frozenset[str]:
    """Return the common ones of the characters of East Asia, as their standards arrange them."""

    def row(encoding: str, first: int, last: int, begin: int = 0xA1, end: int = 0xFE) -> str:
        pairs = [bytes((a, b)) for a in range(first, last + 1) for b in range(begin, end + 1)]
        return b"".join(pairs).decode(encoding, "ignore")

    return frozenset(
        row("gb2312", 0xB0, 0xD7)
        + row("euc_jp", 0xB0, 0xCF)
        + row("euc_kr", 0xB0, 0xC8)
        + row("big5", 0xA4, 0xC6, 0x40, 0x7E)
        + row("big5", 0xA4, 0xC6)
        + "々〆〇"
    )
