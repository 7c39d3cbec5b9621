"""The examples of docstrings in formats."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("module", ["batches", "compression", "io_errors", "tables", "text"])
def test_examples_are_right(module):
    found = doctest.testmod(importlib.import_module(f"mr_dedup.formats.{module}"))
    assert found.attempted
    assert found.failed == 0
