"""The Spark session of a process: one that is there already, or one that this package starts."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import itertools
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mr_dedup.engines.package import pack
from mr_dedup.engines.process import PROCESS_VARIABLES
from mr_dedup.errors import MrDedupError
from mr_dedup.files.temporary import removable_folder, temporary_folder

PACKAGE = "mr_dedup_package"
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

_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC"
"""Has Java on this machine compile once, quickly: to compile better what moves the tables of our
tasks took 8 of 40 CPU seconds, and saved none. An option that is given replaces it."""

_PROPERTIES = {
    # tables between tasks are compressed, and have checksums
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.shuffle.checksum.enabled": "false",
    "spark.shuffle.sort.bypassMergeThreshold": "1",
}
"""Settings of Spark unless others are given. By the last one a task writes what it shuffles to one
file, however few reduce tasks there are. Spark writes a file for each of up to 200 reduce tasks,
with a serializer each, and copies them to one, which takes 9 of 76 CPU seconds of 3 GB."""

_PYTHONPATH = "spark.executorEnv.PYTHONPATH"

NODE_ERROR = "mr_dedup.engines.spark.tasks.NodeError: "
"""With what a report of a NodeError begins, after the last attempt."""

TRACEBACK = "Traceback (most recent call last):"
"""With what a report of an error of Python begins."""


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


_started: list[tuple[Any, SparkSettings]] = []
"""The session that this process has started, if any, and its settings."""


def is_of_connect(session: Any) -> bool:
    """Return whether a session is one of Spark Connect, which has no RDDs."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def require_pyspark() -> None:
    """Raise MrDedupError if PySpark is not installed."""
    if importlib.util.find_spec("pyspark") is None:
        raise MrDedupError("-r spark needs PySpark: pip install 'mr-dedup[spark]'")


