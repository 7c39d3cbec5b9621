"""mr_dedup.Deduplicator: a stream of texts, against comparing all with all."""

import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mr_dedup
from mr_dedup.index.fingerprint_options import FingerprintOptions


def texts_of(seed, count=120):
    rng = random.Random(seed)
    originals = [
        " ".join(rng.choices([f"w{n}" for n in range(200)], k=80)) for _ in range(count // 3)
    ]
    texts = []
    for _ in range(count):
        words = rng.choice(originals).split()
        for _ in range(rng.randrange(3)):
            words[rng.randrange(len(words))] = f"other{rng.randrange(9)}"
        texts.append(" ".join(words))
    return texts


def new_ones(texts, k):
    """Which texts are not within k bits of one that is new before them."""
    values = FingerprintOptions().fingerprinter().of(pa.array(texts, pa.large_string())).tolist()
    stored, found = [], []
    for value in values:
        found.append(all((value ^ other).bit_count() > k for other in stored))
        if found[-1]:
            stored.append(value)
    return found


@pytest.mark.parametrize("k", [0, 3, 8])
@pytest.mark.parametrize("batch", [1, 7, 120])
def test_a_text_is_new_if_none_before_is_near(k, batch):
    texts = texts_of(k)
    expected = new_ones(texts, k)
    assert 0 < sum(expected) < len(texts)
    with mr_dedup.Deduplicator(k=k) as seen:
        found = [seen.add(texts[start : start + batch]) for start in range(0, len(texts), batch)]
        assert np.concatenate(found).tolist() == expected
        assert len(seen) == sum(expected)


def test_what_a_text_duplicates():
    page = "the quick brown fox jumps over the lazy dog"
    with mr_dedup.Deduplicator() as seen:
        assert seen.check_and_add([page, "an unrelated text of five words"]).matches == [[], []]
        again = seen.check_and_add([page, page, "one more"], ["x", "y", "z"])
        assert again.is_new.tolist() == [False, False, True]
        assert again.matches == [["0"], ["0"], []]
        # numbers are not used twice
        assert seen.check_and_add(["a text that is new", "a text that is new"]).matches == [
            [],
            ["2"],
        ]


def test_a_check_stores_nothing(tmp_path):
    texts = texts_of(5)
    stored, others = texts[:60], texts[60:]
    with mr_dedup.Deduplicator(tmp_path / "index") as seen:
        assert seen.check(texts[:2]).is_new.tolist() == [True, True]
        seen.add(stored, [f"page {row}" for row in range(60)])
        count = len(seen)
        found = seen.check([*others, others[0]])
        assert len(seen) == count
        is_new = [new_ones([*stored, other], 3)[-1] for other in [*others, others[0]]]
        assert found.is_new.tolist() == is_new == [not each for each in found.matches]
        assert 0 < sum(is_new) < len(is_new)
        assert seen.check(others).matches == found.matches[:-1]
        assert seen.check([]).matches == []
    with mr_dedup.Deduplicator(tmp_path / "index") as seen:
        assert len(seen) == count


def test_a_batch_that_is_passed_again_is_not_new(tmp_path):
    texts = texts_of(11, 30)
    ids = [f"page {row}" for row in range(len(texts))]
    with mr_dedup.Deduplicator(tmp_path / "index") as seen:
        first = seen.add(texts[:20], ids[:20])
        again = seen.check_and_add(texts, ids)
        assert not again.is_new[:20].any()
        for row in np.flatnonzero(first).tolist():
            assert again.matches[row][0] == ids[row]
        assert [*first, *again.is_new[20:]] == new_ones(texts, 3)
        count = len(seen)
        assert not seen.add(texts, ids).any()
        assert len(seen) == count


def test_a_page_that_changed_replaces_what_is_stored_under_its_id():
    page = "the quick brown fox jumps over the lazy dog"
    changed = "an entirely different text of seven words"
    with mr_dedup.Deduplicator() as seen:
        # in one batch, and in several
        assert seen.add([page, page], ["a", "a"]).tolist() == [True, False]
        assert seen.check_and_add([changed, changed, page], ["a", "a", "b"]).matches == [
            [],
            ["a"],
            [],
        ]
        assert seen.check([changed, page]).matches == [["a"], ["b"]]
        # a near-duplicate of another text is not stored, and what is under its id stays
        assert seen.add([page], ["a"]).tolist() == [False]
        assert seen.check([changed, page]).matches == [["a"], ["b"]]


FORKING = """
import os
import mr_dedup

with mr_dedup.Deduplicator() as seen:
    seen.add(["one two three four"])
    child = os.fork()
    if child == 0:
        ended = seen.check(["one two three four", "another"]).matches != [["0"], []]
        try:
            seen.add(["another"])
            ended = 2
        except mr_dedup.MrDedupError:
            pass
        os._exit(ended)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), len(seen), *seen.add(["another"]))
"""


def test_a_forked_child_may_check_and_not_add():
    done = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "0 1 True\n", done.stderr


def test_threads_share_it():
    texts = texts_of(2)
    with mr_dedup.Deduplicator() as seen, ThreadPoolExecutor(4) as threads:
        found = list(threads.map(seen.check_and_add, [texts] * 8))
        assert sum(each.is_new.sum() for each in found) == len(seen) == sum(new_ones(texts, 3))
        assert not any(each.is_new.any() for each in threads.map(seen.check, [texts] * 8))


def test_options_are_those_of_the_index(tmp_path):
    folder = tmp_path / "index"
    words_2 = mr_dedup.FingerprintOptions(features="words:2")
    with mr_dedup.Deduplicator(folder) as seen:
        assert seen.index.k == 3
    for options, message in [
        ({"k": 9}, r"^k: the index .*/index was made with k=3, not 9$"),
        ({"options": words_2}, r"^options: .*/index are made from words:1, .*, not words:2, "),
        ({"k": -1}, "not -1"),
    ]:
        with pytest.raises(ValueError, match=message):
            mr_dedup.Deduplicator(folder, **options)
    # the index is closed after each error, and opened by what it was made with
    same = {"k": 3, "options": mr_dedup.FingerprintOptions()}
    for options in {}, {"k": 3}, same:
        with mr_dedup.Deduplicator(folder, **options) as seen:
            assert seen.index.k == 3
    with pytest.raises(ValueError, match="k must be from 0 to 32, not 33"):
        mr_dedup.Deduplicator(k=33)


def test_an_index_on_disk_outlives_the_process(tmp_path):
    options = mr_dedup.FingerprintOptions(features="words:2")
    with mr_dedup.Deduplicator(tmp_path / "index", k=2, options=options) as seen:
        assert seen.add(["one two three four five"], ["a"]).tolist() == [True]
        with pytest.raises(ValueError, match="ids: required with a folder"):
            seen.add(["another"])
    with mr_dedup.Deduplicator(tmp_path / "index") as seen:
        found = seen.check_and_add(["one two three four five", "six seven eight nine"], ["b", "c"])
        assert found.matches == [["a"], []]
        assert seen.index.k == 2
        with pytest.raises(mr_dedup.MrDedupError):
            mr_dedup.Deduplicator(tmp_path / "index")


@pytest.mark.parametrize("method", ["add", "check", "check_and_add"])
def test_one_text_is_no_sequence_of_texts(method):
    with mr_dedup.Deduplicator() as seen:
        call = getattr(seen, method)
        message = r"^texts: expected a sequence of texts, got a text; pass \[text\]$"
        for text in "hello world", b"hello world":
            with pytest.raises(TypeError, match=message):
                call(text)
        for texts, message in [
            (["one", None], "^texts: element 1 is None, not a text$"),
            (["one", 3], r"^texts: expected a sequence of texts \(.*'int' object"),
            (3, "^texts: expected a sequence of texts"),
        ]:
            with pytest.raises(TypeError, match=message):
                call(texts)
        if method != "check":
            with pytest.raises(TypeError, match=r"^ids: expected a sequence of ids, got a text"):
                call(["one", "two"], "ab")
        assert len(seen) == 0


COLUMNS = {
    "numpy": np.array,
    "pandas": pd.Series,
    "polars": pl.Series,
    "arrow": pa.array,
    "arrow, in chunks": lambda values: pa.chunked_array([values[:1], values[1:]]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_texts_may_be_a_column(kind):
    column = COLUMNS[kind]
    with mr_dedup.Deduplicator() as seen:
        texts = column(["one text", "another one"])
        assert seen.add(texts, column(["a", "b"])).tolist() == [True, True]
        assert seen.check(texts).matches == [["a"], ["b"]]


@pytest.mark.parametrize("ids", [["a"], ["a", ""], ["a", 3]])
def test_ids_that_are_none_are_refused(ids):
    with mr_dedup.Deduplicator() as seen:
        with pytest.raises((ValueError, TypeError)):
            seen.add(["one text", "another text"], ids)
        assert len(seen) == 0
