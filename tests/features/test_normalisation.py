"""Normalisation against Python's own, of every character and of sequences."""

import random
import sys
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
import regex
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.features import normalisation_table as table_module
from mr_dedup.features.foldings import FOLDINGS
from mr_dedup.features.normalisation import normalised
from mr_dedup.features.normalisation_table import normalisation_table
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingles import features_of
from tests.features import text_oracle

# what this Python knows: the frozen table may know more
KNOWN = [
    character for character in map(chr, range(sys.maxunicode + 1))
    if unicodedata.category(character) not in ("Cn", "Cs")
]  # fmt: skip
MARKS = [character for character in KNOWN if unicodedata.combining(character)]
DECOMPOSED = [character for character in KNOWN if unicodedata.decomposition(character)]
JAMO = list("\u1100\u1112\u1161\u1175\u11a7\u11a8\u11c2가각힣ㄱㅏ\uffa1\uffc2")
PLAIN = ["a", "E", "o", "s", "I", "<", "=", " ", "中", "。", "…", "\u00a0", "！", "ß", "İ", "ſ"]
FOLDED = [
    *"Iıi'’ʻ‘`ʼeстsşșţțأإآاكيىیکهۀةە٤۴ےЁеЕ",
    *"\u0327\u0307\u0654\u0655\u064e\u05b0\u05c1\ufb31\u0640\ufe7d\u0670",
]
SPECIAL = ["\u00ad", "\u200d", "\u034f", "\ufe0f", "\u0345", "ᾳ", "ᾀ", "\u3099", "\uff9e", "ﷺ"]
sequences = st.text(
    st.one_of(*map(st.sampled_from, (MARKS, DECOMPOSED, JAMO, PLAIN, SPECIAL, FOLDED))), max_size=30
)
FORMS = {name: form for name, form in text_oracle.NORMALIZE.items() if name != "none"}


# words that differ in meaning by a letter of their language, which its folding must keep apart
MEANINGS = {
    "apostrophe": [
        ("ʻai", "ai"), ("koʻu", "kou"), ("ko'u", "kou"), ("paʻu", "pau"), ("oʻt", "ot"),
        ("soʻl", "sol"), ("gʻor", "gor"), ("пʼять", "пять"),
    ],
    "arabic-marks": [
        ("علي", "على"), ("كلب", "قلب"), ("سأل", "سال"), ("آن", "أن"), ("أن", "إن"),
    ],
    "hamza": [("آن", "أن"), ("قران", "قرآن"), ("رؤوس", "روس"), ("مئة", "مية"), ("علي", "على")],
    "hebrew-points": [("כל", "קל"), ("את", "עת"), ("אם", "עם"), ("כתב", "קטב")],
    "persian": [("کار", "گار"), ("آن", "ان"), ("بار", "پار"), ("جای", "چای"), ("خانۀ", "خانه")],
    "romanian": [
        ("fată", "fata"), ("pește", "peste"), ("peşte", "peste"), ("roți", "roti"), ("și", "si"),
    ],
    "russian": [("мой", "мои"), ("все", "вся"), ("стой", "стои")],
    "turkish": [
        ("sınır", "sinir"), ("SINIR", "SİNİR"), ("SINIR", "sinir"), ("kız", "kiz"), ("aşı", "ası"),
        ("ılık", "ilik"), ("kırk", "kirk"), ("olmak", "ölmek"),
    ],
    "urdu": [("گھر", "گہر"), ("پر", "بر"), ("کہا", "کھا"), ("اس", "اُس"), ("ملے", "ملی")],
}  # fmt: skip
# words of a language that a folding is not for, which it makes one
NOT_FOR = {
    "arabic-marks": ("اس", "اُس"),  # Urdu: this and that
    "hamza": ("أن", "إن"),
    "hebrew-points": ("אַ", "אָ"),  # Yiddish
    "persian": ("سړی", "سړي"),  # Pashto: a man and men
    "russian": ("все", "всё"),
}
SAME = {
    "apostrophe": [
        "oʻzbek",
        "o'zbek",
        "o‘zbek",
        "o’zbek",
        "O`ZBEK",
        "oʼzbek",
        "o\uff07zbek",
        "o´zbek",
    ],
    "arabic-marks": ["الرحمن", "ٱلرَّحْمَـٰن", "الرحمـــن", "الرحمٰن"],
    "hamza": ["احمد", "أحمد", "ا\u0654حمد"],
    "hebrew-points": ["בראשית", "בְּרֵאשִׁ֖ית", "ברא\ufb2aית"],
    "persian": ["کتابی ۴۵", "كتابي ٤٥", "كتابى ۴۵"],
    "romanian": ["știință", "ştiinţă", "ŞTIINŢĂ", "s\u0327tiint\u0327ă"],
    "russian": ["ёлка", "елка", "ЁЛКА", "е\u0308лка"],
    "turkish": ["ışık için millî", "IŞIK İÇİN MİLLÎ", "IŞIK I\u0307ÇI\u0307N MI\u0307LLÎ"],
    "urdu": ["کہیں", "كهيں", "کهیں"],
}


