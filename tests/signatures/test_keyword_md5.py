"""The five rules against the oracle: abstracts, keywords, and how similar their weights are."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import MrDedupError
from mr_dedup.features.feature_counts import document_frequencies
from mr_dedup.features.options import FeatureOptions
from mr_dedup.signatures.keyword_md5 import MAX_KEYWORDS, ORDERS, Abstract, Keywords
from tests.features import frequency_oracle
from tests.signatures import signature_oracle as oracle
from tests.signatures.signed import array, keys
from tests.strategies import KNOWN, TEXTS

LISTS = st.lists(TEXTS | st.none(), max_size=4)
FEW = st.lists(st.sampled_from("abcd"), min_size=1, max_size=12).map(" ".join)
CORPUS = ["the cat", "the dog and the cat", "a cat of 99", "中文", "the end of the 中"]


def frequencies_of(texts, **asked):
    options = FeatureOptions("words", 1, "tf", **asked)
    return document_frequencies([array(texts)], options, minimum=2)


def expected(texts, **options):
    return [oracle.md5_keys(" ".join(oracle.keywords(text or "", **options))) for text in texts]


@given(LISTS | st.lists(st.text(KNOWN), max_size=3), st.integers(4, 40))
def test_abstracts_equal_the_oracle(texts, size_bytes):
    found = Abstract(size_bytes).sign(array(texts))
    assert keys(found) == [oracle.abstract(text or "", size_bytes) for text in texts]


@pytest.mark.parametrize("character", ["a", "é", "中", "𝔘"])
@pytest.mark.parametrize("shift", range(5))
def test_abstracts_are_cut_at_a_character(character, shift):
    begins = "-" * shift + character * 700
    texts = [begins, f"\n\t {begins}", begins[:-1], begins[:100]]
    found = keys(Abstract().sign(array(texts)))
    assert found == [oracle.abstract(text) for text in texts]
    assert found[0] == found[1] == found[2] != found[3]


@given(
    LISTS, st.sampled_from([1, 2, 3, 10, MAX_KEYWORDS]), st.sampled_from(ORDERS),
    st.sampled_from(["tf", "log-tf", "binary"]),
)  # fmt: skip
def test_keywords_equal_the_oracle(texts, n, order, weighting):
    found = Keywords(n, order, weighting=weighting).sign(array(texts))
    assert keys(found) == expected(texts, n=n, order=order, weighting=weighting)


@given(LISTS, st.integers(1, 5), st.sampled_from(ORDERS), st.sampled_from(["tf-idf", "log-tf-idf"]))
def test_keywords_by_rarity_equal_the_oracle(texts, n, order, weighting):
    counts = frequency_oracle.frequencies(CORPUS, "words", 1)
    options = {"counts": counts, "documents": len(CORPUS), "weighting": weighting}
    method = Keywords(n, order, weighting=weighting, frequencies=frequencies_of(CORPUS))
    assert keys(method.sign(array(texts))) == expected(texts, n=n, order=order, **options)


@pytest.mark.parametrize("asked", [{"stop_words": "en"}, {"stem": "english"}, {"segment": "zh"}])
def test_words_are_prepared_first(asked):
    texts = ["The cats and the dogs were running, running", "我们在北京大学学习中文", "the", ""]
    assert keys(Keywords(3, **asked).sign(array(texts))) == expected(texts, n=3, **asked)


def test_orders():
    """By weight, then by bytes; by bytes alone; and which words they are is the same."""
    one, other = "b b a a a c", "a a b b b c"
    for order, words in (("weight", ("a b", "b a")), ("alphabet", ("a b", "a b"))):
        found = keys(Keywords(2, order).sign(array([one, other])))
        assert found == [oracle.md5_keys(text) for text in words]
    # words with a common prefix, of which one ends where its text does
    words = "a ab abc abcdefgz abcdefgza abcdefgzab abcdefgzac z é 中"
    for order in ORDERS:
        texts = [
            "abcdefgza abcdefgza abcdefgz",
            *(" ".join(p) for p in itertools.permutations(words.split()[3:7])),
        ]
        texts += [" ".join(words.split()[::-1]), words]
        found = keys(Keywords(order=order).sign(array(texts)))
        assert found == expected(texts, order=order)
        assert found[-1] == found[-2] == oracle.md5_keys(words)


def test_words_are_kept_apart():
    one, other = keys(Keywords().sign(array(["ab c", "a bc"])))
    assert one != other


def test_many_occurrences_weigh_as_features_do():
    """Beyond what tables have."""
    text = "m " * 9000 + "s " * 5000 + "r " * 4095 + "f " * 4096
    corpus = [*CORPUS, "m s", "m s", "m f"]
    frequencies = frequencies_of(corpus)
    counts = frequency_oracle.frequencies(corpus, "words", 1)
    for weighting in ("tf", "log-tf", "tf-idf", "log-tf-idf"):
        options = {"weighting": weighting}
        if weighting.endswith("idf"):
            options |= {"counts": counts, "documents": len(corpus)}
            method = Keywords(4, sim=0, weighting=weighting, frequencies=frequencies)
        else:
            method = Keywords(4, sim=0, weighting=weighting)
        signed = method.sign(array([text]))
        assert keys(signed) == expected([text], n=4, **options)
        weights = signed.sketches[0, 16:].view(np.float32).tolist()
        keywords_of = oracle.keywords(text, n=4, **options).values()
        assert sorted(weights) == sorted(float(np.float32(weight)) for weight in keywords_of)


def test_weights_beyond_32_bits():
    times = 2_000_000
    method = Keywords(1, sim=0, frequencies=frequencies_of(CORPUS))
    signed = method.sign(array(["cat the " + "end " * times]))
    assert keys(signed) == [oracle.md5_keys("end")]
    weight = 64 * times * frequency_oracle.idf(1, len(CORPUS))
    assert weight > 1 << 33
    assert signed.sketches[0, 4:].view(np.float32).tolist() == [weight]


@given(
    st.lists(FEW, min_size=2, max_size=8), st.sampled_from(ORDERS), st.integers(1, 4),
    st.sampled_from([0, 0.01, 0.1, 0.3, 1]),
)  # fmt: skip
def test_pairs_equal_the_rule(texts, order, n, sim):
    """Matches are the pairs whose keywords, so ordered, are equal, and their weights similar."""
    method = Keywords(n, order, sim)
    signed = method.sign(array(texts))
    keywords_of = [oracle.keywords(text, n=n, order=order) for text in texts]
    first, second = np.array(list(itertools.combinations(range(len(texts)), 2))).T
    found = method.similarity(signed.sketches[first], signed.sketches[second])
    back = method.similarity(signed.sketches[second], signed.sketches[first])
    assert np.array_equal(found, back, equal_nan=True)
    for i, j, similarity in zip(first.tolist(), second.tolist(), found.tolist(), strict=True):
        apart = oracle.sim(keywords_of[i], keywords_of[j])
        # also of those that are no candidates
        assert np.isnan(similarity) == (apart > sim)
        if apart <= sim:
            assert similarity == pytest.approx(1 - apart, abs=1e-12)
        same_words = list(keywords_of[i]) == list(keywords_of[j])
        assert (keys(signed)[i] == keys(signed)[j]) == same_words


def test_of_texts_without_words_nothing_holds():
    method = Keywords(3, sim=1)
    sketches = method.sign(array(["", None, "a"])).sketches
    assert np.isnan(method.similarity(sketches[:2], sketches[1::-1])).all()
    assert method.similarity(sketches[2:], sketches[2:]).tolist() == [1]
    assert method.similarity(sketches[:1], sketches[2:]).tolist() == [0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"n": 0}, "n must be from 1 to 256, not 0"),
        ({"n": 257}, "n must be from 1 to 256"),
        ({"order": "size"}, "order must be one of weight, alphabet, not 'size'"),
        ({"sim": 1.01}, "sim must be from 0 to 1"),
        ({"sim": float("nan")}, "sim must be from 0 to 1, not nan"),
        ({"weighting": "idf"}, "weighting must be one of"),
        ({"weighting": "tf-idf"}, "the weighting tf-idf needs document frequencies"),
        (
            {"weighting": "tf", "frequencies": frequencies_of(CORPUS)},
            "the weighting tf uses no document frequencies",
        ),
        ({"stop_words": "xx"}, "stop_words must be one of"),
    ],
)
def test_parameters_that_cannot_be(wrong, said):
    with pytest.raises(ValueError, match=said):
        Keywords(**wrong)


def test_frequencies_of_other_words_are_refused():
    with pytest.raises(MrDedupError, match="cannot weigh words:1, stop words en"):
        Keywords(frequencies=frequencies_of(CORPUS), stop_words="en")
    asked = frequencies_of(CORPUS, stop_words="en")
    assert Keywords(frequencies=asked, stop_words="en").weighting == "tf-idf"


@pytest.mark.parametrize("size_bytes", [3, 1 << 21])
def test_abstracts_that_cannot_be(size_bytes):
    with pytest.raises(ValueError, match="size_bytes must be from 4 to 1048576"):
        Abstract(size_bytes)
