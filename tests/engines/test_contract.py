"""One suite for every engine of this machine: jobs leave the same, and errors name inputs."""

import contextlib
import threading
import time
from collections import Counter

import pyarrow as pa
import pytest

from mr_dedup.engines import ordered_tasks
from mr_dedup.engines.inputs import ClusterSettings, Input
from mr_dedup.engines.memory import MemoryEngine
from mr_dedup.engines.streaming import staging_folder
from mr_dedup.engines.streaming.engine import StreamingEngine
from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.shards import read_shard, write_shard
from tests.engines.letter_jobs import HalvesJob, LettersJob
from tests.engines.shard_inputs import inputs_of, shard_inputs
from tests.engines.spark import sessions

TEXTS = ["banana", "", "apple", "z", "an owl"]


def memory_engine(**options):
    return contextlib.nullcontext(MemoryEngine(**options))


@contextlib.contextmanager
def streaming_engine(runner):
    with staging_folder() as staging:
        yield StreamingEngine(runner, staging)
        assert list(staging.iterdir()) == []


@contextlib.contextmanager
def spark_engine():
    from mr_dedup.engines.spark.engine import SparkEngine

    with staging_folder() as staging, sessions.master("local[2]") as settings:
        yield SparkEngine(settings, staging)
        assert list(staging.iterdir()) == []


ENGINES = {
    "one thread": lambda: memory_engine(threads=1),
    "threads": lambda: memory_engine(threads=3),
    "spilled": lambda: memory_engine(threads=3, memory_bytes=100),
    "all spilled": lambda: memory_engine(threads=1, memory_bytes=0),
    "inline": lambda: streaming_engine("inline"),
    "local": lambda: streaming_engine("local"),
    "spark": spark_engine,
}


@pytest.fixture(
    params=[pytest.param(name, marks=sessions.MARKS if name == "spark" else ()) for name in ENGINES]
)
def engine(request):
    with ENGINES[request.param]() as found:
        yield found


def inputs(folder, texts):
    found = []
    for number, text in enumerate(texts):
        path = folder / f"input-{number}"
        path.write_text(text)
        found.append(Input(str(path), f"the input {number}"))
    return found


def left(engine, job, given):
    with engine.run(job, given) as output:
        tables = [(key, row) for key, table in output for row in table.to_pylist()]
    return tables, dict(output.counters)


def expected(vowels):
    """What LettersJob finds, by Python's own means: for each number of reduce steps."""
    rows = [
        {"letter": letter, "from": f"the input {number}", "offset": offset}
        for number, text in enumerate(TEXTS)
        for offset, letter in enumerate(text)
    ]
    mapped = [(int(row["from"][-1]), row) for row in rows]
    joined = sorted(((ord(row["letter"]), row) for row in rows), key=lambda pair: pair[0])
    kinds = {
        kind: "".join(sorted(r["letter"] for r in rows if (r["letter"] in vowels) == kind))
        for kind in (False, True)
    }
    # the buckets of a histogram: more than some engines count
    offsets = Counter(f"offset_{row['offset']}" for row in rows)
    read = {"letters read": len(rows), **offsets}
    return [
        (mapped, read),
        (joined, read | {"letters joined": len(rows)}),
        (
            [(int(kind), {"letters": letters}) for kind, letters in kinds.items()],
            read | {"letters joined": len(rows), "kinds": 2, "kind_0": 1, "kind_1": 1},
        ),
    ]


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_every_engine_leaves_the_same(tmp_path, engine, steps):
    found = left(engine, LettersJob(reduce_steps=steps), inputs(tmp_path, TEXTS))
    assert found == expected("aeiou")[steps]


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_every_engine_leaves_shards(tmp_path, engine, steps):
    """A shard for each key, and rows about them in place of tables."""
    job = LettersJob(reduce_steps=steps, shards=str(tmp_path / "shards"))
    rows, counters = left(engine, job, inputs(tmp_path, TEXTS))
    tables, counted = expected("aeiou")[steps]
    assert counters == counted
    keys = sorted({key for key, _ in tables})
    assert [key for key, _ in rows] == keys
    assert sorted(path.name for path in (tmp_path / "shards").iterdir()) == [
        f"{key:08}" for key in keys
    ]
    for key, row in rows:
        found = [each for t in read_shard(str(tmp_path / "shards"), key) for each in t.to_pylist()]
        assert found == [each for other, each in tables if other == key]
        size = (tmp_path / "shards" / f"{key:08}").stat().st_size
        assert row == {"rows": len(found), "size_bytes": size}


