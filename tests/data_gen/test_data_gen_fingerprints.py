"""What is written, read back with struct alone and compared bit by bit."""

import dataclasses
import hashlib
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_gen.distributions import Clustered, Distribution, Prefix, Uniform, Zipf
from data_gen.fingerprints import (
    MAX_CHUNKS,
    FingerprintParameters,
    corpus_blocks,
    make_duplicates,
    make_near_misses,
    make_queries,
    truth_lines,
    write,
)
from data_gen.streams import BLOCK_LONGS

BASE = FingerprintParameters(
    queries=60, corpus=3000, duplicates_per_query=4, k=3, seed=20, near_misses=3
)
DISTRIBUTIONS = [
    Uniform(),
    Prefix(20, 0.9),
    Clustered(8, 2),
    Zipf(30, 1.0),
]


def made(folder: Path, **changes: Any) -> Path:
    write(dataclasses.replace(BASE, **changes), folder)
    return folder


def read_longs(path: Path) -> list[int]:
    data = path.read_bytes()
    return [value for (value,) in struct.iter_unpack(">q", data)]


def read_corpus(folder: Path) -> list[int]:
    return [value for path in sorted(folder.glob("corpus-*.longs")) for value in read_longs(path)]


def read_truth(folder: Path) -> dict[int, list[int]]:
    lines = (folder / "truth.tsv").read_text(encoding="ascii").splitlines()
    rows = [[int(word) for word in line.split("\t")] for line in lines]
    assert len({row[0] for row in rows}) == len(rows)
    return {query: found for query, *found in rows}


def distance(a: int, b: int) -> int:
    return ((a ^ b) & (2**64 - 1)).bit_count()


def neighbours(
    queries: list[int], corpus: list[int], minimum: int, maximum: int
) -> dict[int, list[int]]:
    """All pairs, compared one by one."""
    found = {
        query: sorted({value for value in corpus if minimum <= distance(query, value) <= maximum})
        for query in sorted(set(queries))
    }
    return {query: values for query, values in found.items() if values}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("flips", ["up-to", "exactly"])
@pytest.mark.parametrize("k", [0, 1, 3, 10, 62])
def test_every_planted_pair_is_near_and_in_the_corpus(
    tmp_path: Path, distribution: Distribution, flips: str, k: int
) -> None:
    folder = made(tmp_path / "out", distribution=distribution, flips=flips, k=k)
    queries, corpus = read_longs(folder / "queries.longs"), read_corpus(folder)
    truth = read_truth(folder)
    assert len(queries) == 60
    assert len(corpus) == 3000
    assert set(truth) == set(queries)
    for query, planted in truth.items():
        assert set(planted) <= set(corpus)
        # an equal query, k bits away exactly, is the same query: so this is true of merged lines
        minimum = k if flips == "exactly" else 0
        assert all(minimum <= distance(query, value) <= k for value in planted)
    assert list(truth) == sorted(truth)
    assert all(planted == sorted(set(planted)) for planted in truth.values())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("flips", ["up-to", "exactly"])
def test_in_uniform_data_the_truth_has_all_pairs_within_k(
    tmp_path: Path, seed: int, flips: str
) -> None:
    folder = made(tmp_path / "out", seed=seed, flips=flips)
    queries, corpus = read_longs(folder / "queries.longs"), read_corpus(folder)
    assert neighbours(queries, corpus, 0, 3) == read_truth(folder)


def test_near_misses_are_in_the_corpus_one_and_two_bits_too_far(tmp_path: Path) -> None:
    folder = made(tmp_path / "out", near_misses=5)
    queries, corpus = read_longs(folder / "queries.longs"), read_corpus(folder)
    for bits, count in ((4, 3), (5, 2), (6, 0)):
        decoys = neighbours(queries, corpus, bits, bits)
        assert {query: len(found) for query, found in decoys.items()} == (
            dict.fromkeys(sorted(queries), count) if count else {}
        )
    truth = read_truth(folder)
    assert max(distance(query, near) for query in truth for near in truth[query]) == 3


def test_a_near_miss_that_is_a_duplicate_of_another_query(tmp_path: Path) -> None:
    dense = {"queries": 300, "k": 1, "distribution": Clustered(1, 1), "near_misses": 4}
    parameters = dataclasses.replace(BASE, **dense)
    queries = make_queries(parameters)
    planted = make_duplicates(parameters, queries).view(np.int64)
    decoys = set(make_near_misses(parameters, queries).view(np.int64).ravel().tolist())
    assert len(decoys & set(planted.ravel().tolist())) > 10
    pairs = {
        (query, value)
        for query, row in zip(queries.view(np.int64).tolist(), planted.tolist(), strict=True)
        for value in row
    }
    truth = read_truth(made(tmp_path / "out", **dense))
    assert {(query, value) for query in truth for value in truth[query]} == pairs


