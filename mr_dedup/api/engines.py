"""Where a function's jobs run: the name of an engine, or a session of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Engine: TypeAlias = (
        Literal["auto", "memory", "inline", "local", "hadoop", "emr", "spark"] | SparkSession
    )


def runner_of(engine: Engine) -> str:
    """Return the name of the runner that an engine stands for.

    Raises:
        TypeError: It is neither a name nor a session.
        ValueError: It is a session that has ended, or another one than the active one.
    """
    if isinstance(engine, str):
        return engine
    if type(engine).__module__.partition(".")[0] != "pyspark":
        raise TypeError(f"engine: expected a name or a SparkSession, not {type(engine).__name__}")
    active = type(engine).getActiveSession()
    if active is not engine:
        raise ValueError("engine: not the active session of Spark, which jobs would use")
    return "spark"
