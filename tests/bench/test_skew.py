"""The longest task of a run on Spark, by its event log."""

import json
from pathlib import Path

import pytest

import mr_dedup.jobs
from bench.skew import CASES, Tasks, measured, tasks_of
from tests.engines.spark import sessions


def test_times_and_jobs_of_tasks(tmp_path):
    def job(described, *stages):
        properties = {"spark.job.description": described}
        return {"Event": "SparkListenerJobStart", "Stage IDs": stages, "Properties": properties}

    def task(stage, launched, finished):
        info = {"Launch Time": launched, "Finish Time": finished}
        return {"Event": "SparkListenerTaskEnd", "Stage ID": stage, "Task Info": info}

    events = [
        {"Event": "SparkListenerLogStart"}, job("mr-dedup fingerprint", 0), task(0, 1000, 3000),
        job("mr-dedup resolve", 1, 2), task(1, 3000, 3500), task(2, 3500, 6500),
    ]  # fmt: skip
    (tmp_path / "log").write_text("".join(json.dumps(event) + "\n" for event in events))
    assert tasks_of(tmp_path / "log") == Tasks(3, 5.5, 3.0, "resolve")


@pytest.mark.parametrize("name", [pytest.param(name, marks=sessions.MARKS) for name in CASES])
def test_the_longest_task_is_one_of_a_job(tmp_path, name):
    tasks, usage = measured(name, tmp_path, 50)
    assert tasks.ended > 3
    assert 0 < tasks.longest < tasks.total < 3 * usage.seconds
    assert tasks.job in {path.stem for path in Path(mr_dedup.jobs.__file__).parent.glob("*.py")}
    assert list(tmp_path.iterdir()) == []
