"""Exact copies, once normalised."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.signatures.exact import Exact
from tests.signatures import signature_oracle as oracle
from tests.signatures.signed import array, keys
from tests.strategies import TEXTS


@given(st.lists(TEXTS | st.none(), max_size=4))
def test_keys_equal_the_oracle(texts):
    assert keys(Exact().sign(array(texts))) == [oracle.exact(text) for text in texts]


def test_a_key_is_what_the_md5_of_the_words_begins_with():
    (key,) = Exact().sign(array(["The  Quick,\nbrown FOX"])).keys.tolist()
    assert f"{key:016x}" == hashlib.md5(b"the quick brown fox").hexdigest()[:16]


def test_texts_without_words_are_equal_to_copies_alone():
    texts = ["", "-----", "🙂", "🙃", "...", " "]
    found = keys(Exact().sign(array([*texts, *texts, None])))
    assert found[:6] == found[6:12]
    assert len({key for (key,) in found[:6]}) == 6
    assert found[12] == []


@pytest.mark.parametrize("asked", [{"stop_words": "en"}, {"stem": "english"}, {"segment": "zh"}])
def test_words_are_prepared_first(asked):
    texts = ["The cats and the dogs were running", "我们在北京大学学习中文", "the", ""]
    found = keys(Exact(**asked).sign(array(texts)))
    assert found == [oracle.exact(text, **asked) for text in texts]
    assert found != keys(Exact().sign(array(texts)))
