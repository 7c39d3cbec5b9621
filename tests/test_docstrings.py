"""The examples in docstrings give what they show, whichever module has one."""

import doctest
import importlib
from pathlib import Path

import pytest

import mr_dedup

PACKAGE = Path(mr_dedup.__file__).parent


def modules_with_examples():
    for path in sorted(PACKAGE.rglob("*.py")):
        if ">>> " in path.read_text():
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            yield ".".join(parts).removesuffix(".__init__")


def test_most_packages_have_examples():
    packages = {name.split(".")[1] for name in modules_with_examples() if "." in name}
    assert {"features", "formats", "index", "signatures", "urls"} <= packages


@pytest.mark.parametrize("name", list(modules_with_examples()))
def test_examples_are_right(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted
    assert found.failed == 0
