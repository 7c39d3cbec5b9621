"""The examples in docstrings of the index."""

import doctest
import importlib

import pytest

MODULES = (
    "folder", "hamming_index", "hits", "http_messages", "made_from", "merging",
    "protocol", "reader", "verification",
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    result = doctest.testmod(importlib.import_module(f"mr_dedup.index.{name}"))
    assert result.attempted
    assert result.failed == 0
