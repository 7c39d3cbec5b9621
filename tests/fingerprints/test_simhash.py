"""Simhash against a slow oracle, and against the values it shall have for good."""

import random

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.features.options import UNITS, WEIGHTINGS, FeatureOptions
from mr_dedup.fingerprints.simhash import simhash
from tests.features import text_oracle
from tests.strategies import TEXTS

WITHOUT_IDF = [name for name in WEIGHTINGS if not name.endswith("-idf")]


def oracle(text, options):
    """The paper's definition: each feature adds its weight where its bit is 1, else takes it."""
    votes = [0] * 64
    features = text_oracle.weighted(text, options.unit, options.length, options.weighting)
    for shingle, weight in features.items():
        hashed = xxhash.xxh3_64_intdigest(shingle.encode())
        votes = [v + weight if hashed >> bit & 1 else v - weight for bit, v in enumerate(votes)]
    return sum(1 << bit for bit, v in enumerate(votes) if v > 0) if features else None


def fingerprints(texts, options):
    found = simhash(pa.array(texts, pa.large_string()), options)
    pairs = zip(found.values.tolist(), found.has_fingerprint.tolist(), strict=True)
    return [value if exists else None for value, exists in pairs]


@given(
    st.lists(TEXTS, max_size=12),
    st.builds(
        FeatureOptions, st.sampled_from(UNITS), st.integers(1, 4), st.sampled_from(WITHOUT_IDF)
    ),
)
def test_any_texts_equal_the_oracle(texts, options):
    assert fingerprints(texts, options) == [oracle(text, options) for text in texts]


def varied_texts(count, seed):
    """Texts of every script and shape: words, repeats, marks, long runs, nothing at all."""
    rng = random.Random(seed)
    alphabets = [
        "abcdeXYZ019",
        "éüßñÅ",
        "中文网页的是了我",
        "йцукен",
        "ひらカタ",
        "한국어",
        "\u0301\u0308ab",
        "😀x𝒳",
    ]
    for _ in range(count):
        alphabet = rng.choice(alphabets)
        words = [
            "".join(rng.choices(alphabet, k=rng.choice([1, 2, 3, 5, 8, 20])))
            for _ in range(rng.choice([0, 1, 2, 3, 5, 8, 15]))
        ]
        words += words[: rng.randrange(3)]
        yield rng.choice([" ", ", ", "\n", "—", ""]).join(words)


@pytest.mark.parametrize("weighting", WITHOUT_IDF)
def test_many_varied_texts_equal_the_oracle(weighting):
    texts = list(varied_texts(4_000, weighting))
    options = FeatureOptions("words", 1, weighting)
    found = fingerprints(texts, options)
    assert len(set(found)) > 1_500
    for text, value in zip(texts, found, strict=True):
        assert value == oracle(text, options), text


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("length", [1, 3])
def test_long_texts_equal_the_oracle(unit, length):
    rng = random.Random(7)
    words = ["".join(rng.choices("abcdefgh", k=rng.randrange(1, 9))) for _ in range(2000)]
    english = " ".join(rng.choices(words, k=20_000))
    chinese = "".join(chr(rng.randrange(0x4E00, 0x9FA6)) for _ in range(20_000))
    texts = [english, chinese, "x" * 50_000, english[:9999] + chinese[:5000] + "é" * 9000, ""]
    options = FeatureOptions(unit, length, "log-tf")
    assert fingerprints(texts, options) == [oracle(text, options) for text in texts]


@pytest.mark.parametrize("text", ["word " * 2_000_000, "x" * 10_000_000, "中" * 3_400_000])
def test_ten_megabytes_of_one_feature_are_its_hash(text):
    feature = text.split()[0] if " " in text else text if text[0] == "x" else "中"
    expected = xxhash.xxh3_64_intdigest(feature.encode())
    assert fingerprints([text], FeatureOptions("words", 1, "tf")) == [expected]


def test_a_tie_is_zero():
    """Two features of one weight: a bit is 1 where both have it."""
    both = [xxhash.xxh3_64_intdigest(word) for word in (b"one", b"two")]
    assert fingerprints(["one two"], FeatureOptions("words", 1, "tf")) == [both[0] & both[1]]