def test_every_engine_reads_lists_of_shards(tmp_path, engine):
    write_shard(str(tmp_path / "a"), 3, [pa.table({"n": [1, 2]})])
    write_shard(str(tmp_path / "a"), 5, [pa.table({"n": [3]})])
    with engine.run(HalvesJob(), inputs_of(tmp_path / "a", [[5, 3], [3]])) as output:
        found = [(key, table["n"].to_pylist()) for key, table in output]
    assert found == [(0, [0, 0]), (1, [1, 1, 1])]


def test_every_engine_hands_side_files_to_tasks(tmp_path, engine):
    path = tmp_path / "a name, of {odd} *letters*#.txt"
    path.write_text("bz")
    job = LettersJob(reduce_steps=2, vowels=str(path))
    assert left(engine, job, inputs(tmp_path, TEXTS)) == expected("bz")[2]


def test_every_engine_names_the_input_of_a_task_that_failed(tmp_path, engine):
    for text, error, said in [
        ("damaged", FormatError, "the input 1, byte 8: is damaged"),
        (
            "disk full",
            MrDedupError,
            "map task 1 on the input 1: a temporary file in .*: No space left on device",
        ),
        ("memory", MrDedupError, "map task 1 on the input 1: "),
    ]:
        with pytest.raises(MrDedupError, match=said) as raised:
            left(engine, LettersJob(), inputs(tmp_path, ["a", text, "b"]))
        assert isinstance(raised.value, error) or not isinstance(engine, MemoryEngine)


def test_no_engine_takes_a_bug_for_a_mistake(tmp_path, engine):
    with pytest.raises((ZeroDivisionError, RuntimeError), match="a bug"):
        left(engine, LettersJob(), inputs(tmp_path, ["bug"]))


def test_no_engine_needs_inputs_with_content(tmp_path, engine):
    assert left(engine, LettersJob(reduce_steps=2), inputs(tmp_path, ["", ""]))[0] == []


def tables_of(*groups):
    """Return tables of two rows at most, under the index of their group."""
    return [
        (key, pa.table({"n": pa.array(numbers[start : start + 2], pa.int64())}))
        for key, numbers in enumerate(groups)
        for start in range(0, len(numbers), 2)
    ]


def numbers_in(tables):
    return [(key, n) for key, table in tables for n in table["n"].to_pylist()]


