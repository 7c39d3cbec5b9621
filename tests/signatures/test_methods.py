"""Names of methods: what they mean, and what is said where they mean nothing."""

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.features.feature_counts import document_frequencies
from mr_dedup.features.options import FeatureOptions
from mr_dedup.signatures.methods import METHODS, method_class, parse_method
from mr_dedup.signatures.segments import Segments
from tests.signatures.signed import array

FREQUENCIES = document_frequencies([array(["a b", "a c"])], FeatureOptions("words", 1, "tf"))
OTHERS = document_frequencies([array(["a b", "b c"])], FeatureOptions("words", 2, "tf"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("exact", "exact"),
        ("exact:segment=zh,stem=english", "exact:stem=english,segment=zh"),
        ("abstract", "abstract:size_bytes=512"),
        ("keywords", "keywords:n=10,order=weight,weighting=tf"),
        (
            "keywords:order=alphabet,sim=1.0,n=3,weighting=log-tf",
            "keywords:n=3,order=alphabet,sim=1,weighting=log-tf",
        ),
        ("keywords:sim=5e-2", "keywords:n=10,order=weight,sim=0.05,weighting=tf"),
        ("text-profile", "text-profile:over=2,rate=0.01"),
        ("segments", "segments:by=content,count=8,min_shared_keys=4"),
        ("segments:by=lines,length=4", "segments:by=lines,length=4,min_shared_keys=4"),
        ("minhash", "minhash:bands=20,rows=5,min_shared_keys=1,shingles=auto"),
        (
            "minhash:shingles=characters:05,estimate=0.7,stop_words=en",
            "minhash:bands=20,rows=5,min_shared_keys=1,shingles=characters:5,estimate=0.7,stop_words=en",
        ),
        ("exact:normalize=nfkc", "exact"),
        ("exact:normalize=none", "exact:normalize=none"),
        (
            "minhash:normalize=nfc",
            "minhash:bands=20,rows=5,min_shared_keys=1,shingles=auto,normalize=nfc",
        ),
        ("super-shingles", "super-shingles:bands=6,rows=14,min_shared_keys=2,shingles=auto"),
        ("winnowing", "winnowing:window=6,shingles=auto"),
    ],
)
def test_names(text, name):
    assert parse_method(text).name == parse_method(name).name == name
    assert parse_method(name) == parse_method(text)


def test_a_method_is_what_its_name_says():
    assert parse_method("segments:by=lines,length=4,min_shared_keys=2") == Segments(
        "lines", None, 4, 2
    )
    assert [method_class(name).TITLE for name in METHODS] == list(METHODS)


def test_frequencies_are_those_of_keywords():
    name = f"keywords:n=10,order=weight,weighting=tf-idf,frequencies={FREQUENCIES.digest}"
    assert parse_method("keywords", FREQUENCIES).name == name
    assert parse_method(name, FREQUENCIES).name == name
    # where there is no use for them they do no harm
    assert parse_method("exact", FREQUENCIES).name == "exact"
    for weighting in ("tf", "log-tf"):
        found = parse_method(f"keywords:weighting={weighting}", FREQUENCIES)
        assert found == parse_method(f"keywords:weighting={weighting}")
    for frequencies in (None, OTHERS):
        with pytest.raises(
            ValueError, match=f"needs the document frequencies {FREQUENCIES.digest}"
        ):
            parse_method(name, frequencies)
    with pytest.raises(MrDedupError, match=r"words:2, .* cannot weigh words:1, normalize nfkc"):
        parse_method("keywords", OTHERS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "method '' is not one of exact, abstract, keywords, text-profile, segments, minhash, "
         "super-shingles, winnowing"),
        ("simhash:k=3", "method 'simhash' is not one of exact, "),
        ("Exact", "method 'Exact' is not one of "),
        ("segments:", "method 'segments:': expected parameter=value, not ''"),
        ("segments:count", "expected parameter=value, not 'count'"),
        ("segments:count=", "expected parameter=value, not 'count='"),
        ("segments:count=8,", "expected parameter=value, not ''"),
        ("segments:count=8,count=8", "count is given twice"),
        ("segments:size=8", "method 'segments:size=8': it has no parameter 'size', only "),
        ("segments:TITLE=8", "it has no parameter 'TITLE', only "),
        ("segments:count=many", "count must be a whole number, not 'many'"),
        ("segments:count=-1", "count must be a whole number, not '-1'"),
        ("segments:count=８", "count must be a whole number, not '８'"),
        ("segments:count=0", "count must be from 1 to 4096, not 0"),
        ("keywords:sim=little", "sim must be a number, not 'little'"),
        ("keywords:sim=nan", "sim must be from 0 to 1, not nan"),
        ("keywords:frequencies=abc", "needs the document frequencies abc"),
        ("minhash:shingles=lines:2", "unit must be one of words, characters, auto, not 'lines'"),
    ],
)  # fmt: skip
def test_names_that_mean_nothing(text, said):
    with pytest.raises(ValueError) as error:
        parse_method(text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_parameters_are_listed():
    with pytest.raises(ValueError) as error:
        parse_method("segments:cuts=lines")
    listed = str(error.value).partition("only ")[2].partition(";")[0]
    assert set(listed.split(", ")) == {
        "by", "count", "length", "min_shared_keys", "stop_words", "stem", "segment", "normalize",
        "symbols",
    }  # fmt: skip