MANY_MARKS = regex.compile(r"\p{M}[\p{Default_Ignorable_Code_Point}\u0640]*\p{M}")


def large(texts):
    return pa.array(texts, pa.large_string())


def compare(texts, form):
    """Where a character becomes another one, it may stay: words are folded later."""
    found = normalised(large(texts), form, exact=True).to_pylist()
    expected = FORMS[form]("\n".join(texts)).split("\n") if texts else []
    if form != "nfc":
        found = ["".join(map(text_oracle.fold, text)) for text in found]
    for text, one, other in zip(texts, found, expected, strict=True):
        if one != other and "+" in form and MANY_MARKS.search(unicodedata.normalize("NFKD", text)):
            # a letter that a folding made is not composed with marks before the one that it lost
            one, other = (unicodedata.normalize("NFC", shown) for shown in (one, other))
        assert one == other, text


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("around", ["{}", "a{}b", "e{}\u0301", "ᄒ{}\u11ab"])
def test_every_character_equals_the_oracle(form, around):
    compare([around.format(character) for character in KNOWN if character != "\n"], form)


@pytest.mark.parametrize("form", FORMS)
@given(texts=st.lists(sequences, max_size=5))
def test_any_sequences_equal_the_oracle(form, texts):
    compare(texts, form)


@pytest.mark.parametrize("form", FORMS)
def test_many_marks_in_any_order_equal_the_oracle(form):
    rng = random.Random(form)
    texts = ["a" + "".join(rng.choices(MARKS, k=size)) for size in (1, 2, 31, 32, 33, 34, 500)]
    compare(texts, form)


def test_marks_without_end_take_no_more_than_linear_time():
    """By the square, as in Python's own, a million of them would take hours."""
    text = "".join(random.Random(1).choices(["\u0316", "\u0301"], k=1_000_000))
    # both are below and above nothing: none is composed
    assert normalised(large([text]), "nfc").to_pylist() == ["".join(sorted(text, reverse=True))]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shift", range(70))
def test_what_changes_at_the_edges_of_blocks_equals_the_oracle(form, shift):
    texts = [
        filler * shift + change + filler * (70 - shift)
        for filler in ("a", "é", "中", "a中")
        for change in ("e\u0301", "\u0301", "\u00ad", "ﬁ", "ﷺ", "q\u0307\u0323", "ＡＢ")
    ]
    compare(texts, form)
    compare(["".join(texts)], form)


@given(st.lists(st.none() | sequences, max_size=6), st.integers(0, 3))
def test_nulls_and_slices_stay(texts, first):
    found = normalised(large(texts)[first:], "nfc", exact=True)
    found.validate(full=True)
    expected = [text if text is None else FORMS["nfc"](text) for text in texts[first:]]
    assert found.to_pylist() == expected


@pytest.mark.parametrize("form", FORMS)
@given(content=st.lists(st.binary(max_size=80), max_size=4))
def test_any_bytes_are_read_within_bounds(form, content):
    """What becomes of bytes that are no UTF-8 is not defined, but that the others are the same."""
    offsets = np.append(0, np.cumsum([len(each) for each in content])).astype(np.int64)
    data = pa.py_buffer(b"".join(content))
    texts = pa.LargeStringArray.from_buffers(len(content), pa.py_buffer(offsets), data)
    found = normalised(pa.concat_arrays([large(["e\u0301"]), texts, large(["ＡE\u0301"])]), form)
    expected = ("é", "ＡÉ" if form == "nfc" else "aé")
    assert (found[0].as_py(), found[-1].as_py()) == expected