def test_a_corpus_of_planted_values_only(tmp_path: Path) -> None:
    parameters = dataclasses.replace(BASE, corpus=60 * 7)
    queries = make_queries(parameters)
    planted = [
        *make_duplicates(parameters, queries).view(np.int64).ravel().tolist(),
        *make_near_misses(parameters, queries).view(np.int64).ravel().tolist(),
    ]
    corpus = read_corpus(made(tmp_path / "out", corpus=60 * 7))
    assert Counter(corpus) == Counter(planted)
    assert corpus != planted


def test_equal_queries_share_a_line(tmp_path: Path) -> None:
    folder = made(tmp_path / "out", distribution=Zipf(5, 0.0), flips="exactly", k=20)
    queries, truth = read_longs(folder / "queries.longs"), read_truth(folder)
    times = Counter(queries)
    assert len(times) == 5
    # 20 flipped bits of 64: copies do not coincide, so each equal query brings its own four
    assert {query: len(planted) for query, planted in truth.items()} == {
        query: 4 * count for query, count in times.items()
    }


def test_a_query_planted_unchanged_is_its_own_near_duplicate(tmp_path: Path) -> None:
    folder = made(tmp_path / "out", k=0)
    assert read_truth(folder) == {
        query: [query] for query in sorted(read_longs(folder / "queries.longs"))
    }


def test_counts_and_positions_of_flips_are_uniform() -> None:
    parameters = dataclasses.replace(
        BASE, queries=1000, duplicates_per_query=80, corpus=80_000, near_misses=0
    )
    queries = make_queries(parameters)
    masks = make_duplicates(parameters, queries) ^ queries[:, None]
    counts = Counter(mask.bit_count() for mask in masks.ravel().tolist())
    assert set(counts) == {0, 1, 2, 3}
    assert all(abs(count - 20_000) < 600 for count in counts.values())
    for bit in range(64):
        flipped = int((masks >> np.uint64(bit) & np.uint64(1)).sum())
        assert abs(flipped - 80_000 * 1.5 / 64) < 220