def test_every_engine_reads_shards_again(tmp_path, engine):
    given = shard_inputs(tmp_path / "shards", tables_of([7, 1, 8], [3], range(100)))
    for _ in range(2):
        with engine.run(HalvesJob(), given) as output:
            found = numbers_in(output)
        halves = sorted(n // 2 for n in (7, 1, 8, 3, *range(100)))
        assert found == sorted((n % 2, n) for n in halves)
        assert output.counters == {"parts": 3, "numbers": 104}


def test_every_engine_reads_shards_that_a_job_left(tmp_path, engine):
    given = shard_inputs(tmp_path / "numbers", tables_of(range(8), [40, 41]))
    for name in ("halves", "quarters"):
        with engine.run(HalvesJob(shards=str(tmp_path / name)), given) as output:
            keys = [key for key, _ in output]
        assert output.counters == {"numbers": 10, "parts": len(given)}
        given = inputs_of(tmp_path / name, [[key] for key in keys])
    found = numbers_in((key, t) for key in keys for t in read_shard(str(tmp_path / name), key))
    assert found == [*[(0, 0)] * 4, (0, 10), (0, 10), *[(1, 1)] * 4]


def test_a_job_on_no_tables_leaves_none(tmp_path, engine):
    for shards in (None, str(tmp_path / "shards")):
        assert left(engine, HalvesJob(shards=shards), []) == ([], {})
    assert list(tmp_path.iterdir()) == []


def test_damaged_tables_are_reported(tmp_path, engine):
    given = shard_inputs(tmp_path / "shards", tables_of([1, 2, 3], [4]))
    path = tmp_path / "shards" / "00000000"
    content = bytearray(path.read_bytes())
    # within the last table
    content[-40] ^= 1
    path.write_bytes(content)
    said = r"shards/00000000, byte \d+: a table between tasks is damaged: its checksum differs"
    with pytest.raises(MrDedupError, match=said):
        left(engine, HalvesJob(), given)


def test_tasks_are_as_many_as_run_at_a_time():
    assert MemoryEngine(threads=3).tasks == StreamingEngine("local", None, cores=3).tasks == 3
    assert StreamingEngine("inline", None, cores=3).tasks == 1
    assert StreamingEngine("hadoop", None).tasks == 16
    settings = ClusterSettings(reducers=5)
    assert StreamingEngine("emr", None, cluster=settings).tasks == 5


def test_options_are_checked_when_a_job_is_made():
    with pytest.raises(ValueError, match="reduce_steps must be from 0 to 2, not 3"):
        LettersJob(reduce_steps=3)


def test_no_thread_is_left_when_a_task_fails_or_nobody_reads_the_rest(tmp_path):
    before = threading.active_count()
    given = inputs(tmp_path, ["a"] * 20 + ["bug"])
    engine = MemoryEngine(threads=3)
    with engine.run(LettersJob(), given) as output:
        next(iter(output))
    assert threading.active_count() == before
    with pytest.raises(ZeroDivisionError):
        left(engine, LettersJob(), given)
    assert threading.active_count() == before


def test_only_some_tasks_run_ahead_of_what_is_read(tmp_path, monkeypatch):
    """What tasks left waits in memory: of few tasks, however slowly it is read."""
    monkeypatch.setattr(ordered_tasks, "_MAX_AHEAD", 1)
    started = []

    class Noting(LettersJob, frozen=True, kw_only=True):
        def map(self, part, counters):
            started.append(part.number)
            return super().map(part, counters)

    with MemoryEngine(threads=2).run(Noting(), inputs(tmp_path, ["a"] * 30)) as output:
        tables = iter(output)
        next(tables)
        assert len(started) <= 6
        assert len(list(tables)) == 29
    assert sorted(started) == list(range(30))


@pytest.mark.parametrize("threads", [1, 2])
def test_tables_that_wait_are_bounded_however_many_a_task_yields(tmp_path, threads):
    """And the tables of the first task can be read while it runs."""
    waiting, most = set(), 0

    class Many(LettersJob, frozen=True, kw_only=True):
        def map(self, part, counters):
            nonlocal most
            for number in range(200):
                waiting.add((part.number, number))
                most = max(most, len(waiting))
                yield part.number, pa.table({"row": pa.array([[part.number, number]] * 100)})

    table_bytes = pa.table({"row": pa.array([[0, 0]] * 100)}).nbytes
    engine = MemoryEngine(threads, memory_bytes=5 * table_bytes)
    read = []
    with engine.run(Many(), inputs(tmp_path, ["a"] * 7)) as output:
        for key, table in output:
            read.append((key, *table["row"][0].as_py()))
            waiting.discard(read[-1][1:])
    assert read == [(part, part, number) for part in range(7) for number in range(200)]
    # those of the tasks that run, and what fits the memory
    assert most <= 2 * threads + 6 if threads > 1 else most == 1


def test_a_task_that_fails_ends_the_others(tmp_path):
    """They end at their next table: the second one takes minutes by itself."""
    ended = []

    class Long(LettersJob, frozen=True, kw_only=True):
        def map(self, part, counters):
            for _ in range(10_000 * part.number):
                time.sleep(0.01)
                yield from super().map(part, counters)
            ended.append(part.number)
            yield from super().map(part, counters)

    given = inputs(tmp_path, ["damaged", "abc"])
    with pytest.raises(FormatError, match="byte 8: is damaged"):
        left(MemoryEngine(threads=2), Long(), given)
    assert ended == [0]
