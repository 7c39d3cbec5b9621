"""Sessions of Spark for tests, whose workers find the code under test and the tests."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mr_dedup.engines.spark.sessions import SparkSettings

MARKS = (
    pytest.mark.spark,
    # PySpark leaves sockets, and the pipe to Java, to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:unclosed file <_io.BufferedWriter:ResourceWarning"),
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <(socket|_io.FileIO):pytest.PytestUnraisableExceptionWarning"
    ),
)

_ROOT = Path(__file__).parents[3]


@contextlib.contextmanager
def master(url, **options) -> Iterator[SparkSettings]:
    """Yield the settings of a session; a session of another master ends when one is opened."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(_ROOT), *([before] if before else [])])
    try:
        yield SparkSettings(url, **options)
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before