def test_slices_nulls_and_empty_arrays():
    texts = ["first one", None, "", "second one", "..."]
    array = pa.array(texts, pa.large_string())
    options = FeatureOptions()
    whole = simhash(array, options)
    assert whole.has_fingerprint.tolist() == [True, False, True, True, True]
    assert whole.occurrences.tolist() == [2, 0, 1, 2, 1]
    for start in range(6):
        for stop in range(start, 6):
            part = simhash(array[start:stop], options)
            assert part.values.tolist() == whole.values[start:stop].tolist()
    assert simhash(pa.array([], pa.large_string()), options).values.size == 0
    with pytest.raises(ValueError, match="LargeStringArray, not StringArray"):
        simhash(pa.array(["x"]), options)


GOLDEN = {
    ("words", 1, "log-tf"): [
        0x8212868318D29267,
        0x8212868318D29267,
        0xC200804110713414,
        0x51EB63A28A839E50,
        0x45449803CC043800,
        0xBDA220C6C0D9C254,
        0x0AF32BAE40989DC4,
    ],
    ("words", 2, "log-tf"): [
        0x12BF80024A210544,
        0x12BF80024A210544,
        0x793C9E8C73CA7E01,
        0x707D0CBEFDB1E813,
        0xDAA1C702021074D0,
        0xF92E8C97D74CCB0E,
        0xA58C011B9F9C3F49,
    ],
    ("words", 1, "binary"): [
        0x8200868208529263,
        0x8200868208529263,
        0xC200804110713414,
        0x51EB63A28A839E50,
        0x45449803CC043800,
        0xBDA220C6C0D9C254,
        0x0AF32BAE40989DC4,
    ],
    ("characters", 4, "tf"): [
        0x89B0A50054201514,
        0x89B0A50054201514,
        0x9671276238D82A7C,
        0x368DEED1FD568069,
        0xC051CB139C38FDAE,
        0xA69391C365145820,
        0x0D5E0BEB2AFC780D,
    ],
}
GOLDEN_NFKC = {
    ("words", 1, "log-tf"): (0x412498094A047000, 0x02712BAE0098DDE5),
    ("words", 2, "log-tf"): (0x3B8387138B30D4E0, 0xA5888039969C3F48),
    ("words", 1, "binary"): (0x412498094A047000, 0x02712BAE0098DDE5),
    ("characters", 4, "tf"): (0x60518B03983A74A6, 0x11EA9FDBAABE7A8B),
}
"""Of the German text and of the last one, the others being normal."""
GOLDEN_TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "the QUICK brown fox, jumps over the lazy -- dog",
    "THE END. The end; the end?",
    "敏捷的棕色狐狸跳过了懒狗。",
    "Grüße aus Köln – naïve façade, 3,14 × 10²",
    "Съешь ещё этих мягких французских булок",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 😀 한국어 ひらがな カタカナ",
]


@pytest.mark.parametrize("key", GOLDEN)
def test_fingerprints_are_those_of_every_version_and_machine(key):
    """If this fails, fingerprints that users have kept no longer match: do not mend the values."""
    found = fingerprints(GOLDEN_TEXTS, FeatureOptions(*key, normalize="none"))
    assert found == GOLDEN[key]
    normalised = fingerprints(GOLDEN_TEXTS, FeatureOptions(*key))
    changed = {4: GOLDEN_NFKC[key][0], 6: GOLDEN_NFKC[key][1]}
    assert normalised == [changed.get(i, value) for i, value in enumerate(found)]


def test_the_same_texts_in_any_company_have_the_same_fingerprints():
    texts = list(varied_texts(300, "company"))
    options = FeatureOptions("words", 2)
    alone = [fingerprints([text], options)[0] for text in texts]
    assert fingerprints(texts, options) == alone
    assert fingerprints(texts[::-1], options) == alone[::-1]


def test_near_duplicates_are_near():
    """What it is for: a page with another date and counter differs in few bits."""
    rng = np.random.default_rng(5)
    words = [f"w{n}" for n in rng.zipf(1.3, 2000) % 5000]
    page = " ".join(words)
    near, far = page + " views 10231 2026-01-01", " ".join(words[:1000])
    a, b, c = fingerprints([page, near, far], FeatureOptions())
    assert (a ^ b).bit_count() <= 3 < (a ^ c).bit_count()
