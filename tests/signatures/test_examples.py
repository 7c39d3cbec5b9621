"""The examples in the docstrings of the package."""

import doctest
import importlib

import pytest

MODULES = [
    "bands", "exact", "keyword_md5", "methods", "minhash", "minwise", "protocol", "segments",
    "text_profile",
]  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_examples_are_right(module):
    found = doctest.testmod(importlib.import_module(f"mr_dedup.signatures.{module}"))
    assert found.attempted
    assert not found.failed
