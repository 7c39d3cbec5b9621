"""The examples in the docstrings of the package."""

import doctest
import importlib

import pytest

MODULES = [
    "document_frequencies", "feature_counts", "normalisation", "options", "shingles", "text_batch",
]  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_examples_are_right(module):
    found = doctest.testmod(importlib.import_module(f"mr_dedup.features.{module}"))
    assert found.attempted
    assert not found.failed
