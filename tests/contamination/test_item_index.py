"""The index of items as a file, and at sizes of real sets."""

import random

import numpy as np
import pytest

from mr_dedup.contamination.item_index import ItemIndex
from mr_dedup.contamination.options import MatchOptions
from mr_dedup.errors import FormatError
from tests.contamination.items import found_in, index_of, item, table_of


def random_items(count, words=2000, seed=3):
    draw = random.Random(seed)
    return [" ".join(f"w{draw.randrange(words)}" for _ in range(12)) for _ in range(count)]


def test_an_index_is_read_as_written(tmp_path):
    index = index_of(
        [item(text, answers=["one", "two"]) for text in random_items(50)] + [item("short")],
        max_edits=0.25,
    )
    index.write(tmp_path / "items")
    read = ItemIndex.read(tmp_path / "items")
    assert read.options == MatchOptions(max_edits=0.25)
    for one, other in zip(index.table, read.table, strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    for one, other in zip(index.uses, read.uses, strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(index.answers, read.answers)
    assert found_in(read, random_items(50)[:9]) == found_in(index, random_items(50)[:9])


def test_every_flipped_byte_of_an_index_is_noticed(tmp_path):
    path = tmp_path / "items"
    index_of([item(random_items(1)[0])]).write(path)
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(FormatError):
            ItemIndex.read(path)
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        with pytest.raises(FormatError):
            ItemIndex.read(path)


def test_an_index_of_nothing():
    index = ItemIndex.build(table_of([]), MatchOptions())
    assert len(index) == 0
    assert found_in(index, ["some text with a few words in it"]) == {}


@pytest.mark.slow
def test_a_hundred_thousand_items():
    texts = random_items(100_000, words=30_000)
    index = index_of([item(text) for text in texts])
    chosen = random.Random(1).sample(range(100_000), 300)
    documents = [f"before it {texts[number]} after it" for number in chosen]
    found = found_in(index, documents)
    for document, number in enumerate(chosen):
        (match,) = found[document]
        assert match.is_exact
        assert index.uses.items[index.uses.starts[match.text]] == number
    assert found_in(index, random_items(1000, words=30_000, seed=8)) == {}


def test_hostile_items():
    items = [
        item("<script>alert(1)</script> and more of it, so that it is long enough"),
        item("\ufffe\ufffe \u202e reversed text of a question that is long enough to be judged"),
        item("no " * 5000), item("a" * 100_000 + " b c d e f g"), item("\0 " * 50), item("𝔘" * 40),
    ]  # fmt: skip
    index = index_of(items)
    documents = [each["question"] for each in items]
    found = found_in(index, documents)
    assert [number for number, matches in found.items() if matches[0].is_exact] == [0, 1, 2, 3]
