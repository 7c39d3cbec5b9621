"""The components job: a round at a time, run alone and task by task."""

import functools
import gzip
import random

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.jobs import batches, components
from mr_dedup.jobs.batches import BatchProtocol, Kind, decode_columns, encode_columns, kind_of
from mr_dedup.jobs.components import UNSETTLED_CODE, ComponentsJob, unsettled_labels
from tests.clusters.graphs import EXTREMES, label_lines, labels_of, random_nodes, shapes
from tests.oracles import signed
from tests.strategies import costly

SHAPES = shapes(random.Random(31))


def columns_of(pairs):
    columns = np.array(pairs, dtype=np.uint64).reshape(-1, 2)
    return [columns[:, 0].copy(), columns[:, 1].copy()]


def lines_of(pairs):
    return "".join(f"{signed(one)}\t{signed(other)}\n" for one, other in pairs)


def flat(lists):
    return [item for one in lists for item in one]


# task by task


class Tasks:
    """Runs the job's tasks in this process, as an engine does; keeps what is told of them."""

    def __init__(self, *options):
        self.job = ComponentsJob(["--as-batches", *options])
        self.job.increment_counter = self.count
        self.counters = {}

    def count(self, group, name, amount):
        assert group == "mr_dedup"
        self.counters[name] = self.counters.get(name, 0) + amount

    def round(self, files, reducers=2):
        """Return the labels that a round makes of ``files``, and those left unsettled."""
        self.counters = {}
        mapped = [self.job.map_edges(str(path), str(path)) for path in files]
        links = self.reduce(
            flat(mapped), reducers,
            self.job.start_telling, self.job.reduce_links, self.job.tell_the_rest,
        )  # fmt: skip
        labels = self.reduce(
            links, reducers,
            self.job.start_counting, self.job.reduce_what_was_told, self.job.count_labels,
        )  # fmt: skip
        return labels, unsettled_labels(self.counters)

    def reduce(self, emitted, reducers, begin, reduce, end):
        """Hand each reduce task the keys that are its own, ascending."""
        written = []
        for task in range(reducers):
            grouped = {}
            for key, batch in emitted:
                if key % reducers == task:
                    grouped.setdefault(key, []).append(batch)
            begin()
            for key in sorted(grouped):
                written += reduce(key, iter(grouped[key]))
            written += end() or ()
        return written


def rows_of(labels):
    columns = [decode_columns(Kind.LABELS, batch, 2) for _, batch in labels]
    return [row for nodes, to in columns for row in zip(nodes.tolist(), to.tolist(), strict=True)]


def write_batches(path, pairs, kind=Kind.MATCHES):
    lines = [BatchProtocol().write(3, batch) for batch in encode_columns(kind, columns_of(pairs))]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def settle(tasks, folder, files, reducers=2):
    """Run rounds until labels are final; return them, and how many it took."""
    for number in range(1, 30):
        labels, unsettled = tasks.round(files, reducers)
        if not unsettled:
            return rows_of(labels), number
        files = []
        for task in range(reducers):
            files.append(folder / f"labels-{number}-{task}")
            part = [pair for pair in labels if pair[0] % reducers == task]
            lines = [BatchProtocol().write(key, batch) for key, batch in part]
            files[-1].write_bytes(b"".join(line + b"\n" for line in lines))
    raise AssertionError("labels do not settle")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("inputs", "partitions"), [(1, 1), (1, 8), (2, 3), (7, 1), (7, 8)])
def test_rounds_settle_every_shape(tmp_path, shape, inputs, partitions):
    pairs = SHAPES[shape]
    files = [write_batches(tmp_path / f"part-{n}", pairs[n::inputs]) for n in range(inputs)]
    tasks = Tasks("--partitions", str(partitions))
    rows, rounds = settle(tasks, tmp_path, files)
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
def test_any_graph_settles_however_it_is_split(tmp_path_factory, inputs, partitions, reducers):
    folder = tmp_path_factory.mktemp("any")
    files = [write_batches(folder / f"in-{n}", pairs) for n, pairs in enumerate(inputs)]
    rows, _ = settle(Tasks("--partitions", str(partitions)), folder, files, reducers)
    assert sorted(rows) == sorted(labels_of(flat(inputs)).items())


