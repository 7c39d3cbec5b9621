"""The examples in docstrings of the benchmark of the field."""

import doctest
import importlib
import pkgutil

import pytest

from bench import field

MODULES = [module.name for module in pkgutil.iter_modules(field.__path__, "bench.field.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_is_shown(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
