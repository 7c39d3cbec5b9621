"""Untrusted text for display: dangerous characters are replaced, others stay."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.report.hostile_text import shown_name, shown_text

OVERRIDES = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
CONTROLLING = st.text(st.characters(categories=["Cc", "Cf", "Cs", "Cn", "Lo", "Nd"]), max_size=20)


@given(st.one_of(st.text(), CONTROLLING))
def test_each_character_is_kept_or_replaced(text):
    shown = shown_text(text)
    shown.encode()
    expected = text.replace("\r\n", "\n")
    assert len(shown) == len(expected)
    for character, seen in zip(expected, shown, strict=True):
        kind = unicodedata.category(character)
        direction = unicodedata.bidirectional(character)
        if kind == "Cc" and character < "\x80" and character not in "\t\n":
            assert "\u2400" <= seen <= "\u2421"
        elif (kind in ("Cs", "Cc") and character not in "\t\n") or direction in OVERRIDES:
            assert seen == REPLACEMENT
        elif kind not in ("Cf", "Cn"):
            assert seen == character
        assert seen in (character, REPLACEMENT) or unicodedata.name(seen).startswith("SYM")


def test_some_dangerous_characters():
    assert shown_text("a\r\nb\tc\rd\0") == "a\nb\tc␍d␀"
    assert shown_text("\u200e\u200f\u061c\ufeff\u00ad\u200d\ufffe\uffff\ufdd0") == (
        3 * REPLACEMENT + "\ufeff\u00ad\u200d" + 3 * REPLACEMENT
    )
    assert shown_text("e\N{COMBINING ACUTE ACCENT} שלום 中国 🏴\U000e0067") == (
        f"e\N{COMBINING ACUTE ACCENT} שלום 中国 🏴{REPLACEMENT}"
    )


@given(st.one_of(st.text(), CONTROLLING), st.integers(5, 30))
def test_a_name_is_one_short_line(name, most):
    shown = shown_name(name, most)
    assert len(shown) == min(len(name), most)
    assert "\n" not in shown
    assert "\t" not in shown
    if len(name) > most:
        before, _, behind = shown.partition("…")
        assert "/" in name or len(behind) == (most - 1) // 2 or "…" in name
        assert shown_name(name[: len(before)], 1 << 30).startswith(before)


def test_a_long_name_keeps_its_ends():
    assert shown_name("https://a.example/" + 300 * "x" + "/end.html\n", 24) == (
        "https://a.exa…/end.html␊"
    )
