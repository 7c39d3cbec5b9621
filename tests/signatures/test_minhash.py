"""MinHash and super-shingles: bands of min-wise hashes, which have an oracle of their own."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.features.options import FeatureOptions
from mr_dedup.signatures.minhash import MinHash, SuperShingles
from mr_dedup.signatures.minwise import minwise_hashes
from tests.features import text_oracle
from tests.signatures.signed import array, shared
from tests.strategies import TEXTS

NEAR = st.lists(st.sampled_from("ab"), min_size=1, max_size=6).map(" ".join)


@given(
    st.lists(TEXTS | NEAR | st.none(), min_size=2, max_size=5), st.integers(1, 6),
    st.integers(1, 5), st.sampled_from(["words:1", "words:3", "characters:4", "auto"]),
)  # fmt: skip
def test_texts_share_a_key_for_each_band_of_equal_hashes(texts, bands, rows, shingles):
    method = MinHash(bands, rows, shingles=shingles)
    signed = method.sign(array(texts))
    hashes = minwise_hashes(array(texts), bands * rows, FeatureOptions.parse(shingles)).values
    unit, _, length = shingles.partition(":")
    of = [hashes[i].tolist() if text_oracle.shingles(text, unit, int(length or 0)) else None
          for i, text in enumerate(texts)]  # fmt: skip
    assert np.diff(signed.offsets).tolist() == [0 if each is None else bands for each in of]
    for sketch, each in zip(signed.sketches.tolist(), of, strict=True):
        assert sketch == [value % 256 for value in each or [0] * bands * rows]
    for i, j in itertools.combinations(range(len(texts)), 2):
        if of[i] and of[j]:
            equal = [
                of[i][first : first + rows] == of[j][first : first + rows]
                for first in range(0, bands * rows, rows)
            ]
            assert shared(signed, i, j) == sum(equal)


def test_defaults():
    method = MinHash()
    assert (method.bands, method.rows, method.sketch_bytes) == (20, 5, 100)
    assert method.min_shared_keys == 1
    method = SuperShingles()
    assert (method.bands, method.rows, method.sketch_bytes) == (6, 14, 84)
    assert method.min_shared_keys == 2
    assert MinHash(shingles="words").shingles == "words:1"


def pair(rng, common, own):
    words = [f"c{rng.getrandbits(40):x}" for _ in range(common)]
    return [" ".join(words + [f"w{rng.getrandbits(40):x}" for _ in range(own)]) for _ in "ab"]


@pytest.mark.parametrize(("common", "own"), [(0, 100), (20, 40), (80, 10), (96, 2)])
def test_bytes_estimate_the_similarity(common, own):
    """Without bias: of texts with nothing in common 1 byte in 256 is equal."""
    rng = random.Random(common)
    texts = [text for _ in range(300) for text in pair(rng, common, own)]
    method = MinHash(shingles="words:1")
    sketches = method.sign(array(texts)).sketches
    found = method.similarity(sketches[::2], sketches[1::2])
    similarity = common / (common + 2 * own)
    share = similarity + (1 - similarity) / 256
    error = (share * (1 - share) / 100 / 300) ** 0.5
    # an estimate is never below 0, so that there it is not quite without bias
    assert abs(found.mean() - similarity) < 4 * error + (0.003 if common == 0 else 0)
    cut = MinHash(shingles="words:1", estimate=0.7)
    kept = cut.similarity(sketches[::2], sketches[1::2])
    assert np.array_equal(np.isnan(kept), found < 0.7)
    assert np.array_equal(kept[found >= 0.7], found[found >= 0.7])


def test_words_are_prepared_first():
    texts = ["the elephants and the zebras", "elephant, zebra"]
    signed = MinHash(stop_words="en", stem="english").sign(array(texts))
    assert shared(signed, 0, 1) == 20
    assert shared(MinHash().sign(array(texts)), 0, 1) == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"bands": 0}, "bands must be from 1 to 4096, not 0"),
        ({"bands": 64, "rows": 65}, "rows must be from 1 to 64, not 65"),
        ({"rows": 0}, "rows must be from 1 to 204, not 0"),
        ({"min_shared_keys": 21}, "min_shared_keys must be from 1 to 20, not 21"),
        ({"estimate": 1.5}, "estimate must be from 0 to 1"),
        ({"shingles": "lines:3"}, "unit must be one of"),
        ({"shingles": "words:x"}, "features are words:N, characters:N or auto"),
    ],
)
def test_parameters_that_cannot_be(wrong, said):
    with pytest.raises(ValueError, match=said):
        MinHash(**wrong)
