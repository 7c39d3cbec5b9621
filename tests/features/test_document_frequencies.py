"""Document frequencies: their idfs, their file, and what features weigh by them."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.features.document_frequencies import (
    MAX_DOCUMENTS,
    DocumentFrequencies,
    feature_description,
    idf_table_for,
    inverse_frequencies,
)
from mr_dedup.features.frequency_kernels import multiply_by_idf
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingles import features_of
from tests.features import frequency_oracle
from tests.features.frequency_oracle import hashed
from tests.strategies import costly, shingles_of, words_of

BY_RARITY = ("tf-idf", "log-tf-idf")


def uint64(values):
    return np.array(list(values), np.uint64)


def frequencies_of(counts, documents=1000, minimum=2, features="words:1, normalize nfkc"):
    """The frequencies of features by their names."""
    hashes = {hashed(name): count for name, count in counts.items()}
    return DocumentFrequencies(
        features, documents, minimum, uint64(sorted(hashes)),
        uint64(hashes[feature] for feature in sorted(hashes)),
    )  # fmt: skip


def idfs(counts, documents):
    return inverse_frequencies(uint64(counts), documents).tolist()


@pytest.mark.parametrize("documents", [0, 1, 2, 3, 50, 1000])
def test_idfs_of_every_count_equal_the_oracle(documents):
    counts = range(documents + 1)
    assert idfs(counts, documents) == [frequency_oracle.idf(n, documents) for n in counts]


@given(st.data(), st.integers(0, MAX_DOCUMENTS))
def test_idfs_of_any_counts_equal_the_oracle(data, documents):
    counts = data.draw(st.lists(st.integers(0, documents), max_size=8))
    assert idfs(counts, documents) == [frequency_oracle.idf(n, documents) for n in counts]


def test_idfs_on_both_sides_of_a_step():
    """Where a binary logarithm of some machine would fall on the other side."""
    for documents in (10**6, 10**12, MAX_DOCUMENTS):
        for units in range(65, idfs([0], documents)[0] + 1, 61):
            # bisect for the last count with this idf or more
            low, high = 0, documents
            while low < high:
                middle = (low + high + 1) // 2
                if idfs([middle], documents)[0] >= units:
                    low = middle
                else:
                    high = middle - 1
            for count in (low, min(low + 1, documents)):
                assert idfs([count], documents)[0] == frequency_oracle.idf(count, documents)


def test_idfs_are_those_of_every_version_and_machine():
    """If this fails, fingerprints that users have kept no longer match: do not mend the values."""
    counts = [0, 1, 2, 10, 1000, 10**6, 5 * 10**8, 10**9]
    assert idfs(counts, 10**9) == [1390, 1346, 1320, 1237, 948, 506, 108, 64]
    assert idfs([1, 2, 3], 3) == [108, 82, 64]
    assert idfs([1, 2**62], MAX_DOCUMENTS) == [2814, 108]


def test_counts_beyond_the_documents_are_refused():
    with pytest.raises(ValueError, match="counts must be up to 5, got 6"):
        idfs([1, 6], 5)


@pytest.mark.parametrize(
    ("minimum", "documents", "taken_for"),
    [(1, 9, 1), (2, 9, 1), (3, 9, 2), (7, 9, 6), (100, 9, 9), (2, 0, 0), (5, 0, 0)],
)
def test_a_feature_that_is_not_there_counts_as_the_most_frequent_that_may_be_missing(
    minimum, documents, taken_for
):
    nothing = frequencies_of({}, documents, minimum)
    assert nothing.unknown_idf == frequency_oracle.idf(taken_for, documents)
    assert nothing.table.unknown == nothing.unknown_idf


@pytest.mark.parametrize("features", [0, 1, 2, 3, 100, 1000])
def test_every_feature_is_found_and_no_other(features):
    rng = np.random.default_rng(features)
    hashes = np.unique(rng.integers(0, 2**64, features, dtype=np.uint64))
    # some share their last bits, up to the last slot; 0 and the largest are features as well
    crowded = (np.arange(features, dtype=np.uint64) << np.uint64(40)) | np.uint64((1 << 40) - 1)
    hashes = np.unique(np.concatenate([hashes, crowded, uint64([0, 2**64 - 1][:features])]))
    counts = rng.integers(5, 1000, hashes.size).astype(np.uint64)
    found = DocumentFrequencies("words:1", 1000, 5, hashes, counts)
    asked = np.concatenate([hashes, hashes ^ np.uint64(1 << 50), uint64([7])])
    weights = np.full(asked.size, 3, np.int32)
    multiply_by_idf(asked, weights, np.uint64(asked.size), found.table)
    known = dict(zip(hashes.tolist(), counts.tolist(), strict=True))
    assert weights.tolist() == [
        3 * frequency_oracle.idf(known.get(feature, 4), 1000) for feature in asked.tolist()
    ]
    assert found.table.idfs.max(initial=0) <= found.table.unknown


uses_idf = st.sampled_from(BY_RARITY)
texts = words_of(["the", "cat", "dog", "中", "文", "of", "rare", "The", "é"], 30)


@given(
    texts,
    st.lists(texts, max_size=6),
    shingles_of(3, uses_idf),
    st.integers(1, 4),
)
def test_weights_of_features_equal_the_oracle(text, collection, options, minimum):
    counts = frequency_oracle.frequencies(collection, options.unit, options.length, minimum)
    found = DocumentFrequencies(
        options.unweighted, len(collection), minimum, uint64(counts), uint64(counts.values())
    )
    features = features_of(text, options, found)
    expected = frequency_oracle.weighted(
        text, options.unit, options.length, options.weighting, counts, len(collection), minimum
    )
    assert features.shingles == tuple(expected)
    assert [Fraction(weight) for weight in features.weights] == [
        Fraction(weight, 64 * 64) for weight in expected.values()
    ]


def test_weights_are_near_what_the_formula_says():
    counts = {"the": 1000, "cat": 20}
    found = features_of("the cat the bird", FeatureOptions(weighting="log-tf-idf"),
                        frequencies_of(counts))  # fmt: skip
    expected = [
        (1 + math.log(2)) * 1,
        math.log(1001 / 21) + 1,
        math.log(1001 / 2) + 1,
    ]
    assert found.weights == pytest.approx(expected, rel=0.01)


def test_weights_with_frequencies_or_without_as_the_weighting_says():
    some = frequencies_of({"a": 2})
    for weighting in BY_RARITY:
        with pytest.raises(ValueError, match=rf"^frequencies: .* {weighting} needs document freq"):
            idf_table_for(FeatureOptions(weighting=weighting), None)
    for weighting in ("binary", "tf", "log-tf"):
        with pytest.raises(ValueError, match=rf"^frequencies: .* {weighting} does not use them"):
            idf_table_for(FeatureOptions(weighting=weighting), some)
        assert idf_table_for(FeatureOptions(weighting=weighting), None).unknown == 0
    with pytest.raises(ValueError, match="frequencies: "):
        features_of("a", FeatureOptions(weighting="tf-idf"))
    with pytest.raises(ValueError, match="frequencies: "):
        features_of("a", FeatureOptions(), some)


def test_frequencies_of_other_features_are_refused_and_both_named():
    some = frequencies_of({"a": 2}, features="words:2, stem english, normalize nfkc")
    others = r"of words:2, stem english, normalize nfkc cannot weigh words:1, normalize nfkc$"
    with pytest.raises(MrDedupError, match=others):
        idf_table_for(FeatureOptions(weighting="tf-idf"), some)
    same = FeatureOptions("words", 2, "tf-idf", stem="english")
    assert idf_table_for(same, some).unknown == some.unknown_idf


def test_descriptions_tell_frequencies_apart():
    options = FeatureOptions(weighting="tf-idf")
    some = {"a": 2, "b": 3}
    different = [
        frequencies_of(some), frequencies_of({"a": 3, "b": 3}), frequencies_of({"a": 2, "c": 3}),
        frequencies_of({"a": 2}), frequencies_of(some, documents=999),
        frequencies_of(some, minimum=1),
        frequencies_of(some, features="words:1, stem english, normalize nfkc"),
    ]  # fmt: skip
    assert len({feature_description(options, one) for one in different}) == len(different)
    assert feature_description(options, frequencies_of(some)) == feature_description(
        options, frequencies_of(some)
    )
    named = f"words:1, tf-idf, normalize nfkc, frequencies {different[0].digest}"
    assert feature_description(options, different[0]) == named
    assert feature_description(FeatureOptions(), None) == "words:1, log-tf, normalize nfkc"


def test_the_digest_is_that_of_every_version_and_machine():
    some = frequencies_of({"a": 2, "b": 3}, features="words:1")
    assert some.digest == "20b2f7543ffa02b9"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"documents": -1}, "documents must be from 0 to"),
        ({"documents": 1 << 63}, "documents must be from 0 to"),
        ({"minimum": 0}, "minimum must be from 1 to"),
        ({"hashes": np.array([1, 2])}, r"hashes must be uint64\[n\], got int64\(2,\)"),
        ({"counts": uint64([2])}, r"counts must be uint64\[n\], got uint64\(1,\)"),
        ({"hashes": uint64([2, 2])}, "hashes must be strictly ascending"),
        ({"hashes": uint64([3, 2])}, "hashes must be strictly ascending"),
        ({"counts": uint64([1, 2])}, "counts must be from 2 to 9"),
        ({"counts": uint64([2, 10])}, "counts must be from 2 to 9"),
    ],
)
def test_frequencies_that_cannot_be_are_refused(changed, said):
    sound = {
        "features": "words:1", "documents": 9, "minimum": 2,
        "hashes": uint64([1, 2]), "counts": uint64([2, 9]),
    }  # fmt: skip
    DocumentFrequencies(**sound)
    with pytest.raises(ValueError, match=said):
        DocumentFrequencies(**{**sound, **changed})


def same(one, other):
    return (
        (one.features, one.documents) == (other.features, other.documents)
        and one.minimum == other.minimum
        and one.hashes.tolist() == other.hashes.tolist()
        and one.counts.tolist() == other.counts.tolist()
    )


@costly
@given(
    st.dictionaries(st.integers(0, 2**64 - 1), st.integers(3, 2**40), max_size=30),
    st.integers(1, 3),
)
def test_any_frequencies_come_back_from_their_file(tmp_path_factory, counts, minimum):
    path = tmp_path_factory.mktemp("frequencies") / "f.parquet"
    hashes = sorted(counts)
    written = DocumentFrequencies(
        "characters:4, segment zh", 2**50, minimum, uint64(hashes),
        uint64(counts[feature] for feature in hashes),
    )  # fmt: skip
    written.write(path)
    assert same(DocumentFrequencies.read(path), written)


def test_a_file_of_many_features_takes_few_bytes_each_and_is_written_whole(tmp_path):
    rng = np.random.default_rng(1)
    hashes = np.unique(rng.integers(0, 2**64, 300_000, dtype=np.uint64))
    counts = np.minimum(rng.zipf(1.6, hashes.size) + 1, 10**6).astype(np.uint64)
    written = DocumentFrequencies("words:1", 10**6, 2, hashes, counts)
    path = tmp_path / "f.parquet"
    written.write(path)
    assert same(DocumentFrequencies.read(path), written)
    assert path.stat().st_size < 8 * hashes.size
    with pytest.raises(MrDedupError, match="exists; give --overwrite"):
        written.write(path)
    frequencies_of({}).write(path, overwrite=True)
    assert DocumentFrequencies.read(path).hashes.size == 0
    assert list(tmp_path.iterdir()) == [path]


def test_no_damaged_byte_gives_other_frequencies(tmp_path):
    written = frequencies_of({f"word {n}": n + 2 for n in range(40)}, documents=77)
    path = tmp_path / "f.parquet"
    written.write(path)
    content = path.read_bytes()
    damaged = tmp_path / "damaged.parquet"
    said = []
    for place in range(len(content)):
        damaged.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8])
                            + content[place + 1 :])  # fmt: skip
        try:
            found = DocumentFrequencies.read(damaged)
        except FormatError as error:
            said.append(str(error))
        else:
            # not all of a Parquet file is of use to those who read it
            assert same(found, written)
    assert len(said) > len(content) // 2
    assert all(line.startswith(str(damaged)) and "\n" not in line for line in said)
    for length in range(0, len(content), 7):
        damaged.write_bytes(content[:length])
        with pytest.raises(FormatError):
            DocumentFrequencies.read(damaged)


def test_metadata_that_lie_are_noticed(tmp_path):
    path = tmp_path / "f.parquet"
    frequencies_of({"a": 5, "b": 7}, documents=10).write(path)
    table = pq.read_table(path)
    for key, value, said in [
        ("documents", "11", "expected the digest"),
        ("documents", "6", "counts must be from 2 to 6"),
        ("documents", "many", "is damaged: "),
        ("min_documents", "3", "expected the digest"),
        ("features", "words:2", "expected the digest"),
        ("digest", "0" * 16, "expected the digest"),
    ]:
        metadata = {**table.schema.metadata, f"mr_dedup.{key}".encode(): value}
        pq.write_table(table.replace_schema_metadata(metadata), path)
        with pytest.raises(FormatError, match=said):
            DocumentFrequencies.read(path)
    pq.write_table(table.replace_schema_metadata({}), path)
    with pytest.raises(FormatError, match="lacks the metadata of document frequencies"):
        DocumentFrequencies.read(path)


def test_files_of_other_kinds_are_named(tmp_path):
    path = tmp_path / "f.parquet"
    with pytest.raises(MrDedupError, match=r"f\.parquet: cannot be read: No such file"):
        DocumentFrequencies.read(path)
    path.write_text("text")
    with pytest.raises(FormatError, match=r"f\.parquet: "):
        DocumentFrequencies.read(path)
    for columns in ({"id": ["a"], "fingerprint": [1]}, {"feature": [1], "documents": [2]}):
        pq.write_table(pa.table(columns), path)
        with pytest.raises(
            FormatError, match="contains no document frequencies; its columns are '"
        ):
            DocumentFrequencies.read(path)
