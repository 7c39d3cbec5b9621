"""The Spark session of a process: one that is there already, or one that this package starts."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mr_dedup.engines.package import pack
from mr_dedup.errors import MrDedupError

_PACKAGE = "mr_dedup_package"
"""The directory of this package on executors."""

_LOG_SETTINGS = """\
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %p %c{{1}}: %m%n
"""

TRACEBACK = "Traceback (most recent call last):"
"""With what a report of an error of Python begins."""

_started: list[Any] = []
"""The session that this process has started, if any."""


@dataclass(frozen=True)
class SparkSettings:
    """How to run on Spark; None leaves a setting to Spark's own configuration.

    Attributes:
        master: The URL of the cluster's master, such as ``local[4]`` or ``spark://host:7077``.
        partitions: Reduce tasks; by default as many as map tasks, and at least one a core.
        properties: Settings of Spark, ``NAME=VALUE``, such as ``spark.executor.memory=4g``.
        archive: A packed environment, unpacked as ``environment`` in the directory of each
            executor, on the PYTHONPATH of its tasks.
        python_bin: The Python of the tasks; by default Spark's, on this machine that of the client.
    """

    master: str | None = None
    partitions: int | None = None
    properties: tuple[str, ...] = ()
    archive: str | None = None
    python_bin: str | None = None


def is_on_this_machine(session: Any) -> bool:
    """Return whether the executors of a session are on this machine."""
    return str(session.sparkContext.master).startswith("local")


def open_session(settings: SparkSettings) -> Any:
    """Return the session of this process; start one, which ends with the process.

    Raises:
        MrDedupError: If PySpark or Java is not there, the cluster is out of reach, or the session
            that is there has another master.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise MrDedupError("-r spark needs PySpark: pip install 'mr-dedup[spark]'")
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        master = session.sparkContext.master
        if settings.master is None or settings.master == master:
            return session
        if session not in _started:
            raise MrDedupError(
                f"--master {settings.master}: this process has a session of {master} already"
            )
        stop_session()
    session = _start(settings)
    _started[:] = [session]
    return session


def stop_session() -> None:
    """End the session that this process has started, if any."""
    while _started:
        with contextlib.suppress(Exception):
            _started.pop().stop()


atexit.register(stop_session)


def _start(settings: SparkSettings) -> Any:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("mr-dedup")
    is_local = (settings.master or "local").startswith("local")
    # it is read before a session's own settings
    python = settings.python_bin or (sys.executable if is_local else None)
    if python:
        os.environ["PYSPARK_PYTHON"] = python
    with _log_settings() as log_settings:
        options = {
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log_settings.as_uri()}",
            # a worker is forked from a server that has imported this package, not for each task
            "spark.python.worker.reuse": "true",
        }
        if is_local:
            options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        options |= dict(text.split("=", 1) for text in settings.properties)
        archives = [f"{settings.archive}#environment"] if settings.archive else []
        if not is_local:
            # as files: kernels that are compiled from a zip cannot be cached
            archives.append(f"{_package()}#{_PACKAGE}")
            options["spark.executorEnv.PYTHONPATH"] = f"./{_PACKAGE}{os.pathsep}./environment"
        if archives:
            options["spark.archives"] = ",".join(archives)
        if settings.master:
            builder = builder.master(settings.master)
        for name, value in options.items():
            builder = builder.config(name, value)
        try:
            session = builder.getOrCreate()
        except (PySparkException, OSError, RuntimeError) as error:
            raise MrDedupError(f"Spark does not start: {reason_of(error)}") from error
        except Exception as error:
            if type(error).__module__.partition(".")[0] != "py4j":
                raise
            raise MrDedupError(f"Spark does not start: {reason_of(error)}") from error
    return session


def reason_of(error: BaseException) -> str:
    """Return what Spark reports in one line, without stack traces of Java."""
    java = getattr(error, "java_exception", None)
    text = str(java.toString()) if java is not None else str(error)
    _, traceback, python = text.partition(TRACEBACK)
    if traceback:
        # of an error of Python within one of Java: the line after its indented ones
        lines = itertools.takewhile(lambda line: line.strip(), python.splitlines()[1:])
        return next((line for line in lines if not line.startswith((" ", "\t"))), "unknown")
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)


@contextlib.contextmanager
def _log_settings() -> Iterator[Path]:
    """Yield a file by which Spark logs nothing; MR_DEDUP_SPARK_LOG is another level."""
    with tempfile.TemporaryDirectory(prefix="mr-dedup-spark-") as folder:
        path = Path(folder) / "log4j2.properties"
        path.write_text(_LOG_SETTINGS.format(level=os.environ.get("MR_DEDUP_SPARK_LOG", "off")))
        yield path


def _package() -> Path:
    """Return an archive of this package, which lives as long as the process."""
    folder = Path(tempfile.mkdtemp(prefix="mr-dedup-package-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / f"{_PACKAGE}.zip"
    pack(path)
    return path
