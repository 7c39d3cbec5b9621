"""From what tasks and Hadoop say to one line."""

import pytest

from mr_dedup.engines.reporting import Progress
from mr_dedup.engines.streaming.client_log import ClientLog
from mr_dedup.engines.streaming.failures import explain, read_failures

TASK = "task_1795_0007_m_000002"
GIVEN_UP = f"Job job_1795_0007 failed with state FAILED due to: Task failed {TASK}\nJob failed"

TRACEBACK = """\
+ exec python query.py
Traceback (most recent call last):
  File "query.py", line 10, in <module>
    run()
  File "/tmp/mr_dedup-0/code-1/mr_dedup/{file}", line 17, in run
    raise Something
"""


def report(said, *, attempt="attempt_1795_0007_m_000002_1", code=1, input="hdfs:///c/x.longs"):
    """What task_script writes."""
    body = "".join(f" {line}\n" for line in said.splitlines())
    return f"failed: {attempt} {code} node-7\n{input}\n{body}"


def log_of(*messages, level="INFO"):
    log = ClientLog(Progress())
    for message in messages:
        log.see({"message": message, "level": level, "logger": "mapreduce.Job"})
    return log


def explained(said, **fields):
    return explain(log_of(GIVEN_UP), read_failures(report(said, **fields)))


def test_reports_are_told_from_one_another():
    first, second = read_failures(
        report("a\n\nfailed: attempt_9 1 nowhere") + report("b", code=137, input="")
    )
    assert (first.said, first.code, first.input) == (
        "a\n\nfailed: attempt_9 1 nowhere", 1, "hdfs:///c/x.longs",
    )  # fmt: skip
    assert (second.said, second.code, second.node, second.input) == ("b", 137, "node-7", "")
    assert read_failures("") == []


@pytest.mark.parametrize(
    ("raised", "message", "is_bug"),
    [
        ("mr_dedup.errors.FormatError: hdfs:///c/x.longs, byte 8: is damaged",
         "hdfs:///c/x.longs, byte 8: is damaged", False),
        ("mr_dedup.errors.MrDedupError: will not",
         "map task 2 on hdfs:///c/x.longs: will not", False),
        ("MemoryError", "map task 2 on hdfs:///c/x.longs: out of memory; try a larger", False),
        ("numpy.exceptions.AxisError: two\nlines",
         "2 on hdfs:///c/x.longs: numpy.exceptions.AxisError: two lines (search.py:17)", True),
        ("OSError: [Errno 28] No space left on device",
         "map task 2 on hdfs:///c/x.longs on node-7: OSError: [Errno 28] No space left", False),
        ("ModuleNotFoundError: No module named 'pyarrow'",
         "the Python of the node node-7: No module named 'pyarrow'; install mr-dedup there", False),
        ("SyntaxError: invalid syntax", "on node-7: SyntaxError: invalid syntax", False),
    ],
)  # fmt: skip
def test_what_a_task_raised_is_told(raised, message, is_bug):
    why = explained(TRACEBACK.format(file="hamming/search.py") + raised)
    assert message in why.message
    assert why.is_bug is is_bug


def test_the_last_of_chained_exceptions_counts():
    said = TRACEBACK.format(file="a.py") + "KeyError: 1\n\nDuring handling of the above…\n\n"
    why = explained(said + TRACEBACK.format(file="b.py") + "mr_dedup.errors.MrDedupError: at last")
    assert why.message == "map task 2 on hdfs:///c/x.longs: at last"


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        ("task.sh: 49: exec: py: not found", 127, "on the node node-7: task.sh: 49: exec: py: not"),
        ("", 137, "on the node node-7: ended by signal 9; out of memory? try --task-memory"),
        ("", 3, "map task 2 on hdfs:///c/x.longs: on the node node-7: exit code 3"),
        ("copyToLocal: Call From a/1 to b:8020 failed on connection exception: "
         "java.net.ConnectException: Connection refused; For more details see: x", 1,
         "the cluster cannot be reached at b:8020: Connection refused"),
    ],
)  # fmt: skip
def test_a_task_that_ends_without_a_traceback_is_told(said, code, message):
    assert message in explained(said, code=code).message


def test_the_task_for_which_the_job_was_given_up_is_told_not_another():
    reports = report("one", attempt="attempt_1795_0007_m_000002_3")
    reports += report("another", attempt="attempt_1795_0007_m_000005_1")
    reports += report("a first try", attempt="attempt_1795_0007_m_000002_0")
    why = explain(log_of(GIVEN_UP), read_failures(reports))
    assert why.message == "map task 2 on hdfs:///c/x.longs: on the node node-7: one"


def test_what_hadoop_says_of_an_attempt_is_told_where_the_task_could_not():
    attempt = "Task Id : attempt_1795_0007_m_000002_0, Status : FAILED\n"
    grown = (
        "[2026-11-21 13:02:03.4]Container [pid=5,containerID=container_1] is running 19529728B "
        "beyond the 'PHYSICAL' memory limit. Current usage: 274.6 MB of 256 MB physical memory "
        "used; 2.5 GB of 537.6 MB virtual memory used. Killing container.\nDump of the process"
    )
    assert explain(log_of(attempt + grown, GIVEN_UP), []).message == (
        "map task 2: used 274.6 MB of 256 MB physical memory and was killed for it; "
        "try a larger --task-memory"
    )
    java = (
        "Error: java.lang.RuntimeException: outer\n\tat a.B.c(D.java:1)\n"
        "Caused by: org.apache.hadoop.ipc.RemoteException(org.x.DSQuotaExceededException): "
        "The DiskSpace quota is exceeded\n\tat e.F.g(H.java:2)\n"
    )
    why = explain(log_of(attempt + java, GIVEN_UP), [])
    assert why.message == "map task 2: The DiskSpace quota is exceeded"


def test_what_hadoop_says_of_the_job_is_told_where_no_task_failed():
    failed = "Job job_1795_0007 failed with state FAILED due to: no capacity"
    assert explain(log_of(failed), []).message == "the job failed: no capacity"
    log = log_of("Error Launching job : unknown queue: nix", level="ERROR")
    assert explain(log, []).message == "the job failed: Error Launching job : unknown queue: nix"
    assert "gave no reason" in explain(log_of(), []).message
    assert "in its log on the cluster" in explain(log_of(GIVEN_UP), []).message
