"""What is true of every method, whatever its keys are."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.features.feature_counts import document_frequencies
from mr_dedup.features.options import FeatureOptions
from mr_dedup.signatures.methods import METHODS, parse_method
from tests.signatures.signed import array, keys, shared
from tests.strategies import TEXTS, WORDS, costly

FREQUENCIES = document_frequencies(
    [array(["the cat", "the dog", "a cat", "中文"])], FeatureOptions("words", 1, "tf")
)
NAMES = [
    *METHODS,
    "exact:stop_words=en,stem=english",
    "abstract:size_bytes=5",
    "keywords:order=alphabet",
    "keywords:n=3,sim=0.05",
    "keywords:n=3,order=alphabet,sim=0,weighting=log-tf-idf",
    "keywords:weighting=tf",
    "text-profile:over=0,rate=0.5,segment=zh",
    "segments:by=lines,count=4,min_shared_keys=2",
    "segments:by=lines,length=2,min_shared_keys=1",
    "segments:by=sentences,length=1,segment=zh",
    "segments:length=3",
    "minhash:bands=20,rows=2,min_shared_keys=3,shingles=characters:4",
    "minhash:estimate=0.6,stop_words=en",
    "winnowing:window=2,shingles=words:1,stem=english",
]
every_method = pytest.mark.parametrize("method", [parse_method(n, FREQUENCIES) for n in NAMES])


def assert_equal(one, other):
    for name in ("offsets", "keys", "sketches"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


@every_method
@costly
@given(st.lists(TEXTS | st.none(), max_size=6))
def test_keys_and_sketches_have_the_form_they_should(method, texts):
    signed = method.sign(array(texts))
    assert len(signed) == len(texts)
    assert signed.offsets[0] == 0
    assert (np.diff(signed.offsets) >= 0).all()
    assert signed.sketches.shape == (len(texts), method.sketch_bytes)
    for text, of in zip(texts, keys(signed), strict=True):
        assert len(set(of)) == len(of)
        if text is None:
            assert not of
    assert method.min_shared_keys >= 1


@every_method
def test_texts_without_words_are_similar_to_copies_alone(method):
    texts = ["", "-----", "🙂", "\u2000", "\u200b"]
    signed = method.sign(array([*texts, *texts]))
    with_keys = {
        # methods of words have nothing to go by
        "keywords": [], "text-profile": [], "segments": [],
        # of the text as it is, without white space; zero-width spaces are none
        "abstract": ["-----", "🙂", "\u200b"],
    }.get(method.TITLE, texts)  # fmt: skip
    for n, text in enumerate(texts):
        assert bool(keys(signed)[n]) == (text in with_keys)
        assert keys(signed)[n] == keys(signed)[n + len(texts)]
        for m, other in enumerate(texts[:n]):
            same = {text, other} == {"", "\u200b"} and text in with_keys and other in with_keys
            assert shared(signed, n, m) == (len(set(keys(signed)[n])) if same else 0)


@every_method
@costly
@given(st.lists(TEXTS | st.none(), min_size=1, max_size=6), st.data())
def test_texts_in_batches_have_the_same_signatures(method, texts, data):
    whole = array(texts)
    signed = method.sign(whole)
    cut = data.draw(st.integers(0, len(texts)))
    parts = [method.sign(whole[:cut]), method.sign(whole[cut:])]
    assert keys(signed) == keys(parts[0]) + keys(parts[1])
    assert np.array_equal(signed.sketches, np.vstack([part.sketches for part in parts]))
    order = data.draw(st.permutations(range(len(texts))))
    moved = method.sign(array([texts[i] for i in order]))
    assert keys(moved) == [keys(signed)[i] for i in order]


@every_method
@costly
@given(TEXTS)
def test_equal_texts_match(method, text):
    signed = method.sign(array([text, "something else", text]))
    found = keys(signed)
    assert found[0] == found[2]
    if found[0]:
        assert shared(signed, 0, 2) >= method.min_shared_keys
        assert method.similarity(signed.sketches[:1], signed.sketches[2:]).tolist() == [1]


@every_method
@costly
@given(st.lists(st.sampled_from(WORDS[:4]), min_size=2, max_size=30).map(" ".join), st.data())
def test_similarity_is_that_of_two_whichever_is_first(method, text, data):
    other = " ".join(data.draw(st.permutations(text.split()))[:-1])
    sketches = method.sign(array([text, other])).sketches
    there = method.similarity(sketches, sketches[::-1])
    assert there.shape == (2,)
    assert there.dtype == np.float64
    assert np.array_equal(there[0], there[1], equal_nan=True)
    assert np.isnan(there[0]) or 0 <= there[0] <= 1
    # as they come from a file
    sketches.flags.writeable = False
    assert np.array_equal(method.similarity(sketches, sketches[::-1]), there, equal_nan=True)


@every_method
def test_nothing_is_compared(method):
    for texts in ([], [None], [None, None]):
        signed = method.sign(array(texts))
        assert len(signed) == len(texts)
        assert not signed.keys.size
        assert not signed.has_keys.any()
    nothing = np.empty((0, method.sketch_bytes), np.uint8)
    assert method.similarity(nothing, nothing).shape == (0,)


@every_method
def test_what_lies_under_a_null_is_not_signed(method):
    """A slice of an array with nulls, whose bytes are there all the same."""
    texts = ["before that", "hidden and " * 9, "of cats and 中文 " * 5, "after"]
    values = array(texts)
    validity = pa.array([True, False, True, True]).buffers()[1]
    nulls = pa.LargeStringArray.from_buffers(4, *values.buffers()[1:], validity, 1)
    assert nulls[1].as_py() is None
    expected = [texts[0], None, *texts[2:]]
    assert_equal(method.sign(nulls), method.sign(array(expected)))
    assert_equal(method.sign(nulls[1:3]), method.sign(array(expected[1:3])))


@every_method
def test_threads_and_repeats_have_the_same_signatures(method):
    texts = [array([f"{word} {number} " * 20 for word in WORDS]) for number in range(4)]
    expected = [method.sign(batch) for batch in texts]
    with ThreadPoolExecutor(4) as pool:
        for one, other in zip(pool.map(method.sign, texts * 2), expected * 2, strict=True):
            assert_equal(one, other)


@every_method
def test_a_name_says_all(method):
    again = parse_method(method.name, FREQUENCIES)
    assert again == method
    assert again.name == method.name
    assert pickle.loads(pickle.dumps(method)).name == method.name
    assert method.name.isprintable()
    assert not set(method.name) & set(" \t;")


def test_names_differ():
    names = [parse_method(name, FREQUENCIES).name for name in NAMES]
    assert len(set(names)) == len(names)


@every_method
@pytest.mark.parametrize("wrong", [["text"], pa.array(["text"]), pa.array([b"x"]), None])
def test_other_arrays_are_refused(method, wrong):
    with pytest.raises(ValueError, match="texts must be a pyarrow LargeStringArray"):
        method.sign(wrong)
