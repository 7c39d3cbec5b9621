"""The examples in docstrings of jobs."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("module", ["part_cache", "query", "reading"])
def test_examples(module):
    found = doctest.testmod(importlib.import_module(f"mr_dedup.jobs.{module}"))
    assert found.attempted
    assert not found.failed
