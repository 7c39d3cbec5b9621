"""Features of texts against a slow oracle that shares nothing with the kernels."""

import sys
import unicodedata

import numpy as np
import pytest
import regex
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.features import unicode_table as table_module
from mr_dedup.features.options import MAX_LENGTH, UNITS, WEIGHTINGS, FeatureOptions
from mr_dedup.features.shingles import features_of
from mr_dedup.features.unicode_table import (
    CHARACTER,
    KIND,
    KIND_BITS,
    MARK,
    OTHER,
    SYMBOL,
    WORD,
    unicode_table,
)
from tests.features import text_oracle
from tests.strategies import KNOWN

WITHOUT_IDF = [name for name in WEIGHTINGS if not name.endswith("-idf")]
PIECES = ["Word ", "Straße", "中", "文", "x" * 63, " ", "—", "e\u0301"]
texts = st.one_of(
    st.text(KNOWN, max_size=40),
    st.text(st.sampled_from("aB9 _-中文。éßİſ\u0301\n\t\0𝔘𠀀한あｱ"), max_size=300),
    st.lists(st.sampled_from(PIECES), max_size=60).map("".join),
)
options = st.builds(
    FeatureOptions, st.sampled_from(UNITS), st.integers(1, 5), st.sampled_from(WITHOUT_IDF),
    normalize=st.sampled_from([*text_oracle.NORMALIZE]),
)  # fmt: skip


def compare(text, chosen):
    found = features_of(text, chosen)
    expected = text_oracle.weighted(
        text, chosen.unit, chosen.length, chosen.weighting, normalize=chosen.normalize
    )
    assert found.shingles == tuple(expected)
    assert found.weights.tolist() == [units / 64 for units in expected.values()]
    hashes = [xxhash.xxh3_64_intdigest(shingle.encode()) for shingle in expected]
    assert found.hashes.tolist() == hashes


@given(texts, options)
def test_any_text_equals_the_oracle(text, chosen):
    compare(text, chosen)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("shift", range(70))
def test_tokens_across_the_edges_of_blocks_equal_the_oracle(unit, shift):
    """ASCII goes 64 bytes at a time: every way for a token, or another script, to lie across."""
    for filler in ("ab, ", "x", "é ", "中"):
        text = "-" * shift + filler * 40 + "LONG" * 30 + " ende " + "中文x" + "q" * shift
        compare(text, FeatureOptions(unit, 2, "tf"))


@pytest.mark.parametrize(
    ("text", "shingles"),
    [
        ("The CAT, the hat", ("the", "cat", "hat")),
        ("don't re-do_it 3.5", ("don", "t", "re", "do", "it", "3", "5")),
        ("Straße ΣΊΣΥΦΟΣ Ünïcode", ("strasse", "σίσυφοσ", "ünïcode")),
        ("我们是 ABC中国", ("我", "们", "是", "abc", "中", "国")),
        ("カタカナひらがな", ("カ", "タ", "ナ", "ひ", "ら", "が", "な")),
        ("한국어 텍스트", ("한국어", "텍스트")),
        ("e\u0301te\u0301", ("été",)),
        ("", ("",)),
        (" .,;-—\n\0", (" .,;-—\n\0",)),
        ("-----", ("-----",)),
        ("🙂🙃 ", ("🙂🙃 ",)),
        ("\u200b\u200d", ("",)),
        ("データ々〆", ("デ", "ー", "タ", "々", "〆")),
        ("か\u309bき", ("か", "\u3099", "き")),
        ("ภาษาไทย น้ำ", ("ภ", "า", "ษ", "ไ", "ท", "ย", "น้\u0e4d")),
        ("កម្ពុជា", ("ក", "ម្", "ពុ", "ជា")),
        ("မြန်မာ", ("မြ", "န်", "မ", "ာ")),
        ("བོད་སྐད", ("བོ", "ད", "སྐ")),
        ("ไทยabc\u0e34", ("ไ", "ท", "ย", "abc\u0e34")),
        ("中\u0301a\u0301 \u0301", ("中\u0301", "á", "\u0301")),
    ],
)
def test_words(text, shingles):
    assert features_of(text, FeatureOptions("words", 1, "tf")).shingles == shingles