def test_small_batches_and_outboxes_that_are_sent_often_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "ROWS_A_BATCH", 7)
    monkeypatch.setattr(components, "_HELD_LINKS", 10)
    pairs = SHAPES["two giants and a bridge"]
    files = [write_batches(tmp_path / f"part-{n}", pairs[n::3]) for n in range(3)]
    rows, _ = settle(Tasks("--partitions", "5"), tmp_path, files)
    assert sorted(rows) == sorted(labels_of(pairs).items())


@pytest.mark.parametrize("which", ["smallest", "largest"])
def test_a_hub_costs_its_partition_a_link_a_task_and_a_question_a_partition(tmp_path, which):
    """10,000 neighbours, which 5 map tasks see 3 times; 4 partitions."""
    hub, *others = sorted(random_nodes(random.Random(32), 10_001), key=signed)
    if which == "largest":
        others = [hub, *others]
        hub = others.pop()
    pairs = [(hub, other) for other in others] * 3
    random.Random(33).shuffle(pairs)
    files = [write_batches(tmp_path / f"part-{n}", pairs[n::5]) for n in range(5)]
    tasks = Tasks("--partitions", "4")
    reached = []
    usual = tasks.job.reduce_links

    def reduce_links(key, batches):
        batches = list(batches)
        reached.append(batches)
        return usual(key, iter(batches))

    tasks.job.reduce_links = reduce_links
    tasks.round(files)
    links = questions = 0
    for batch in flat(reached):
        if kind_of(batch) == Kind.QUESTIONS:
            questions += decode_columns(Kind.QUESTIONS, batch, 2)[0].tolist().count(hub)
        else:
            links += decode_columns(Kind.LABELS, batch, 2)[0].tolist().count(hub)
    assert links == 5
    assert questions == (5 * 3 if which == "smallest" else 0)
    for batches_of_key in reached:
        rows = sum(batch_rows(batch) for batch in batches_of_key)
        assert rows < 5 * (len(others) / 4 * 1.2)
    rows, rounds = settle(tasks, tmp_path, files)
    assert dict(rows) == labels_of(pairs)
    assert rounds <= 3


def batch_rows(batch):
    return decode_columns(Kind(kind_of(batch)), batch, 2)[0].size


def test_without_counters_nobody_knows(tmp_path):
    with pytest.raises(MrDedupError, match="only they say whether labels are final"):
        unsettled_labels({})
    assert unsettled_labels({"edges": 0}) == 0
    assert unsettled_labels({"edges": 3, "unsettled labels": 2}) == 2


# what is read


def edges_of(path, *options):
    tasks = Tasks("--partitions", "1", *options)
    labels, _ = tasks.round([path])
    return dict(rows_of(labels)), tasks.counters["edges"]


@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a.tsv.gz", "a.txt.zst", "told by an option"])
def test_text_is_read_compressed_or_not(tmp_path, name):
    pairs = SHAPES["forest"]
    text = lines_of(pairs).encode()
    if name.endswith(".gz"):
        text = gzip.compress(text)
    elif name.endswith(".zst"):
        text = zstandard.compress(text)
    (tmp_path / name).write_bytes(text)
    options = ["--input-format", "text"] if "." not in name else []
    assert edges_of(tmp_path / name, *options) == (labels_of(pairs), len(pairs))


def test_batches_are_read_whatever_job_left_them(tmp_path):
    pairs = SHAPES["forest"]
    for kind in (Kind.MATCHES, Kind.LABELS):
        path = write_batches(tmp_path / "part-00000", pairs, kind)
        assert edges_of(path) == (labels_of(pairs), len(pairs))
    path.rename(tmp_path / "labels.tsv")
    batches = edges_of(tmp_path / "labels.tsv", "--input-format", "batches")
    assert batches == (labels_of(pairs), len(pairs))