def tokens(texts, *foldings):
    options = FeatureOptions("words", 20, normalize="+".join(["nfkc", *foldings]))
    return [features_of(text, options).shingles for text in texts]


@pytest.mark.parametrize("name", FOLDINGS)
def test_a_folding_makes_one_of_what_is_one(name):
    assert len(set(tokens(SAME[name], name))) == 1
    assert len(set(tokens(SAME[name]))) > 1


def test_no_folding_makes_one_of_words_of_its_language_that_mean_different_things():
    for name in FOLDINGS:
        for pair in MEANINGS[name]:
            assert len(set(tokens(pair, name))) == 2, (name, pair)
    for name, pair in NOT_FOR.items():
        assert len(set(tokens(pair))) == 2
        assert len(set(tokens(pair, name))) == 1, (name, pair)


BETWEEN = [
    "…", " ", "-", "\u2000", "\u00a0", "＝", "！", "＜", "\u200b", "\u0338", "\ufe0f", "≠", "🙂",
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@given(texts=st.lists(st.none() | st.text(st.sampled_from(BETWEEN), max_size=6), max_size=5))
def test_texts_without_words_are_normalised_whole(form, texts):
    """In others what is between words may stay."""
    found = normalised(large(["a…", *texts, "…a"])[1:-1], form)
    found.validate(full=True)
    for text, whole in zip(texts, found.to_pylist(), strict=True):
        normal = None if text is None else FORMS[form](text)
        if not any(map(text_oracle.is_in_token, normal or "")):
            assert whole == normal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "Ünïcode “quoted” – and … so\u00a0on",
        "日本語、中文！",
        "한국어",
        "हिन्दी",
        "ไทย",
    ],
)
def test_texts_that_are_normal_are_not_copied(text):
    texts = large([text])
    assert normalised(texts, "nfkc") is texts


@given(sequences)
def test_a_text_has_the_features_of_its_normal_form(text):
    options = FeatureOptions("words", 2, "tf")
    expected = text_oracle.weighted(text, "words", 2, "tf")
    assert features_of(text, options).shingles == tuple(expected)
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        again = features_of(unicodedata.normalize(form, text), options)
        assert again.hashes.tolist() == features_of(text, options).hashes.tolist()


def test_the_table_equals_what_this_python_knows():
    """Which characters are looked at no further, and what the others are made of."""
    table = normalisation_table("nfc")
    for character in KNOWN:
        code = ord(character)
        entry = int(table.entries[int(table.pages[code >> 8]) << 8 | code & 255])
        assert entry >> 8 & 255 == unicodedata.combining(character)
        changes = not unicodedata.is_normalized("NFC", character) or character in LASTS
        assert (entry & 255 == table_module.CHANGES) == changes, character
    for form in FORMS:
        table = normalisation_table(form)
        codes = np.arange(0x4000, 0xA000)
        entries = table.entries[table.pages[codes >> 8].astype(np.intp) << 8 | codes & 255]
        assert not (entries & 255).any()


COMPOSED = [
    character for character in KNOWN
    if not unicodedata.is_normalized("NFD", character)
    and unicodedata.is_normalized("NFC", character)
]  # fmt: skip
LASTS = {unicodedata.normalize("NFD", character)[-1] for character in COMPOSED}
"""What may be composed with what is before it."""


@pytest.mark.parametrize(
    ("form", "digest"),
    [
        ("nfkc", "e06a79bc51013bab"),
        ("nfc", "a764d01c64261faa"),
        ("nfkc+urdu", "8409b67fef9e9a52"),
        (text_oracle.EVERY_FOLDING, "088a08f41a4c0c8f"),
    ],
)
def test_the_table_is_the_frozen_one(form, digest):
    """Another table would give other fingerprints than those that users have kept."""
    hasher = xxhash.xxh3_64()
    for part in normalisation_table(form)[:-2]:
        hasher.update(part.astype("<u8").tobytes())
    assert hasher.hexdigest() == digest