@pytest.mark.parametrize(
    ("text", "unit", "length", "shingles"),
    [
        ("a b c", "words", 2, ("a b", "b c")),
        ("a b", "words", 3, ("a b",)),
        ("我们ab是", "words", 2, ("我们", "们 ab", "ab 是")),
        ("a, b", "characters", 2, ("a ", " b")),
        ("我们 是", "characters", 2, ("我们", "们是")),
        ("ab", "characters", 5, ("ab",)),
        ("a b c d", "auto", 1, ("a b c", "b c d")),
        ("a b", "auto", 1, ("a b",)),
        ("我们是中国人", "auto", 1, ("我们是中国", "们是中国人")),
        ("我们是中", "auto", 1, ("我们是中",)),
        ("a b 我，们是 c d", "auto", 1, ("a b 我们", "b 我们是 c", "我们是 c d", "们是 c d")),
        ("a b c d 我们", "auto", 1, ("a b c", "b c d", "c d 我们")),
        ("a b c 我们", "auto", 1, ("a b c", "b c 我们")),
        ("a 我 b 我 c", "auto", 1, ("a 我 b", "我 b 我", "b 我 c")),
        ("น้ำดีใจ", "auto", 1, ("น้\u0e4dาดีใจ",)),
    ],
)
def test_shingles(text, unit, length, shingles):
    assert features_of(text, FeatureOptions(unit, length, "tf")).shingles == shingles


