"""Which documents are similar: all pairs and samples, beside comparing all with all."""

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from bench.field import truth
from bench.field.quality import content_sha256
from bench.field.shingle_kernels import Matches, Sets, match
from bench.field.truth import indexed

THRESHOLDS = [0.3, 0.5, 0.7, 0.8, 0.9, 1.0]

# few values, so that sets have much in common
SETS = st.lists(st.sets(st.integers(1, 40), min_size=1, max_size=30), max_size=12)


def as_sets(found):
    hashes = np.array([h for each in found for h in sorted(each)], np.uint64)
    return Sets(np.cumsum([0, *map(len, found)]), hashes)


def jaccard(one, other):
    return len(one & other) / len(one | other)


def matches(documents, queries, threshold, room):
    index = indexed(as_sets(queries), threshold)
    out = Matches(np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room))
    shared, first, found = np.zeros(len(queries), np.int32), 0, []
    while first < len(documents):
        count, first = match(
            as_sets(documents), first, as_sets(queries), index, threshold, shared, out
        )
        found += zip(*(column[:count].tolist() for column in out), strict=True)
    assert not shared.any()
    return sorted(found)


@pytest.mark.parametrize("threshold", THRESHOLDS)
@given(SETS, SETS.filter(bool))
def test_matches_are_those_of_comparing_all_with_all(threshold, documents, queries):
    expected = [
        (d, q, jaccard(document, query))
        for d, document in enumerate(documents)
        for q, query in enumerate(queries)
        if jaccard(document, query) >= threshold
    ]
    assert matches(documents, queries, threshold, 1000) == expected
    assert matches(documents, queries, threshold, len(queries)) == expected


@pytest.mark.parametrize("size", [*range(1, 40), 90, 1000])
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_pairs_just_at_the_threshold_are_found(size, threshold):
    """Sets of which one has the other, as small as they may be; and one smaller."""
    query = set(range(1, size + 1))
    few = next(n for n in range(size + 1) if n / size >= threshold)
    for kept in (set(range(1, few + 1)), set(range(size - few + 1, size + 1))):
        assert [row for row, *_ in matches([kept], [query], threshold, 9)] == [0] * bool(kept)
    assert matches([set(range(1, few))], [query], threshold, 9) == []


@pytest.fixture
def corpus(tmp_path):
    """Three parts of 60 families of four documents: a text, a copy, near copies."""
    rng = np.random.default_rng(7)
    rows = []
    for family in range(60):
        words = [f"w{n}" for n in rng.integers(0, 300, rng.integers(2, 120))]
        near = [*words[:-1], "end"]
        far = ["other"] * (len(words) // 8) + words[len(words) // 8 :]
        rows += [(f"{family}-{i}", " ".join(t)) for i, t in enumerate((words, words, near, far))]
    rng.shuffle(rows)
    for part, begin in enumerate(range(0, len(rows), 90)):
        ids, texts = zip(*rows[begin : begin + 90], strict=True)
        table = pa.table({"id": pa.array(ids, pa.large_string()), "text": texts, "kind": texts})
        pq.write_table(table, tmp_path / f"part-{part}.parquet")
    return tmp_path, {str(identifier): str(text) for identifier, text in rows}


def similar_pairs(texts, threshold):
    """Pairs in both orders, by words."""
    shingles = {}
    for identifier, text in texts.items():
        words = text.split()
        few = [tuple(words[i : i + 3]) for i in range(len(words) - 2)]
        shingles[identifier] = set(few or [tuple(words)])
    return {
        (one, other): jaccard(shingles[one], shingles[other])
        for one in texts
        for other in texts
        if one != other and jaccard(shingles[one], shingles[other]) >= threshold
    }


def read(out):
    rows = pq.read_table(out / "pairs.parquet").to_pylist()
    found = {(row["id"], row["other"]): row["jaccard"] for row in rows}
    assert len(found) == len(rows)
    sample = pq.read_table(out / "sample.parquet")
    return found, sample["id"].to_pylist()


@pytest.mark.parametrize("threshold", [0.5, 0.7])
def test_all_pairs_of_a_corpus_are_found(threshold, corpus, tmp_path, capsys):
    folder, texts = corpus
    (folder / "corpus.json").write_text('{"content_sha256": "00ff"}')
    out = tmp_path / "truth/all"
    truth.main([str(folder), str(out), "--threshold", str(threshold)])
    found, sample = read(out)
    assert found == similar_pairs(texts, threshold)
    assert sorted(sample) == sorted(texts)
    assert content_sha256(out) == "00ff"
    assert capsys.readouterr().out == f"{len(found)} pairs in {out}\n"


def test_all_near_duplicates_of_a_sample_are_found(corpus, tmp_path):
    folder, texts = corpus
    expected = similar_pairs(texts, 0.7)
    samples = []
    for size in (1, 20, 60, 1000):
        out = tmp_path / f"truth-{size}"
        truth.main([str(folder), str(out), "--sample", str(size)])
        found, sample = read(out)
        samples.append(set(sample))
        assert len(sample) == min(size, len(texts))
        assert found == {pair: each for pair, each in expected.items() if pair[0] in sample}
    assert samples[0] < samples[1] < samples[2] < samples[3]


def test_a_batch_of_more_matches_than_there_is_room_for(corpus, tmp_path, monkeypatch):
    folder, texts = corpus
    monkeypatch.setattr(truth, "_MATCHES", 1)
    truth.main([str(folder), str(tmp_path / "truth")])
    assert read(tmp_path / "truth")[0] == similar_pairs(texts, 0.7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{empty}", "{out}"], "contains no Parquet files"),
        (["{empty}", "{empty}"], "exists"),
        (["{empty}", "{out}", "--threshold", "0"], "--threshold: "),
        (["{empty}", "{out}", "--sample", "0"], "--sample: "),
    ],
)
def test_usage_errors_are_one_line(arguments, message, tmp_path, capsys):
    folders = {"empty": tmp_path, "out": tmp_path / "out"}
    with pytest.raises(SystemExit) as ended:
        truth.main([each.format(**folders) for each in arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
