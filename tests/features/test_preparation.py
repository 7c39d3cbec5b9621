"""Stop words, stems and Chinese words against a slow oracle that shares only the libraries."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
import Stemmer
import stopwordsiso
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import MrDedupError
from mr_dedup.features.options import UNITS, FeatureOptions
from mr_dedup.features.preparation import prepare, table_for
from mr_dedup.features.shingles import features_of
from mr_dedup.features.unicode_table import unicode_table
from mr_dedup.fingerprints.simhash import simhash
from tests.features import text_oracle
from tests.strategies import KNOWN

STOP_WORD_LANGUAGES = sorted(stopwordsiso.langs())

# words, stop words of one token and of several, in pieces and whole, and what may stand between
PIECES = [
    "the", "The", "don't", "hadn't", "hadn", "t", "ain", "running", "RUNS", "dogs", "naïvely",
    "aujourd'hui", "aujourd", "bây giờ", "bây", "giờ", "Häuser", "всё ещё", "бегущий",
    "的", "一个", "个人", "总的来说", "来说", "中华人民共和国", "我们", "𠀀", "カタカナ", "の",
    "み", "ｱ", " ", " ", " ", ", ", "。", "-", "\n", "'", "3.14", "ß", "e\u0301", "\u0301", "한국",
]  # fmt: skip
texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=40).map(" ".join),
    st.text(KNOWN, max_size=40),
)
asked = st.fixed_dictionaries(
    {
        "stop_words": st.sampled_from([None, "en", "zh", "vi", "ja", "fr", "ko"]),
        "stem": st.sampled_from([None, "english", "german", "russian"]),
        "segment": st.sampled_from([None, "zh"]),
        "normalize": st.sampled_from(["nfkc", "nfc", "none"]),
    }
)


def words(text, **options):
    return features_of(text, FeatureOptions("words", 1, "tf", **options)).shingles


@given(texts, st.sampled_from(UNITS), st.integers(1, 3), asked)
def test_any_text_equals_the_oracle(text, unit, length, options):
    chosen = FeatureOptions(unit, length, "log-tf", **options)
    expected = text_oracle.weighted(text, unit, length, "log-tf", **options)
    found = features_of(text, chosen)
    assert found.shingles == tuple(expected)
    assert found.weights.tolist() == [units / 64 for units in expected.values()]
    assert found.hashes.tolist() == [xxhash.xxh3_64_intdigest(word.encode()) for word in expected]


@given(st.lists(st.none() | texts, max_size=8), asked)
def test_simhash_prepares_texts_as_features_of_does(texts, options):
    """A bit is 1 where the features with that bit have more than half the weight."""
    chosen = FeatureOptions("words", 2, "tf", **options)
    found = simhash(pa.array(texts, pa.large_string()), chosen)
    for text, value, exists in zip(texts, found.values, found.has_fingerprint, strict=True):
        assert exists == (text is not None)
        if text is None:
            continue
        features = features_of(text, chosen)
        votes = [
            features.weights[features.hashes >> np.uint64(bit) & np.uint64(1) == 1].sum()
            for bit in range(64)
        ]
        assert value == sum(
            1 << bit for bit, vote in enumerate(votes) if 2 * vote > features.weights.sum()
        )


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("The dogs don't bark", {"stop_words": "en"}, ("dogs", "bark")),
        ("The dogs don't bark", {"stem": "english"}, ("the", "dog", "don", "t", "bark")),
        ("THE DOGS' BARKING", {"stop_words": "en", "stem": "english"}, ("dog", "bark")),
        # of two tokens, which are not left out apart
        ("hadn’t hadn t hadn", {"stop_words": "en"}, ("hadn",)),
        ("bây giờ bây", {"stop_words": "vi"}, ("bây",)),
        # what occurrences cover together
        ("总的来说的 sleep", {"stop_words": "zh"}, ("sleep",)),
        ("一个人 sleep", {"stop_words": "zh"}, ("sleep",)),
        # a text of stop words alone stays as it is
        ("一个人", {"stop_words": "zh"}, ("一", "个", "人")),
        ("The", {"stop_words": "en", "stem": "english"}, ("the",)),
        ("-----", {"stop_words": "en"}, ("-----",)),
        ("🙂", {"stem": "english", "segment": "zh"}, ("🙂",)),
        ("一个人", {}, ("一", "个", "人")),
        ("我们是ABC中国人。", {"segment": "zh"}, ("我们", "是", "abc", "中国", "人")),
        ("我们是ABC中国人。", {"segment": "zh", "stop_words": "zh"}, ("abc", "中国")),
        # the segmenter would cut these at every letter outside of ASCII
        ("Straße résumé 한국어", {"segment": "zh"}, ("strasse", "résumé", "한국어")),
        ("カタカナ", {"segment": "zh"}, ("カ", "タ", "ナ")),
        ("Häuser", {"stem": "german"}, ("haus",)),
        # of which nothing would be left
        ("plan S", {"stem": "porter"}, ("plan", "s")),
    ],
)
def test_words(text, options, expected):
    assert words(text, **options) == expected


def test_shingles_are_of_what_is_left():
    chosen = FeatureOptions("words", 2, "tf", stop_words="en", stem="english", segment="zh")
    text = "Dogs and the cats 中国人民 sleep"
    assert features_of(text, chosen).shingles == ("dog cat", "cat 中国", "中国 人民", "人民 sleep")


@pytest.mark.parametrize("segment", [None, "zh"])
@pytest.mark.parametrize("language", STOP_WORD_LANGUAGES)
def test_nothing_is_left_of_a_stop_word(language, segment):
    stop_words = sorted(stopwordsiso.stopwords(language))
    chosen = FeatureOptions(stop_words=language, segment=segment)
    # beside a word that is left
    found = simhash(pa.array([f"{word} 73519" for word in stop_words], pa.large_string()), chosen)
    assert (found.occurrences == 1).all()


@pytest.mark.parametrize("language", Stemmer.algorithms())
def test_every_stemmer_stems_every_word(language):
    some_words = [sorted(stopwordsiso.stopwords(other))[:30] for other in STOP_WORD_LANGUAGES]
    text = " ".join(word for words in some_words for word in words)
    stem = Stemmer.Stemmer(language).stemWord
    stems = [stem(word) or word for word in words(text)]
    assert words(text, stem=language) == tuple(dict.fromkeys(stems))


def test_the_defaults_leave_texts_alone():
    texts = pa.array(["The dogs", None], pa.large_string())
    assert prepare(texts, FeatureOptions()) is texts
    assert table_for(FeatureOptions()) is unicode_table()
    assert str(FeatureOptions()) == "words:1, log-tf, normalize nfkc"


def test_options_are_named_only_when_they_are_set():
    everything = FeatureOptions("characters", 4, "tf", "en", "english", "zh")
    assert str(everything) == (
        "characters:4, tf, stop words en, stem english, segment zh, normalize nfkc"
    )
    assert str(FeatureOptions(stem="german")) == "words:1, log-tf, stem german, normalize nfkc"


@pytest.mark.parametrize("options", [{"stop_words": "en"}, {"stem": "english"}, {"segment": "zh"}])
def test_slices_nulls_and_empty_arrays(options):
    texts = ["dogs 中国", None, "", "cats", "the", "..."]
    array = pa.array(texts, pa.large_string())
    chosen = FeatureOptions(**options)
    whole = prepare(array, chosen).to_pylist()
    assert [text is None for text in whole] == [text is None for text in texts]
    for start in range(len(texts) + 1):
        for stop in range(start, len(texts) + 1):
            assert prepare(array[start:stop], chosen).to_pylist() == whole[start:stop]


def test_threads_share_nothing():
    chosen = FeatureOptions(stop_words="en", stem="english", segment="zh")
    batches = [
        pa.array([f"{word} 中国人民 words{i}ing" for i in range(300)], pa.large_string())
        for word in ("running", "the", "dogs", "sleeping")
    ]
    expected = [simhash(batch, chosen).values.tolist() for batch in batches]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda batch: simhash(batch, chosen).values.tolist(), batches * 5))
    assert found == expected * 5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stop_words": "xx"}, "stop_words must be one of af, ar, .*, zu, not 'xx'"),
        ({"stop_words": "EN"}, "not 'EN'"),
        ({"stop_words": ""}, "not ''"),
        ({"stem": "en"}, "stem must be one of arabic, .*, yiddish, not 'en'"),
        ({"segment": "ja"}, "segment must be one of zh, not 'ja'"),
    ],
)
def test_languages_that_nobody_knows_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        FeatureOptions(**options)


@pytest.mark.parametrize(
    ("library", "options"),
    [
        ("stopwordsiso", {"stop_words": "en"}),
        ("Stemmer", {"stem": "english"}),
        ("rjieba", {"segment": "zh"}),
    ],
)
def test_a_library_that_is_missing_is_named_with_its_cure(monkeypatch, library, options):
    # what makes Python's import fail as it does where nothing is installed
    monkeypatch.setitem(sys.modules, library, None)
    FeatureOptions()
    package = library.replace("Stemmer", "PyStemmer")
    cure = rf"need the package {package}: pip install 'mr-dedup\[words\]'$"
    with pytest.raises(MrDedupError, match=cure):
        FeatureOptions(**options)


@pytest.mark.parametrize("options", [{"stop_words": "en"}, {"stem": "english"}, {"segment": "zh"}])
def test_bytes_that_are_no_text_are_refused(options):
    offsets = pa.py_buffer(np.array([0, 2], np.int64))
    texts = pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(b"\xc3x"))
    with pytest.raises(ValueError, match=r"utf-?8"):
        prepare(texts, FeatureOptions(**options))