def mixed(words, characters, changed=()):
    """An English text with one Chinese part in its middle."""
    english = [f"changed{i}" if i in changed else f"word{i * i}" for i in range(words)]
    chinese = "".join(chr(0x4E00 + 7 * i) for i in range(characters))
    return " ".join((*english[: words // 2], chinese, *english[words // 2 :]))


def by_script(text):
    return set(features_of(text, FeatureOptions("auto")).shingles)


def similarity(*texts):
    """The Jaccard index of the shingles by script of two texts."""
    one, other = map(by_script, texts)
    return len(one & other) / len(one | other)


@pytest.mark.parametrize("characters", [0, 1, 2, 54, 55, 56, 100, 300])
def test_texts_of_two_scripts_equal_the_oracle(characters):
    compare(mixed(500, characters), FeatureOptions("auto", weighting="tf"))


@pytest.mark.parametrize("characters", [0, 10, 50, 60, 80, 100, 200, 2000])
def test_a_small_change_changes_few_shingles_whatever_the_share_of_scripts(characters):
    text = mixed(500, characters)
    assert similarity(text, mixed(500, characters, changed={250})) > 0.97
    assert similarity(text, mixed(498, characters)) > 0.96
    assert similarity(text, mixed(500, characters + 8)) > 0.96


def test_a_part_of_another_script_changes_as_many_shingles_as_it_has_tokens():
    assert similarity(mixed(500, 0), mixed(500, 50)) > 0.89


TOKENS = ("中文字汉语的是", "ไทยกขค", "カナかな", ("a", "word", "été", "слово", "한국", "7"))


@st.composite
def token_lists(draw):
    """Up to a hundred tokens, in stretches of one script, or of tokens of any."""
    anything = [token for script in TOKENS for token in script]
    stretches = draw(
        st.lists(
            st.sampled_from([*TOKENS, anything]).flatmap(
                lambda tokens: st.lists(st.sampled_from(tokens), max_size=20)
            ),
            max_size=6,
        )
    )
    return [token for stretch in stretches for token in stretch]


def joined(tokens):
    """A text of tokens; those of a script with spaces have some beside them."""
    return "".join(f" {token} " if token in TOKENS[-1] else token for token in tokens)


@given(token_lists(), st.data())
def test_each_changed_token_changes_few_shingles(tokens, data):
    anything = st.sampled_from([token for script in TOKENS for token in script])
    edits = data.draw(st.lists(st.tuples(st.sampled_from("idc"), st.floats(0, 1)), max_size=4))
    changed = list(tokens)
    for edit, at in edits:
        place = int(at * len(changed))
        end = place + (edit != "i")
        changed[place:end] = [] if edit == "d" else [data.draw(anything)]
    # of the seven runs that a token and its neighbours are in
    different = by_script(joined(tokens)) ^ by_script(joined(changed))
    assert len(different) <= 15 * len(edits)


@pytest.mark.parametrize("symbols", [False, True])
def test_the_table_equals_what_this_python_knows(symbols):
    pages, entries = unicode_table(symbols=symbols)
    exact = unicodedata.unidata_version == table_module.UNICODE_VERSION
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if not exact and unicodedata.category(character) == "Cn":
            continue
        entry = int(entries[int(pages[code >> 8]) << 8 | code & 255])
        kind = WORD if text_oracle.is_in_token(character) else OTHER
        kind = MARK if text_oracle.is_mark(character) else kind
        kind = CHARACTER if text_oracle.stands(character) else kind
        shown = text_oracle.fold(character)
        if text_oracle.is_symbol(character):
            shown = text_oracle.fold_symbol(character) if symbols else character
            kind = SYMBOL if symbols else OTHER
        if not 0xFDD0 <= code < 0xFDF0:
            assert (entry & KIND, code + (entry >> KIND_BITS)) == (kind, ord(shown)), code


def test_the_table_is_the_frozen_one():
    """Another table would give other fingerprints than those that users have kept."""
    pages, entries = unicode_table(symbols=True)
    content = pages.astype("<u2").tobytes() + entries.astype("<i4").tobytes()
    assert xxhash.xxh3_64_hexdigest(content) == "cbe86679a56f0a0d"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("words", FeatureOptions("words", 1)),
        ("words:3", FeatureOptions("words", 3)),
        ("characters:4", FeatureOptions("characters", 4)),
    ],
)
def test_options_are_parsed(name, expected):
    assert FeatureOptions.parse(name) == expected


@pytest.mark.parametrize(
    "name", ["", "lines", "words:", "words:x", "words:-1", "words:0", "words:2:3"]
)
def test_options_that_do_not_exist_are_refused(name):
    with pytest.raises(ValueError, match=r"unit must be|length must be|features are"):
        FeatureOptions.parse(name)


def test_misuse_is_named():
    with pytest.raises(ValueError, match=f"length must be from 1 to {MAX_LENGTH}, not 65"):
        FeatureOptions("words", MAX_LENGTH + 1)
    with pytest.raises(ValueError, match=r"weighting must be one of binary, tf, .*, not 'idf'"):
        FeatureOptions("words", 1, "idf")
    with pytest.raises(ValueError, match="normalize must be one of nfkc, nfc, none, not 'nfd'"):
        FeatureOptions(normalize="nfd")
    with pytest.raises(ValueError, match="character 1 is a lone surrogate"):
        features_of("a\ud800", FeatureOptions())


def test_a_feature_weighs_no_more_after_4095_occurrences():
    chosen = FeatureOptions("words", 1, "log-tf")
    assert features_of("a " * 5000, chosen).weights == features_of("a " * 4095, chosen).weights
    assert features_of("a " * 4094, chosen).weights < features_of("a " * 4095, chosen).weights + 1
    assert np.diff(FeatureOptions("words", 1, "log-tf").steps).max() <= 1


SCRIPTS = {
    "Thai": (0x0E01, 0x0E4E), "Lao": (0x0E81, 0x0ECE), "Khmer": (0x1780, 0x17D3),
    "Myanmar": (0x1000, 0x109D), "Tibetan": (0x0F40, 0x0FBC), "Javanese": (0xA980, 0xA9C0),
    "Balinese": (0x1B00, 0x1B44), "Tai Tham": (0x1A20, 0x1A7C), "Tai Viet": (0xAA80, 0xAAC2),
    "Yi": (0xA000, 0xA48C), "Kana": (0x3041, 0x3096),
}  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS)
@given(data=st.data())
def test_scripts_without_spaces_are_cut_into_grapheme_clusters(script, data):
    letters = st.characters(
        categories=["L", "M"], min_codepoint=SCRIPTS[script][0], max_codepoint=SCRIPTS[script][1]
    )
    text = data.draw(
        st.text(letters, min_size=1, max_size=30).filter(lambda it: not is_first_a_mark(it))
    )
    found = features_of(text, FeatureOptions("words", 1, "tf", normalize="nfc"))
    # later versions of Unicode do not cut behind a virama, 15.1 does
    expected = "".join(map(text_oracle.fold, unicodedata.normalize("NFC", text)))
    clusters = [
        piece
        for cluster in regex.findall(r"\X", expected)
        for piece in regex.split(r"(?V1)(?<=.)(?=\p{InCB=Consonant})", cluster)
    ]
    assert found.shingles == tuple(dict.fromkeys(clusters))


def is_first_a_mark(text):
    return text != "" and text_oracle.is_mark(text[0])