def test_an_empty_file_has_no_edges(tmp_path):
    (tmp_path / "part-00000").touch()
    assert edges_of(tmp_path / "part-00000") == ({}, 0)


def test_damage_is_told_of_the_line_and_the_users_file(tmp_path):
    path = write_batches(tmp_path / "part-00000", SHAPES["forest"])
    good = path.read_bytes()
    job = Tasks().job
    for bad, said in [
        (good.replace(b"A", b"B", 1), "line 2: a batch between tasks"),
        (b"x\t" + good, "line 2: a line between tasks has no number"),
        (lines_of([(1, 2)]).encode(), "line 2: a batch between tasks is damaged"),
        (next_batch(Kind.FINGERPRINTS), "line 2: a batch between tasks is of kind 2, expected mat"),
    ]:
        path.write_bytes(good + bad)
        with pytest.raises(FormatError) as raised:
            list(job.map_edges(str(path), "hdfs:///pairs/part-00000"))
        assert str(raised.value).startswith(f"hdfs:///pairs/part-00000, {said}")
    (tmp_path / "a.tsv").write_text("1\t2\n3\n")
    with pytest.raises(FormatError, match=r"^s3://pairs/a.tsv, line 2: expected a fingerprint and"):
        list(job.map_edges(str(tmp_path / "a.tsv"), "s3://pairs/a.tsv"))


def next_batch(kind):
    (batch,) = encode_columns(kind, [np.zeros(2, np.uint64)])
    return BatchProtocol().write(0, batch) + b"\n"


def test_files_that_hold_no_pairs_are_told_by_their_names(tmp_path):
    for name in ("a.longs", "b.fpz"):
        (tmp_path / name).touch()
        with pytest.raises(MrDedupError, match=f"{name}: is a file of fingerprints by its ending"):
            list(Tasks().job.map_edges(str(tmp_path / name), str(tmp_path / name)))


def test_options_that_cannot_be_are_refused():
    for partitions in ("0", "65537"):
        with pytest.raises(ValueError, match=f"from 1 to 65536, not {partitions}"):
            ComponentsJob(["--partitions", partitions])


# run alone


@pytest.fixture
def run_alone(run_alone):
    return functools.partial(run_alone, "components")


@pytest.fixture
def three_files(tmp_path):
    pairs = SHAPES["two giants and a bridge"]
    for number in range(3):
        (tmp_path / f"{number}.tsv").write_text(lines_of(pairs[number::3]))
    return pairs, [f"{number}.tsv" for number in range(3)]


def test_the_job_runs_alone_until_it_says_that_labels_are_final(tmp_path, run_alone, three_files):
    pairs, names = three_files
    for number in range(6):
        done = run_alone("-r", "inline", "--partitions", "3", *names)
        if done.returncode == 0:
            break
        assert done.returncode == UNSETTLED_CODE, done.stderr
        said = done.stderr.splitlines()[-1]
        assert said.endswith(" labels are unsettled: run it again, over this output")
        names = [f"labels-{number}.tsv"]
        (tmp_path / names[0]).write_text(done.stdout)
    assert number >= 1
    lines = sorted(done.stdout.splitlines(), key=lambda line: int(line.split("\t")[0]))
    assert lines == label_lines(pairs)
    assert "unsettled labels=0" in done.stderr


def test_mistakes_are_one_line(tmp_path, run_alone):
    (tmp_path / "a.tsv").write_text("1\t2\n3\tx\n")
    (tmp_path / "a.longs").touch()
    for arguments, said in [
        (["--partitions", "0", "a.tsv"], "--partitions must be from 1 to 65536, not 0"),
        (["-"], "no files of pairs; standard input is not read"),
        (["a.tsv"], "a.tsv, line 2: expected a fingerprint, a decimal or 0x"),
        (["a.longs"], "a.longs: is a file of fingerprints by its ending, expected pairs"),
    ]:
        done = run_alone(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr
