"""Tokens and Jaccard indices against character-by-character, set-by-set ones."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from data_gen.similarity import jaccards, tokens
from tests.data_gen.document_oracles import slow_jaccard, slow_shingles, slow_tokens

# few different tokens, so that shingles repeat
texts = st.lists(
    st.text(st.sampled_from("ab1 _,\n鄞打ÉéＡ９①"), max_size=30) | st.text(max_size=8), max_size=4
)


@given(st.text())
@example("A_b c1d-2\u00a0é\u0301x鄞打2024年 ＡＢ９ ﬁn 〇々")
def test_tokens(text: str) -> None:
    assert tokens(text) == slow_tokens(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't STOP, x_y 1,234 a1", ["don", "t", "stop", "x", "y", "1", "234", "a1"]),
        ("发布ab时间2024年，", ["发", "布", "ab", "时", "间", "2024", "年"]),
        ("Cafe\u0301 ２０", ["café", "20"]),
        ("", []),
    ],
)
def test_what_a_token_is(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@given(st.lists(texts, min_size=1, max_size=6), st.integers(1, 6))
def test_jaccards_are_those_of_sets_of_shingles(pages: list[list[str]], size: int) -> None:
    found = jaccards(pages, size)
    sets = [
        slow_shingles([token for block in page for token in slow_tokens(block)], size)
        for page in pages
    ]
    expected = [[slow_jaccard(one, other) for other in sets] for one in sets]
    assert found.tolist() == expected


@pytest.mark.parametrize("distinct", [2, 5000, 70_000, 2_200_000])
@pytest.mark.parametrize("size", [1, 3, 4, 5, 9])
def test_shingles_are_exact_for_any_number_of_tokens(distinct: int, size: int) -> None:
    # 70,000 different tokens are numbers of 17 bits: 3 of them fit 64 bits, 4 do not
    rng = np.random.default_rng(distinct + size)
    length = 8000
    words = rng.integers(0, distinct, length)
    words[: length // 2] += distinct  # so that numbers of high order occur too
    pages = [[" ".join(f"w{word}" for word in words)]]
    pages.append([" ".join(f"w{word}" for word in np.roll(words, length // 3))])
    pages.append([pages[0][0][: len(pages[0][0]) // 2]])
    if distinct > 50_000:
        pages.append([" ".join(f"w{word}" for word in range(distinct // 20))])
    sets = [slow_shingles(slow_tokens(page[0]), size) for page in pages]
    expected = [[slow_jaccard(one, other) for other in sets] for one in sets]
    assert jaccards(pages, size).tolist() == expected


def test_texts_without_shingles() -> None:
    assert jaccards([[], ["a b"], [""]], 3).tolist() == [[0.0] * 3] * 3
    assert jaccards([["a", "b", "c"], ["a b c"]], 3).tolist() == [[1.0, 1.0], [1.0, 1.0]]