def open_session(settings: SparkSettings) -> Any:
    """Return the session of this process; start one, which ends with the process.

    One that this process has started with other settings ends before.

    Raises:
        MrDedupError: If PySpark or Java is not there, the cluster is out of reach, or the session
            that is there has other settings.
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    settings = replace(settings, partitions=None)
    if _started and _started[0][1] == settings:
        return _started[0][0]
    stop_session()
    session = SparkSession.getActiveSession()
    if session is None:
        session = _start(settings)
        _started[:] = [(session, settings)]
        return session
    _check(session, settings)
    return session


def stop_session() -> None:
    """End the session that this process has started, if any."""
    while _started:
        with contextlib.suppress(Exception):
            _started.pop()[0].stop()


atexit.register(stop_session)


def _check(session: Any, settings: SparkSettings) -> None:
    """Raise MrDedupError if a session that others have started is not as the settings say."""
    master = "Spark Connect" if is_of_connect(session) else session.sparkContext.master
    given = {"--master": settings.master, "-D": settings.properties or None,
             "--archive": settings.archive, "--python-bin": settings.python_bin}  # fmt: skip
    for option, value in given.items():
        if value is not None and value != master:
            raise MrDedupError(
                f"{option}: this process has a Spark session of {master} already, whose settings "
                "stay as they are"
            )


def _start(settings: SparkSettings) -> Any:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if settings.master is not None and settings.master.startswith("sc://"):
        return _connected(settings)
    builder = SparkSession.builder.appName("mr-dedup")
    configured = _Configured()
    # MASTER is an older way to say what the file says
    default = configured.value("spark.master") or os.environ.get("MASTER") or "local"
    is_local = _is_local(settings.master or default)
    python = settings.python_bin or os.environ.get("PYSPARK_PYTHON")
    if python or is_local:
        # it is read before a session's own settings
        os.environ["PYSPARK_PYTHON"] = python or sys.executable
    options = dict(text.split("=", 1) for text in settings.properties)
    options["spark.ui.showConsoleProgress"] = "false"
    defaults = dict(_PROPERTIES)
    if settings.master is not None and is_local:
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if is_local:
        defaults["spark.driver.extraJavaOptions"] = _JAVA_OPTIONS
        defaults["spark.executor.extraJavaOptions"] = _JAVA_OPTIONS
    given = options.get("spark.archives") or configured.value("spark.archives")
    archives = [each for each in given.split(",") if each]
    if settings.archive:
        archive = settings.archive
        # a path may have spaces, an address has none
        shown = archive if "://" in archive else Path(archive).absolute().as_uri()
        archives.append(f"{shown}#environment")
    if not is_local:
        # as files: the library of compiled kernels cannot be loaded from a zip
        archives.append(f"{package_archive().as_uri()}#{PACKAGE}")
        for name, value in PROCESS_VARIABLES.items():
            defaults[f"spark.executorEnv.{name}"] = value
        # on YARN, in cluster mode, that of PySpark is there already
        paths = [f"./{PACKAGE}", "./environment"]
        there = options.get(_PYTHONPATH) or configured.value(_PYTHONPATH)
        options[_PYTHONPATH] = os.pathsep.join([*paths, there] if there else paths)
    for name, value in defaults.items():
        if not configured.value(name):
            options.setdefault(name, value)
    if archives:
        options["spark.archives"] = ",".join(archives)
    master = settings.master or default
    if settings.master:
        builder = builder.master(settings.master)
    for name, value in options.items():
        builder = builder.config(name, value)
    with _quiet() as printed, _own_handler():
        try:
            return builder.getOrCreate()
        except Exception as error:
            is_of_spark = type(error).__module__.partition(".")[0] == "py4j"
            if not is_of_spark and not isinstance(error, (PySparkException, OSError, RuntimeError)):
                raise
            said = printed_reason(printed()) if "GATEWAY" in str(error) else ""
            reason = said or reason_of(error)
            raise _not_started(master, reason) from error


_NO_REASONS = ("WARNING", "Picked up ", "at ")
"""How lines begin that Java and Spark print beside errors."""


def printed_reason(text: str) -> str:
    """Return why Java has ended, in one line, by what it has printed; empty if it printed nothing.

    >>> printed_reason('Exception in thread "main" java.lang.Error: no room\\n\\tat a.b(C.java)\\n')
    'no room'
    """
    found = re.search(r'^Exception in thread "[^"]*" (?:[\w.$]+: )?(.*)', text, re.M)
    if found:
        return found[1].strip()
    # of several lines the first has the reason
    lines = [line.strip() for line in text.splitlines()]
    return next((line for line in lines if line and not line.startswith(_NO_REASONS)), "")


def _connected(settings: SparkSettings) -> Any:
    """Return a session of Spark Connect, to whose executors this package is sent."""
    from pyspark.sql import SparkSession

    given = {"-D": settings.properties, "--archive": settings.archive,
             "--python-bin": settings.python_bin}  # fmt: skip
    for option, value in given.items():
        if value:
            raise MrDedupError(
                f"{option}: not used by {settings.master}: the server of Spark Connect has its "
                "settings"
            )
    assert settings.master is not None
    _require_reachable(settings.master)
    try:
        return SparkSession.builder.remote(settings.master).getOrCreate()
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "grpc"):
            raise
        raise _not_started(settings.master, reason_of(error)) from error


def _require_reachable(master: str) -> None:
    """Raise MrDedupError if no server of Spark Connect listens there: PySpark tries for minutes."""
    address = urlsplit(master)
    try:
        where = address.hostname or "", address.port or _CONNECT_PORT
        socket.create_connection(where, _CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        reason = error.strerror or error if isinstance(error, OSError) else error
        raise _not_started(master, f"it cannot be reached: {reason}") from error


_CONNECT_PORT, _CONNECT_SECONDS = 15002, 30
"""Of Spark Connect by default, and how long its server may take to accept a connection."""


def _not_started(master: str | None, reason: str) -> MrDedupError:
    """Return the error for a session that cannot be made."""
    if "stopped SparkContext" in reason:
        # the context stops itself after a minute of tries
        reason = "it cannot be reached, or gives no executors"
    # parameters of Spark Connect may have a token
    shown = str(master).partition("/;")[0]
    return MrDedupError(f"Spark does not start with --master {shown}: {reason}")


def _is_local(master: str) -> bool:
    return master.startswith("local")


class _Configured:
    """Settings of Spark that are there before a session: of spark-submit, else of its file."""

    def __init__(self) -> None:
        self._submitted: Any = None
        self._text = ""
        if "PYSPARK_GATEWAY_PORT" in os.environ:
            # it has started this process, and has read the file
            from pyspark import SparkConf, SparkContext

            SparkContext._ensure_initialized()
            self._submitted = SparkConf()
            return
        from pyspark.find_spark_home import _find_spark_home

        folder = Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home()) / "conf")
        file = folder / "spark-defaults.conf"
        self._text = file.read_text(errors="replace") if file.is_file() else ""

    def value(self, name: str) -> str:
        """Return a setting, empty if there is none."""
        if self._submitted is not None:
            return str(self._submitted.get(name, "") or "")
        found = re.findall(rf"^[ \t]*{re.escape(name)}[ \t]*[ \t=:][ \t]*(\S.*)$", self._text, re.M)
        return found[-1].strip() if found else ""


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
def _own_handler() -> Iterator[None]:
    """Have the process handle SIGINT after the block as before it: PySpark sets a handler."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextlib.contextmanager
