"""Conditions under which tasks run."""

import itertools
import resource
from pathlib import Path

import pytest


@pytest.fixture
def few_files():
    """Let this process open ten files more than it has open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_open = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
    free = (number for number in itertools.count() if number not in is_open)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(itertools.islice(free, 10, None)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
