"""Errors that are shown to users: their messages, however long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import MAX_MESSAGE, FormatError, MrDedupError, shortened


@given(st.text(st.sampled_from("a é\U0001f600\udc80\n"), max_size=40), st.integers(7, 30))
def test_a_message_keeps_its_beginning_and_its_end(text, limit):
    short = shortened(text, limit)
    if len(text) <= limit:
        assert short == text
    else:
        beginning, _, end = short.partition(" … ")
        assert limit - 1 <= len(short) <= limit
        assert text.startswith(beginning)
        assert text.endswith(end)


@pytest.mark.parametrize("length", [0, MAX_MESSAGE, MAX_MESSAGE + 1, 100_000])
def test_messages_of_errors_are_bounded(length):
    text = "é" * length
    assert len(str(MrDedupError(text))) == min(
        length, MAX_MESSAGE - 1 if length > MAX_MESSAGE else length
    )
    error = FormatError("a.jsonl", "line 7", text)
    assert str(error).startswith("a.jsonl, line 7: ")
    assert len(str(error)) <= MAX_MESSAGE
    assert error.reason == text
