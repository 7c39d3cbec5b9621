"""What commands on Spark read."""

from tests.storage.test_commands import made  # noqa: F401 (a fixture)
