"""What commands on Spark read, and which of their jobs tasks of Spark run."""

import pytest

from mr_dedup.cli import dedup_jobs
from tests.storage.test_commands import made  # noqa: F401 (a fixture)


@pytest.fixture(autouse=True)
def all_by_tasks(request, monkeypatch):
    """Have tasks of Spark read shards as well, however few."""
    if "in_the_command" not in request.fixturenames:
        monkeypatch.delitem(dedup_jobs.SMALL_BYTES, "spark")


@pytest.fixture
def in_the_command():
    """Have the command read few shards, as it does."""
