"""The examples in docstrings give what they show."""

import doctest

import pytest

from mr_dedup.report import differences, evaluation, hostile_text


@pytest.mark.parametrize("module", [differences, evaluation, hostile_text])
def test_examples(module):
    result = doctest.testmod(module)
    assert result.failed == 0
    assert result.attempted > 0
