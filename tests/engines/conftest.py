"""What is searched for, and where, on every engine."""

from pathlib import Path

import pytest


@pytest.fixture
def queries(corpus) -> Path:
    return corpus.folder / "queries.longs"


@pytest.fixture
def parts(corpus) -> list[str]:
    """The corpus as four files of longs."""
    return corpus.split(4)