def _quiet() -> Iterator[Callable[[], str]]:
    """Have Java that starts in the block print nothing; yield what tells what it has printed.

    With MR_DEDUP_SPARK_LOG, a level of log4j, it prints its log to standard error.
    """
    level = os.environ.get("MR_DEDUP_SPARK_LOG")
    before = os.environ.get("SPARK_SUBMIT_OPTS")
    with temporary_folder() as folder:
        settings, printed = folder / "log4j2.properties", folder / "printed"
        settings.write_text(_LOG_SETTINGS.format(level=level or "off"))
        option = f"-Dlog4j2.configurationFile={settings.as_uri()}"
        os.environ["SPARK_SUBMIT_OPTS"] = f"{before} {option}" if before else option
        try:
            if level:
                yield lambda: ""
            else:
                with _descriptors_to(printed):
                    yield lambda: printed.read_text(errors="replace")
        finally:
            os.environ.pop("SPARK_SUBMIT_OPTS")
            if before is not None:
                os.environ["SPARK_SUBMIT_OPTS"] = before


@contextlib.contextmanager
def _descriptors_to(path: Path) -> Iterator[None]:
    """Have the standard output and error of processes that start in the block be a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    usual = [(number, os.dup(number)) for number in (1, 2)]
    try:
        with path.open("wb") as file:
            for number, _ in usual:
                os.dup2(file.fileno(), number)
        yield
    finally:
        for number, duplicate in usual:
            os.dup2(duplicate, number)
            os.close(duplicate)


def package_archive() -> Path:
    """Return an archive of this package, which lives as long as the process."""
    folder, remove = removable_folder()
    atexit.register(remove)
    path = folder / f"{PACKAGE}.zip"
    pack(path)
    return path


@contextlib.contextmanager
def spark_errors() -> Iterator[None]:
    """Raise what Spark reports in the block as MrDedupError; a bug of a task as RuntimeError."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("py4j", "pyspark"):
            raise
        raise _error_of(error) from error


def _error_of(error: Exception) -> Exception:
    reason = reason_of(error)
    if "stopped SparkContext" in reason:
        return MrDedupError("Spark: its session has ended; is the master out of reach?")
    if reason.startswith("ModuleNotFoundError"):
        return MrDedupError(f"Spark: the Python of executors lacks a package: {reason}")
    if NODE_ERROR in reason:
        return MrDedupError(reason.partition(NODE_ERROR)[2])
    if TRACEBACK in str(error) and not reason.startswith("pyspark."):
        return RuntimeError(f"in a task on Spark: {reason}")
    return MrDedupError(f"Spark: {reason}")
