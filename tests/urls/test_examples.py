"""The examples in docstrings of the filter of URLs."""

import doctest
import importlib

import pytest

MODULES = ("canonical", "counting_bloom", "digests", "filter", "folds", "opening")


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    result = doctest.testmod(importlib.import_module(f"mr_dedup.urls.{name}"))
    assert result.attempted
    assert result.failed == 0