def test_planted_values_are_spread_over_the_corpus(tmp_path: Path) -> None:
    parameters = dataclasses.replace(BASE, queries=1000, corpus=100_000, near_misses=0)
    planted = set(make_duplicates(parameters, make_queries(parameters)).view(np.int64).flat)
    folder = made(tmp_path / "out", queries=1000, corpus=100_000, near_misses=0)
    positions = [position for position, value in enumerate(read_corpus(folder)) if value in planted]
    assert len(positions) == 4000
    tenths = Counter(position // 10_000 for position in positions)
    assert all(abs(tenths[tenth] - 400) < 100 for tenth in range(10))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_queries_and_filler_have_the_distribution(
    tmp_path: Path, distribution: Distribution
) -> None:
    folder = made(tmp_path / "out", distribution=distribution, duplicates_per_query=0)
    queries, corpus = read_longs(folder / "queries.longs"), read_corpus(folder)
    if isinstance(distribution, Zipf):
        assert set(queries) <= {value for value, n in Counter(corpus).items() if n > 1}
    elif isinstance(distribution, Prefix):
        tops = Counter(value >> 44 for value in corpus + queries)
        assert tops.most_common(1)[0][1] > 0.85 * 2880
    elif isinstance(distribution, Clustered):
        near = sum(distance(queries[0], value) <= 4 for value in corpus)
        assert near > 200
    else:
        assert len(set(corpus + queries)) == 3060


# the same bytes, however they are cut


def whole(folder: Path) -> dict[str, bytes]:
    corpus = b"".join(path.read_bytes() for path in sorted(folder.glob("corpus-*.longs")))
    others = {name: (folder / name).read_bytes() for name in ("queries.longs", "truth.tsv")}
    return {"corpus": corpus, **others}


@pytest.mark.parametrize(
    ("distribution", "chunks"),
    [*((each, 7) for each in DISTRIBUTIONS), (DISTRIBUTIONS[0], 2), (DISTRIBUTIONS[0], 1000)],
)
def test_any_chunk_size_gives_the_same_bytes(
    tmp_path: Path, distribution: Distribution, chunks: int
) -> None:
    corpus = 2 * BLOCK_LONGS + 928  # a multiple of 2 and 1000, not of 7 nor of a block
    chunk_bytes = -(-corpus // chunks) * 8
    one = made(tmp_path / "one", corpus=corpus, distribution=distribution)
    many = made(
        tmp_path / "many", corpus=corpus, distribution=distribution, chunk_bytes=chunk_bytes
    )
    names = sorted(path.name for path in many.glob("corpus-*"))
    assert names == [f"corpus-{number:05}.longs" for number in range(chunks)]
    sizes = [(many / name).stat().st_size for name in names]
    assert set(sizes[:-1]) == {chunk_bytes}
    assert 0 < sizes[-1] <= chunk_bytes
    assert [path.name for path in one.glob("corpus-*")] == ["corpus-00000.longs"]
    assert whole(many) == whole(one)


def test_effects_of_seeds_and_parameters(tmp_path: Path) -> None:
    one = whole(made(tmp_path / "one"))
    assert whole(made(tmp_path / "same")) == one
    other = whole(made(tmp_path / "other", seed=21))
    assert all(other[name] != one[name] for name in one)
    without = whole(made(tmp_path / "without", near_misses=0))
    assert without["queries.longs"] == one["queries.longs"]
    assert without["truth.tsv"] == one["truth.tsv"]
    assert without["corpus"] != one["corpus"]


GOLDEN = {
    "uniform": (Uniform(), "up-to", 3),
    "uniform, exactly": (Uniform(), "exactly", 3),
    "uniform, far": (Uniform(), "up-to", 62),
    "prefix": (Prefix(24, 0.75), "up-to", 3),
    "clustered": (Clustered(1000, 3), "up-to", 3),
    "zipf": (Zipf(70_000, 1.1), "up-to", 3),
}
DIGESTS = {
    "uniform": "72add8e8120ef8f60f854f14dd30098cafd8ee5cacaa819412e50eeb7b48b799",
    "uniform, exactly": "83a53f9ad30b2bc281917b5fcd014d718d6f65d4bd0172c954c311868ea26522",
    "uniform, far": "8f14f2e52739214c62721def6a947036e90a8664be89ca899be89e6359915623",
    "prefix": "71a926706459842ee995a16cddee896f56392b3fb6f74ed65ae7d90360b193cb",
    "clustered": "fb6a48864754f8564b25fbee2daf921ce2ec3f1ef677470f7c8a276ad1543f9f",
    "zipf": "f729641c2629af3e2680fcddc8e493fdde108cfcf4c901e081f9b10aae1c8af2",
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_values_of_a_seed(tmp_path: Path, name: str) -> None:
    distribution, flips, k = GOLDEN[name]
    folder = made(
        tmp_path / "out",
        queries=20_000,
        corpus=200_000,
        distribution=distribution,
        flips=flips,
        k=k,
        seed=2**64 - 59,
    )
    files = whole(folder)
    digest = hashlib.sha256(
        files["queries.longs"] + files["corpus"] + files["truth.tsv"]
    ).hexdigest()
    assert digest == DIGESTS[name]


# edges


@pytest.mark.parametrize(
    ("queries", "duplicates", "near_misses", "corpus"),
    [
        (0, 0, 0, 0),
        (0, 5, 2, 0),
        (0, 5, 2, 9),
        (5, 0, 0, 0),
        (5, 0, 0, 9),
        (5, 0, 1, 5),
        (1, 1, 0, 1),
    ],
)
def test_counts_of_zero(
    tmp_path: Path, queries: int, duplicates: int, near_misses: int, corpus: int
) -> None:
    parameters = FingerprintParameters(
        queries, corpus, duplicates, k=3, seed=1, near_misses=near_misses
    )
    steps: list[int] = []
    summary = write(parameters, tmp_path / "out", progress=steps.append)
    folder = tmp_path / "out"
    assert sorted(path.name for path in folder.iterdir()) == [
        "corpus-00000.longs",
        "queries.longs",
        "truth.tsv",
    ]
    assert len(read_longs(folder / "queries.longs")) == queries
    assert len(read_corpus(folder)) == corpus
    assert len(read_truth(folder)) == (queries if duplicates else 0)
    assert sum(steps) == parameters.steps
    assert summary.files == 3
    assert summary.bytes == sum(path.stat().st_size for path in folder.iterdir())


def test_all_64_bits_flipped_is_the_complement(tmp_path: Path) -> None:
    folder = made(tmp_path / "out", k=64, flips="exactly", near_misses=0)
    queries = read_longs(folder / "queries.longs")
    assert read_truth(folder) == {query: [~query] for query in sorted(queries)}


def test_a_summary_counts_what_was_written_and_progress_adds_up(tmp_path: Path) -> None:
    steps: list[int] = []
    parameters = dataclasses.replace(BASE, corpus=BLOCK_LONGS + 5, chunk_bytes=BLOCK_LONGS * 2)
    summary = write(parameters, tmp_path / "out", progress=steps.append)
    truth = read_truth(tmp_path / "out")
    assert summary.truth_pairs == sum(len(planted) for planted in truth.values())
    assert summary.files == len(list((tmp_path / "out").iterdir())) == 7
    assert summary.bytes == sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
    assert sum(steps) == parameters.steps == 60 + BLOCK_LONGS + 5


def test_blocks_of_the_corpus_are_what_is_written(tmp_path: Path) -> None:
    parameters = dataclasses.replace(BASE, corpus=BLOCK_LONGS + 5)
    queries = make_queries(parameters)
    planted = np.concatenate(
        [
            make_duplicates(parameters, queries).ravel(),
            make_near_misses(parameters, queries).ravel(),
        ]
    )
    blocks = list(corpus_blocks(parameters, planted))
    assert [block.size for block in blocks] == [BLOCK_LONGS, 5]
    written = read_corpus(made(tmp_path / "out", corpus=BLOCK_LONGS + 5))
    assert np.concatenate(blocks).view(np.int64).tolist() == written


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"queries": -1}, r"queries must be from 0 to .*, not -1"),
        ({"corpus": 2**60}, r"corpus must be from 0 to .*, not 1152921504606846976"),
        ({"duplicates_per_query": -2}, r"duplicates_per_query must be from 0 to .*, not -2"),
        ({"near_misses": -3}, r"near_misses must be from 0 to .*, not -3"),
        ({"seed": -1}, r"seed must be .*, not -1"),
        ({"seed": 2**64}, r"seed must be .*, not 18446744073709551616"),
        ({"k": -1}, r"k must be from 0 to 64, not -1"),
        ({"k": 65}, r"k must be from 0 to 64, not 65"),
        ({"k": 63}, r"k must be at most 62 for near misses .*, not 63"),
        ({"flips": "some"}, r"flips must be one of up-to, exactly, not 'some'"),
        ({"corpus": 419}, r"corpus must be at least 420, .*, not 419"),
        ({"chunk_bytes": 0}, r"chunk_bytes must be a positive multiple of 8, not 0"),
        ({"chunk_bytes": -8}, r"chunk_bytes must be a positive multiple of 8, not -8"),
        ({"chunk_bytes": 12}, r"chunk_bytes must be a positive multiple of 8, not 12"),
        (
            {"corpus": MAX_CHUNKS + 1, "chunk_bytes": 8},
            r"chunk_bytes must be large enough .* 100,000 files, not 8, which needs 100,001",
        ),
    ],
)
def test_parameters_are_refused_by_name_and_value(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        dataclasses.replace(BASE, **changes)


# the lines of the truth

longs = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    width = draw(st.integers(0, 4))
    rows = draw(st.lists(st.tuples(longs, st.lists(longs, min_size=width, max_size=width))))
    return [query for query, _ in rows], [values for _, values in rows]


@given(tables())
def test_truth_lines_merge_and_sort(table: tuple[list[int], list[list[int]]]) -> None:
    queries, duplicates = table
    merged: dict[int, set[int]] = {}
    for query, values in zip(queries, duplicates, strict=True):
        merged.setdefault(query, set()).update(values)
    expected = [
        "\t".join(str(number) for number in [query, *sorted(merged[query])]) + "\n"
        for query in sorted(merged)
        if merged[query]
    ]
    width = len(duplicates[0]) if duplicates else 3
    lines = truth_lines(
        np.array(queries, dtype=np.int64).view(np.uint64),
        np.array(duplicates, dtype=np.int64).reshape(len(queries), width).view(np.uint64),
    )
    assert lines == expected


@pytest.mark.parametrize("distribution", [Uniform(), Zipf(3, 0.5), Zipf(5000, 0.9)])
def test_a_truth_written_in_slices_is_the_truth_made_at_once(
    tmp_path: Path, distribution: Distribution
) -> None:
    changes = {"queries": 3000, "duplicates_per_query": 100, "corpus": 310_000, "k": 8}
    parameters = dataclasses.replace(BASE, **changes, distribution=distribution)
    queries = make_queries(parameters)
    lines = truth_lines(queries, make_duplicates(parameters, queries))
    folder = made(tmp_path / "out", **changes, distribution=distribution)
    assert (folder / "truth.tsv").read_text(encoding="ascii") == "".join(lines)
