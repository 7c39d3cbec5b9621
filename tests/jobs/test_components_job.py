"""The components job: a round at a time, task by task."""

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import MrDedupError
from mr_dedup.jobs.components import ComponentsJob, edges_of, unsettled_labels
from mr_dedup.jobs.contract import Counters, TaskInput
from tests.clusters.graphs import EXTREMES, labels_of, random_nodes, shapes
from tests.oracles import signed
from tests.strategies import costly

SHAPES = shapes(random.Random(31))


def table_of(pairs):
    columns = np.array(pairs, dtype=np.uint64).reshape(-1, 2)
    return pa.table({"left": columns[:, 0].copy(), "right": columns[:, 1].copy()})


def flat(lists):
    return [item for one in lists for item in one]


@dataclass(frozen=True)
class TablesInput(TaskInput):
    """Tables in memory, as of one shard."""

    tables: tuple[pa.Table, ...] = ()

    def keyed_tables(self):
        return ((0, table) for table in self.tables)


def part_of(*tables):
    return TablesInput(Path(), "tables", tables=tables)


# task by task


class Tasks:
    """Runs the tasks of a job in this process, as an engine does, and collects their counters."""

    def __init__(self, partitions=16, **options):
        self.job = ComponentsJob(partitions=partitions, **options)
        self.counters = Counters()
        self.mapped = []

    def round(self, parts, reducers=2):
        """Return the keyed labels that a round makes of ``parts``, and how many are unsettled."""
        self.counters = Counters()
        self.mapped = flat(self.job.map(part, self.counters) for part in parts)
        tables = self.mapped
        for reduce in self.job.reduces():
            tables = self.reduce(tables, reducers, reduce)
        return tables, unsettled_labels(self.counters)

    def reduce(self, tables, reducers, reduce):
        """Give each reduce task the keys that are its own, ascending."""
        written = []
        for task in range(reducers):
            grouped = {}
            for key, table in tables:
                if key % reducers == task:
                    grouped.setdefault(key, []).append(table)
            groups = ((key, iter(grouped[key])) for key in sorted(grouped))
            written += reduce(groups, self.counters)
        return written

    def settle(self, parts, reducers=2):
        """Run rounds until labels are final; return their rows, and how many rounds it took."""
        for number in range(1, 30):
            labels, unsettled = self.round(parts, reducers)
            if not unsettled:
                return rows_of(labels), number
            parts = [
                part_of(*(table for key, table in labels if key % reducers == task))
                for task in range(reducers)
            ]
        raise AssertionError("labels do not settle")


def rows_of(tables):
    columns = [edges_of(table) for _, table in tables]
    return [row for nodes, to in columns for row in zip(nodes.tolist(), to.tolist(), strict=True)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("inputs", "partitions"), [(1, 1), (1, 8), (2, 3), (7, 1), (7, 8)])
def test_rounds_settle_every_shape(shape, inputs, partitions):
    pairs = SHAPES[shape]
    tasks = Tasks(partitions)
    rows, rounds = tasks.settle([part_of(table_of(pairs[n::inputs])) for n in range(inputs)])
    assert len(rows) == len(set(rows))
    assert dict(rows) == labels_of(pairs)
    assert rounds == 1 if 1 in (inputs, partitions) else rounds <= 6
    assert tasks.counters["nodes"] == len(rows)
    assert tasks.counters["components"] == len(set(labels_of(pairs).values()))


values = st.sampled_from([*EXTREMES, *range(2, 30)])


@costly
@given(
    st.lists(st.lists(st.tuples(values, values), max_size=12), min_size=1, max_size=4),
    st.integers(1, 9),
    st.integers(1, 4),
)
def test_any_graph_settles_however_it_is_split(inputs, partitions, reducers):
    parts = [part_of(table_of(pairs)) for pairs in inputs]
    rows, _ = Tasks(partitions).settle(parts, reducers)
    assert sorted(rows) == sorted(labels_of(flat(inputs)).items())


def test_small_buffers_of_links_change_nothing():
    pairs = SHAPES["two giants and a bridge"]
    parts = [part_of(table_of(pairs[n::3])) for n in range(3)]
    rows, _ = Tasks(5, max_buffered_links=10).settle(parts)
    assert sorted(rows) == sorted(labels_of(pairs).items())


@pytest.mark.parametrize("which", ["smallest", "largest"])
def test_a_hub_costs_its_partition_a_link_a_task_and_a_request_a_partition(which):
    """10,000 neighbours, which 5 map tasks see 3 times; 4 partitions."""
    hub, *others = sorted(random_nodes(random.Random(32), 10_001), key=signed)
    if which == "largest":
        others = [hub, *others]
        hub = others.pop()
    pairs = [(hub, other) for other in others] * 3
    random.Random(33).shuffle(pairs)
    parts = [part_of(table_of(pairs[n::5])) for n in range(5)]
    tasks = Tasks(4)
    tasks.round(parts)
    links = requests = 0
    rows_of_key = [0] * 4
    for key, table in tasks.mapped:
        count = edges_of(table)[0].tolist().count(hub)
        rows_of_key[key] += len(table)
        if "sender" in table.column_names:
            requests += count
        else:
            links += count
    assert links == 5
    assert requests == (5 * 3 if which == "smallest" else 0)
    assert max(rows_of_key) < 5 * (len(others) / 4 * 1.2)
    rows, rounds = tasks.settle(parts)
    assert dict(rows) == labels_of(pairs)
    assert rounds <= 3


def test_without_counters_labels_are_not_taken_for_final():
    with pytest.raises(MrDedupError, match="only they show whether labels are final"):
        unsettled_labels({})
    assert unsettled_labels({"edges": 0}) == 0
    assert unsettled_labels({"edges": 3, "unsettled_labels": 2}) == 2


def test_tables_are_read_whatever_their_columns_are_called():
    pairs = SHAPES["forest"]
    table = table_of(pairs)
    for names in (["left", "right"], ["node", "label"]):
        tasks = Tasks(1)
        labels, _ = tasks.round([part_of(table.rename_columns(names))])
        assert (dict(rows_of(labels)), tasks.counters["edges"]) == (labels_of(pairs), len(pairs))


def test_options_out_of_range_are_refused():
    for partitions in (0, 65537):
        with pytest.raises(ValueError, match=f"from 1 to 65536, not {partitions}"):
            ComponentsJob(partitions=partitions)
