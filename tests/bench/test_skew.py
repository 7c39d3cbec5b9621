"""The longest task of a run on Spark, by its event log."""

import pytest

from bench.skew import CASES, measured
from tests.engines.spark import sessions

pytestmark = list(sessions.MARKS)


@pytest.mark.parametrize("name", CASES)
def test_the_longest_task_is_one_of_a_job(tmp_path, name):
    tasks, usage = measured(name, tmp_path, 50)
    assert tasks.ended > 3
    assert 0 < tasks.longest < tasks.total < 3 * usage.seconds
    assert tasks.job in {"fingerprint", "cluster", "resolve", "keep"}
    assert list(tmp_path.iterdir()) == []
